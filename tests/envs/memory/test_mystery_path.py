"""Rules of Mystery Path, free and on a grid, one test per rule.

column   0 1 2 3 4 5 6
row 2    . . . # # . .       the path of these tests: from the start S (0, 3)
row 3    S # # # . # G       over the hump at (3, 2), (4, 2), (5, 2) to the goal G (6, 3)
"""

import dataclasses
from itertools import pairwise
from typing import Any, ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxgym
from jaxgym import levels
from jaxgym.envs.memory_gym.arena import Heading
from jaxgym.envs.mystery_path import game
from jaxgym.errors import OptionError

START, GOAL = (0, 3), (6, 3)
PATH = [START, (1, 3), (2, 3), (3, 3), (3, 2), (4, 2), (5, 2), (5, 3), GOAL]
STAY, RIGHT, UP, DOWN = (0, 0), (2, 0), (0, 1), (0, 2)
NOTHING, TURN_LEFT, TURN_RIGHT, FORWARD = range(4)
REWARDS = {"reward_goal": 4.0, "reward_fall_off": -2.0, "reward_path_progress": 0.5, "reward_step": 0.25}
RANDOM_EPISODES = {"MysteryPath-v0": 200, "MysteryPath-Grid-v0": 400}
IDS = tuple(RANDOM_EPISODES)


def level_of(path: list[tuple[int, int]]) -> game.Level:
    tiles = np.asarray(path, np.int32)
    return game.Level(jnp.asarray(tiles[0]), jnp.asarray(tiles[-1]), game.tile_set(tiles[:, 0] * 7 + tiles[:, 1]))


class Play:
    """An episode in the level above, step by step; the compiled step is shared, since options are traced."""

    steps: ClassVar[dict[Any, Any]] = {}

    def __init__(self, env_id: str, path: list[tuple[int, int]] = PATH, **options: Any) -> None:
        self.env, self.params = jaxgym.make(env_id, levels="fresh", **options)
        level = level_of(path)
        self.params = dataclasses.replace(self.params, levels=jax.tree.map(lambda leaf: leaf[None], level))
        self.state = self.env.initial_state(level, self.params)
        self.results: list[tuple[float, bool, bool, dict[str, Any]]] = []
        # Without auto-reset, but with the time limit.
        self.step = self.steps.setdefault(self.env, jax.jit(self._step))

    def _step(self, state: Any, action: jax.Array, params: Any) -> Any:
        made = self.env.step_env(jax.random.key(0), state, action, params)
        scene = self.env.scene(made[1], params)
        return made[1:], self.env.is_truncated(made[1], params), scene.has_cross

    def __call__(self, *actions: Any) -> "Play":
        for action in actions:
            made = self.step(self.state, jnp.asarray(action, jnp.int32), self.params)
            (self.state, reward, terminated, info), truncated, self.has_cross = made
            self.results.append((float(reward), bool(terminated), bool(truncated), info))
        return self

    @property
    def rewards(self) -> list[float]:
        return [reward for reward, *_ in self.results]

    @property
    def tile(self) -> tuple[int, ...]:
        return tuple((self.state.position_px // 12).tolist())

    @property
    def last(self) -> dict[str, Any]:
        return self.results[-1][3]


def walk(play: Play, path: list[tuple[int, int]]) -> Play:
    """Walk a free agent from center to center: a tile is four steps of 3 px."""
    for (x, y), (next_x, next_y) in pairwise(path):
        # 1 for a lower x or y, 2 for a higher one.
        play(*[((x - next_x) % 3, (y - next_y) % 3)] * 4)
    return play


# Start.


@pytest.mark.parametrize("env_id", IDS)
def test_the_agent_starts_in_the_middle_of_the_start_tile_heading_up(env_id: str) -> None:
    play = Play(env_id)
    assert play.state.position_px.tolist() == [6, 42]
    assert int(play.state.heading) == Heading.UP


@pytest.mark.parametrize(("side", "axis", "start"), [(0, 0, 0), (1, 0, 6), (2, 1, 0), (3, 1, 6)])
def test_the_start_is_on_a_chosen_side_and_the_goal_on_the_opposite_one(side: int, axis: int, start: int) -> None:
    _, params = jaxgym.make("MysteryPath-Grid-v0", cardinal_origin_choice=[side], levels=64)
    buffer = params.levels
    assert set(np.asarray(buffer.start_tile)[:, axis].tolist()) == {start}
    assert set(np.asarray(buffer.goal_tile)[:, axis].tolist()) == {6 - start}
    assert set(np.asarray(buffer.start_tile)[:, 1 - axis].tolist()) == set(range(7))


def test_all_sides_are_chosen_by_default_and_none_but_those_given() -> None:
    for choice in ([0, 1, 2, 3], [1, 2]):
        starts = np.asarray(
            jaxgym.make("MysteryPath-Grid-v0", cardinal_origin_choice=choice, levels=64)[1].levels.start_tile
        )
        inner = starts[((starts > 0) & (starts < 6)).any(axis=1)]
        sides = {(0, 0): 0, (0, 6): 1, (1, 0): 2, (1, 6): 3}
        seen = {sides[axis, tile[axis]] for tile in inner.tolist() for axis in (0, 1) if tile[axis] in (0, 6)}
        assert seen == set(choice)


def test_a_side_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(OptionError, match="cardinal_origin_choice"):
        jaxgym.make("MysteryPath-v0", cardinal_origin_choice=[4])


# Rewards and the end.


def test_a_free_agent_earns_each_path_tile_once_and_the_goal() -> None:
    play = walk(Play("MysteryPath-v0"), PATH[:-1])(RIGHT, RIGHT)
    earned = [reward for reward in play.rewards if reward]
    np.testing.assert_allclose(earned, [0.1] * 7 + [1.0], rtol=1e-6)
    assert [terminated for _, terminated, *_ in play.results] == [False] * (len(play.rewards) - 1) + [True]
    assert (int(play.last["success"]), int(play.last["num_fails"])) == (1, 0)
    np.testing.assert_allclose(play.last["episode_return"], 1.7, rtol=1e-6)


def test_the_grid_game_pays_the_goal_only() -> None:
    play = Play("MysteryPath-Grid-v0", [START, (1, 3), (2, 3)])(TURN_RIGHT, FORWARD, FORWARD)
    assert play.rewards == [0.0, 0.0, 1.0]
    assert play.results[-1][1]


def test_every_reward_is_an_option_and_they_add_up() -> None:
    path = [START, (1, 3), (2, 3)]
    play = Play("MysteryPath-Grid-v0", path, **REWARDS)
    play(TURN_RIGHT, FORWARD, TURN_LEFT, FORWARD, NOTHING, TURN_RIGHT, FORWARD, FORWARD)
    # Step; progress; step; fall; back at the start; turned; a tile seen before; goal.
    assert play.rewards == [0.25, 0.75, 0.25, -1.75, 0.25, 0.25, 0.25, 4.25]


def test_start_and_goal_pay_no_progress() -> None:
    play = Play("MysteryPath-Grid-v0", reward_path_progress=1.0)(TURN_RIGHT, FORWARD, TURN_RIGHT, TURN_RIGHT, FORWARD)
    assert (play.tile, play.rewards) == (START, [0.0, 1.0, 0.0, 0.0, 0.0])


def test_a_tile_pays_once_even_after_a_fall() -> None:
    play = Play("MysteryPath-Grid-v0", reward_path_progress=1.0)(TURN_RIGHT, FORWARD, TURN_LEFT, FORWARD, NOTHING)
    assert play(TURN_RIGHT, FORWARD).tile == (1, 3)
    assert sum(play.rewards) == 1.0


# Falls.


@pytest.mark.parametrize(
    ("env_id", "actions", "wasted"),
    [("MysteryPath-v0", [UP, UP, UP], DOWN), ("MysteryPath-Grid-v0", [FORWARD], TURN_LEFT)],
)
def test_a_fall_ends_nothing_and_the_next_action_is_ignored(env_id: str, actions: list[Any], wasted: Any) -> None:
    play = Play(env_id, reward_fall_off=-1.0)
    play(*actions[:-1])
    assert play.tile == START
    play(actions[-1])
    assert (play.tile, bool(play.has_cross), int(play.last["num_fails"])) == ((0, 2), True, 1)
    assert (play.rewards[-1], *play.results[-1][1:3]) == (-1.0, False, False)
    play(wasted)
    assert play.state.position_px.tolist() == [6, 42]
    assert int(play.state.heading) == Heading.UP
    assert (bool(play.has_cross), int(play.last["num_fails"]), play.rewards[-1]) == (False, 1, 0.0)


def test_a_fallen_agent_keeps_its_heading() -> None:
    play = Play("MysteryPath-v0")(DOWN, DOWN, RIGHT)
    assert (play.state.position_px.tolist(), int(play.state.heading)) == ([6, 42], Heading.DOWN)


def test_every_fall_counts() -> None:
    play = Play("MysteryPath-Grid-v0")(*[FORWARD, NOTHING] * 3)
    assert [int(info["num_fails"]) for *_, info in play.results] == [1, 1, 2, 2, 3, 3]


def test_without_visual_feedback_there_is_no_cross() -> None:
    play = Play("MysteryPath-Grid-v0", visual_feedback=False)(FORWARD)
    assert (bool(play.state.is_off_path), bool(play.has_cross)) == (True, False)


# Time.


@pytest.mark.parametrize(("env_id", "limit"), [("MysteryPath-v0", 512), ("MysteryPath-Grid-v0", 128)])
def test_the_time_limit_truncates(env_id: str, limit: int) -> None:
    play = Play(env_id)
    assert int(play.params.max_steps_in_episode) == limit
    still = np.zeros(play.env.action_space().shape, np.int32)
    play.state = dataclasses.replace(play.state, time=jnp.int32(limit - 2))
    play(still, still)
    assert [result[1:3] for result in play.results] == [(False, False), (False, True)]
    assert int(play.last["success"]) == 0


def test_the_goal_in_the_last_step_is_a_success_and_both_flags_are_true() -> None:
    play = Play("MysteryPath-Grid-v0", [START, (1, 3)], max_steps=2)(TURN_RIGHT, FORWARD)
    assert (play.results[-1][:3], int(play.last["success"])) == ((1.0, True, True), 1)


# Movement.


def test_a_free_agent_stays_within_the_screen() -> None:
    everywhere = [(column, row) for column in range(7) for row in range(7)]
    play = Play("MysteryPath-v0", [START, *everywhere, GOAL], agent_speed=50.0)
    assert play((1, 1)).state.position_px.tolist() == [6, 7]
    assert play((1, 1)).state.position_px.tolist() == [6, 6]
    assert play((0, 2), (0, 2)).state.position_px.tolist() == [6, 78]
    assert play((2, 0), (2, 0)).state.position_px.tolist() == [78, 78]


def test_a_grid_agent_stays_on_the_grid() -> None:
    play = Play("MysteryPath-Grid-v0")(TURN_LEFT, FORWARD)
    assert (play.tile, int(play.state.heading)) == (START, Heading.LEFT)


def test_flat_actions_are_three_times_horizontal_plus_vertical() -> None:
    flat, pairs = Play("MysteryPath-v0", flat_actions=True), Play("MysteryPath-v0")
    for action in (6, 7, 3, 0, 8):
        flat(action)
        pairs((action // 3, action % 3))
        assert flat.state.position_px.tolist() == pairs.state.position_px.tolist()


def test_the_size_of_the_agent_has_no_effect_in_the_grid_game() -> None:
    assert jaxgym.make("MysteryPath-Grid-v0", agent_scale=1.0, levels="fresh")[0] == Play("MysteryPath-Grid-v0").env


@pytest.mark.parametrize(
    ("scale", "low", "high"), [(0.04, 0, 6), (0.25, 0, 6), (0.47, 0, 6), (0.48, 1, 6), (0.51, 1, 6), (0.52, 1, 5)]
)
def test_a_large_agent_can_not_reach_the_outermost_tiles(scale: float, low: int, high: int) -> None:
    env, params = jaxgym.make("MysteryPath-v0", agent_scale=scale, agent_speed=84.0, levels="fresh")
    state = env.initial_state(level_of(PATH), params)
    for direction, tile in ((1, low), (2, high)):
        state = env.move(state, jnp.asarray([direction, 0]), params)
        assert int(state.position_px[0]) // 12 == tile


def test_a_large_agent_starts_at_the_corner_of_its_tile_and_is_moved_into_the_screen() -> None:
    env, params = jaxgym.make("MysteryPath-v0", agent_scale=1.0, levels="fresh")
    state = env.initial_state(level_of([(6, 6), (0, 0)]), params)
    assert state.position_px.tolist() == [97, 97]
    assert env.move(state, jnp.asarray([0, 0]), params).position_px.tolist() == [59, 59]
    fallen = dataclasses.replace(state, is_off_path=jnp.bool_(True))
    assert env.move(fallen, jnp.asarray([1, 1]), params).position_px.tolist() == [59, 59]


# Levels.


def test_the_set_of_a_path_holds_its_tiles_and_no_other() -> None:
    words = np.asarray(game.tile_set(np.asarray([0, 31, 32, 48, -1, -1], np.int32)))
    assert words.tolist() == [1 | 1 << 31, 1 | 1 << 16]
    assert game.only(jnp.asarray([7, 0])).tolist() == game.only(jnp.asarray([0, -1])).tolist() == [0, 0]


@pytest.mark.slow
def test_by_default_both_games_draw_from_the_first_100_000_training_levels() -> None:
    env, params = jaxgym.make("MysteryPath-v0")
    _, again = jaxgym.make("MysteryPath-Grid-v0", reward_goal=2.0, max_steps=9)
    assert again.levels is params.levels
    assert levels.num_levels(params.levels) == 100_000
    for place in (0, 99_999):
        level = levels.level_from_seed(env, levels.train_seeds(1, place)[0], params)
        buffered = jax.tree.map(lambda stack, place=place: stack[place], params.levels)
        chex.assert_trees_all_equal(buffered, level)


def test_levels_may_be_fresh_or_fewer() -> None:
    assert jaxgym.make("MysteryPath-v0", levels="fresh")[1].levels is None
    assert levels.num_levels(jaxgym.make("MysteryPath-Grid-v0", levels=64)[1].levels) == 64


# How a random policy fares: mean and standard deviation of the original over as many episodes.


@pytest.mark.parametrize(
    ("env_id", "returns", "fails"),
    [("MysteryPath-v0", (0.225, 0.078), 31.4), ("MysteryPath-Grid-v0", (0.005, 0.071), 12.5)],
)
@pytest.mark.slow
def test_random_agents_fare_as_in_the_original(env_id: str, returns: tuple[float, float], fails: float) -> None:
    env, params = jaxgym.make(env_id, observation="symbolic")
    episodes, theirs = 1_000, RANDOM_EPISODES[env_id]
    steps = int(params.max_steps_in_episode)

    @jax.jit
    @jax.vmap
    def play(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_reset, key_actions = jax.random.split(key)
        state = env.initial_state(levels.draw(env, key_reset, params)[0], params)
        space = env.action_space(params)
        actions = jax.vmap(space.sample)(jax.random.split(key_actions, steps))

        def step(carry: Any, action: jax.Array) -> tuple[Any, None]:
            state, is_on, total = carry
            made = env.transition(state, action, params)
            total += jnp.where(is_on, made.reward, 0.0)
            following = jax.tree.map(lambda old, new: jnp.where(is_on, new, old), state, made.state)
            return (following, is_on & ~made.terminated, total), None

        (state, _, total), _ = jax.lax.scan(step, (state, jnp.bool_(True), jnp.float32(0.0)), actions)
        return total, state.num_fails

    total, num_fails = jax.device_get(play(jax.random.split(jax.random.key(0), episodes)))
    spread = np.hypot(returns[1] / np.sqrt(theirs), total.std() / np.sqrt(episodes))
    assert abs(total.mean() - returns[0]) < stats.norm.isf(1e-4) * spread
    # The spread of the original's falls is not known; it is taken to be ours.
    assert abs(num_fails.mean() - fails) < stats.norm.isf(1e-4) * num_fails.std() * np.sqrt(1 / theirs + 1 / episodes)
