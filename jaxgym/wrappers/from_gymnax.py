"""Environments of gymnax as ours: with levels, banks, and all that goes around our own."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment as gymnax_environment

from jaxgym.environment import Environment, EnvState, Transition
from jaxgym.errors import ActionError, WrapperError
from jaxgym.spaces import Box, Dict, Discrete
from jaxgym.wrappers.base import OuterParams

_SEED_WORDS = 2
_LARGEST_BYTE = 255


@struct.dataclass
class GymnaxParams(OuterParams):
    """Parameters of an environment of gymnax, under `inner`; the time limit is that of these at first."""


@struct.dataclass
class GymnaxState(EnvState):
    """The state of an environment of gymnax.

    Attributes:
        inner: The state that gymnax knows.
        seen: The last observation; some environments can't make it of a state alone.
    """

    inner: Any
    seen: Any


@dataclasses.dataclass(unsafe_hash=True)
class FromGymnax(Environment[jax.Array, GymnaxState, GymnaxParams, Any]):
    """An environment of gymnax 1.x as one of ours.

    A level is what the random numbers of an episode follow from, uint32 (2,). So after it is known, an episode is a
    function of the actions; there are training levels, held-out levels and banks of them.

    Attributes:
        env: The environment, as `gymnax.make` returns it.
        draw: Takes an observation of it, and returns another one to be seen in its place, such as a picture; None for
            the observation as it is.
        env_id: Its name.
        initial_params: The parameters that are used where none are given. Parameters of gymnax are wrapped.
    """

    metric: ClassVar[str] = "reward"

    env: gymnax_environment.Environment[Any, Any]
    draw: Callable[[Any], jax.Array] | None = None
    env_id: str = dataclasses.field(default="", kw_only=True)
    initial_params: Any = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.env, Environment) or not isinstance(self.env, gymnax_environment.Environment):
            raise WrapperError(
                f"FromGymnax was given {self.env!r}; give an environment of gymnax.make: one of jaxgym needs no "
                "wrapper."
            )
        # Written past the guard of `Environment`, which refuses a second value.
        object.__setattr__(self, "env_id", self.env_id or self.env.name)
        if not isinstance(self.initial_params, GymnaxParams):
            inner = self.env.default_params if self.initial_params is None else self.initial_params
            limit = np.asarray(inner.max_steps_in_episode, dtype=np.int32)
            object.__setattr__(self, "initial_params", GymnaxParams(limit, inner=inner))

    def sample_level(self, key: jax.Array, params: GymnaxParams) -> jax.Array:
        """Sample the seed of an episode."""
        del params
        return jax.random.bits(key, (_SEED_WORDS,), jnp.uint32)

    def initial_state(self, level: jax.Array, params: GymnaxParams) -> GymnaxState:
        """Resets the environment."""
        seen, inner = self.env.reset_env(_key(level, jnp.int32(0)), params.inner)
        return GymnaxState(
            time=jnp.int32(0),
            level=level,
            episode_return=jnp.float32(0.0),
            terminated=jnp.bool_(False),
            inner=_arrays(inner),
            seen=seen,
        )

    def transition(self, state: GymnaxState, action: jax.Array, params: GymnaxParams) -> Transition:
        """Step the environment, without its own auto-reset and time limit."""
        key = _key(state.level, state.time)
        seen, inner, reward, terminated, info = self.env.step_env(key, state.inner, action, params.inner)
        # Some environments compute a field in another dtype than they start with.
        inner, seen = (
            jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), new, old)
            for new, old in ((inner, state.inner), (seen, state.seen))
        )
        state = dataclasses.replace(state, inner=inner, seen=seen)
        metrics = {name: jnp.asarray(entry) for name, entry in info.items()}
        return Transition(state, jnp.asarray(reward).astype(jnp.float32), jnp.asarray(terminated), metrics)

    def scene(self, state: GymnaxState, params: GymnaxParams) -> Any:
        """Return the observation of gymnax."""
        del params
        return state.seen

    def observe_scene(self, scene: Any) -> Any:
        """Return what `draw` makes of it."""
        return scene if self.draw is None else self.draw(scene)

    def action_space(self, params: GymnaxParams | None = None) -> Discrete:
        """The action space of gymnax."""
        return self.env.action_space((self.default_params if params is None else params).inner)

    def observation_space(self, params: GymnaxParams | None = None) -> Box | Dict:
        """The observation space of gymnax; of what is drawn, a box of all values that pictures of its dtype have."""
        params = self.default_params if params is None else params
        if self.draw is None:
            return self.env.observation_space(params.inner)
        drawn = jax.eval_shape(lambda key: self.reset_env(key, params)[0], jax.random.key(0))
        return Box(0, _LARGEST_BYTE if drawn.dtype == jnp.uint8 else 1, drawn.shape, drawn.dtype)

    def _checked_action(self, action: jax.Array | float, params: GymnaxParams) -> jax.Array:
        space, action = self.action_space(params), jnp.asarray(action)
        if action.shape != tuple(space.shape):
            raise ActionError(
                f"{self.env_id} was given an action of shape {action.shape}; it takes {space.shape}: "
                "for a batch of actions, jax.vmap the step over them."
            )
        return action


def _key(level: jax.Array, time: jax.Array) -> jax.Array:
    return jax.random.fold_in(jax.random.wrap_key_data(level, impl="threefry2x32"), time)


def _arrays(tree: Any) -> Any:
    return jax.tree.map(jnp.asarray, tree)
