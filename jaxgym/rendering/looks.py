"""Which stamps look alike, made once on the host: for descriptions that tell no more than the picture does."""

import functools

import numpy as np

from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet


def placement_looks(sheet: SpriteSheet, low_px: int, high_px: int, canvas_px: int) -> np.ndarray:
    """Return the first placement that looks like each placement of a sprite that may leave a square canvas.

    Sprites may be equal; and where little of a sprite is seen, neighbouring places and other sprites may look alike.

    Args:
        sheet: The N sprites.
        low_px: Lowest x and y of a placement.
        high_px: Highest x and y.
        canvas_px: Side of the canvas.

    Returns:
        x, y and number of the sprite, int32 (P, P, N, 3) with P = high_px - low_px + 1; indexed by x and y, both
        counted from low_px, and number.
    """
    whole = slice(sheet.side, 2 * sheet.side)
    pictures = sheet.pixels[:, whole, whole]

    @functools.cache
    def seen(index: int, left: int, right: int, top: int, bottom: int) -> tuple[int, int, bytes]:
        """Where the smallest rectangle around what is left of a sprite lies in it, and what is in it."""
        window = pictures[index, top:bottom, left:right]
        rows, columns = np.nonzero((window != TRANSPARENT).any(axis=-1))
        if not len(rows):
            return 0, 0, b""
        tight = window[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        return left + int(columns.min()), top + int(rows.min()), bytes(str(tight.shape), "ascii") + tight.tobytes()

    first: dict[object, tuple[int, int, int]] = {}

    def look(x: int, y: int, index: int) -> tuple[int, int, int]:
        corner_x, corner_y = x - sheet.anchor, y - sheet.anchor
        span_x, span_y = (
            (min(max(-corner, 0), sheet.side), max(min(canvas_px - corner, sheet.side), 0))
            for corner in (corner_x, corner_y)
        )
        left, top, content = seen(index, *span_x, *span_y)
        place = (corner_x + left, corner_y + top, content) if content else None
        return first.setdefault(place, (x, y, index))

    places, numbers = range(low_px, high_px + 1), range(len(pictures))
    return np.asarray([[[look(x, y, index) for index in numbers] for y in places] for x in places], dtype=np.int32)


def hiding_offsets(sheet: SpriteSheet, side_px: int) -> np.ndarray:
    """Return by sprite and offset whether it covers a square whole, bool (N, M, M), row first.

    The offset counts from the top-left corner of the sprite, margin included, to that of the square.

    Args:
        sheet: The N sprites.
        side_px: Side of the square.
    """
    if sheet.side < side_px:
        return np.zeros((len(sheet.pixels), 1, 1), dtype=np.bool_)
    is_drawn = (sheet.pixels != TRANSPARENT).any(axis=-1)
    squares = np.lib.stride_tricks.sliding_window_view(is_drawn, (side_px, side_px), axis=(1, 2))
    return np.asarray(squares.all(axis=(-2, -1)))
