"""The commands of Mortar Mayhem: order, moves, sampling, and the code of the act-only games.

8   3   6        left-up     up    right-up
2   4   0        left       stay   right
7   1   5        left-down  down   right-down
"""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym.envs.mortar_mayhem import commands

MOVES = {
    "right": (1, 0),
    "down": (0, 1),
    "left": (-1, 0),
    "up": (0, -1),
    "stay": (0, 0),
    "right-down": (1, 1),
    "right-up": (1, -1),
    "left-down": (-1, 1),
    "left-up": (-1, -1),
}
CODE_ORDER = ("stay", "right", "left", "up", "down", "right-down", "right-up", "left-down", "left-up")


def test_the_commands_are_these_nine_in_this_order_with_these_moves() -> None:
    assert tuple(MOVES) == commands.COMMANDS
    assert commands.COMMAND_MOVES.tolist() == [list(move) for move in MOVES.values()]


sample = jax.jit(jax.vmap(commands.sample_commands, in_axes=(0, 0, 0, 0)))


def sample_many(bits: np.ndarray, start: tuple[int, int], arena_size: int, allowed: int) -> np.ndarray:
    """Sample a sequence of four commands for each row of `bits`."""
    count = len(bits)
    starts = np.tile(np.asarray(start, np.int32), (count, 1))
    return np.asarray(sample(bits, starts, np.full(count, arena_size, np.int32), np.full(count, allowed, np.int32)))


def possible(tile: tuple[int, int], arena_size: int, allowed: int) -> list[int]:
    """Return the commands that the rule allows at a tile."""
    places = [(tile[0] + dx, tile[1] + dy) for dx, dy in list(MOVES.values())[:allowed]]
    return [command for command, place in enumerate(places) if all(0 <= x < arena_size for x in place)]


@functools.cache
def all_ranks() -> np.ndarray:
    """Return bits whose first entries are 0 … 359: all remainders by a number of choices are about equally frequent."""
    bits = np.zeros((360, 4), np.uint32)
    bits[:, 0] = np.arange(360)
    return bits


@pytest.mark.parametrize("allowed", [4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("arena_size", [2, 3, 6])
def test_a_command_is_any_allowed_one_that_stays_inside_each_as_often(arena_size: int, allowed: int) -> None:
    edge = arena_size - 1
    for start in {(0, 0), (edge, 0), (0, edge), (edge, edge), (1, 0), (0, 1), (edge, 1), (1, edge), (1, 1)}:
        given_first = sample_many(all_ranks(), start, arena_size, allowed)[:, 0]
        choices = possible(start, arena_size, allowed)
        found, counts = np.unique(given_first, return_counts=True)
        assert found.tolist() == choices
        # Of the numbers of choices, 7 alone does not divide 360.
        assert counts.max() - counts.min() <= 1


@given(
    seed=st.integers(0, 2**32 - 1),
    arena_size=st.integers(2, 6),
    allowed=st.integers(4, 9),
    place=st.tuples(st.integers(0, 5), st.integers(0, 5)),
)
@settings(max_examples=40, deadline=None)
def test_commands_follow_each_other_from_the_commanded_tile_and_stay_inside(
    seed: int, arena_size: int, allowed: int, place: tuple[int, int]
) -> None:
    start = (place[0] % arena_size, place[1] % arena_size)
    bits = np.random.default_rng(seed).integers(0, 2**32, (360, 4), dtype=np.uint32)
    for sequence in sample_many(bits, start, arena_size, allowed)[:20]:
        tile = start
        for command in sequence:
            assert command in possible(tile, arena_size, allowed)
            dx, dy = list(MOVES.values())[command]
            tile = (tile[0] + dx, tile[1] + dy)


@pytest.mark.parametrize("index", range(4))
def test_select_is_the_entry_at_the_index(index: int) -> None:
    assert commands.select(jnp.asarray([3, 8, 0, 7]), jnp.int32(index)) == [3, 8, 0, 7][index]


@pytest.mark.parametrize("index", [4, 10])
def test_beyond_the_last_command_there_is_no_move(index: int) -> None:
    assert commands.move_of(jnp.asarray([0, 0, 0, 0]), jnp.int32(index)).tolist() == [0, 0]


def test_an_empty_slot_is_no_move() -> None:
    assert commands.move_of(jnp.asarray([5, -1]), jnp.int32(1)).tolist() == [0, 0]


@pytest.mark.parametrize("command", range(9))
def test_the_move_of_a_slot_is_that_of_its_command(command: int) -> None:
    move = commands.move_of(jnp.asarray([1, command]), jnp.int32(1))
    assert tuple(move.tolist()) == list(MOVES.values())[command]


@pytest.mark.parametrize("command", range(9))
def test_the_code_of_a_command_has_its_own_order(command: int) -> None:
    code = np.asarray(commands.command_code(jnp.asarray([command], jnp.int32))).reshape(20, 9)
    assert code[0].tolist() == [float(name == list(MOVES)[command]) for name in CODE_ORDER]
    assert not code[1:].any()


def test_the_code_has_20_slots_and_slots_without_command_are_zero() -> None:
    code = commands.command_code(jnp.asarray([4, 1, -1, -1], jnp.int32))
    chex.assert_shape(code, (180,))
    chex.assert_type(code, jnp.float32)
    # Stay is entry 0 of slot 0; down is entry 4 of slot 1.
    assert np.flatnonzero(code).tolist() == [0, 9 + 4]


def test_the_code_of_20_commands_fills_all_slots() -> None:
    code = commands.command_code(jnp.zeros(20, jnp.int32))
    # Right is entry 1.
    assert np.flatnonzero(code).tolist() == [9 * slot + 1 for slot in range(20)]
