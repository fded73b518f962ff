"""Makes the Sudoku puzzles that the levels of `Sudoku-v0` are built from: `python docs/sudoku_puzzles.py FILE`.

Each line of the file is a puzzle with one solution and 20 clues: its 81 cells row by row, a clue as a digit 1 to 9, any
other cell as the letter a to i of its digit. The same seed and count give the same file. It needs numba, and some
minutes; nothing else of the project needs either.

How: a random full grid loses clues in random order while its solution stays the only one, which leaves about 24. Then
one clue is taken away, all solutions of the rest are listed, and a cell and digit that only one of them has becomes
the new clue; where that makes other clues superfluous, the puzzle is shorter. So it goes on down to 20. Every puzzle
comes from a full grid of its own.
"""

# ruff: noqa: PLR2004 — the 9 and 81 of the game are plain here.

import argparse
from pathlib import Path

import numba
import numpy as np

CLUES = 20
MOST_SOLUTIONS = 400
MOST_MOVES = 4_000
"""After so many moves without a shorter puzzle a walk is given up."""
ALL = 0b111111111


@numba.njit(cache=True)
def seed_generator(seed):
    """Seeds the generator that the compiled functions share."""
    np.random.seed(seed)  # noqa: NPY002 — numba's own generator


@numba.njit(cache=True)
def _fewest_places(grid, rows, columns, boxes):
    """Return the number of choices of the tightest spot, and the spot: a cell, or a digit in a row, column or box.

    Spots below 81 are cells; spot 81 + 9 · unit + digit is a digit in a row (units 0 to 8), column or box.
    """
    best, spot = 10, -1
    once = np.zeros((27, 9), np.int8)
    for cell in range(81):
        if grid[cell]:
            continue
        r, c = cell // 9, cell % 9
        b = r // 3 * 3 + c // 3
        free = ALL & ~(rows[r] | columns[c] | boxes[b])
        count = 0
        for digit in range(9):
            if free >> digit & 1:
                count += 1
                once[r, digit] += 1
                once[9 + c, digit] += 1
                once[18 + b, digit] += 1
        if count < best:
            best, spot = count, cell
            if best == 0:
                return best, spot
    if best > 1:
        for unit in range(27):
            used = rows[unit] if unit < 9 else columns[unit - 9] if unit < 18 else boxes[unit - 18]
            for digit in range(9):
                if not used >> digit & 1 and once[unit, digit] < best:
                    best, spot = once[unit, digit], 81 + 9 * unit + digit
    return best, spot


@numba.njit(cache=True)
def _cell_of(unit, place):
    if unit < 9:
        return 9 * unit + place
    if unit < 18:
        return 9 * place + unit - 9
    box = unit - 18
    return 9 * (box // 3 * 3 + place // 3) + box % 3 * 3 + place % 3


@numba.njit(cache=True)
def _search(grid, rows, columns, boxes, found, count):
    """Write solutions into `found` from row `count` on until it is full; returns how many there are then."""
    best, spot = _fewest_places(grid, rows, columns, boxes)
    if spot < 0:
        found[count] = grid
        return count + 1
    if best == 0:
        return count
    start = np.random.randint(9)  # noqa: NPY002
    for step in range(9):
        choice = (start + step) % 9
        if spot < 81:
            cell, digit = spot, choice
        else:
            cell, digit = _cell_of((spot - 81) // 9, choice), (spot - 81) % 9
        r, c = cell // 9, cell % 9
        b, bit = r // 3 * 3 + c // 3, 1 << digit
        if grid[cell] or (rows[r] | columns[c] | boxes[b]) & bit:
            continue
        grid[cell] = digit + 1
        rows[r] |= bit
        columns[c] |= bit
        boxes[b] |= bit
        count = _search(grid, rows, columns, boxes, found, count)
        grid[cell] = 0
        rows[r] ^= bit
        columns[c] ^= bit
        boxes[b] ^= bit
        if count == len(found):
            break
    return count


@numba.njit(cache=True)
def solutions(puzzle, found):
    """Write solutions of a puzzle, int8 (81,), into `found`, int8 (N, 81), and returns how many, at most N."""
    grid = puzzle.copy()
    rows, columns, boxes = np.zeros(9, np.int64), np.zeros(9, np.int64), np.zeros(9, np.int64)
    for cell in range(81):
        if grid[cell]:
            bit = 1 << (grid[cell] - 1)
            r, c = cell // 9, cell % 9
            rows[r] |= bit
            columns[c] |= bit
            boxes[r // 3 * 3 + c // 3] |= bit
    return _search(grid, rows, columns, boxes, found, 0)


@numba.njit(cache=True)
def minimized(puzzle):
    """Return a puzzle without the clues, in random order, that its one solution does not need."""
    puzzle, two = puzzle.copy(), np.zeros((2, 81), np.int8)
    for cell in np.random.permutation(81):  # noqa: NPY002
        clue = puzzle[cell]
        if clue:
            puzzle[cell] = 0
            if solutions(puzzle, two) > 1:
                puzzle[cell] = clue
    return puzzle


@numba.njit(cache=True)
def moved(puzzle, found):
    """Return a puzzle with one solution that has one clue more and one less, or the same one where that fails."""
    clues = np.nonzero(puzzle)[0]
    removed = clues[np.random.randint(len(clues))]  # noqa: NPY002
    rest = puzzle.copy()
    rest[removed] = 0
    count = solutions(rest, found)
    if count == len(found):
        return puzzle
    seen = np.zeros((81, 10), np.int32)
    for row in range(count):
        for cell in range(81):
            seen[cell, found[row, cell]] += 1
    choices = np.zeros((729, 2), np.int8)
    number = 0
    for cell in range(81):
        for digit in range(1, 10):
            if seen[cell, digit] == 1 and not (cell == removed and digit == puzzle[removed]):
                choices[number] = cell, digit
                number += 1
    if not number:
        return puzzle
    cell, digit = choices[np.random.randint(number)]  # noqa: NPY002
    rest[cell] = digit
    return rest


@numba.njit(cache=True)
def walk(clues, most_moves, most_solutions):
    """Return a puzzle with one solution and so many clues or a few less, int8 (81,), or more if the walk fails."""
    two, found = np.zeros((2, 81), np.int8), np.zeros((most_solutions, 81), np.int8)
    solutions(np.zeros(81, np.int8), two[:1])
    puzzle = minimized(two[0])
    moves = 0
    while moves < most_moves and np.count_nonzero(puzzle) > clues:
        shorter = minimized(moved(puzzle, found))
        moves = 0 if np.count_nonzero(shorter) < np.count_nonzero(puzzle) else moves + 1
        puzzle = shorter
    return puzzle


def line_of(puzzle: np.ndarray) -> str:
    """Return a puzzle as a line of the file."""
    found = np.zeros((2, 81), np.int8)
    if solutions(puzzle, found) != 1:
        raise ValueError("a puzzle of the walk has not exactly one solution.")
    pairs = zip(puzzle.tolist(), found[0].tolist(), strict=True)
    return "".join(str(clue) if clue else "?abcdefghi"[digit] for clue, digit in pairs)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seed_generator(arguments.seed)
    lines: dict[str, None] = {}
    while len(lines) < arguments.count:
        puzzle = walk(CLUES, MOST_MOVES, MOST_SOLUTIONS)
        if np.count_nonzero(puzzle) == CLUES:
            lines[line_of(puzzle)] = None
    arguments.file.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
