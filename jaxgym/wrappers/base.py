"""Base class of wrappers.

A wrapper is an environment whose level, transition and scene are made from those of its inner environment. Auto-reset,
`final_observation`, time limits, levels, level buffers and one rendering a step therefore work as in every environment,
and wrappers can be nested.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from flax import struct

from jaxgym.environment import AnyEnvironment, Environment, EnvParams, EnvState, Transition
from jaxgym.errors import WrapperError
from jaxgym.facts import Facts
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete


@struct.dataclass
class WrappedState(EnvState):
    """State of a wrapper.

    Attributes:
        inner: State of the inner environment, with None in the fields of `EnvState`, which the wrapper's state has.
        memory: The wrapper's own state, or None.
    """

    inner: Any
    memory: Any = None


@struct.dataclass
class OuterParams(EnvParams):
    """Parameters of a wrapper with parameters of its own; the time limit and the level buffer are the wrapper's.

    Attributes:
        inner: Parameters of the inner environment; their time limit and their level buffer are ignored.
    """

    inner: Any = dataclasses.field(kw_only=True)


@struct.dataclass
class WrappedScene:
    """Scene of a wrapper.

    Attributes:
        inner: Scene of the inner environment.
        extra: The part that the wrapper adds.
    """

    inner: Any
    extra: Any


@dataclasses.dataclass(unsafe_hash=True)
class Wrapper(Environment[Any, WrappedState, Any, Any]):
    """Environment that contains another environment; the base class changes nothing.

    Attributes:
        env: The inner environment.
        env_id: The id of the inner environment.
        initial_params: The default parameters; by default those of the inner environment.
    """

    env: AnyEnvironment
    env_id: str = dataclasses.field(default="", kw_only=True)
    initial_params: Any = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            raise WrapperError(
                f"{type(self).__name__}: expected an environment of jaxgym.make or a wrapper, got {self.env!r}. "
                "Wrap an environment of gymnax with jaxgym.wrappers.FromGymnax first."
            )
        # `Environment.__setattr__` rejects a second value.
        object.__setattr__(self, "env_id", self.env_id or self.env.env_id)
        if self.initial_params is None:
            object.__setattr__(self, "initial_params", self.env.default_params)

    def inner_params(self, params: Any) -> Any:
        """Return the parameters of the inner environment."""
        return params

    def inner_level(self, level: Any) -> Any:
        """Return the level of the inner environment."""
        return level

    def inner_state(self, state: WrappedState) -> Any:
        """Return the complete state of the inner environment."""
        return dataclasses.replace(
            state.inner,
            time=state.time,
            level=self.inner_level(state.level),
            episode_return=state.episode_return,
            terminated=state.terminated,
            level_index=state.level_index,
        )

    def sample_level(self, key: jax.Array, params: Any) -> Any:
        """Sample a level of the inner environment; consumes `key`."""
        return self.env.sample_level(key, self.inner_params(params))

    def initial_state(self, level: Any, params: Any) -> WrappedState:
        """Return the state in which an episode of `level` starts."""
        inner = self.env.initial_state(self.inner_level(level), self.inner_params(params))
        return WrappedState(level=level, inner=bare(inner), memory=self.initial_memory(level, params))

    def initial_memory(self, level: Any, params: Any) -> Any:
        """Return the wrapper's own state at the start of an episode."""

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Apply the rules of the inner environment."""
        made = self.env.transition(self.inner_state(state), action, self.inner_params(params))
        return dataclasses.replace(made, state=dataclasses.replace(state, time=made.state.time, inner=bare(made.state)))

    def reseed(self, state: WrappedState, key: jax.Array) -> WrappedState:
        """Return the state with other chance events of the inner environment in the steps to come; consumes `key`."""
        inner = self.env.reseed(self.inner_state(state), key)
        return dataclasses.replace(state, level=self.outer_level(state.level, inner.level), inner=bare(inner))

    def outer_level(self, level: Any, inner: Any) -> Any:
        """Return the level with another level of the inner environment."""
        return inner

    @property
    def metric(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Entry of `info` with the result of an episode, as in the inner environment."""
        return self.env.metric

    def normalized_return(self, info: Mapping[str, jax.Array], state: WrappedState, params: Any) -> jax.Array:
        """Return the normalized return of the inner environment."""
        return self.env.normalized_return(info, self.inner_state(state), self.inner_params(params))

    def is_truncated(self, state: WrappedState, params: Any) -> jax.Array:
        """Return whether the inner environment is truncated."""
        return self.env.is_truncated(self.inner_state(state), self.inner_params(params))

    def scene(self, state: WrappedState, params: Any) -> Any:
        """Return the scene of the inner environment."""
        return self.env.scene(self.inner_state(state), self.inner_params(params))

    def observe_scene(self, scene: Any) -> Any:
        """Return the observation of the inner environment."""
        return self.env.observe_scene(scene)

    def hidden(self, state: WrappedState, params: Any) -> Facts:
        """Return the hidden facts of the inner environment."""
        return self.env.hidden(self.inner_state(state), self.inner_params(params))

    def action_space(self, params: Any = None) -> Discrete | MultiDiscrete:
        """Return the action space of the inner environment."""
        return self.env.action_space(self.inner_params(self.default_params if params is None else params))

    def observation_space(self, params: Any = None) -> Box | Dict:
        """Return the observation space of the inner environment."""
        return self.env.observation_space(self.inner_params(self.default_params if params is None else params))

    def _checked_action(self, action: jax.Array | float, params: Any) -> jax.Array:
        return self.env._checked_action(action, self.inner_params(params))


def bare(inner: Any) -> Any:
    """Return a state with None in the fields of `EnvState`."""
    return dataclasses.replace(inner, time=None, level=None, episode_return=None, terminated=None, level_index=None)


def inside(params: OuterParams) -> Any:
    """Return the inner parameters of a wrapper's own, with the wrapper's time limit and without a level buffer."""
    return dataclasses.replace(params.inner, max_steps_in_episode=params.max_steps_in_episode, levels=None)


def beside(observation: Any, name: str, entry: Any) -> dict[str, Any]:
    """Return an observation (or the parts of its space) as a dict with one more entry.

    An observation that is not a dict becomes the entry `observation`.
    """
    leaves = observation if isinstance(observation, dict) else {"observation": observation}
    return {**leaves, name: entry}


def space_beside(space: Box | Dict, name: str, entry: Box) -> Dict:
    """Return the space of the result of `beside`.

    Raises:
        WrapperError: If the observation already has an entry of that name.
    """
    if isinstance(space, Dict) and name in space.spaces:
        raise WrapperError(f"expected an observation without an entry {name!r}, got one. Wrap the environment once.")
    return Dict(beside(dict(space.spaces) if isinstance(space, Dict) else space, name, entry))
