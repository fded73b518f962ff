"""Scene of Frozen Lake, its frame and its symbols; they show everything."""

import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.rendering.sprites import paint

SCREEN_PX = 84
NUM_KINDS = 4

_MARGIN = (18, 32, 58)
_ICE, _RIM = (198, 226, 243), (150, 190, 220)
_GLEAM = (228, 243, 251)
_WATER, _DEPTH = (36, 72, 128), (16, 36, 76)
_START = (226, 196, 140)
_GOAL, _FLAG = (84, 176, 96), (250, 222, 84)
_BODY, _OUTLINE = (214, 60, 52), (70, 18, 22)
_GLEAM_AT, _GLEAM_WIDTH, _SMALLEST_GLEAM_PX = 0.5, 0.12, 8


class Cell(enum.IntEnum):
    """Kinds of cells, without the player."""

    FROZEN = 0
    HOLE = 1
    START = 2
    GOAL = 3


@struct.dataclass
class Scene:
    """Scene of Frozen Lake.

    Attributes:
        cells: Kind of each cell, a `Cell`, uint8 (N, N), row first.
        player_cell: Row and column, int32 (2,).
        is_in_hole: Whether the player is in a hole, bool ().
        is_at_goal: Whether the player is at the goal, bool ().
    """

    cells: jax.Array
    player_cell: jax.Array
    is_in_hole: jax.Array
    is_at_goal: jax.Array

    @property
    def agent_px(self) -> jax.Array:
        """Center of the player's cell (x, y) in the frame, int32 (2,)."""
        side, before = layout_px(self.cells.shape[-1])
        return before + side * self.player_cell[::-1] + side // 2


def layout_px(size: int) -> tuple[int, int]:
    """Return the width of a cell and the left edge of the first one, in px."""
    side = SCREEN_PX // size
    return side, (SCREEN_PX - side * size) // 2


@functools.cache
def _images(side: int) -> np.ndarray:
    """Return the sprites of each kind of cell, without and then with the player, uint8 (8, side, side, 3)."""
    # Coordinates are in half cells from the center, so that the same shapes fit every size.
    along = (2 * np.arange(side) + 1 - side) / side
    y, x = along[:, None], along[None]

    def disc(radius: float, below: float = 0.0) -> np.ndarray:
        return np.hypot(x, y - below) < radius

    def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
        return (x > left) & (x < right) & (y > top) & (y < bottom)

    kinds = np.empty((NUM_KINDS, side, side, 3), np.uint8)
    kinds[:] = np.reshape((_ICE, _ICE, _START, _GOAL), (NUM_KINDS, 1, 1, 3))
    if side >= _SMALLEST_GLEAM_PX:
        paint(kinds[Cell.FROZEN], np.abs(x + y + _GLEAM_AT) < _GLEAM_WIDTH, _GLEAM)
    paint(kinds[Cell.HOLE], disc(0.9), _WATER)
    paint(kinds[Cell.HOLE], disc(0.65), _DEPTH)
    paint(kinds[Cell.GOAL], box(-0.45, -0.7, -0.25, 0.7), _OUTLINE)
    paint(kinds[Cell.GOAL], box(-0.25, -0.7, 0.45, -0.1), _FLAG)
    kinds[:, -1] = _RIM
    kinds[:, :, -1] = _RIM
    held = kinds.copy()
    for kind, image in enumerate(held):
        sunk = 0.25 if kind == Cell.HOLE else 0.0
        paint(image, disc(0.6, sunk), _OUTLINE)
        paint(image, disc(0.45, sunk), _BODY)
    return np.concatenate([kinds, held])


def _symbol_indices(scene: Scene) -> jax.Array:
    """Return the sprite index of each cell, int32 (N, N)."""
    numbers = jnp.arange(len(scene.cells))
    is_player = (numbers == scene.player_cell[0])[:, None] & (numbers == scene.player_cell[1])[None]
    return scene.cells.astype(jnp.int32) + NUM_KINDS * is_player.astype(jnp.int32)


def draw(scene: Scene) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first."""
    size = len(scene.cells)
    side, before = layout_px(size)
    cells = jnp.asarray(_images(side))[_symbol_indices(scene)]
    board = cells.transpose(0, 2, 1, 3, 4).reshape(size * side, size * side, 3)
    canvas = jnp.broadcast_to(jnp.asarray(_MARGIN, jnp.uint8), (SCREEN_PX, SCREEN_PX, 3))
    return jax.lax.dynamic_update_slice(canvas, board, (before, before, 0))


def symbols(scene: Scene) -> jax.Array:
    """Return a scene as numbers, float32 (5 N²,); equal vectors have equal frames and vice versa.

    First the kind of each cell, one-hot in the order of `Cell` (4 N²), then the player's cell, one-hot (N²), row by
    row.
    """
    indices = _symbol_indices(scene)
    kinds = jax.nn.one_hot(indices % NUM_KINDS, NUM_KINDS, dtype=jnp.float32)
    return jnp.concatenate([kinds.reshape(-1), (indices >= NUM_KINDS).astype(jnp.float32).reshape(-1)])
