"""MiniGrid-Memory: levels, rules, rewards and observations, compared with recordings of the package minigrid."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.minigrid.reward import reward_at
from jaxgym.envs.minigrid.world import Direction, MiniGridAction, Type
from jaxgym.envs.minigrid_memory import game
from jaxgym.errors import LevelError
from tests.envs.minigrid import recorded

IDS = [f"MiniGrid-Memory{name}-v0" for name in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")]
QUICK = ("MiniGrid-MemoryS7-v0", "MiniGrid-MemoryS17Random-v0")
NUM_STEPS, NUM_FRAMES = 150, 8
KEY, BALL = int(Type.KEY), int(Type.BALL)


def by_id(*quick: str) -> list[Any]:
    return [pytest.param(env_id, marks=[] if env_id in quick else [pytest.mark.slow]) for env_id in IDS]


# Levels.


@pytest.mark.parametrize("env_id", IDS)
def test_500_levels_of_the_originals_seeds_are_the_originals(env_id: str) -> None:
    env, params = jaxgym.make(env_id)
    states = jax.vmap(lambda level: env.initial_state(level, params))(levels.original(env_id, range(500)))
    cells, position = np.asarray(states.world.cells), np.asarray(states.world.position)
    counts = np.zeros((env.size, env.size, 5), int)
    for channel, kind in enumerate((Type.DOOR, Type.KEY, Type.BALL, Type.BOX)):
        counts[..., channel] = (cells & 15 == kind).sum(axis=0)
    np.add.at(counts[..., 4], tuple(position.T), 1)
    np.testing.assert_array_equal(counts, recorded.layouts()[env_id])


@pytest.mark.parametrize("env_id", QUICK)
def test_sampled_levels_are_uniform_over_what_the_original_can_draw(env_id: str) -> None:
    env, params = jaxgym.make(env_id)
    count = 40_000
    buffer = levels.make_level_buffer(env, params, levels.train_seeds(count))
    drawn = np.stack([np.asarray(leaf) for leaf in jax.tree.leaves(buffer)], axis=1)
    assert all(np.all(valid) for valid in game.valid_levels(env, buffer, params).values())
    ends = range(4, 15) if env.random_length else [4]
    expected = {
        (end, start, room, upper): count / len(ends) / end / 4
        for end in ends
        for start in range(1, end + 1)
        for room in (KEY, BALL)
        for upper in (KEY, BALL)
    }
    found = dict(zip(*_counted(drawn), strict=True))
    assert found.keys() == expected.keys()
    chi_square = sum((found[level] - mean) ** 2 / mean for level, mean in expected.items())
    freedom = len(expected) - 1
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


def _counted(rows: np.ndarray) -> tuple[list[tuple[int, ...]], list[int]]:
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    return [tuple(row) for row in kinds.tolist()], counts.tolist()


def test_a_buffer_of_another_hallway_is_rejected() -> None:
    buffer = levels.make_level_buffer(*jaxgym.make("MiniGrid-MemoryS17Random-v0"), levels.train_seeds(64))
    with pytest.raises(LevelError, match=r"^MiniGrid-MemoryS13-v0: expected a level buffer of these options, got "):
        jaxgym.make("MiniGrid-MemoryS13-v0", levels=buffer)


# Recordings.


@functools.cache
def replay(env_id: str) -> Any:
    """Return a program from level, actions and times to the results of all steps, and frames at these times."""
    env, params = jaxgym.make(env_id, observation="symbolic")
    pixels, whole = (jaxgym.make(env_id, observation=name)[0] for name in ("pixels", "full_pixels"))

    @jax.jit
    def run(level: Any, actions: jax.Array, times: jax.Array) -> Any:
        seen, state = env.reset_to_level(jax.random.key(0), level, params)

        def step(state: Any, action: jax.Array) -> Any:
            seen, after, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
            return after, (seen, after, reward, terminated, env.is_truncated(after, params), info)

        later, states, *rest = jax.lax.scan(step, state, actions)[1]
        join = functools.partial(jax.tree.map, lambda first, after: jnp.concatenate([first[None], after]))
        states = join(state, states)
        shown = jax.tree.map(lambda leaf: leaf[times], states)
        frames = [
            jax.vmap(lambda state, drawn=drawn: drawn.observe_scene(state.world))(shown) for drawn in (pixels, whole)
        ]
        return join(seen, later), states, rest, frames

    return run


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith(("MemoryS7", "MemoryS17")) else [pytest.mark.slow])
        for name in recorded.names("Memory")
    ],
)
def test_recorded_episodes(name: str) -> None:
    arrays, meta = recorded.load(name)
    env_id, num_steps = meta["id"], len(arrays["actions"])
    level = jax.tree.map(lambda leaf: leaf[0], levels.original(env_id, [meta["seed"]]))
    actions = np.full(NUM_STEPS, MiniGridAction.DONE, np.int32)
    actions[:num_steps] = arrays["actions"]
    times = np.resize(arrays["pov_t"], NUM_FRAMES).astype(np.int32)
    seen, states, results, (views, grids) = jax.device_get(replay(env_id)(level, actions, times))
    reward, terminated, truncated, info = jax.tree.map(lambda leaf: leaf[:num_steps], results)
    np.testing.assert_array_equal(seen["image"][: num_steps + 1], arrays["image"])
    np.testing.assert_array_equal(seen["direction"][: num_steps + 1], arrays["agent_dir"])
    np.testing.assert_array_equal(states.world.position[: num_steps + 1], arrays["agent_pos"])
    np.testing.assert_array_equal(reward, arrays["reward"].astype(np.float32))
    np.testing.assert_array_equal(terminated, arrays["terminated"])
    np.testing.assert_array_equal(truncated, arrays["truncated"])
    assert info["success"][-1] == meta["success"]
    np.testing.assert_array_equal(views[: len(arrays["pov_t"])], arrays["pov8"][:NUM_FRAMES])
    assert arrays["full_t"].tolist() == [0]
    np.testing.assert_array_equal(grids[0], arrays["full8"][0])
    assert jaxgym.make(env_id)[1].max_steps_in_episode == meta["max_steps"]


def test_frames_with_tiles_of_32_px_are_the_originals() -> None:
    arrays, meta = recorded.load("MemoryS7__s200__goal")
    level = jax.tree.map(lambda leaf: leaf[0], levels.original(meta["id"], [meta["seed"]]))
    for observation, name in (("pixels", "pov32"), ("full_pixels", "full32")):
        env, params = jaxgym.make(meta["id"], observation=observation, tile_size=32)
        seen, _ = env.reset_to_level(jax.random.key(0), level, params)
        np.testing.assert_array_equal(seen, arrays[name])


# Rules: hallway end, start, object in the room, object above the end.


def played(level: tuple[int, ...], actions: list[int], **options: Any) -> tuple[Any, list[float], bool, bool, Any]:
    """Return state, rewards, flags and info of an episode in the smallest grid."""
    env, params = jaxgym.make("MiniGrid-MemoryS7-v0", observation="symbolic", **options)
    state = env.initial_state(game.Level(*map(jnp.int32, level)), params)
    rewards, terminated, info = list[float](), False, dict[str, Any]()
    for action in actions:
        _, state, reward, terminated, info = step(env, state, jnp.int32(action), params)
        rewards.append(float(reward))
    return state, rewards, bool(terminated), bool(env.is_truncated(state, params)), info


@functools.partial(jax.jit, static_argnames=("env",))
def step(env: Any, state: Any, action: jax.Array, params: Any) -> Any:
    return env.step_env(jax.random.key(0), state, action, params)


LEFT, RIGHT, FORWARD = MiniGridAction.LEFT, MiniGridAction.RIGHT, MiniGridAction.FORWARD
TO_THE_END = [FORWARD] * 2
UP, DOWN = [LEFT, FORWARD], [RIGHT, FORWARD]


@pytest.mark.parametrize(
    ("objects", "way", "success"),
    [((KEY, KEY), UP, 1), ((KEY, KEY), DOWN, 0), ((BALL, KEY), UP, 0), ((BALL, KEY), DOWN, 1), ((BALL, BALL), UP, 1)],
)
def test_the_episode_ends_next_to_either_object(objects: tuple[int, int], way: list[int], success: int) -> None:
    _, rewards, terminated, truncated, info = played((4, 3, *objects), TO_THE_END + way)
    assert rewards == [0, 0, 0, pytest.approx(success * (1 - 0.9 * 4 / 245))]
    assert (terminated, truncated, int(info["success"])) == (True, False, success)


def test_success_in_the_last_step_is_terminated_and_truncated() -> None:
    _, rewards, terminated, truncated, _ = played((4, 3, KEY, KEY), TO_THE_END + UP, max_steps=4)
    assert (rewards[-1], terminated, truncated) == (pytest.approx(0.1), True, True)


def test_without_a_time_limit_success_has_reward_1() -> None:
    assert played((4, 3, KEY, KEY), TO_THE_END + UP, max_steps=0)[1][-1] == 1


def test_nothing_can_be_taken() -> None:
    actions = [LEFT, MiniGridAction.PICKUP, MiniGridAction.TOGGLE, MiniGridAction.DROP, FORWARD]
    state, *_ = played((4, 1, KEY, KEY), actions)
    start = played((4, 1, KEY, KEY), [])[0]
    np.testing.assert_array_equal(state.world.cells, start.world.cells)
    assert state.world.position.tolist() == [1, 3]


def test_every_reward_is_the_originals_rounded_to_float32() -> None:
    rewards = jax.jit(jax.vmap(reward_at, (0, None)))
    times = np.arange(1, 4609, dtype=np.int32)
    for limit in (3, 245, 405, 605, 845, 1445, 4608):
        expected = (1 - 0.9 * (times / limit)).astype(np.float32)
        np.testing.assert_array_equal(rewards(times, jnp.int32(limit))[:limit], expected[:limit])


def test_the_expert_has_a_normalized_return_of_1() -> None:
    env, params = jaxgym.make("MiniGrid-MemoryS17Random-v0", observation="symbolic")
    expert = jaxgym.spec_of(env.env_id).expert
    assert expert is not None

    @jax.jit
    @jax.vmap
    def play(level: game.Level) -> tuple[jax.Array, jax.Array]:
        def advance(carry: Any) -> Any:
            _, state, _, _, info = env.step_env(jax.random.key(0), carry[0], expert(env, carry[0], params), params)
            return state, info

        state = env.initial_state(level, params)
        info = {"episode_return": jnp.float32(0), "episode_length": jnp.int32(0), "success": jnp.int32(0)}
        state, info = jax.lax.while_loop(lambda carry: ~carry[0].terminated, advance, (state, info))
        return env.normalized_return(info, state, params), info["success"]

    normalized, success = play(levels.make_level_buffer(env, params, levels.held_out_seeds(100)))
    assert success.tolist() == [1] * 100
    np.testing.assert_allclose(normalized, 1, rtol=1e-6)


# Observations.


def test_the_one_hot_image_has_the_content_of_the_image() -> None:
    (plain, params), (hot, _) = (
        jaxgym.make("MiniGrid-MemoryS13-v0", observation=name) for name in ("symbolic", "one_hot")
    )
    one, other = (env.reset(jax.random.key(3), params)[0] for env in (plain, hot))
    assert one["direction"] == other["direction"]
    parts = np.split(np.asarray(other["image"]), [11, 17], axis=-1)
    assert all((part.sum(axis=-1) == 1).all() for part in parts)
    np.testing.assert_array_equal(np.stack([part.argmax(axis=-1) for part in parts], axis=-1), one["image"])


def test_in_long_hallways_the_object_in_the_room_is_not_visible_from_the_crossing() -> None:
    env, params = jaxgym.make("MiniGrid-MemoryS17Random-v0", observation="symbolic")

    def image_of(end: jax.Array, room: jax.Array, x: jax.Array, direction: jax.Array) -> jax.Array:
        state = env.initial_state(game.Level(end, jnp.int32(1), room, jnp.int32(KEY)), params)
        world = dataclasses.replace(state.world, position=state.world.position.at[0].set(x), direction=direction)
        return env.observe_scene(world)["image"]

    places = [(end, x, heading) for end in range(4, 15) for x in range(1, end + 2) for heading in Direction]
    ends, columns, headings = jnp.asarray(places, jnp.int32).T
    images = jax.jit(jax.vmap(image_of, (0, None, 0, 0)))
    with_key, with_ball = (np.asarray(images(ends, jnp.int32(kind), columns, headings)) for kind in (KEY, BALL))
    is_visible = np.any(with_key != with_ball, axis=(1, 2, 3))
    visible = {place for place, seen in zip(places, is_visible, strict=True) if seen}
    at_the_crossing = {(end, heading) for end, x, heading in visible if x == end + 1}
    assert at_the_crossing == {(end, Direction.LEFT) for end in (4, 5, 6)}
    assert {x for end, x, _ in visible if end > 6} == set(range(1, 8))
