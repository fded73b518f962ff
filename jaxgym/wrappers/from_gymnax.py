"""Environments of gymnax as jaxgym environments, with levels, level buffers and wrappers."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment as gymnax_environment
from gymnax.environments import spaces as gymnax_spaces

from jaxgym.environment import Environment, EnvState, Transition
from jaxgym.errors import ActionError, WrapperError
from jaxgym.spaces import Box, Dict, Discrete
from jaxgym.wrappers.base import OuterParams

_SEED_WORDS = 2
_LARGEST_BYTE = 255


@struct.dataclass
class GymnaxParams(OuterParams):
    """Parameters of an environment of gymnax, in `inner`; the default time limit is theirs."""


@struct.dataclass
class GymnaxState(EnvState):
    """State of an environment of gymnax.

    Attributes:
        inner: The state of gymnax.
        seen: The last observation; some environments can't compute it from a state alone.
    """

    inner: Any
    seen: Any


@dataclasses.dataclass(unsafe_hash=True)
class FromGymnax(Environment[jax.Array, GymnaxState, GymnaxParams, Any]):
    """Environment of gymnax 1.x as a jaxgym environment.

    A level is the key of an episode's random numbers, uint32 (2,). Given the level, an episode is a function of the
    actions, so there are training levels, held-out levels and level buffers.

    Attributes:
        env: The environment that `gymnax.make` returns.
        draw: Function that replaces an observation, for example by an image; None keeps the observation.
        env_id: Its name.
        initial_params: The default parameters; parameters of gymnax are wrapped.
    """

    metric: ClassVar[str] = "episode_return"

    env: gymnax_environment.Environment[Any, Any]
    draw: Callable[[Any], jax.Array] | None = None
    env_id: str = dataclasses.field(default="", kw_only=True)
    initial_params: Any = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.env, Environment) or not isinstance(self.env, gymnax_environment.Environment):
            raise WrapperError(
                f"FromGymnax: expected an environment of gymnax, got {self.env!r}. Environments of jaxgym need no "
                "wrapper."
            )
        # `Environment.__setattr__` rejects a second value.
        object.__setattr__(self, "env_id", self.env_id or self.env.name)
        if not isinstance(self.initial_params, GymnaxParams):
            inner = self.env.default_params if self.initial_params is None else self.initial_params
            limit = np.asarray(inner.max_steps_in_episode, dtype=np.int32)
            object.__setattr__(self, "initial_params", GymnaxParams(limit, inner=inner))

    def sample_level(self, key: jax.Array, params: GymnaxParams) -> jax.Array:
        """Sample the key of an episode; consumes `key`."""
        return jax.random.bits(key, (_SEED_WORDS,), jnp.uint32)

    def initial_state(self, level: jax.Array, params: GymnaxParams) -> GymnaxState:
        """Reset the environment."""
        seen, inner = self.env.reset_env(_key(level, jnp.int32(0)), params.inner)
        return GymnaxState(level=level, inner=jax.tree.map(jnp.asarray, inner), seen=seen)

    def transition(self, state: GymnaxState, action: jax.Array, params: GymnaxParams) -> Transition:
        """Step the environment, without its own auto-reset and time limit."""
        key = _key(state.level, state.time)
        seen, inner, reward, terminated, info = self.env.step_env(key, state.inner, action, params.inner)
        # Some environments change the dtype of a field after the reset.
        inner, seen = (
            jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), new, old)
            for new, old in ((inner, state.inner), (seen, state.seen))
        )
        state = dataclasses.replace(state, inner=inner, seen=seen)
        metrics = {name: jnp.asarray(entry) for name, entry in info.items()}
        return Transition(state, jnp.asarray(reward).astype(jnp.float32), jnp.asarray(terminated), metrics)

    def reseed(self, state: GymnaxState, key: jax.Array) -> GymnaxState:
        """Replace the random numbers of the steps to come."""
        return dataclasses.replace(state, level=jax.random.bits(key, (_SEED_WORDS,), jnp.uint32))

    def scene(self, state: GymnaxState, params: GymnaxParams) -> Any:
        """Return the observation of gymnax."""
        return state.seen

    def observe_scene(self, scene: Any) -> Any:
        """Return the observation, replaced by `draw` if it is set."""
        return scene if self.draw is None else self.draw(scene)

    def action_space(self, params: GymnaxParams | None = None) -> Discrete:
        """Return the action space of gymnax."""
        return self.env.action_space((self.default_params if params is None else params).inner)

    def observation_space(self, params: GymnaxParams | None = None) -> Box | Dict:
        """Return the observation space of gymnax; with `draw`, a box with the value range of an image of its dtype."""
        params = self.default_params if params is None else params
        if self.draw is None:
            space = self.env.observation_space(params.inner)
            return Dict(space.spaces) if isinstance(space, gymnax_spaces.Dict) else space
        drawn = jax.eval_shape(lambda key: self.reset_env(key, params)[0], jax.random.key(0))
        return Box(0, _LARGEST_BYTE if drawn.dtype == jnp.uint8 else 1, drawn.shape, drawn.dtype)

    def _checked_action(self, action: jax.Array | float, params: GymnaxParams) -> jax.Array:
        space, action = self.action_space(params), jnp.asarray(action)
        if action.shape != tuple(space.shape):
            raise ActionError(
                f"{self.env_id}: action must have shape {space.shape}, got {action.shape}. "
                "For a batch of actions, jax.vmap the step."
            )
        return action


def _key(level: jax.Array, time: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.wrap_key_data(level, impl="threefry2x32"), time)
