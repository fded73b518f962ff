"""Drawing of sprites on a canvas inside jit.

Drawing a sprite reads and writes one small window of the canvas, so its cost depends on the sprite, not on the canvas.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SCALE = 4
"""Enlargement of a frame along each axis for people."""

TRANSPARENT = 1
"""Channel value of transparent pixels; the visible colors of a sprite must not contain it."""


@dataclasses.dataclass(frozen=True)
class SpriteSheet:
    """Sprites of one size with a transparent margin as wide as a sprite, so that one window size fits every position.

    Attributes:
        pixels: uint8 (N, 3 · side, 3 · side, 3).
        side: Side of a sprite in px.
        anchor: The pixel (column and row) of the sprite that is drawn at the given position.
    """

    pixels: np.ndarray
    side: int
    anchor: int

    @classmethod
    def of(cls, images: np.ndarray, anchor: int) -> "SpriteSheet":
        """Crop square sprites to the smallest square around the anchor that contains all visible pixels.

        Args:
            images: uint8 (N, S, S, 3).
            anchor: The pixel (column and row) of an image that is drawn at the given position.
        """
        rows, columns = np.nonzero((images != TRANSPARENT).any(axis=(0, 3)))
        before = max(anchor - int(min(rows.min(), columns.min())), 0)
        after = max(int(max(rows.max(), columns.max())) + 1 - anchor, 1)
        cropped = images[:, anchor - before : anchor + after, anchor - before : anchor + after]
        side = before + after
        margin = [(0, 0), (side, side), (side, side), (0, 0)]
        return cls(pixels=np.pad(cropped, margin, constant_values=TRANSPARENT), side=side, anchor=before)


def draw_sprite(
    canvas: jax.Array, sheet: SpriteSheet, index: jax.Array, position_px: jax.Array, *, keep: int | None = None
) -> jax.Array:
    """Draw sprite `index` on a canvas; clip it to the canvas.

    Args:
        canvas: uint8 (H, W, 3), H and W at least the side of the sprite.
        sheet: The sprites.
        index: Index of the sprite, int32 ().
        position_px: Position of its anchor, (x, y), int32 (2,); at most one sprite's side outside of the canvas.
        keep: Channel value of canvas pixels that the sprite does not overwrite, if any.

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


def enlarged(frame: Any) -> Any:
    """Return a frame for people, uint8 (4 · H, 4 · W, 3), as an array of the same kind (NumPy or JAX)."""
    return frame.repeat(SCALE, axis=0).repeat(SCALE, axis=1)
