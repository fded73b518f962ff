"""Scene of Sudoku, its frame and its symbols: the board, the given cells, and the last move."""

import functools
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.sudoku.level import BOX, SIZE, is_cell
from jaxgym.rendering.sprites import bitmap

SCREEN_PX = 84
CELL_PX = 8
NUM_TRIED = 10
NOWHERE = -1
"""Row and column of the last move before the first move, and the number of a missing move."""


class SudokuOutcome(IntEnum):
    """Outcome of the last move."""

    NONE = 0
    PLACED = 1
    NOT_EMPTY = 2
    WRONG = 3


_DIGITS = """
.##. ..#. .##. ###. ..#. #### .##. #### .##. .##.
#..# .##. #..# ...# .##. #... #... ...# #..# #..#
#..# ..#. ...# .##. #.#. ###. ###. ..#. .##. #..#
#..# ..#. ..#. ...# #### ...# #..# ..#. #..# .###
#..# ..#. .#.. ...# ..#. ...# #..# .#.. #..# ...#
.##. .### #### ###. ..#. ###. .##. .#.. .##. .##.
"""
_DIGIT_CORNER_PX = 2, 3
"""Row and column of a digit's corner within a cell; the cell's first row and column are a line."""

PALETTE = (
    *((0, 0, 0), (0, 90, 0), (120, 80, 0), (110, 0, 0)),  # background of digits, by outcome
    *((255, 255, 255), (110, 180, 255), (255, 140, 140), (90, 90, 90)),  # given, entered, wrong and hidden digits
    *((50, 50, 50), (170, 170, 170)),  # lines, and lines around boxes
)
_GIVEN, _ENTRY, _WRONG, _HIDDEN, _LINE, _BOX_LINE = range(len(SudokuOutcome), len(PALETTE))
_BITS = 4
"""Bits for a digit or an index of the palette."""


@struct.dataclass
class Scene:
    """Scene of Sudoku.

    Attributes:
        board: Digits 1 to 9, 0 for empty cells, int8 (9, 9), row first.
        is_given: Given cells, bool (9, 9).
        last_cell: Row and column of the last move, or (-1, -1) before the first move, int32 (2,).
        outcome: Outcome of the last move, a `SudokuOutcome`, int32 ().
        wrong_digit: Digit 1 to 9 of the last move if it was wrong, else 0, int32 ().
        tried: The newest ten different moves, 81 · row + 9 · column + digit - 1, the newest first, -1 for none,
            int32 (10,). Only the hints of the text interface show them.
    """

    board: jax.Array
    is_given: jax.Array
    last_cell: jax.Array
    outcome: jax.Array
    wrong_digit: jax.Array
    tried: jax.Array


@functools.cache
def _screen() -> tuple[np.ndarray, np.ndarray]:
    """Return the digits that cover each pixel, as bits, and the line on it, uint32 (84, 84) each; 0 for none.

    A cell is 8 px wide, with a line of 1 px above it and to its left; a box of 3 × 3 cells has one more line.
    """
    rows = [line.split() for line in _DIGITS.strip().split("\n")]
    images = np.stack([bitmap("\n".join(row[digit] for row in rows)) for digit in range(SIZE + 1)])
    (top, left), (height, width) = _DIGIT_CORNER_PX, images.shape[1:]
    cell = np.zeros((1 + CELL_PX, 1 + CELL_PX), np.uint32)
    numbers = np.arange(1, SIZE + 1, dtype=np.uint32)[:, None, None]
    cell[top : top + height, left : left + width] = np.bitwise_or.reduce(images[1:].astype(np.uint32) << numbers)
    edge = np.arange(1 + CELL_PX) == 0
    lines = np.where(edge[:, None] | edge, _LINE, 0).astype(np.uint32)
    covers, lines = (np.pad(np.tile(part, (BOX, BOX)), ((1, 0), (1, 0))) for part in (cell, lines))
    edge = np.arange(len(lines)) <= 1
    lines = np.where(edge[:, None] | edge, np.uint32(_BOX_LINE), lines)
    return np.tile(covers, (BOX, BOX)), np.tile(lines, (BOX, BOX))


def draw(scene: Scene) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first."""
    is_wrong = is_cell(scene.last_cell) & (scene.wrong_digit > 0)
    digits = jnp.where(is_wrong, scene.wrong_digit, scene.board.astype(jnp.int32))
    return _image(scene, digits, jnp.where(is_wrong, _WRONG, jnp.where(scene.is_given, _GIVEN, _ENTRY)))


def draw_solved(scene: Scene, solution: jax.Array) -> jax.Array:
    """Return the frame of a scene with the solution in gray in empty cells, uint8 (84, 84, 3)."""
    colors = jnp.where(scene.board == 0, _HIDDEN, jnp.where(scene.is_given, _GIVEN, _ENTRY))
    return _image(scene, solution.astype(jnp.int32), colors)


def _image(scene: Scene, digits: jax.Array, colors: jax.Array) -> jax.Array:
    """Return the frame of digits, int32 (9, 9), 0 for none, in colors of the palette, int32 (9, 9)."""
    covers, lines = _screen()
    behind = jnp.where(is_cell(scene.last_cell), scene.outcome, SudokuOutcome.NONE)
    cells = (digits | (colors << _BITS) | (behind << (2 * _BITS))).astype(jnp.uint32)
    # The barriers end stages that XLA would otherwise recompute for every pixel and channel.
    cells, mask = lax.optimization_barrier(cells), jnp.uint32((1 << _BITS) - 1)
    pixels = jnp.repeat(jnp.repeat(cells, 1 + CELL_PX, axis=0), 1 + CELL_PX, axis=1)
    side = BOX * (1 + CELL_PX)
    pixels = jnp.pad(pixels.reshape(BOX, side, BOX, side), ((0, 0), (1, 0), (0, 0), (1, 0)))
    pixels = pixels.reshape(SCREEN_PX, SCREEN_PX)
    is_covered = (jnp.asarray(covers) >> (pixels & mask)) & 1 == 1
    colored = jnp.where(is_covered, (pixels >> _BITS) & mask, pixels >> (2 * _BITS))
    colored = jnp.where(lines > 0, jnp.asarray(lines), colored).astype(jnp.uint8)
    return jnp.asarray(np.asarray(PALETTE, np.uint8))[lax.optimization_barrier(colored).astype(jnp.int32)]


def symbols(scene: Scene) -> jax.Array:
    """Return a scene as numbers, float32 (840,); equal vectors have equal frames and vice versa.

    In order: the digit of each cell one-hot, row by row (81 · 9; zeros for an empty cell), the given cells (81), row
    and column of the last move one-hot (9 + 9), its outcome one-hot (placed, not empty, wrong; 3), and its digit
    one-hot if it was wrong (9). All values of a move are zero before the first move.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    return jnp.concatenate(
        [
            one_hot(scene.board.astype(jnp.int32) - 1, SIZE).reshape(-1),
            scene.is_given.astype(jnp.float32).reshape(-1),
            one_hot(scene.last_cell, SIZE).reshape(-1),
            one_hot(scene.outcome - 1, len(SudokuOutcome) - 1),
            one_hot(scene.wrong_digit - 1, SIZE),
        ]
    )
