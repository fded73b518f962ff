"""Movement of the memory games: headings, free steps, clamping, turns and tiles.

Headings count eighths of a turn, counter-clockwise from up:

        1   0   7
          \\ | /
        2 - + - 6
          / | \\
        3   4   5
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.memory_gym.arena import GridAction, Heading

AROUND = {1: (-1, -1), 0: (0, -1), 7: (1, -1), 2: (-1, 0), 6: (1, 0), 3: (-1, 1), 4: (0, 1), 5: (1, 1)}


def pair(x: int, y: int) -> jax.Array:
    return jax.numpy.asarray([x, y], jax.numpy.int32)


def one(number: int) -> jax.Array:
    return jax.numpy.int32(number)


@pytest.mark.parametrize(
    ("action", "direction"),
    [
        ((0, 0), (0, 0)),
        ((1, 0), (-1, 0)),
        ((2, 0), (1, 0)),
        ((0, 1), (0, -1)),
        ((0, 2), (0, 1)),
        ((1, 1), (-1, -1)),
        ((2, 2), (1, 1)),
        ((2, 1), (1, -1)),
        ((1, 2), (-1, 1)),
    ],
)
def test_a_free_action_is_horizontal_then_vertical_and_1_is_left_or_up(
    action: tuple[int, int], direction: tuple[int, int]
) -> None:
    assert arena.direction_of(pair(*action)).tolist() == list(direction)


@pytest.mark.parametrize("action", [(3, 0), (0, -1), (-2, 7)])
def test_an_entry_outside_of_0_to_2_does_not_move(action: tuple[int, int]) -> None:
    assert arena.direction_of(pair(*action)).tolist() == [0, 0]


@pytest.mark.parametrize("flat", range(9))
def test_a_flat_action_is_3_times_horizontal_plus_vertical(flat: int) -> None:
    horizontal, vertical = arena.free_action(one(flat)).tolist()
    assert 3 * horizontal + vertical == flat
    assert max(horizontal, vertical) < 3


@pytest.mark.parametrize("flat", [-1, -9, 9, 27])
def test_a_flat_action_outside_of_0_to_8_is_the_null_action(flat: int) -> None:
    assert arena.free_action(one(flat)).tolist() == [0, 0]


@pytest.mark.parametrize(("heading", "direction"), AROUND.items())
def test_the_heading_of_a_movement_is_its_direction(heading: int, direction: tuple[int, int]) -> None:
    for before in range(8):
        assert arena.heading_of(pair(*direction), one(before)) == heading


@pytest.mark.parametrize("heading", range(8))
def test_without_movement_the_heading_stays(heading: int) -> None:
    assert arena.heading_of(pair(0, 0), one(heading)) == heading


def test_the_named_headings_are_0_90_180_and_270_degrees() -> None:
    degrees = {heading.name: heading * arena.HEADING_DEGREES for heading in Heading}
    assert degrees == {"UP": 0, "LEFT": 90, "DOWN": 180, "RIGHT": 270}


@pytest.mark.parametrize(
    ("speed", "straight", "diagonal"),
    [(2.5, 2, 1), (3.0, 3, 2), (4.0, 4, 2), (5.0, 5, 3), (0.0, 0, 0), (0.9, 0, 0), (1.0, 1, 0), (8.0, 8, 5)],
)
@pytest.mark.parametrize("direction", AROUND.values())
def test_a_free_step_is_the_speed_along_the_direction_cut_towards_zero(
    direction: tuple[int, int], speed: float, straight: int, diagonal: int
) -> None:
    length = diagonal if all(direction) else straight
    displacement = arena.free_displacement_px(pair(*direction), jax.numpy.float32(speed))
    assert displacement.tolist() == [length * direction[0], length * direction[1]]


def test_without_direction_there_is_no_step() -> None:
    assert arena.free_displacement_px(pair(0, 0), jax.numpy.float32(5.0)).tolist() == [0, 0]


@pytest.mark.parametrize(("scale", "radius"), [(0.04, 1), (0.1, 2), (0.25, 6), (0.5, 12), (1.0, 25)])
def test_the_radius_is_25_times_the_scale_cut_to_whole_px(scale: float, radius: int) -> None:
    assert arena.agent_radius(scale) == radius


@given(position=st.tuples(st.integers(-50, 150), st.integers(-50, 150)))
@settings(max_examples=30, deadline=None)
def test_clamping_moves_no_further_than_to_the_bounds_both_included(position: tuple[int, int]) -> None:
    expected = np.clip(position, 13, 71)
    assert arena.clamp_px(pair(*position), 13, 71).tolist() == expected.tolist()


def test_where_the_agent_does_not_fit_the_low_bound_wins() -> None:
    assert arena.clamp_px(pair(40, 60), 53, 31).tolist() == [53, 53]


@pytest.mark.parametrize("heading", [0, 2, 4, 6])
def test_a_turn_is_a_quarter_counter_clockwise_to_the_left_and_clockwise_to_the_right(heading: int) -> None:
    assert arena.turn(one(heading), one(GridAction.TURN_LEFT)) == (heading + 2) % 8
    assert arena.turn(one(heading), one(GridAction.TURN_RIGHT)) == (heading - 2) % 8


@pytest.mark.parametrize("action", [GridAction.NOTHING, GridAction.FORWARD, -1, 4])
def test_no_other_action_turns(action: int) -> None:
    assert arena.turn(one(2), one(action)) == 2


@pytest.mark.parametrize("heading", AROUND)
def test_forward_goes_one_tile_along_the_heading(heading: int) -> None:
    cell = arena.step_forward(pair(2, 3), one(heading), one(GridAction.FORWARD), one(5))
    assert cell.tolist() == [2 + AROUND[heading][0], 3 + AROUND[heading][1]]


@pytest.mark.parametrize("action", [GridAction.NOTHING, GridAction.TURN_LEFT, GridAction.TURN_RIGHT, -1, 4])
def test_no_other_action_goes_forward(action: int) -> None:
    assert arena.step_forward(pair(2, 3), one(0), one(action), one(5)).tolist() == [2, 3]


@pytest.mark.parametrize("size", [2, 5, 7])
@pytest.mark.parametrize(
    ("heading", "column", "row"), [(0, 1, 0), (2, 0, 1), (4, 1, -1), (6, -1, 1), (1, 0, 1), (5, -1, 0)]
)
def test_forward_does_not_leave_the_grid(heading: int, column: int, row: int, size: int) -> None:
    cell = [column % size, row % size]
    assert arena.step_forward(pair(*cell), one(heading), one(GridAction.FORWARD), one(size)).tolist() == cell
