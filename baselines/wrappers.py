"""Environments as an agent sees them when it is shown more than the game shows."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from baselines.losses import Sizes


@struct.dataclass
class LastState:
    """State of the wrapped environment, and what was done and given last."""

    inner: Any
    last: jax.Array  # float32 (n_1 + ... + n_K + 1,)

    @property
    def level(self) -> Any:
        """The level of the wrapped environment's state."""
        return self.inner.level


@dataclasses.dataclass(frozen=True)
class LastActionReward:
    """An environment whose observation also has the last action and the reward of it.

    They are a vector `last_action_reward`, float32 (n_1 + ... + n_K + 1,): a one-hot part for each branch of the
    action, then the reward; all zero at the first step of an episode.

    Attributes:
        env: the environment, unbatched.
        sizes: choices of each action branch.
    """

    env: Any
    sizes: Sizes

    def action_space(self, params: Any) -> Any:
        """That of the environment."""
        return self.env.action_space(params)

    def reset(self, key: jax.Array, params: Any) -> tuple[dict[str, Any], LastState]:
        """First observation and state of an episode."""
        return self._first(*self.env.reset(key, params))

    def reset_to_level(self, key: jax.Array, level: Any, params: Any) -> tuple[dict[str, Any], LastState]:
        """First observation and state of an episode on a level."""
        return self._first(*self.env.reset_to_level(key, level, params))

    def step(self, key: jax.Array, state: LastState, action: jax.Array, params: Any) -> tuple[Any, ...]:
        """The six values of the environment's step."""
        observation, inner, reward, terminated, truncated, info = self.env.step(key, state.inner, action, params)
        branches = [
            jax.nn.one_hot(choice, size, dtype=jnp.float32)
            for choice, size in zip(jnp.atleast_1d(action), self.sizes, strict=True)
        ]
        last = jnp.concatenate([*branches, reward.astype(jnp.float32)[None]])
        info = {**info, "final_observation": _beside(info["final_observation"], last)}
        kept = jnp.where(terminated | truncated, 0.0, last)
        return _beside(observation, kept), LastState(inner, kept), reward, terminated, truncated, info

    def _first(self, observation: Any, inner: Any) -> tuple[dict[str, Any], LastState]:
        last = jnp.zeros(sum(self.sizes) + 1, jnp.float32)
        return _beside(observation, last), LastState(inner, last)


def _beside(observation: Any, last: jax.Array) -> dict[str, Any]:
    leaves = observation if isinstance(observation, dict) else {"observation": observation}
    return {**leaves, "last_action_reward": last}
