"""Starts and steps of one session as pure functions, which `jaxgym.serve.pool.programs` compiles for batches."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxgym import levels, threefry
from jaxgym.environment import Environment
from jaxgym.pytrees import frame_of


class StepOutput(NamedTuple):
    """Step output of a row for the host.

    Attributes:
        scene: The scene after the actions.
        reward: Sum of the rewards of the actions, float32 ().
        terminated: Whether the rules of the game ended the episode, bool ().
        truncated: Whether the environment's time limit ended the episode, bool ().
        info: The environment's `info` of the last step; zeros before the first step.
    """

    scene: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


@dataclasses.dataclass(frozen=True)
class Logic:
    """Functions to compile: starts and steps of one environment, with at most `max_actions` actions in a call."""

    env: Any
    max_actions: int

    def start(self, seed: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        """Return the initial state of a seed's level, and its step output.

        Without a level buffer it is the level of that seed (see `jaxgym.levels`); with a buffer of n levels, level
        `seed % n`.
        """
        if params.levels is None:
            level = self.env.sample_level(levels.level_key(seed, threefry.FLAT), params)
        else:
            place = seed % jnp.uint32(levels.num_levels(params.levels))
            level = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, place, keepdims=False), params.levels)
        state = self.env.initial_state(level, params)
        return state, self._unmoved(state, params)

    def _unmoved(self, state: Any, params: Any) -> StepOutput:
        action = jax.ShapeDtypeStruct(self.env.action_space(params).shape, jnp.int32)
        shapes = jax.eval_shape(self._act, state, action, params)[1]
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return blank._replace(scene=self.env.scene(state, params))

    def _act(self, state: Any, action: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        # The key of a step is for auto-reset, which `step_env` does not do.
        _, state, reward, terminated, info = self.env.step_env(jax.random.key(0), state, action, params)
        truncated = self.env.is_truncated(state, params)
        return state, StepOutput(self.env.scene(state, params), reward, terminated, truncated, info)

    def move(self, state: Any, count: jax.Array, actions: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        """Make the first `count` actions; stop at the end of the episode."""
        if self.max_actions == 1:
            return self._act(state, actions[0], params)

        def go_on(carry: tuple[jax.Array, Any, StepOutput]) -> jax.Array:
            made, _, output = carry
            return (made < count) & ~output.terminated & ~output.truncated

        def act(carry: tuple[jax.Array, Any, StepOutput]) -> tuple[jax.Array, Any, StepOutput]:
            made, state, before = carry
            state, output = self._act(state, actions[made], params)
            return made + 1, state, output._replace(reward=before.reward + output.reward)

        _, state, output = lax.while_loop(go_on, act, (jnp.int32(0), state, self._unmoved(state, params)))
        return state, output

    @property
    def has_chance(self) -> bool:
        """True if the environment has chance events that `reseed` replaces."""
        return type(self.env).reseed is not Environment.reseed

    def reseed(self, state: Any, words: jax.Array) -> Any:
        """Return a state with other chance events to come; `words` are a key, uint32 (2,)."""
        return self.env.reseed(state, jax.random.wrap_key_data(words, impl=threefry.FLAT))

    def frame(self, state: Any, params: Any) -> Any:
        """Return the frame of a state, uint8 (H, W, 3), or None if the observations have none."""
        return frame_of(self.env, self.env.observe(jax.random.key(0), state, None, params))

    def frame_shape(self, params: Any) -> tuple[int, ...] | None:
        """Return the shape of a frame in RGB, or None if the observations have none."""
        state, _ = jax.eval_shape(self.start, jax.ShapeDtypeStruct((), jnp.uint32), params)
        frame = jax.eval_shape(self.frame, state, params)
        return frame.shape if frame is not None and frame.shape[-1] == len("RGB") else None
