"""Frames of MiniGrid, equal to minigrid's pixel by pixel: one tile for each cell, gathered from a table.

Shapes are in shares of a tile. Minigrid paints a tile at three times its size, then averages three by three subpixels.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.minigrid.view import OWN, SIZE, visible_in, window_of
from jaxgym.envs.minigrid.world import (
    Color,
    Direction,
    Door,
    GridWorld,
    Type,
    color_of,
    coordinates,
    state_of,
    step_of,
    type_of,
)
from jaxgym.rendering.sprites import paint

TILE_PX = 8
"""Default side of a tile."""

RGB = tuple[int, ...]

_SUBPIXELS = 3
_RGB = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (112, 39, 195), (255, 255, 0), (100, 100, 100))
_BLACK = (0, 0, 0)
_LINE = 0.031
_HIGHLIGHT = 0.3
_DARK = 0.45
_RGB_MAX = 255
_TRIANGLE = (0.12, 0.19, 0.87, 0.5)
"""The agent that faces right: left edge and top of its triangle, x and y of the tip."""

# The first tile of each type. A door has a tile for each state of each color, everything else one of each color; empty
# cells and walls have one color only.
_EMPTY_AT, _WALL_AT, _DOOR_AT = 0, 1, 2
_KEY_AT = _DOOR_AT + len(Color) * len(Door)
_BALL_AT, _BOX_AT = _KEY_AT + len(Color), _KEY_AT + 2 * len(Color)
_NUM_APPEARANCES = _BOX_AT + len(Color)

# Tiles of a plain cell, of a highlighted one, and of a highlighted one with the agent in each direction.
_PLAIN, _HIGHLIGHTED, _AGENT = 0, 1, 2


def draw_view(world: GridWorld, tile_px: int) -> jax.Array:
    """Return the frame of the agent's view, uint8 (7 · tile_px, 7 · tile_px, 3), row first; the agent faces up."""
    seen = visible_in(world).cells
    is_own = np.zeros((SIZE, SIZE), np.bool_)
    is_own[OWN] = True
    layer = jnp.where(seen == Type.UNSEEN, _PLAIN, _HIGHLIGHTED)
    return _mosaic(seen, jnp.where(is_own, _AGENT + Direction.UP, layer), tile_px)


def draw_grid(world: GridWorld, tile_px: int) -> jax.Array:
    """Return the frame of the grid, uint8 (H · tile_px, W · tile_px, 3), row first; lit cells are highlighted."""
    x, y = coordinates(*world.cells.shape)
    away_x, away_y = x - world.position[0], y - world.position[1]
    forward_x, forward_y = step_of(world.direction)
    column = OWN[0] - away_x * forward_y + away_y * forward_x
    row = OWN[1] - away_x * forward_x - away_y * forward_y
    is_near = (column >= 0) & (column < SIZE) & (row >= 0) & (row < SIZE)
    lit = window_of(world)[1]
    is_lit = is_near & lit[jnp.clip(column, 0, SIZE - 1), jnp.clip(row, 0, SIZE - 1)]
    layer = jnp.where(is_lit, _HIGHLIGHTED, _PLAIN)
    layer = jnp.where((away_x == 0) & (away_y == 0), _AGENT + world.direction, layer)
    return _mosaic(world.cells, layer, tile_px)


def _mosaic(things: jax.Array, layer: jax.Array, tile_px: int) -> jax.Array:
    """Return the frame of things and their layers, both (W, H)."""
    width, height = things.shape
    tiles = _NUM_APPEARANCES * layer + _index_of(things)
    # Rows of pixels are gathered in the order of the frame, so that nothing has to be transposed.
    pixel_rows = tiles.T[:, None] * tile_px + np.arange(tile_px, dtype=np.int32)[None, :, None]
    return jnp.asarray(_pixel_rows(tile_px))[pixel_rows].reshape(height * tile_px, width * tile_px, 3)


def _index_of(things: jax.Array) -> jax.Array:
    """Return the number of the tile of each thing in a layer, int32; unseen cells look empty."""
    kind, color = type_of(things), color_of(things)
    index = jnp.where(kind == Type.WALL, _WALL_AT, _EMPTY_AT)
    index = jnp.where(kind == Type.DOOR, _DOOR_AT + len(Door) * color + state_of(things), index)
    for each, first in ((Type.KEY, _KEY_AT), (Type.BALL, _BALL_AT), (Type.BOX, _BOX_AT)):
        index = jnp.where(kind == each, first + color, index)
    return index


@functools.cache
def _pixel_rows(tile_px: int) -> np.ndarray:
    """Return the rows of pixels of the tiles of all layers, uint8 (layers · appearances · tile_px, 3 · tile_px)."""
    appearances: list[tuple[int, int, int]] = [(Type.EMPTY, 0, 0), (Type.WALL, Color.GREY, 0)]
    appearances += [(Type.DOOR, color, state) for color in Color for state in Door]
    appearances += [(kind, color, 0) for kind in (Type.KEY, Type.BALL, Type.BOX) for color in Color]
    layers = [(None, False), (None, True), *((direction, True) for direction in Direction)]
    tiles = [tile(*each, agent, tile_px, is_lit=is_lit) for agent, is_lit in layers for each in appearances]
    return np.concatenate(tiles).reshape(-1, 3 * tile_px)


def tile(kind: int, color: int, state: int, agent: int | None, tile_px: int, *, is_lit: bool) -> np.ndarray:
    """Return one tile, uint8 (tile_px, tile_px, 3), row first.

    Args:
        kind: `Type` of the thing.
        color: Its `Color`.
        state: Its state, a `Door`.
        agent: `Direction` of the agent on it, or None.
        tile_px: Side of the tile.
        is_lit: Whether it is highlighted.
    """
    centers = (np.arange(_SUBPIXELS * tile_px) + 0.5) / (_SUBPIXELS * tile_px)
    x, y = centers[None], centers[:, None]
    image = np.zeros((len(centers), len(centers), 3), np.uint8)
    paint(image, (x <= _LINE) | (y <= _LINE), _RGB[Color.GREY])
    _paint_thing(image, x, y, (kind, state), _RGB[color])
    if agent is not None:
        paint(image, _is_agent(x, y, agent), _RGB[Color.RED])
    if is_lit:
        image = (image + _HIGHLIGHT * (_RGB_MAX - image.astype(np.float64))).astype(np.uint8)
    parts = image.reshape(tile_px, _SUBPIXELS, tile_px, _SUBPIXELS, 3).astype(np.int32)
    return (parts.sum(axis=(1, 3)) // _SUBPIXELS**2).astype(np.uint8)


def _paint_thing(image: np.ndarray, x: np.ndarray, y: np.ndarray, appearance: tuple[int, int], color: RGB) -> None:
    """Paint a thing of a type and state on the subpixels of a tile, in place."""

    def rectangle(left: float, right: float, top: float, bottom: float, fill: RGB = color) -> None:
        paint(image, (x >= left) & (x <= right) & (y >= top) & (y <= bottom), fill)

    def square(margin: float, fill: RGB = color) -> None:
        rectangle(margin, 1 - margin, margin, 1 - margin, fill)

    def disc(center_x: float, center_y: float, radius: float, fill: RGB = color) -> None:
        paint(image, (x - center_x) ** 2 + (y - center_y) ** 2 <= radius**2, fill)

    match appearance:
        case (Type.WALL, _):
            square(0)
        case (Type.DOOR, Door.OPEN):
            rectangle(0.88, 1, 0, 1)
            rectangle(0.92, 0.96, 0.04, 0.96, _BLACK)
        case (Type.DOOR, Door.CLOSED):
            for margin, fill in ((0, color), (0.04, _BLACK), (0.08, color), (0.12, _BLACK)):
                square(margin, fill)
            disc(0.75, 0.5, 0.08)
        case (Type.DOOR, Door.LOCKED):
            square(0)
            square(0.06, tuple(int(_DARK * channel) for channel in color))
            rectangle(0.52, 0.75, 0.5, 0.56)
        case (Type.KEY, _):
            rectangle(0.5, 0.63, 0.31, 0.88)
            rectangle(0.38, 0.5, 0.59, 0.66)
            rectangle(0.38, 0.5, 0.81, 0.88)
            disc(0.56, 0.28, 0.19)
            disc(0.56, 0.28, 0.064, _BLACK)
        case (Type.BALL, _):
            disc(0.5, 0.5, 0.31)
        case (Type.BOX, _):
            square(0.12)
            square(0.18, _BLACK)
            rectangle(0.16, 0.84, 0.47, 0.53)
        case _:
            pass


def _is_agent(x: np.ndarray, y: np.ndarray, direction: int) -> np.ndarray:
    """Return the subpixels of the agent's triangle, bool (S, S)."""
    x, y = x + 0 * y, y + 0 * x
    for _ in range(direction):  # back by a quarter of a turn each
        x, y = y, 1 - x
    left, top, right, middle = _TRIANGLE
    inset = (x - left) * (middle - top) / (right - left)
    return (x >= left) & (y - top >= inset) & (1 - top - y >= inset)
