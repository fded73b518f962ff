"""Sprite placements that render to the same pixels, and hidden squares: texts reveal no more than the frame."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet


def first_placements(sheet: SpriteSheet, canvas_px: int, x_px: range, y_px: range) -> np.ndarray:
    """Return, for each placement of a sprite on a square canvas, the first placement that renders to the same pixels.

    Sprites can be equal. If a sprite is partly outside of the canvas, neighboring positions and other sprites can
    render to the same pixels.

    Args:
        sheet: The N sprites.
        canvas_px: Side of the canvas.
        x_px: X values of x.
        y_px: Y values of y.

    Returns:
        x, y and index of the sprite, int32 (X, Y, N, 3), by place in `x_px`, place in `y_px`, and sprite.
    """
    whole = slice(sheet.side, 2 * sheet.side)
    images = sheet.pixels[:, whole, whole]

    @functools.cache
    def seen(index: int, left: int, right: int, top: int, bottom: int) -> tuple[int, int, bytes]:
        """Return left, top and content of the smallest rectangle around the visible part of a clipped sprite."""
        window = images[index, top:bottom, left:right]
        rows, columns = np.nonzero((window != TRANSPARENT).any(axis=-1))
        if not len(rows):
            return 0, 0, b""
        tight = window[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        return left + int(columns.min()), top + int(rows.min()), bytes(str(tight.shape), "ascii") + tight.tobytes()

    first: dict[object, tuple[int, int, int]] = {}

    def first_placement(x: int, y: int, index: int) -> tuple[int, int, int]:
        corner_x, corner_y = x - sheet.anchor, y - sheet.anchor
        span_x, span_y = (
            (min(max(-corner, 0), sheet.side), max(min(canvas_px - corner, sheet.side), 0))
            for corner in (corner_x, corner_y)
        )
        left, top, content = seen(index, *span_x, *span_y)
        place = (corner_x + left, corner_y + top, content) if content else None
        return first.setdefault(place, (x, y, index))

    numbers = range(len(images))
    return np.asarray([[[first_placement(x, y, index) for index in numbers] for y in y_px] for x in x_px], np.int32)


def is_hidden(
    sheet: SpriteSheet, index: jax.Array, position_px: jax.Array, corner_px: jax.Array, side_px: int
) -> jax.Array:
    """Return whether a sprite covers a whole square, bool ().

    Args:
        sheet: The sprites.
        index: Index of the sprite, int32 ().
        position_px: Position of its anchor, (x, y), int32 (2,).
        corner_px: Top-left corner of the square, (x, y), int32 (2,).
        side_px: Side of the square.
    """
    if sheet.side < side_px:
        return jnp.bool_(False)
    is_drawn = (sheet.pixels != TRANSPARENT).any(axis=-1)
    squares = np.lib.stride_tricks.sliding_window_view(is_drawn, (side_px, side_px), axis=(1, 2))
    hides = np.asarray(squares.all(axis=(-2, -1)))  # by sprite and offset from the sprite with its margin, row first
    if not hides.any():
        return jnp.bool_(False)
    column, row = jnp.clip(corner_px - position_px + sheet.anchor + sheet.side, 0, squares.shape[2] - 1)
    return jnp.asarray(hides)[index, row, column]
