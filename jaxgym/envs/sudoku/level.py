"""The puzzles of Sudoku: how a level is made of one of 1024 puzzles that are kept with the package.

Each kept puzzle has 20 clues and one solution. A level moves its rows, columns, digits and diagonal about, which makes
about 10^12 puzzles of each, and then shows more cells of the solution until there are as many clues as asked for.
Neither step can make a second solution, so that every level has exactly one, without a search.

What is lost: a level is not a draw from all puzzles with so many clues. Up to symmetry there are 1024 full grids, 20 of
the clues of each are always among those shown, and with more than 20 clues some can be left out.
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
"""Random numbers for the puzzle, the digits, the rows, the columns, the diagonal, and the order of further clues."""
NUM_BITS = sum(_BITS)
_LOWEST_BITS = 127
"""What holds the number of any cell; ties between random numbers are broken by it."""


@struct.dataclass
class Level:
    """Everything that is sampled for an episode.

    Attributes:
        givens: The clues, 1 to 9, and 0 for empty cells, int8 (9, 9), row first.
        solution: The one way to fill in the rest, int8 (9, 9).
        clues: How many cells are given, int32 ().
    """

    givens: jax.Array
    solution: jax.Array
    clues: jax.Array


@functools.cache
def kept_puzzles() -> np.ndarray:
    """Return the puzzles of the package, uint8 (1024, 81): the digit of each cell, plus 16 where it is a clue.

    The file is read at the first call. A line is a puzzle, with clues as digits and the rest of the solution as the
    letters a to i.
    """
    file = importlib.resources.files("jaxgym.envs.sudoku").joinpath("data", "sudoku_puzzles.txt")
    symbols = np.frombuffer("".join(file.read_text(encoding="ascii").split()).encode(), np.uint8)
    symbols = symbols.reshape(-1, NUM_CELLS)
    is_clue = symbols < ord("a")
    return np.where(is_clue, symbols - ord("0") + _IS_CLUE, symbols - ord("a") + 1).astype(np.uint8)


def make_level(bits: jax.Array, clues: jax.Array) -> Level:
    """Return the level that random bits select.

    Args:
        bits: uint32 (`NUM_BITS`,).
        clues: How many cells are given, at least the 20 of the kept puzzles, int32 ().
    """
    which, digits, rows, columns, flip, priorities = jnp.split(bits, np.cumsum(_BITS)[:-1])
    puzzles = jnp.asarray(kept_puzzles())
    cells = SIZE * line_order(rows)[:, None] + line_order(columns)[None]
    cells = jnp.where(flip[0] % 2 == 0, cells, cells.T)
    puzzle = puzzles[(which[0] % len(puzzles)).astype(jnp.int32)][cells]
    is_kept = puzzle >= _IS_CLUE
    relabelled = (1 + _ranks(digits)).astype(jnp.int8)
    solution = relabelled[(puzzle % _IS_CLUE).astype(jnp.int32) - 1]
    # The clues of the kept puzzle come first, the other cells in random order.
    is_given = _ranks(jnp.where(is_kept.reshape(-1), 0, priorities | jnp.uint32(1 << 31))) < clues
    givens = jnp.where(is_given.reshape(SIZE, SIZE), solution, 0)
    return Level(givens=givens, solution=solution, clues=clues)


def line_order(bits: jax.Array) -> jax.Array:
    """Return a random order of nine rows or columns that keeps each three of a band together, int32 (9,).

    Args:
        bits: uint32 (4,).
    """
    order = jnp.asarray(_ORDERS)[(bits % len(_ORDERS)).astype(jnp.int32)]
    return (BOX * order[0][:, None] + order[1:]).reshape(-1)


def _ranks(values: jax.Array) -> jax.Array:
    """Return the place of each number in their order, int32 (N,), N up to 128; the last seven bits are ignored."""
    distinct = (values & ~jnp.uint32(_LOWEST_BITS)) | jnp.arange(len(values), dtype=jnp.uint32)
    return jnp.sum(distinct[None] < distinct[:, None], axis=1, dtype=jnp.int32)


def fits(_: Any, bank: Any, params: Any) -> dict[str, np.ndarray]:
    """Return whether each level is a full grid with an allowed number of given cells; bool (n,) by field.

    Whether the solution is the only one is not checked.
    """
    solution, givens = np.asarray(bank.solution), np.asarray(bank.givens)
    boxes = solution.reshape(-1, BOX, BOX, BOX, BOX).swapaxes(2, 3).reshape(-1, SIZE, SIZE)
    units = np.concatenate([solution, solution.swapaxes(1, 2), boxes], axis=1)
    is_full = (np.sort(units, axis=2) == np.arange(1, SIZE + 1)).all(axis=(1, 2))
    is_chosen = np.isin(bank.clues, params.clues.values) & ((givens != 0).sum(axis=(1, 2)) == bank.clues)
    return {
        "solution": is_full,
        "givens": ((givens == solution) | (givens == 0)).all(axis=(1, 2)),
        "clues": is_chosen,
    }
