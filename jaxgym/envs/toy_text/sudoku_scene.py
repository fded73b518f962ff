"""What is seen of Sudoku: the board, which cells were given, and the last move, as a picture or as numbers."""

import functools
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.toy_text.sudoku_levels import BOX, NUM_CELLS, SIZE
from jaxgym.rendering.sprites import bitmap

SCREEN_PX = 84
CELL_PX = 8
NUM_TRIED = 10
NOWHERE = -1
"""Row and column of the last move before there is one, and the number of a move that was not made."""


class Outcome(IntEnum):
    """What became of the last move."""

    NONE = 0
    PLACED = 1
    NOT_EMPTY = 2
    WRONG = 3


NUM_SYMBOLS = NUM_CELLS * SIZE + NUM_CELLS + 2 * SIZE + (len(Outcome) - 1) + SIZE

_DIGITS = """
.##. ..#. .##. ###. ..#. #### .##. #### .##. .##.
#..# .##. #..# ...# .##. #... #... ...# #..# #..#
#..# ..#. ...# .##. #.#. ###. ###. ..#. .##. #..#
#..# ..#. ..#. ...# #### ...# #..# ..#. #..# .###
#..# ..#. .#.. ...# ..#. ...# #..# .#.. #..# ...#
.##. .### #### ###. ..#. ###. .##. .#.. .##. .##.
"""
_DIGIT_CORNER_PX = 2, 2
"""Row and column of a digit's corner within a cell, whose first row and column are a line."""

GIVEN_COLOR, ENTRY_COLOR, WRONG_COLOR, HIDDEN_COLOR = (255, 255, 255), (110, 180, 255), (255, 140, 140), (90, 90, 90)
OUTCOME_COLORS = ((0, 0, 0), (0, 90, 0), (120, 80, 0), (110, 0, 0))
LINE_COLOR, BOX_LINE_COLOR = (50, 50, 50), (170, 170, 170)


@struct.dataclass
class Scene:
    """What a viewer may know of Sudoku.

    Attributes:
        board: The digits 1 to 9, and 0 for empty cells, int8 (9, 9), row first.
        is_given: Which cells were given, bool (9, 9).
        last_cell: Row and column of the last move, or (-1, -1) before there is one, int32 (2,).
        outcome: What became of it, an `Outcome`, int32 ().
        wrong_digit: Its digit 1 to 9 if it was a wrong one, else 0, int32 ().
        tried: The newest ten different moves, 81 · row + 9 · column + digit - 1, the newest first and -1 for none,
            int32 (10,). No picture shows them; words may, where they are asked to remind of them.
    """

    board: jax.Array
    is_given: jax.Array
    last_cell: jax.Array
    outcome: jax.Array
    wrong_digit: jax.Array
    tried: jax.Array


@functools.cache
def _glyphs() -> np.ndarray:
    """Returns which pixels of a cell each digit covers, bool (10, 9, 9), line included; none for 0."""
    rows = [line.split() for line in _DIGITS.strip().split("\n")]
    glyphs = np.zeros((SIZE + 1, 1 + CELL_PX, 1 + CELL_PX), dtype=bool)
    for digit in range(1, SIZE + 1):
        picture = bitmap("\n".join(row[digit] for row in rows))
        top, left = _DIGIT_CORNER_PX[0], _DIGIT_CORNER_PX[1] + 1
        glyphs[digit, top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return glyphs


def draw(scene: Scene) -> jax.Array:
    """Returns the picture of a scene, uint8 (84, 84, 3), row first."""
    is_last = _is_last(scene)
    is_wrong = is_last & (scene.wrong_digit > 0)
    digits = jnp.where(is_wrong, scene.wrong_digit, scene.board.astype(jnp.int32))
    colors = jnp.where(scene.is_given[..., None], _color(GIVEN_COLOR), _color(ENTRY_COLOR))
    colors = jnp.where(is_wrong[..., None], _color(WRONG_COLOR), colors)
    return _picture(digits, colors, jnp.where(is_last, scene.outcome, Outcome.NONE))


def draw_solved(scene: Scene, solution: jax.Array) -> jax.Array:
    """Returns the picture of a scene with the solution in grey where cells are empty, uint8 (84, 84, 3)."""
    colors = jnp.where(scene.is_given[..., None], _color(GIVEN_COLOR), _color(ENTRY_COLOR))
    colors = jnp.where((scene.board == 0)[..., None], _color(HIDDEN_COLOR), colors)
    return _picture(solution.astype(jnp.int32), colors, jnp.where(_is_last(scene), scene.outcome, Outcome.NONE))


def _color(color: tuple[int, int, int]) -> np.ndarray:
    return np.asarray(color, np.uint8).reshape(1, 1, 3)


def _is_last(scene: Scene) -> jax.Array:
    row, column = scene.last_cell
    places = jnp.arange(SIZE)
    return (places[:, None] == row) & (places[None] == column)


def _picture(digits: jax.Array, colors: jax.Array, outcomes: jax.Array) -> jax.Array:
    """Returns the board as a picture.

    A cell is 8 px with a line of 1 px above and to the left of it; a box of three cells a side has one more.

    Args:
        digits: int32 (9, 9), 0 for none.
        colors: Those of the digits, uint8 (9, 9, 3).
        outcomes: Which colour is behind each digit, int32 (9, 9).
    """
    covered = jnp.asarray(_glyphs())[digits][..., None]
    behind = jnp.asarray(np.asarray(OUTCOME_COLORS, np.uint8))[outcomes][:, :, None, None]
    cells = jnp.where(covered, colors[:, :, None, None], behind)
    edge = np.arange(1 + CELL_PX) == 0
    is_line = (edge[:, None] | edge).reshape(1, 1, 1 + CELL_PX, 1 + CELL_PX, 1)
    cells = jnp.where(is_line, np.asarray(LINE_COLOR, np.uint8).reshape(1, 1, 1, 1, 3), cells)
    side = BOX * (1 + CELL_PX)
    boxes = cells.reshape(BOX, BOX, BOX, BOX, 1 + CELL_PX, 1 + CELL_PX, 3)
    boxes = boxes.transpose(0, 2, 1, 4, 3, 5, 6).reshape(BOX, BOX, side, side, 3)
    edge = np.arange(1 + side) <= 1
    is_line = (edge[:, None] | edge).reshape(1, 1, 1 + side, 1 + side, 1)
    boxes = jnp.pad(boxes, ((0, 0), (0, 0), (1, 0), (1, 0), (0, 0)))
    boxes = jnp.where(is_line, np.asarray(BOX_LINE_COLOR, np.uint8).reshape(1, 1, 1, 1, 3), boxes)
    return boxes.transpose(0, 2, 1, 3, 4).reshape(SCREEN_PX, SCREEN_PX, 3)


def symbols(scene: Scene) -> jax.Array:
    """Returns a scene as numbers, float32 (840,); equal vectors and equal pictures go together.

    In order: the digit of each cell one-hot, row by row (81 · 9; zero for an empty one), which cells were given (81),
    row and column of the last move one-hot (9 + 9), what became of it one-hot: placed, not empty, wrong (3), and its
    digit one-hot if it was a wrong one (9). All of a move is zero before there is one.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    return jnp.concatenate(
        [
            one_hot(scene.board.astype(jnp.int32) - 1, SIZE).reshape(-1),
            scene.is_given.astype(jnp.float32).reshape(-1),
            one_hot(scene.last_cell, SIZE).reshape(-1),
            one_hot(scene.outcome - 1, len(Outcome) - 1),
            one_hot(scene.wrong_digit - 1, SIZE),
        ]
    )
