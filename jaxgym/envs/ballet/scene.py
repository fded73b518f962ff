"""Scene of Ballet and its frame, equal to the original's pixel by pixel: one tile for each square."""

import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.rendering.sprites import paint

VIEW = 11
TILE_PX = 9
FRAME_PX = VIEW * TILE_PX

COLORS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "purple": (128, 0, 128),
    "orange": (255, 165, 0),
    "yellow": (255, 255, 0),
    "brown": (128, 64, 0),
    "pink": (255, 64, 255),
    "cyan": (0, 255, 255),
    "dark_green": (0, 100, 0),
    "dark_red": (100, 0, 0),
    "dark_blue": (0, 0, 100),
    "olive": (100, 100, 0),
    "teal": (0, 100, 100),
    "lavender": (215, 200, 255),
    "peach": (255, 210, 170),
    "rose": (255, 205, 230),
    "light_green": (200, 255, 200),
    "light_yellow": (255, 255, 200),
}
"""Colors of dancers by name, in the order of the original."""

_WALL, _AGENT = (40, 40, 40), (255, 255, 255)


class SquareKind(enum.IntEnum):
    """Kinds of squares; those from `DANCER` on are the tiles of dancers."""

    FLOOR = 0
    WALL = 1
    AGENT = 2
    DANCER = 3


@functools.cache
def shapes() -> dict[str, np.ndarray]:
    """Return the pixels of each shape by its name, in the order of the original, bool (9, 9)."""
    rows, columns = np.indices((TILE_PX, TILE_PX))
    middle, last = TILE_PX // 2, TILE_PX - 1
    down, right = np.abs(rows - middle), np.abs(columns - middle)
    distance = down**2 + right**2
    bar, post = down <= 1, right <= 1  # horizontal and vertical
    top, low, side = rows <= 2, rows >= 6, right >= 2  # noqa: PLR2004 — thirds of a tile
    plus = bar | post
    ex = (np.abs(rows - columns) <= 1) | (np.abs(rows + columns - last) <= 1)
    return {
        "triangle": rows >= 2 * right,
        "empty_square": np.maximum(down, right) >= 3,  # noqa: PLR2004 — border of two pixels
        "plus": plus,
        "inverse_plus": ~plus,
        "ex": ex,
        "inverse_ex": ~ex,
        "circle": distance <= middle**2,
        "empty_circle": np.abs(distance - middle**2) < 6,  # noqa: PLR2004 — as in the original
        "tee": post | top,
        "upside_down_tee": post | low,
        "h": side | bar,
        "u": side | low,
        "upside_down_u": side | top,
        "vertical_stripes": columns % 2 == 0,
        "horizontal_stripes": rows % 2 == 0,
    }


@struct.dataclass
class Scene:
    """Scene of Ballet.

    Attributes:
        tiles: Tile of each square of the view, row by row, the agent in the middle, int32 (11, 11): a `SquareKind`, and
            for a dancer `tile_of` its shape and color.
        instruction: Index in `dances.INSTRUCTIONS`, int32 ().
    """

    tiles: jax.Array
    instruction: jax.Array


def tile_of(shape: jax.Array, color: jax.Array) -> jax.Array:
    """Return the tile of a dancer."""
    return int(SquareKind.DANCER) + shape * len(COLORS) + color


def symbols_of(tiles: jax.Array) -> jax.Array:
    """Return kind, shape and color of each square, uint8 (11, 11, 3); shape and color are 0 without a dancer."""
    number = jnp.maximum(tiles - int(SquareKind.DANCER), 0)
    kinds = jnp.minimum(tiles, int(SquareKind.DANCER))
    return jnp.stack([kinds, number // len(COLORS), number % len(COLORS)], axis=-1).astype(jnp.uint8)


@functools.cache
def _pixel_rows() -> np.ndarray:
    """Return the rows of pixels of all tiles, uint8 (288 · 9, 27)."""
    things = [(0, 0, 0), _WALL, _AGENT]
    tiles = [np.full((TILE_PX, TILE_PX, 3), color, np.uint8) for color in things]
    for mask in shapes().values():
        for color in COLORS.values():
            tiles.append(np.zeros((TILE_PX, TILE_PX, 3), np.uint8))
            paint(tiles[-1], mask, color)
    return np.concatenate(tiles).reshape(-1, 3 * TILE_PX)


def draw(tiles: jax.Array) -> jax.Array:
    """Return the frame of 11 × 11 tiles, uint8 (99, 99, 3), row first."""
    # Rows of pixels are gathered in the order of the frame, so that nothing has to be transposed.
    rows = tiles[:, None] * TILE_PX + np.arange(TILE_PX, dtype=np.int32)[None, :, None]
    return jnp.asarray(_pixel_rows())[rows].reshape(FRAME_PX, FRAME_PX, 3)
