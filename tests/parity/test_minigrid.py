"""The package minigrid and our environments side by side, in a Python environment that has the package."""

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import levels

pytest.importorskip("minigrid")
from minigrid import wrappers

NUM_LEVELS, NUM_PLAYED, NUM_STEPS = 300, 30, 120
IDS = [env_id for env_id in jaxgym.registered_envs() if env_id.startswith("MiniGrid-")]
# Mostly forward, so that some episodes end.
CHANCES = np.asarray([2, 2, 6, 1, 1, 1, 1]) / 14


@pytest.mark.parametrize("env_id", IDS)
def test_levels_are_minigrids(env_id: str) -> None:
    theirs = gymnasium.make(env_id).unwrapped
    env, params = jaxgym.make(env_id)
    buffer = levels.original(env_id, range(NUM_LEVELS))
    worlds = jax.vmap(lambda level: env.initial_state(level, params).world)(buffer)
    for seed in range(NUM_LEVELS):
        theirs.reset(seed=seed)
        kind, color, state = np.moveaxis(theirs.grid.encode().astype(np.uint16), -1, 0)
        np.testing.assert_array_equal(worlds.cells[seed], kind | color << 4 | state << 7)
        assert worlds.position[seed].tolist() == [int(place) for place in theirs.agent_pos]
        assert worlds.direction[seed] == theirs.agent_dir


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("observation", ["symbolic", "one_hot", "pixels", "full_pixels"])
def test_random_episodes_are_minigrids(env_id: str, observation: str) -> None:
    wrap: Any = {
        "symbolic": lambda env: env,
        "one_hot": wrappers.OneHotPartialObsWrapper,
        "pixels": wrappers.RGBImgPartialObsWrapper,
        "full_pixels": wrappers.RGBImgObsWrapper,
    }[observation]
    theirs = wrap(gymnasium.make(env_id, disable_env_checker=True))
    env, params = jaxgym.make(env_id, observation=observation)
    step = jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, params))
    chance = np.random.default_rng(0)
    for seed in range(1000, 1000 + NUM_PLAYED):
        level = jax.tree.map(lambda leaf: leaf[0], levels.original(env_id, [seed]))
        seen, state = env.reset_to_level(jax.random.key(0), level, params)
        expected = theirs.reset(seed=seed)[0]
        for action in chance.choice(len(CHANCES), NUM_STEPS, p=CHANCES):
            image = seen["image"] if isinstance(seen, dict) else seen
            np.testing.assert_array_equal(image, expected["image"])
            assert not isinstance(seen, dict) or seen["direction"] == expected["direction"]
            expected, reward, terminated, truncated, _ = theirs.step(action)
            seen, state, ours, has_ended, _ = step(state, np.int32(action))
            assert (ours, has_ended, env.is_truncated(state, params)) == (np.float32(reward), terminated, truncated)
            if terminated or truncated:
                break
