"""Consecutive episodes from one generator, drawn while they are played, as in the original."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.common import episode_sequence
from jaxgym.envs.mystery_path import game as mystery_path
from jaxgym.errors import LevelError
from tests.parity import memory_gym
from tests.parity.recordings import Recording

TRACES = Path(__file__).parents[1] / "data" / "traces"
ENDLESS = "Endless-SearingSpotlights-v0"
COMMANDS = ("right", "down", "left", "up", "stay", "right_down", "right_up", "left_down", "left_up")
# Of memory-gym 1.0.2: five episodes of one object of each game, of which the first and the fourth have a seed.
SUCCESSIVE = json.loads((TRACES.parent / "successive_episodes.json").read_text())


@functools.cache
def stepping(env: Any) -> Any:
    return jax.jit(lambda state, action, params: env.step_env(jax.random.key(0), state, action, params)[1])


@functools.cache
def started(env: Any) -> Any:
    return jax.jit(lambda level, params: env.reset_to_level(jax.random.key(0), level, params)[1])


def made(env_id: str, **options: Any) -> tuple[Any, Any, Any]:
    """Return a sequence, an environment with capacity for its levels, and the parameters."""
    followed = episode_sequence.of(env_id, **options)
    return followed, *jaxgym.make(env_id, levels="fresh", **{**options, **followed.sizes})


RECORDED = memory_gym.recordings([TRACES], ["ess"])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if "default" in path.name else [pytest.mark.slow]) for path in RECORDED],
)
def test_endless_searing_spotlights_follows_a_recorded_episode_to_its_end(path: Path) -> None:
    recording = Recording.load(path)
    recorded = recording.arrays
    followed, env, params = made(ENDLESS, **recording.meta["options"])
    step = stepping(env)
    level = followed.start(recording.meta["seed"])
    state = followed.follow(env.reset_to_level(jax.random.key(0), level, params)[1])
    for t, action in enumerate(recorded["actions"].astype(np.int32), start=1):
        state = followed.follow(step(state, action, params))
        lights = jax.device_get(state.lights)
        is_lit = lights.is_lit & (np.arange(len(lights.is_lit)) < lights.count)
        drawn = recorded["spot_center"][t][recorded["spot_drawn"][t]]
        assert lights.center_px[is_lit].tolist() == np.trunc(drawn).tolist(), t
        assert state.coin_px.tolist() == recorded["coin_pos"][t].tolist(), t
        assert state.position_px.tolist() == recorded["agent_pos"][t].tolist(), t
        assert int(state.num_collected) == recorded["coins_collected"][t], t
    assert int(state.num_spawned) == len(recorded["spot_radius"])


def layout_of(level: Any) -> list[Any]:
    """Return the layout of a recording of successive episodes."""
    if hasattr(level, "commands"):
        return [COMMANDS[command] for command in level.commands[: level.command_count]]
    if hasattr(level, "segments"):
        tiles = [(number, int(tile)) for number in range(3) for tile in level.segments[number] if tile < 255]
        return [[8 * number + tile // 7, tile % 7] for number, tile in tiles]
    if hasattr(level, "goal_tile"):
        return np.asarray(level.path).tolist()
    speed = level.tracks.speed.high.astype(float) + level.tracks.speed.low
    return [level.start_px.tolist(), level.coins_px[0].tolist(), speed.tolist()]


def is_layout(level: Any, expected: list[Any]) -> bool:
    ours = layout_of(level)
    if hasattr(level, "goal_tile"):
        return (
            ours
            == np.asarray(mystery_path.tile_set(np.asarray(expected, np.int32) @ np.asarray([7, 1], np.int32))).tolist()
        )
    if isinstance(expected[-1], list) and expected and isinstance(expected[-1][0], float):
        return ours[:-1] == expected[:-1] and np.allclose(
            ours[-1][: len(expected[-1])], expected[-1], rtol=0, atol=1e-15
        )
    return ours == expected


@pytest.mark.parametrize(
    "env_id",
    [
        "MortarMayhem-v0",
        "MortarMayhemB-Grid-v0",
        "Endless-MortarMayhem-v0",
        "Endless-MysteryPath-v0",
        "MysteryPath-v0",
        "MysteryPath-Grid-v0",
        "SearingSpotlights-v0",
        ENDLESS,
    ],
)
def test_a_start_without_a_seed_goes_on_where_the_last_episode_left_the_generator(env_id: str) -> None:
    followed, env, params = made(env_id)
    step = stepping(env)
    episodes = [episode for episode in SUCCESSIVE if episode["env"] == env_id]
    assert [episode["seed"] for episode in episodes] == [11, None, None, 12, None]
    for episode in episodes:
        level = followed.start(episode["seed"])
        assert is_layout(level, episode["layout"])
        state = followed.follow(started(env)(level, params)) if episode["actions"] else None
        for action in np.asarray(episode["actions"], np.int32):
            state = followed.follow(step(state, action, params))


def test_a_sequence_starts_at_random_without_a_seed() -> None:
    starts = [tuple(episode_sequence.of("MortarMayhem-Grid-v0").start().commands.tolist()) for _ in range(8)]
    assert len(set(starts)) > 4


def test_a_sequence_is_not_followed_before_it_starts() -> None:
    followed, env, params = made(ENDLESS)
    state = jax.eval_shape(lambda: env.reset(jax.random.key(0), params)[1])
    state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), state)
    with pytest.raises(LevelError, match=r"^Endless-SearingSpotlights-v0: expected start"):
        followed.follow(state)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "3"])
def test_a_seed_outside_of_the_range_is_rejected(seed: Any) -> None:
    with pytest.raises(LevelError, match=r"^level seed: expected integers from 0 to 4294967295, got "):
        episode_sequence.of("MortarMayhem-Grid-v0").start(seed)
