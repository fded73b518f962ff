"""Rows of the screen as bits, one per pixel: pixels in an interval, and their count."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym.arena import SCREEN_PX

WORD_BITS = 32
NUM_WORDS = -(-SCREEN_PX // WORD_BITS)
_FIRST_BITS = np.arange(NUM_WORDS, dtype=np.int32) * WORD_BITS


def interval(low: jax.Array, high: jax.Array) -> jax.Array:
    """Return the pixels low … high - 1 as bits, uint32 (…, 3), without pixels outside of the screen."""
    return _first(high) & ~_first(low)


def _first(count: jax.Array) -> jax.Array:
    """Return the first `count` pixels as bits."""
    offsets = _FIRST_BITS.reshape(*[1] * count.ndim, NUM_WORDS)
    bits = jnp.clip(jnp.minimum(count, SCREEN_PX)[..., None] - offsets, 0, WORD_BITS).astype(jnp.uint32)
    # A shift by 32 bits gives 0, so that all bits are set.
    return jax.lax.shift_left(jnp.ones_like(bits), bits) - jnp.uint32(1)


def unpack(rows: jax.Array) -> jax.Array:
    """Return one bool per pixel, (…, 84), of rows uint32 (…, 3)."""
    places = np.arange(WORD_BITS, dtype=np.uint32).reshape(*[1] * rows.ndim, WORD_BITS)
    bits = (rows[..., None] >> places) & jnp.uint32(1)
    return bits.reshape(*rows.shape[:-1], NUM_WORDS * WORD_BITS)[..., :SCREEN_PX] != 0


def count(rows: jax.Array) -> jax.Array:
    """Return the number of set pixels in each row, int32 (…,)."""
    return jnp.sum(jax.lax.population_count(rows), axis=-1, dtype=jnp.uint32).astype(jnp.int32)
