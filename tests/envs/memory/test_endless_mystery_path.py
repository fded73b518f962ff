"""Rules of Endless Mystery Path, on a given path.

row 2  ..┌─────S..      segment 0 goes right in row 3, up at column 2, and right in row 2 to column 7;
row 3  ──┘              segment 1 goes on in row 2
column 0 2     7
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.mystery_path import endless as game
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.errors import OptionError

NOTHING, RIGHT, UP, DOWN = range(4)
FIRST = [(0, 3), (1, 3), (2, 3), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (7, 2)]
SECOND = [(column, 2) for column in range(8)]
# A whole tile a step.
WALK = [RIGHT, RIGHT, UP, *[RIGHT] * 5]


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    return jaxgym.make(
        "Endless-MysteryPath-v0",
        agent_speed=12.0,
        stamina_level=10,
        reward_fall_off=-1.0,
        reward_step=0.01,
        max_segments=2,
        max_given_segments=2,
        observation="symbolic",
    )


@pytest.fixture(scope="module")
def step(made: tuple[Any, Any]) -> Any:
    env, params = made

    def stepped(state: Any, action: jax.Array) -> Any:
        _, after, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
        return after, reward, terminated, env.is_truncated(after, params), info

    return jax.jit(stepped)


@pytest.fixture
def start(made: tuple[Any, Any]) -> Any:
    env, params = made
    given = jnp.asarray(np.stack([segments.pack(FIRST), segments.pack(SECOND)]))
    return env.initial_state(
        segments.EndlessMysteryPathLevel(start_row=jnp.int32(3), seed=jnp.uint32(0), segments=given), params
    )


def play(step: Any, state: Any, actions: list[int]) -> Any:
    """Return the result of the last step."""
    for action in actions:
        last = step(state, jnp.int32(action))
        state = last[0]
    return last


def tile(state: Any) -> list[int]:
    return (state.position_px // 12).tolist()


def test_the_agent_starts_in_the_middle_of_the_first_tile_and_heads_right(start: Any) -> None:
    assert start.position_px.tolist() == [6, 42]
    assert start.heading == 6
    assert start.stamina == 10


@pytest.mark.parametrize(
    ("action", "tile_after", "heading"), [(NOTHING, [2, 3], 6), (RIGHT, [3, 3], 6), (UP, [2, 2], 0), (DOWN, [2, 4], 4)]
)
def test_actions_are_nothing_right_up_and_down(
    step: Any, start: Any, action: int, tile_after: list[int], heading: int
) -> None:
    after = play(step, start, [RIGHT, RIGHT, action])[0]
    assert tile(after) == tile_after
    assert after.heading == heading


def test_an_action_outside_of_the_space_does_nothing(step: Any, start: Any) -> None:
    assert [tile(play(step, start, [action])[0]) for action in (4, -1)] == [[0, 3]] * 2


def test_a_tile_pays_once_an_episode_and_the_first_tile_never(step: Any, start: Any) -> None:
    rewards = [float(play(step, start, actions)[1]) for actions in ([NOTHING], [RIGHT], [RIGHT, NOTHING])]
    np.testing.assert_allclose(rewards, [0.01, 0.11, 0.01], rtol=1e-5)
    back = play(step, start, [RIGHT, DOWN, NOTHING, RIGHT])
    np.testing.assert_allclose(back[1], 0.01, rtol=1e-5)
    assert back[0].tiles_visited == 1
    assert tile(back[0]) == [1, 3]


def test_a_fall_pays_its_reward_and_the_next_step_leads_back_whatever_is_done(step: Any, start: Any) -> None:
    fallen = play(step, start, [RIGHT, DOWN])
    np.testing.assert_allclose(fallen[1], -0.99, rtol=1e-5)
    assert (tile(fallen[0]), bool(fallen[0].is_off_path), bool(fallen[2])) == ([1, 4], True, False)
    back = play(step, fallen[0], [RIGHT])[0]
    assert back.position_px.tolist() == start.position_px.tolist()
    assert (bool(back.is_off_path), int(back.num_fails)) == (False, 1)
    # It still heads where it fell to.
    assert back.heading == 4


def test_a_fall_left_of_the_furthest_column_reached_ends_the_episode(step: Any, start: Any) -> None:
    again = [*WALK, DOWN, NOTHING]
    assert not bool(play(step, start, [*again, RIGHT, RIGHT, UP])[2])
    assert bool(play(step, start, [*again, RIGHT, UP])[2])


def test_a_second_fall_onto_the_same_tile_ends_the_episode_and_one_onto_another_does_not(step: Any, start: Any) -> None:
    fall = [RIGHT, DOWN, NOTHING]
    assert bool(play(step, start, [*fall, RIGHT, DOWN])[2])
    assert not bool(play(step, start, [*fall, RIGHT, UP])[2])
    ahead = [RIGHT, RIGHT, RIGHT, NOTHING]
    assert bool(play(step, start, [*ahead, RIGHT, RIGHT, RIGHT])[2])


def test_a_fall_is_remembered_beside_a_column_reached_since(step: Any, start: Any) -> None:
    # It falls onto (3, 3), one column ahead, then reaches column 3 through (3, 2) and falls onto (3, 3) again.
    ahead = [RIGHT, RIGHT, RIGHT, NOTHING]
    reached = play(step, start, [*ahead, RIGHT, RIGHT, UP, RIGHT])
    assert reached[0].max_x == 3
    assert bool(play(step, reached[0], [DOWN])[2])


def test_the_rows_above_and_below_the_screen_are_no_path(step: Any, start: Any) -> None:
    for action, row in ((UP, -1), (DOWN, 7)):
        state = dataclasses.replace(start, position_px=jnp.asarray([6, 6 if action == UP else 78], jnp.int32))
        fallen = play(step, state, [action])[0]
        assert (tile(fallen), bool(fallen.is_off_path)) == ([0, row], True)


def test_stamina_that_is_used_up_ends_the_episode(step: Any, start: Any) -> None:
    # The first tile refreshes it once; that step costs one too.
    assert not bool(play(step, start, [NOTHING] * 9)[2])
    ended = play(step, start, [NOTHING] * 10)
    assert bool(ended[2])
    assert ended[0].stamina == 0


def test_a_tile_refreshes_stamina_once_until_the_next_fall(step: Any, start: Any) -> None:
    assert play(step, start, [NOTHING, NOTHING, RIGHT])[0].stamina == 9
    assert play(step, start, [RIGHT, NOTHING])[0].stamina == 8
    assert play(step, start, [RIGHT, NOTHING, DOWN])[0].stamina == 9
    # The start does so as well, when the fall is over.
    assert play(step, start, [RIGHT, DOWN, NOTHING, NOTHING])[0].stamina == 8
    assert play(step, start, [RIGHT, DOWN, NOTHING, NOTHING, RIGHT])[0].stamina == 9


def test_ground_truth_is_the_way_on_from_the_last_path_tile(step: Any, start: Any) -> None:
    ways = [play(step, start, WALK[:count])[4]["ground_truth"].tolist() for count in (1, 2, 3)]
    assert ways == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    # A fall leaves it.
    assert play(step, start, [*WALK[:2], RIGHT])[4]["ground_truth"].tolist() == [0, 1, 0]
    # From the last tile of a segment the path goes right.
    assert play(step, start, WALK)[4]["ground_truth"].tolist() == [1, 0, 0]


def test_a_way_to_the_left_leaves_the_ground_truth_as_it_was() -> None:
    segment = jnp.asarray(segments.pack([(0, 1), (1, 1), (1, 0), (0, 0)]))
    ways = [int(segments.direction_after(segment, jnp.int32(place), jnp.int32(2))) for place in range(4)]
    assert ways == [0, 1, 2, 0]


def test_the_path_goes_on_in_the_next_segment(step: Any, start: Any) -> None:
    after, _, _, truncated, info = play(step, start, [*WALK, RIGHT])
    assert (int(after.segment), int(info["max_x"]), int(info["tiles_visited"])) == (1, 8, 9)
    assert not bool(truncated)


def test_the_last_tile_of_the_last_segment_truncates(step: Any, start: Any) -> None:
    walk = [*WALK, *[RIGHT] * 8]
    before, _, _, truncated, _ = play(step, start, walk[:-1])
    assert (tile(before), bool(truncated)) == ([14, 2], False)
    after, reward, terminated, truncated, _ = play(step, start, walk)
    assert (tile(after), bool(terminated), bool(truncated)) == ([15, 2], False, True)
    np.testing.assert_allclose(reward, 0.11, rtol=1e-5)


def test_only_the_tiles_before_the_last_one_are_shown_back_to_the_cameras_column(
    made: tuple[Any, Any], step: Any, start: Any
) -> None:
    _, params = made

    def shown(actions: list[int], columns: int) -> list[list[int]]:
        state = play(step, start, actions)[0]
        tiles, is_shown = game.past_tiles(state, dataclasses.replace(params, camera_offset_scale=columns))
        return tiles[is_shown].tolist()

    assert shown(WALK[:4], 5) == [[0, 3], [1, 3], [2, 3], [2, 2]]
    # Of the last column only the tile from which the path leaves it.
    assert shown(WALK[:4], 0) == [[2, 2]]
    assert shown([*WALK, RIGHT, RIGHT], 2) == [[6, 2], [7, 2], [8, 2]]
    assert shown([NOTHING], 5) == []


def test_a_level_that_prescribes_a_segment_goes_on_from_its_end(made: tuple[Any, Any]) -> None:
    _, params = made
    given = jnp.asarray(np.stack([segments.pack(FIRST), np.full(segments.MAX_TILES, segments.NO_TILE, np.uint8)]))
    for seed in range(5):
        level = segments.EndlessMysteryPathLevel(start_row=jnp.int32(3), seed=jnp.uint32(seed), segments=given)
        second = segments.segment_at(level, jnp.int32(1), params.segments)
        third = segments.segment_at(level, jnp.int32(2), params.segments)
        assert int(second[0]) == FIRST[-1][1]
        assert int(third[0]) == int(segments.end_row(second))


def test_environments_share_one_segment_buffer(made: tuple[Any, Any]) -> None:
    env, params = made
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (2, *np.shape(leaf))), params)
    many = dataclasses.replace(many, segments=params.segments, stamina_level=np.asarray([3, 7], np.int32))
    axes = levels.params_axes(many)
    assert axes.segments is None
    _, state = jax.vmap(env.reset, in_axes=(0, axes))(jax.random.split(jax.random.key(0), 2), many)
    assert state.stamina.tolist() == [3, 7]


@pytest.mark.parametrize("level", [1, 3, 7, 10, 19, 20, 27, 100, 1000])
def test_the_bar_loses_the_rows_that_the_original_loses(level: int) -> None:
    rows = game.seen.StaminaTable.of(level).rows
    for stamina in range(level + 1):
        assert np.sum(stamina <= rows) == int(84 * (1 - stamina / level))


@pytest.mark.parametrize("level", [3, 7, 20, 1000])
def test_the_bar_follows_a_stamina_level_that_is_set_in_the_parameters(level: int) -> None:
    _, params = jaxgym.make("Endless-MysteryPath-v0", stamina_level=30)
    params = dataclasses.replace(params, stamina_level=level)
    stamina = np.arange(level + 1)
    red = jax.vmap(params.lost_stamina_px)(jnp.asarray(stamina))
    np.testing.assert_array_equal(red, 84 * (level - stamina) // level)


def test_the_camera_is_that_of_float64() -> None:
    scales = np.concatenate([np.arange(-48, 240) / 24, np.arange(-2000, 9000) / 1000, [-1e9, 1e9]])
    camera = jax.jit(jax.vmap(game.seen.Camera.of))(jnp.asarray(scales, jnp.float32))
    offset = 12 * np.clip(scales, 0, 5.5)
    np.testing.assert_array_equal(camera.offset_px, np.trunc(offset))
    np.testing.assert_array_equal(camera.is_between, offset != np.trunc(offset))
    np.testing.assert_array_equal(camera.cross_offset_px, np.floor(offset + 0.5))
    np.testing.assert_array_equal(camera.past_columns, np.trunc(np.clip(scales, -1024, 1024)))


@pytest.mark.parametrize("stamina", [0, -3])
def test_a_stamina_that_never_runs_out_is_rejected(stamina: int) -> None:
    with pytest.raises(OptionError, match="stamina_level"):
        jaxgym.make("Endless-MysteryPath-v0", stamina_level=stamina)
