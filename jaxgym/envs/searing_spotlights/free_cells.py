"""Exact sampling of a free pixel of the screen, without an image of the blocked ones.

A block is a disc. In each row of the screen it is an interval, so the free pixels of a row are counted as bits. Blocked
pixels are a plane of `jaxgym.envs.searing_spotlights.bitplanes`, uint32 (3, 84).
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.searing_spotlights import bitplanes

DRAW_WORDS = 3
"""Number of random words of a draw."""

SHIFTS_PX = (2, 3)
"""Smallest and largest shift of a drawn pixel along each axis."""


def nothing() -> jax.Array:
    """Return a screen without blocked pixels."""
    return jnp.zeros((bitplanes.NUM_WORDS, SCREEN_PX), dtype=jnp.uint32)


def block(blocked: jax.Array, center_px: jax.Array, radius_px: jax.Array | int) -> jax.Array:
    """Block all pixels less than `radius_px` from `center_px`, int32 (2,)."""
    rest = jnp.square(jnp.asarray(radius_px, dtype=jnp.int32)) - jnp.square(jnp.arange(SCREEN_PX) - center_px[1])
    # The largest whole number whose square is below the rest, if the rest is positive.
    half = jnp.ceil(jnp.sqrt(jnp.maximum(rest, 0).astype(jnp.float32))).astype(jnp.int32) - 1
    return blocked | (bitplanes.left_of(center_px[0] + half + 1) & ~bitplanes.left_of(center_px[0] - half))


def draw(blocked: jax.Array, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draw a free pixel uniformly, and shift it by 2 or 3 px along each axis; if none is free, all are.

    `bits` are random words, uint32 (3,).

    Returns:
        The pixel (x, y) before and after the shift, int32 (2,) each.
    """
    plane = jnp.where(jnp.any(_free_in_rows(blocked) > 0), blocked, jnp.uint32(0))
    cumulative = jnp.cumsum(_free_in_rows(plane))
    index = (bits[0] % cumulative[-1].astype(jnp.uint32)).astype(jnp.int32)
    pixel = pixel_at(plane, cumulative, index)
    low, high = SHIFTS_PX
    return pixel, pixel + (bits[1:] % jnp.uint32(high - low + 1)).astype(jnp.int32) + low


def _free_in_rows(blocked: jax.Array) -> jax.Array:
    """Return the number of free pixels of each row, int32 (84,)."""
    return SCREEN_PX - jnp.sum(lax.population_count(blocked), axis=0, dtype=jnp.uint32).astype(jnp.int32)


def pixel_at(blocked: jax.Array, cumulative: jax.Array, index: jax.Array) -> jax.Array:
    """Return a free pixel (x, y) by its number, counted row by row, int32 (2,).

    `cumulative` is the number of free pixels up to the end of each row, int32 (84,).
    """
    y = jnp.sum(cumulative <= index, dtype=jnp.int32)
    rows = jnp.arange(SCREEN_PX)
    before = jnp.max(jnp.where(rows < y, cumulative, 0))
    row = jnp.sum(jnp.where(rows == y, blocked, jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    free = jnp.cumsum((~bitplanes.spread(row[:, None]).reshape(-1)).astype(jnp.int32))
    return jnp.stack([jnp.sum(free <= index - before, dtype=jnp.int32), y])
