"""Sudoku: its rules, its puzzles, and its scene.

The puzzle of most tests has two empty cells, in row 1, columns 1 and 2; the rest of the solution is given.

    .  .  3 | 4  5  6 | 7  8  9        1  2  3 | 4  5  6 | 7  8  9
    4  5  6 | 7  8  9 | 1  2  3   →    4  5  6 | 7  8  9 | 1  2  3
    …                                  …
"""

import dataclasses
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pysat.solvers import Glucose4

import jaxgym
from jaxgym import levels
from jaxgym.envs.sudoku import game as sudoku
from jaxgym.envs.sudoku import level as sudoku_levels
from jaxgym.envs.sudoku import scene as seen
from jaxgym.envs.sudoku.scene import SudokuOutcome
from jaxgym.errors import LevelError, OptionError

SOLUTION = np.asarray(
    [[(3 * (row % 3) + row // 3 + column) % 9 + 1 for column in range(9)] for row in range(9)], np.int8
)
CLUES, NUM_LEVELS, NUM_SOLVED = [20, 21, 24, 40, 60, 75, 80], 2048, 128
FIRST, SECOND, WRONG, FILLED = (0, 0, 0), (0, 1, 1), (0, 1, 4), (4, 4, 4)

ENV, PARAMS = jaxgym.make("Sudoku-v0")
FLAT, _ = jaxgym.make("Sudoku-v0", flat_actions=True)


@jax.jit
def _transition(state: Any, action: jax.Array) -> Any:
    return ENV.transition(dataclasses.replace(state, time=state.time + 1), action, PARAMS)


@jax.jit
def _scene(state: Any) -> seen.Scene:
    return ENV.scene(state, PARAMS)


@jax.jit
def _draw(scene: Any) -> tuple[jax.Array, jax.Array]:
    return seen.draw(scene), seen.symbols(scene)


class Play:
    """An episode of the puzzle above; each call makes moves."""

    def __init__(self, empty: int = 2) -> None:
        givens = SOLUTION.copy()
        givens.reshape(-1)[:empty] = 0
        level = sudoku_levels.Level(jnp.asarray(givens), jnp.asarray(SOLUTION), jnp.int32(81 - empty))
        self.givens, self.state = givens, ENV.initial_state(level, PARAMS)
        self.made: Any = None

    def __call__(self, *moves: tuple[int, int, int]) -> "Play":
        for move in moves:
            self.made = _transition(self.state, jnp.asarray(move, jnp.int32))
            self.state = self.made.state
        return self

    @property
    def board(self) -> np.ndarray:
        return np.asarray(self.state.board)

    @property
    def metrics(self) -> dict[str, float]:
        return {name: np.asarray(value).item() for name, value in self.made.metrics.items()}


# Moves.


def test_a_move_on_an_empty_cell_with_the_digit_of_the_solution_is_placed() -> None:
    play = Play()(SECOND)
    assert play.board[0, :2].tolist() == [0, 2]
    assert int(play.state.outcome) == SudokuOutcome.PLACED
    assert (play.board != play.givens).sum() == 1


def test_a_wrong_entry_is_rejected_and_the_board_stays() -> None:
    play = Play()(WRONG)
    assert (play.board == play.givens).all()
    assert int(play.state.outcome) == SudokuOutcome.WRONG


@pytest.mark.parametrize("digit", [4, 5])
def test_a_move_on_a_cell_that_is_not_empty_is_rejected_whatever_its_digit(digit: int) -> None:
    play = Play()((4, 4, digit))
    assert (play.board == play.givens).all()
    assert int(play.state.outcome) == SudokuOutcome.NOT_EMPTY


def test_a_placed_digit_stays_placed() -> None:
    play = Play()(FIRST, FIRST, (0, 0, 5))
    assert play.board[0, 0] == 1
    assert int(play.state.outcome) == SudokuOutcome.NOT_EMPTY


def test_rejected_moves_end_nothing_however_many_come_in_a_row() -> None:
    play = Play()(WRONG, WRONG, FILLED, WRONG)
    assert (bool(play.made.terminated), float(play.made.reward)) == (False, 0.0)
    assert play.metrics == {"success": 0, "filled": 0.0, "num_rejected": 4}


@pytest.mark.parametrize("action", [(9, 0, 0), (0, -1, 0), (0, 1, 9), (0, 0, -1)])
def test_an_action_outside_of_the_space_does_nothing(action: tuple[int, int, int]) -> None:
    before = Play()(WRONG).state
    after = Play()(WRONG, action).state
    chex.assert_trees_all_equal(dataclasses.replace(after, time=before.time), before)


def test_the_newest_ten_different_moves_are_kept_newest_first() -> None:
    moves = [(0, 1, digit) for digit in range(2, 9)] + [(8, 8, digit) for digit in range(9)]
    play = Play()(*moves, moves[12])
    numbers = [81 * row + 9 * column + digit for row, column, digit in moves]
    newest = [numbers[12], *(number for number in reversed(numbers) if number != numbers[12])]
    assert play.state.tried.tolist() == newest[:10]


def test_flat_actions_are_81_rows_plus_9_columns_plus_the_digit() -> None:
    assert FLAT.action_space().n == ENV.num_actions == 729
    for action, move in ((0, FIRST), (10, SECOND), (81 * 4 + 9 * 4 + 4, FILLED), (729, (9, 0, 0)), (-1, (-1, 8, 8))):
        assert sudoku.unflattened(jnp.int32(action)).tolist() == list(move)
    flat = jax.jit(FLAT.transition)(Play().state, jnp.int32(10), PARAMS).state
    np.testing.assert_array_equal(flat.board, Play()(SECOND).state.board)


# Reward and endings.


def test_the_reward_is_1_when_the_puzzle_is_solved_and_that_ends_the_episode() -> None:
    play = Play()(SECOND)
    assert (float(play.made.reward), bool(play.made.terminated)) == (0.0, False)
    play(WRONG, FIRST)
    assert (float(play.made.reward), bool(play.made.terminated)) == (1.0, True)
    assert play.metrics == {"success": 1, "filled": 1.0, "num_rejected": 1}


def test_filled_is_the_part_of_the_empty_cells_that_is_filled() -> None:
    assert Play(4)(FIRST).metrics["filled"] == 0.25
    assert Play(4)(FIRST, SECOND, SECOND).metrics["filled"] == 0.5


def test_the_time_limit_is_100_moves_and_truncates() -> None:
    assert int(PARAMS.max_steps_in_episode) == 100
    state = Play().state
    flags = [bool(ENV.is_truncated(dataclasses.replace(state, time=jnp.int32(time)), PARAMS)) for time in (99, 100)]
    assert flags == [False, True]


# Puzzles.


def units() -> Iterator[list[tuple[int, int]]]:
    for index in range(9):
        yield [(index, place) for place in range(9)]
        yield [(place, index) for place in range(9)]
        yield [(index // 3 * 3 + place // 3, index % 3 * 3 + place % 3) for place in range(9)]


class Solver:
    """Rules of Sudoku for a SAT solver: variable 81 · row + 9 · column + digit means that the digit is in the cell."""

    def __init__(self) -> None:
        cells = list(itertools.product(range(9), range(9)))
        groups = [[self.variable(*cell, digit) for digit in range(1, 10)] for cell in cells]
        groups += [[self.variable(*cell, digit) for cell in unit] for unit in units() for digit in range(1, 10)]
        pairs = [[-one, -other] for group in groups for one, other in itertools.combinations(group, 2)]
        self.solver, self.unused = Glucose4(bootstrap_with=groups + pairs), 730

    @staticmethod
    def variable(row: int, column: int, digit: int) -> int:
        return 81 * row + 9 * column + digit

    def variables(self, grid: np.ndarray) -> list[int]:
        return [self.variable(*cell, int(digit)) for cell, digit in np.ndenumerate(grid.reshape(9, 9)) if digit]

    def has_only(self, givens: np.ndarray, solution: np.ndarray) -> bool:
        """Return whether the solution is valid and is the only one with the given cells."""
        other, self.unused = self.unused, self.unused + 1
        chosen = self.variables(solution)
        self.solver.add_clause([-other, *(-variable for variable in chosen)])
        return self.solver.solve(chosen) and not self.solver.solve([other, *self.variables(givens)])


@pytest.fixture(scope="module")
def solver() -> Iterator[Solver]:
    made = Solver()
    yield made
    made.solver.delete()


@pytest.fixture(scope="module")
def buffer() -> Any:
    env, params = jaxgym.make("Sudoku-v0", clues=CLUES, levels=NUM_LEVELS)
    assert env == ENV
    return jax.tree.map(np.asarray, params.levels)


def test_the_solver_tells_one_solution_from_several(solver: Solver) -> None:
    givens = SOLUTION.copy()
    givens[0, :2] = 0
    assert solver.has_only(givens, SOLUTION)
    # Without any 1 and 2, these two can be exchanged.
    assert not solver.has_only(np.where(SOLUTION > 2, SOLUTION, 0), SOLUTION)
    assert not solver.has_only(SOLUTION, SOLUTION[::-1])


def test_every_kept_puzzle_has_20_clues_and_one_solution(solver: Solver) -> None:
    kept = sudoku_levels.kept_puzzles().astype(int)
    assert kept.shape == (1024, 81)
    assert ((kept > 16).sum(axis=1) == 20).all()
    assert len(np.unique(kept % 16, axis=0)) == 1024
    assert all(solver.has_only(np.where(puzzle > 16, puzzle % 16, 0), puzzle % 16) for puzzle in kept)


def test_every_level_has_one_solution_and_as_many_clues_as_asked_for(solver: Solver, buffer: Any) -> None:
    assert set(buffer.clues[:NUM_SOLVED].tolist()) == set(CLUES)
    assert ((buffer.givens != 0).sum(axis=(1, 2)) == buffer.clues).all()
    assert all(map(solver.has_only, buffer.givens[:NUM_SOLVED], buffer.solution[:NUM_SOLVED]))


def test_every_cell_is_given_equally_often(buffer: Any) -> None:
    counts = (buffer.givens != 0).sum(axis=0)
    expected = buffer.clues.sum() / 81
    assert abs(counts - expected).max() < 5.5 * np.sqrt(expected)


def test_line_orders_keep_bands_together_and_are_1296() -> None:
    bits = np.stack(np.meshgrid(*[np.arange(6)] * 4), axis=-1).reshape(-1, 4).astype(np.uint32)
    orders = np.asarray(jax.jit(jax.vmap(sudoku_levels.line_order))(bits))
    assert (np.sort(orders, axis=1) == np.arange(9)).all()
    bands = orders.reshape(-1, 3, 3) // 3
    assert (bands == bands[:, :, :1]).all()
    assert len(np.unique(orders, axis=0)) == 1296


def test_levels_of_the_kept_puzzles_differ(buffer: Any) -> None:
    assert levels.num_distinct(buffer) == NUM_LEVELS
    assert len({grid.tobytes() for grid in buffer.solution}) == NUM_LEVELS


@pytest.mark.parametrize("clues", [[19], [81], [], 60])
def test_clues_are_a_list_of_numbers_from_20_to_80(clues: Any) -> None:
    with pytest.raises(OptionError, match="expected a list of 1 to 8 integers from 20 to 80"):
        jaxgym.make("Sudoku-v0", clues=clues)


def test_a_level_buffer_of_other_clues_or_broken_grids_is_rejected(buffer: Any) -> None:
    with pytest.raises(LevelError, match="got clues="):
        jaxgym.make("Sudoku-v0", clues=[30], levels=buffer)
    twice = dataclasses.replace(buffer, solution=buffer.solution.copy())
    twice.solution[5, 0, 0] = twice.solution[5, 0, 1]
    with pytest.raises(LevelError, match=r"got solution=.* in level 5\."):
        jaxgym.make("Sudoku-v0", levels=twice, clues=CLUES)
    other = dataclasses.replace(buffer, givens=np.where(buffer.givens > 0, buffer.givens % 9 + 1, 0).astype(np.int8))
    with pytest.raises(LevelError, match="level 0 has givens="):
        jaxgym.make("Sudoku-v0", levels=other, clues=CLUES)


@pytest.mark.parametrize(("preset", "clues"), [("very-easy", 75), ("easy", 70), ("medium", 40), ("hard", 20)])
def test_presets_have_the_clues_of_textarena(preset: str, clues: int) -> None:
    assert int(jaxgym.make("Sudoku-v0", preset=preset)[1].clues.values[0]) == clues


# What is seen.


def cell(frame: np.ndarray, row: int, column: int) -> np.ndarray:
    """Return the 8 × 8 pixels of a cell, without its lines."""
    top, left = (28 * (place // 3) + 2 + 9 * (place % 3) for place in (row, column))
    return frame[top : top + 8, left : left + 8]


def colors(pixels: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


BLACK, WHITE, BLUE = (0, 0, 0), (255, 255, 255), (110, 180, 255)


def frame_of(play: Play) -> np.ndarray:
    return np.asarray(_draw(_scene(play.state))[0])


def test_given_digits_are_white_and_placed_ones_blue_and_every_digit_looks_different() -> None:
    frame = frame_of(Play()(FIRST, SECOND))
    assert colors(cell(frame, 0, 0)) == {BLACK, BLUE}
    appearances = {(cell(frame, 8, column) == WHITE).tobytes() for column in range(9)}
    assert len(appearances) == 9
    assert colors(cell(frame, 5, 5)) == {BLACK, WHITE}


@pytest.mark.parametrize(
    ("moves", "place", "expected"),
    [
        ([SECOND], (0, 1), {(0, 90, 0), BLUE}),
        ([FILLED], (4, 4), {(120, 80, 0), WHITE}),
        ([WRONG], (0, 1), {(110, 0, 0), (255, 140, 140)}),
        ([WRONG, FIRST], (0, 1), {BLACK}),
    ],
)
def test_the_cell_of_the_last_move_has_the_color_of_its_outcome(moves: Any, place: Any, expected: Any) -> None:
    frame = frame_of(Play()(*moves))
    assert colors(cell(frame, *place)) == expected


def test_a_wrong_digit_is_drawn_in_its_cell() -> None:
    drawn = colors(cell(frame_of(Play()(WRONG)), 0, 1))
    other = cell(frame_of(Play()(WRONG)), 0, 1) == (255, 140, 140)
    given = cell(frame_of(Play()), 0, 4) == WHITE
    assert len(drawn) == 2
    assert SOLUTION[0, 4] == WRONG[2] + 1
    assert (other == given).all()


def test_a_person_sees_the_solution_in_grey() -> None:
    image = np.asarray(jax.jit(partial(sudoku.ground_truth_view, ENV))(Play()(SECOND).state, PARAMS))
    assert image.shape == (336, 336, 3)
    frame = image[::4, ::4]
    assert colors(cell(frame, 0, 0)) == {BLACK, (90, 90, 90)}
    assert (cell(frame, 0, 1) == cell(frame_of(Play()(SECOND)), 0, 1)).all()


def test_equal_frames_and_equal_symbols_go_together() -> None:
    moves = [FIRST, SECOND, WRONG, (0, 1, 5), (0, 0, 5), FILLED, (4, 5, 4), (8, 8, 0)]
    plays = [Play(empty)(*order) for empty in (1, 2) for n in range(3) for order in itertools.permutations(moves, n)]
    scenes = [jax.device_get(_scene(play.state)) for play in plays]
    scenes = jax.tree.map(lambda *leaves: np.stack(leaves), *scenes)
    frames, vectors = jax.device_get(jax.jit(jax.vmap(_draw))(scenes))
    pairs = {(frame.tobytes(), vector.tobytes()) for frame, vector in zip(frames, vectors, strict=True)}
    assert len({frame for frame, _ in pairs}) == len({vector for _, vector in pairs}) == len(pairs) > 30
    assert vectors.shape[1] == 840
    assert vectors.min() == 0
    assert vectors.max() == 1
