"""Make the Sudoku puzzles from which the levels of `Sudoku-v0` are built: `python docs/sudoku_puzzles.py FILE`.

Each line of the file is a puzzle with one solution and 20 clues: its 81 cells row by row, a clue as a digit 1 to 9, any
other cell as the letter a to i of its digit. The same seed and count give the same file. The script needs numba and a
few minutes; nothing else in the project needs numba.

Method: clues are removed from a random full grid in random order while the solution is unique, which leaves about 24.
Then one clue is removed, all solutions are listed, and a cell and digit of exactly one of them becomes the new clue; if
it makes other clues redundant, the puzzle gets shorter. This repeats until 20 clues are left. Every puzzle comes from a
full grid of its own.
"""

# ruff: noqa: PLR2004 — the 9 and 81 of the game are plain here.

import argparse
from pathlib import Path

import numba
import numpy as np

CLUES = 20
MOST_SOLUTIONS = 400
MOST_ACTIONS = 4_000
"""A walk stops after this number of moves without a shorter puzzle."""
ALL = 0b111111111


@numba.njit(cache=True)
def seed_generator(seed):
    """Seed the generator that the compiled functions share."""
    np.random.seed(seed)  # noqa: NPY002 — numba's own generator


@numba.njit(cache=True)
def _fewest_places(grid, rows, columns, boxes):
    """Return the number of choices of the most constrained spot, and the spot: a cell, or a digit in a unit.

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
    """Write solutions into `found` from row `count` on until it is full; return their number."""
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
    """Write solutions of a puzzle, int8 (81,), into `found`, int8 (N, 81); return their number, at most N."""
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
    """Return a puzzle without redundant clues, removed in random order."""
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
    """Return a puzzle with one solution and one clue replaced, or the same puzzle if that fails."""
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
    """Return a puzzle with one solution and at most this number of clues, int8 (81,), or more if the walk fails."""
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
        raise ValueError("expected a puzzle with exactly one solution, got another number.")
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
        puzzle = walk(CLUES, MOST_ACTIONS, MOST_SOLUTIONS)
        if np.count_nonzero(puzzle) == CLUES:
            lines[line_of(puzzle)] = None
    arguments.file.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
