"""Sudoku: fill a grid so that every row, column and box holds each digit once; wrong digits are rejected.

A 9 × 9 grid starts with some given cells and has exactly one solution. An action places a digit in a cell. The digit is
accepted if the cell is empty and the solution has this digit there; otherwise nothing changes. The puzzle is solved
when no cell is empty.

Source: rules of play, numbers of clues and the limit of 100 moves are those of Sudoku in TextArena 0.7.4. Differences:

- A rejected move only costs a turn. In TextArena, the second one in a row ends the game.
- The reward is 1 for a solved puzzle, else 0. In TextArena, an unsolved game pays the share of the empty cells that was
filled; here `info` has this share.
- Puzzles have exactly the requested number of clues (see `jaxgym.envs.sudoku.level`). TextArena removes digits at
random as long as the solution is unique, and rarely reaches 20 clues.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.sudoku import level as puzzles
from jaxgym.envs.sudoku import scene as seen
from jaxgym.envs.sudoku.level import NUM_CELLS, SIZE, Level, is_cell
from jaxgym.envs.sudoku.scene import NUM_TRIED, SudokuOutcome
from jaxgym.options import OBSERVATION, Choices, Flag, IntegerList, Preset, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Discrete, MultiDiscrete

MAX_STEPS = 100

_SOURCE = "TextArena 0.7.4, its ids of Sudoku"

PRESETS: Mapping[str, Preset] = {
    name: Preset({"clues": [clues]}, f"{clues} clues", _SOURCE)
    for name, clues in {"very-easy": 75, "easy": 70, "medium": 40, "hard": 20}.items()
}


@struct.dataclass(kw_only=True)
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        board: Digits 1 to 9, 0 for empty cells, int8 (9, 9).
        last_move: Row, column and digit of the last move, all from 0 to 8, or -1 before the first move, int32 (3,).
        outcome: Outcome of the last move, a `SudokuOutcome`, int32 ().
        tried: The newest ten different moves, see `Scene`, int32 (10,).
        num_rejected: Number of rejected moves, int32 ().
    """

    board: jax.Array
    last_move: jax.Array
    outcome: jax.Array
    tried: jax.Array
    num_rejected: jax.Array = starts_at(0)


@struct.dataclass
class Params(EnvParams):
    """The traced option."""

    clues: Choices = traced(
        IntegerList([60], "cells that are given", low=puzzles.FEWEST_CLUES, high=puzzles.MOST_CLUES)
    )


@dataclasses.dataclass(unsafe_hash=True)
class Sudoku(Environment[Level, State, Params, seen.Scene]):
    """Sudoku.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (840,), see
        `jaxgym.envs.sudoku.scene.symbols`.
    Action:
        Row, column and digit, each from 0 to 8 (digit index 0 is the digit 1); with `flat_actions` one number,
        81 · row + 9 · column + digit.
    Start:
        A puzzle with one solution and a number of given cells that is drawn from `clues`.
    Reward:
        1 when the puzzle is solved, else 0.
    End:
        Terminated when the puzzle is solved. Truncated after `max_steps`: 100 moves.
    Info:
        `reward` and `length` so far, `success` (0 or 1), `filled` (filled share of the cells that were empty at the
        start), `num_rejected` (rejected moves so far).
    Versions:
        v0: the first one.
    """

    observation: str = static(OBSERVATION)
    flat_actions: bool = static(Flag(False, "use one action from 0 to 728 instead of three from 0 to 8"))

    def action_space(self, params: Params | None = None) -> Discrete | MultiDiscrete:
        """Return the space of rows, columns and digits."""
        return Discrete(NUM_CELLS * SIZE) if self.flat_actions else MultiDiscrete((SIZE, SIZE, SIZE))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample a puzzle with one solution."""
        bits = jax.random.bits(key, (1 + puzzles.NUM_BITS,), jnp.uint32)
        return puzzles.make_level(bits[1:], params.clues.pick(bits[0]))

    def initial_state(self, level: Level, params: Params) -> State:
        """Start with the given cells."""
        return State(
            level=level,
            board=level.givens,
            last_move=jnp.full(3, seen.NOWHERE, jnp.int32),
            outcome=jnp.int32(SudokuOutcome.NONE),
            tried=jnp.full(NUM_TRIED, seen.NOWHERE, jnp.int32),
        )

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Place the digit if its cell is empty and the solution has it there; ignore an action outside of the space."""
        move = unflattened(action) if self.flat_actions else action
        is_move = jnp.all((move >= 0) & (move < SIZE))
        outcome = outcome_of(state, move)
        is_placed = is_move & (outcome == SudokuOutcome.PLACED)
        board = jnp.where(is_cell(move[:2]) & is_placed, (move[2] + 1).astype(jnp.int8), state.board)
        after = dataclasses.replace(
            state,
            board=board,
            last_move=jnp.where(is_move, move, state.last_move),
            outcome=jnp.where(is_move, outcome, state.outcome),
            tried=jnp.where(is_move, noted(state.tried, move), state.tried),
            num_rejected=state.num_rejected + (is_move & ~is_placed).astype(jnp.int32),
        )
        num_empty = jnp.sum(board == 0, dtype=jnp.int32)
        is_solved = num_empty == 0
        metrics = {
            "success": is_solved.astype(jnp.int32),
            "filled": 1 - num_empty.astype(jnp.float32) / (NUM_CELLS - state.level.clues).astype(jnp.float32),
            "num_rejected": after.num_rejected,
        }
        return Transition(after, (is_solved & is_placed).astype(jnp.float32), is_solved, metrics)

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene: the board and the last moves."""
        return seen.Scene(
            board=state.board,
            is_given=state.level.givens != 0,
            last_cell=state.last_move[:2],
            outcome=state.outcome,
            wrong_digit=jnp.where(state.outcome == SudokuOutcome.WRONG, state.last_move[2] + 1, 0),
            tried=state.tried,
        )

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return (seen.symbols if self.observation == "symbolic" else seen.draw)(scene)


def unflattened(action: jax.Array) -> jax.Array:
    """Return row, column and digit of a flat action, int32 (3,); an action outside of the space gives a row outside."""
    return jnp.stack([action // NUM_CELLS, action // SIZE % SIZE, action % SIZE])


def outcome_of(state: State, move: jax.Array) -> jax.Array:
    """Return the outcome of a move: it is rejected if its cell is not empty or the solution has another digit."""
    here = is_cell(move[:2])
    is_empty = jnp.any(here & (state.board == 0))
    is_right = jnp.any(here & (state.level.solution == (move[2] + 1).astype(jnp.int8)))
    return jnp.where(is_empty, jnp.where(is_right, SudokuOutcome.PLACED, SudokuOutcome.WRONG), SudokuOutcome.NOT_EMPTY)


def noted(tried: jax.Array, move: jax.Array) -> jax.Array:
    """Return the tried moves with this move in front, removed from its earlier place."""
    number = move[0] * NUM_CELLS + move[1] * SIZE + move[2]
    was_at = jnp.argmax((tried == number).at[-1].set(True))
    place = jnp.arange(NUM_TRIED)
    return jnp.where(place == 0, number, jnp.where(place <= was_at, jnp.roll(tried, 1), tried))


def expert_action(env: Sudoku, state: State, params: Params) -> jax.Array:
    """Return the move that fills the first empty cell; int32 () or (3,)."""
    del params
    cell = jnp.argmax(state.board.reshape(-1) == 0).astype(jnp.int32)
    digit = state.level.solution.reshape(-1)[cell].astype(jnp.int32) - 1
    return SIZE * cell + digit if env.flat_actions else jnp.stack([cell // SIZE, cell % SIZE, digit])


def ground_truth_view(env: Sudoku, state: State, params: Params) -> jax.Array:
    """Return the frame with the solution in gray in empty cells, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(seen.draw_solved(env.scene(state, params), state.level.solution))
