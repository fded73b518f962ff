"""Shapes and sprites as NumPy arrays, made once on the host.

The integer rasterization equals that of the original games' drawing library, pixel by pixel.
"""

from collections.abc import Sequence

import numpy as np


def disc_half_widths(radius: int) -> np.ndarray:
    """Return the half width of each row of a filled disc, int (radius,), by the integer midpoint circle.

    Row k is k rows below the center line and, mirrored, k + 1 rows above it; it covers x from -w to w - 1.
    """
    if radius == 1:
        return np.ones(1, dtype=np.int64)
    widths = np.zeros(radius, dtype=np.int64)
    x, y, error = 0, radius, 1 - radius
    while x < y:
        if error >= 0:
            y -= 1
            error -= 2 * y
        x += 1
        error += 2 * x + 1
        widths[x - 1] = max(widths[x - 1], y)
        if error >= 0:
            widths[y - 1] = max(widths[y - 1], x)
    return widths


def disc(side: int, center: tuple[int, int], radius: int) -> np.ndarray:
    """Return the mask of a filled disc on a square surface, clipped to it.

    Args:
        side: Side of the surface in px.
        center: Center (x, y) in px, a corner between four pixels.
        radius: In px, at least 1.

    Returns:
        bool (side, side), row first.
    """
    mask = np.zeros((side, side), dtype=bool)
    x, y = center
    for k, half in enumerate(disc_half_widths(radius)):
        for row in (y + k, y - 1 - k):
            if 0 <= row < side:
                mask[row, max(0, x - half) : max(0, x + half)] = True
    return mask


_THICK_RING_HOLES = {
    (6, 2): (4, 4, 3, 2),
    (7, 2): (5, 5, 4, 3, 2),
    (8, 2): (6, 6, 5, 5, 4, 2),
    (9, 2): (7, 7, 6, 6, 5, 4, 2),
    (10, 2): (8, 8, 7, 7, 6, 6, 4, 2),
    (10, 3): (7, 7, 6, 6, 5, 4, 2),
}
"""Half widths of a ring's hole by (radius, width), copied from renderings of the original; no formula is known."""


def ring(side: int, center: tuple[int, int], radius: int, width: int) -> np.ndarray:
    """Return the mask of a disc's outline on a square surface, clipped to it.

    Args:
        side: Side of the surface in px.
        center: Center (x, y) in px.
        radius: Outer radius in px.
        width: Width of the outline in px; 0 means filled. Above 1, only the pairs in `_THICK_RING_HOLES` are supported.

    Returns:
        bool (side, side), row first.
    """
    filled = disc(side, center, radius)
    if width == 0:
        return filled
    if width == 1:
        padded = np.pad(filled, 1)
        inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        return filled & ~inside
    x, y = center
    hole = np.zeros_like(filled)
    for k, half in enumerate(_THICK_RING_HOLES[radius, width]):
        hole[[y + k, y - 1 - k], x - half : x + half] = True
    return filled & ~hole


def rectangle(height: int, width: int, fill: Sequence[int], border: Sequence[int]) -> np.ndarray:
    """Return a filled rectangle with a border of 1 px, uint8 (height, width, 3)."""
    image = np.empty((height, width, 3), dtype=np.uint8)
    image[:] = border
    image[1:-1, 1:-1] = fill
    return image


def bitmap(rows: str) -> np.ndarray:
    """Return the bitmap of a text drawing, bool (height, width); `#` is a set pixel."""
    return np.asarray([[character == "#" for character in line] for line in rows.split()])


def paint(image: np.ndarray, mask: np.ndarray, color: Sequence[int]) -> None:
    """Set the masked pixels of an (H, W, 3) image to a color, in place."""
    image[mask] = color
