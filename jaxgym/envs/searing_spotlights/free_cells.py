"""Exact sampling of a free pixel of the screen, without an image of the blocked ones.

A block is a disc. In each row of the screen it is an interval, so the free pixels of a row are counted as bits.
"""

import jax
import jax.numpy as jnp

from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.searing_spotlights import bitrows

DRAW_WORDS = 3
"""Number of random words of a draw."""

_SHIFT_LOW_PX = 2
_SHIFTS = 2


def nothing() -> jax.Array:
    """Return a screen without blocked pixels: the bits of each row, uint32 (84, 3)."""
    return jnp.zeros((SCREEN_PX, bitrows.NUM_WORDS), dtype=jnp.uint32)


def block(blocked: jax.Array, center_px: jax.Array, radius_px: jax.Array | int) -> jax.Array:
    """Block all pixels less than `radius_px` from `center_px`, int32 (2,)."""
    rest = jnp.square(jnp.asarray(radius_px, dtype=jnp.int32)) - jnp.square(jnp.arange(SCREEN_PX) - center_px[1])
    # The largest whole number whose square is below the rest, if the rest is positive.
    half = jnp.ceil(jnp.sqrt(jnp.maximum(rest, 0).astype(jnp.float32))).astype(jnp.int32) - 1
    return blocked | bitrows.interval(center_px[0] - half, center_px[0] + half + 1)


def draw(blocked: jax.Array, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draw a free pixel uniformly, and shift it by 2 or 3 px along each axis; if none is free, all are.

    Args:
        blocked: Bits of the blocked pixels, uint32 (84, 3).
        bits: Random words, uint32 (3,).

    Returns:
        The pixel (x, y) before and after the shift, int32 (2,) each.
    """
    free = SCREEN_PX - bitrows.count(blocked)
    rows = jnp.where(jnp.any(free > 0), blocked, jnp.uint32(0))
    cumulative = jnp.cumsum(SCREEN_PX - bitrows.count(rows))
    index = (bits[0] % cumulative[-1].astype(jnp.uint32)).astype(jnp.int32)
    pixel = pixel_at(rows, cumulative, index)
    shift = (bits[1:] % jnp.uint32(_SHIFTS)).astype(jnp.int32) + _SHIFT_LOW_PX
    return pixel, pixel + shift


def pixel_at(rows: jax.Array, cumulative: jax.Array, index: jax.Array) -> jax.Array:
    """Return a free pixel (x, y) by its number, counted row by row, int32 (2,)."""
    y = jnp.sum(cumulative <= index, dtype=jnp.int32)
    is_row = jnp.arange(SCREEN_PX) == y
    before = jnp.max(jnp.where(jnp.arange(SCREEN_PX) < y, cumulative, 0))
    row = jnp.sum(jnp.where(is_row[:, None], rows, jnp.uint32(0)), axis=0, dtype=jnp.uint32)
    free_in_row = jnp.cumsum((~bitrows.unpack(row)).astype(jnp.int32))
    x = jnp.sum(free_in_row <= index - before, dtype=jnp.int32)
    return jnp.stack([x, y])
