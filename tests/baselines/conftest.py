"""Recall, a memory game: the agent has to repeat the cue of the first step a few steps later.

    step 0      1     2     3
    sees cue    -     -     go      the action taken on "go" is the answer: reward 1 when it is the cue, then the end

With a time limit below four steps no episode reaches "go", and every one is truncated.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest
from flax import struct
from gymnax.environments import spaces

from baselines.game import TrainingGame

CUES = 3
GO_STEP = 3


@struct.dataclass
class RecallState:
    cue: jax.Array
    time: jax.Array
    reward: jax.Array


@struct.dataclass
class RecallParams:
    max_steps_in_episode: int = 0


@dataclasses.dataclass(frozen=True)
class Recall:
    """Recall with observations float32 (4,), or with `frames` a uint8 (44, 44, 3) image beside them."""

    metric: ClassVar[str] = "success"
    frames: bool = False

    def normalized_return(self, info: dict[str, jax.Array], state: RecallState, params: RecallParams) -> jax.Array:
        del state, params
        return info["success"].astype(jnp.float32)

    def action_space(self, params: RecallParams) -> spaces.Discrete:
        del params
        return spaces.Discrete(CUES)

    def observation_space(self, params: RecallParams) -> spaces.Dict | spaces.Box:
        del params
        vector = spaces.Box(0.0, 1.0, (CUES + 1,))
        frame = spaces.Box(0, 255, (44, 44, 3), jnp.uint8)
        return spaces.Dict({"vector_observation": vector, "visual_observation": frame}) if self.frames else vector

    def reset(self, key: jax.Array, params: RecallParams) -> tuple[Any, RecallState]:
        return self.reset_to_level(key, jax.random.randint(key, (), 0, CUES), params)

    def reset_to_level(self, key: jax.Array, level: jax.Array, params: RecallParams) -> tuple[Any, RecallState]:
        del key, params
        state = RecallState(cue=level, time=jnp.zeros((), jnp.int32), reward=jnp.zeros((), jnp.float32))
        return self.observe(state), state

    def observe(self, state: RecallState) -> Any:
        cue = jax.nn.one_hot(state.cue, CUES) * (state.time == 0).astype(jnp.float32)
        vector = jnp.append(cue, (state.time == GO_STEP).astype(jnp.float32))
        if not self.frames:
            return vector
        image = jnp.zeros((44, 44, 3), jnp.uint8).at[:, :, 0].set((state.time * 50).astype(jnp.uint8))
        return {"vector_observation": vector, "visual_observation": image}

    def step(self, key: jax.Array, state: RecallState, action: jax.Array, params: RecallParams) -> tuple[Any, ...]:
        terminated = state.time == GO_STEP
        reward = jnp.where(terminated & (action == state.cue), 1.0, 0.0)
        after = RecallState(cue=state.cue, time=state.time + 1, reward=state.reward + reward)
        limit = jnp.asarray(params.max_steps_in_episode)
        truncated = (limit > 0) & (after.time >= limit)
        _, fresh = self.reset(key, params)
        kept = jax.tree.map(lambda new, old: jnp.where(terminated | truncated, new, old), fresh, after)
        info = {
            "episode_return": after.reward,
            "episode_length": after.time,
            "success": after.reward > 0,
            "terminated": terminated,
            "truncated": truncated,
            "final_observation": self.observe(after),
        }
        return self.observe(kept), kept, reward, terminated, truncated, info


def make_recall(*, frames: bool = False, max_steps: int = 0) -> TrainingGame:
    levels = jnp.arange(CUES, dtype=jnp.int32)
    return TrainingGame(Recall(frames), RecallParams(max_steps_in_episode=max_steps), levels, levels, "recall")


@pytest.fixture(scope="session")
def recall_game() -> Callable[..., TrainingGame]:
    """Return a function of `frames` and `max_steps` that makes the game."""
    return make_recall
