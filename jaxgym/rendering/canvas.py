"""Stamping sprites on a canvas inside jit.

A stamp reads and writes one small window of the canvas, so its cost is that of the sprite, not of the picture.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

TRANSPARENT = 1
"""The channel value that marks the unused part of a sprite; no channel of a sprite's own colours may have it."""


@dataclasses.dataclass(frozen=True)
class SpriteSheet:
    """Sprites of one size, with a transparent margin as wide as a sprite, so that one window serves every position.

    Attributes:
        pixels: uint8 (N, 3 · side, 3 · side, 3).
        side: Side of a sprite in px.
        anchor: The pixel (column and row) of the sprite that lies on the position of a stamp.
    """

    pixels: np.ndarray
    side: int
    anchor: int

    @classmethod
    def of(cls, pictures: np.ndarray, anchor: int) -> "SpriteSheet":
        """Crops square sprites to the smallest square around the anchor that holds what is visible in any of them.

        Args:
            pictures: uint8 (N, S, S, 3).
            anchor: The pixel (column and row) of a picture that lies on the position of a stamp.
        """
        rows, columns = np.nonzero((pictures != TRANSPARENT).any(axis=(0, 3)))
        before = max(anchor - int(min(rows.min(), columns.min())), 0)
        after = max(int(max(rows.max(), columns.max())) + 1 - anchor, 1)
        cropped = pictures[:, anchor - before : anchor + after, anchor - before : anchor + after]
        side = before + after
        margin = [(0, 0), (side, side), (side, side), (0, 0)]
        return cls(pixels=np.pad(cropped, margin, constant_values=TRANSPARENT), side=side, anchor=before)


def stamp(
    canvas: jax.Array, sheet: SpriteSheet, index: jax.Array, position_px: jax.Array, *, keep: int | None = None
) -> jax.Array:
    """Stamps sprite `index` on a canvas; what lies outside of the canvas is cut off.

    Args:
        canvas: uint8 (H, W, 3), H and W at least the side of the sprite.
        sheet: The sprites.
        index: Which one, int32 ().
        position_px: Where its anchor goes, (x, y), int32 (2,); at most one sprite's side outside of the canvas.
        keep: A channel value of the canvas that lies above the sprite and stays, if any.

    Returns:
        The canvas with the sprite, uint8 (H, W, 3).
    """
    height, width, channels = canvas.shape
    corner = position_px - sheet.anchor
    start = jnp.clip(corner, 0, jnp.asarray([width - sheet.side, height - sheet.side], jnp.int32))
    offset = sheet.side + start - corner
    size, zero = (sheet.side, sheet.side, channels), np.int32(0)
    sprite = lax.dynamic_slice(jnp.asarray(sheet.pixels), (index, offset[1], offset[0], zero), (1, *size))[0]
    below = lax.dynamic_slice(canvas, (start[1], start[0], zero), size)
    is_drawn = sprite != jnp.uint8(TRANSPARENT)
    if keep is not None:
        is_drawn &= below != jnp.uint8(keep)
    return lax.dynamic_update_slice(canvas, jnp.where(is_drawn, sprite, below), (start[1], start[0], zero))
