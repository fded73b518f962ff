"""Frames of games on a board of square tiles, and sprites of tiles made of simple shapes."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.rendering.sprites import paint

SCREEN_PX = 84

Color = tuple[int, int, int]
Part = tuple[np.ndarray, Color]

MARGIN: Color = (24, 24, 32)
"""Color around the board."""


class Tile:
    """Shapes in a tile, as masks of its pixels, bool (side, side); lengths are in half tiles from the center.

    Attributes:
        side: Side of the tile in px.
    """

    def __init__(self, side: int) -> None:
        """Compute the position of each pixel."""
        along = (2 * np.arange(side) + 1 - side) / side
        self.side, self._y, self._x = side, along[:, None], along[None]

    def disc(self, radius: float) -> np.ndarray:
        """Return a disc around the center."""
        return np.hypot(self._x, self._y) < radius

    def box(self, left: float, top: float, right: float, bottom: float) -> np.ndarray:
        """Return a rectangle."""
        return (self._x > left) & (self._x < right) & (self._y > top) & (self._y < bottom)

    def up(self, size: float) -> np.ndarray:
        """Return a triangle that points up."""
        return (np.abs(self._y) < size) & (2 * np.abs(self._x) < self._y + size)

    def down(self, size: float) -> np.ndarray:
        """Return a triangle that points down."""
        return self.up(size)[::-1]

    def sprite(self, background: Color, *parts: Part) -> np.ndarray:
        """Return a sprite, uint8 (side, side, 3): a background, and colored shapes from the lowest to the highest."""
        image = np.empty((self.side, self.side, 3), np.uint8)
        image[:] = background
        for mask, color in parts:
            paint(image, mask, color)
        return image


def draw(tiles: jax.Array, sprites: np.ndarray) -> jax.Array:
    """Return the frame of a board in the middle of the screen, uint8 (84, 84, 3), row first.

    Args:
        tiles: Index of the sprite of each tile, int32 (R, C), row first.
        sprites: uint8 (K, side, side, 3).
    """
    side, (rows, columns) = sprites.shape[1], tiles.shape
    board = jnp.asarray(sprites)[tiles].transpose(0, 2, 1, 3, 4).reshape(rows * side, columns * side, 3)
    before = (SCREEN_PX - rows * side) // 2, (SCREEN_PX - columns * side) // 2
    canvas = jnp.broadcast_to(jnp.asarray(MARGIN, jnp.uint8), (SCREEN_PX, SCREEN_PX, 3))
    return jax.lax.dynamic_update_slice(canvas, board, (*before, 0))


def place(tiles: jax.Array, index: jax.Array | int, row: jax.Array | int, column: jax.Array | int) -> jax.Array:
    """Return a board with another sprite on one tile; an index below 0 changes nothing."""
    rows, columns = np.indices(tiles.shape, np.int32)
    return jnp.where((rows == row) & (columns == column) & (index >= 0), index, tiles).astype(jnp.int32)


def bits(value: jax.Array, count: int) -> jax.Array:
    """Return the lowest bits of a whole number, the highest of them first, int32 (count,)."""
    return value >> np.arange(count - 1, -1, -1, dtype=np.int32) & 1


def stack(sprites: Sequence[np.ndarray]) -> np.ndarray:
    """Return sprites of one size as one array."""
    return np.stack(list(sprites))
