"""Levels of Sudoku, made from 1024 puzzles of the package.

Each puzzle of the package has 20 clues and one solution. A level permutes its rows, columns and digits and may
transpose it, which gives about 10^12 puzzles each. It then shows more cells of the solution, up to the requested number
of clues. Both steps keep the solution unique, so no search is needed.

Limitation: levels are not uniform among all puzzles with this number of clues. Up to symmetry there are 1024 full
grids, 20 clues of each are always shown, and with more than 20 clues some can be redundant.
"""

import functools
import importlib.resources
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

SIZE, BOX = 9, 3
NUM_CELLS = SIZE * SIZE
FEWEST_CLUES, MOST_CLUES = 20, 80

_ORDERS = np.asarray([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], dtype=np.int32)
_IS_CLUE = 16
_BITS = (1, SIZE, 1 + BOX, 1 + BOX, 1, NUM_CELLS)
"""Number of random values for puzzle, digits, rows, columns, diagonal, and the order of further clues."""
NUM_BITS = sum(_BITS)
_LOWEST_BITS = 127
"""Bits of a cell's number, which break ties between random numbers."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        givens: Clues 1 to 9, 0 for empty cells, int8 (9, 9), row first.
        solution: The unique solution, int8 (9, 9).
        clues: Number of given cells, int32 ().
    """

    givens: jax.Array
    solution: jax.Array
    clues: jax.Array


def is_cell(cell: jax.Array) -> jax.Array:
    """Return a mask of one cell (row, column), bool (9, 9); it is empty for a cell outside of the grid."""
    numbers = jnp.arange(SIZE)
    return (numbers == cell[0])[:, None] & (numbers == cell[1])[None]


@functools.cache
def kept_puzzles() -> np.ndarray:
    """Read the puzzles of the package, uint8 (1024, 81): the digit of each cell, plus 16 for a clue.

    The file is read at the first call. A line is a puzzle, with clues as digits and the rest of the solution as the
    letters a to i.
    """
    file = importlib.resources.files("jaxgym.envs.sudoku").joinpath("data", "sudoku_puzzles.txt")
    symbols = np.frombuffer("".join(file.read_text(encoding="ascii").split()).encode(), np.uint8)
    symbols = symbols.reshape(-1, NUM_CELLS)
    is_clue = symbols < ord("a")
    return np.where(is_clue, symbols - ord("0") + _IS_CLUE, symbols - ord("a") + 1).astype(np.uint8)


def make_level(bits: jax.Array, clues: jax.Array) -> Level:
    """Make the level of some random bits.

    Args:
        bits: uint32 (`NUM_BITS`,).
        clues: Number of given cells, at least the 20 of the package's puzzles, int32 ().
    """
    which, digits, rows, columns, flip, priorities = jnp.split(bits, np.cumsum(_BITS)[:-1])
    puzzles = jnp.asarray(kept_puzzles())
    cells = SIZE * line_order(rows)[:, None] + line_order(columns)[None]
    cells = jnp.where(flip[0] % 2 == 0, cells, cells.T)
    puzzle = puzzles[(which[0] % len(puzzles)).astype(jnp.int32)][cells]
    is_kept = puzzle >= _IS_CLUE
    relabelled = (1 + _ranks(digits)).astype(jnp.int8)
    solution = relabelled[(puzzle % _IS_CLUE).astype(jnp.int32) - 1]
    # The clues of the package's puzzle come first, the other cells in random order.
    is_given = _ranks(jnp.where(is_kept.reshape(-1), 0, priorities | jnp.uint32(1 << 31))) < clues
    givens = jnp.where(is_given.reshape(SIZE, SIZE), solution, 0)
    return Level(givens=givens, solution=solution, clues=clues)


def line_order(bits: jax.Array) -> jax.Array:
    """Return a random order of nine rows or columns in which the three lines of a band stay together, int32 (9,).

    Args:
        bits: uint32 (4,).
    """
    order = jnp.asarray(_ORDERS)[(bits % len(_ORDERS)).astype(jnp.int32)]
    return (BOX * order[0][:, None] + order[1:]).reshape(-1)


def _ranks(values: jax.Array) -> jax.Array:
    """Return the rank of each number, int32 (N,), N up to 128; the last seven bits are ignored."""
    distinct = (values & ~jnp.uint32(_LOWEST_BITS)) | jnp.arange(len(values), dtype=jnp.uint32)
    return jnp.sum(distinct[None] < distinct[:, None], axis=1, dtype=jnp.int32)


def valid_levels(_: Any, buffer: Any, params: Any) -> dict[str, np.ndarray]:
    """Return whether each level is a full grid with an allowed number of given cells; bool (n,) by field.

    The uniqueness of the solution is not checked.
    """
    solution, givens = np.asarray(buffer.solution), np.asarray(buffer.givens)
    boxes = solution.reshape(-1, BOX, BOX, BOX, BOX).swapaxes(2, 3).reshape(-1, SIZE, SIZE)
    units = np.concatenate([solution, solution.swapaxes(1, 2), boxes], axis=1)
    is_full = (np.sort(units, axis=2) == np.arange(1, SIZE + 1)).all(axis=(1, 2))
    is_chosen = np.isin(buffer.clues, params.clues.values) & ((givens != 0).sum(axis=(1, 2)) == buffer.clues)
    return {"solution": is_full, "givens": ((givens == solution) | (givens == 0)).all(axis=(1, 2)), "clues": is_chosen}
