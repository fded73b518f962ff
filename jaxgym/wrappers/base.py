"""What all wrappers share.

A wrapper is an environment whose level, transition and scene are made of those of the one inside. So auto-reset,
`final_observation`, time limits, levels, banks and one drawing a step are those of every environment, and wrappers go
around wrappers.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from flax import struct

from jaxgym.environment import AnyEnvironment, Environment, EnvParams, EnvState, Transition
from jaxgym.errors import WrapperError
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete


@struct.dataclass
class WrappedState(EnvState):
    """The state of a wrapped environment.

    Attributes:
        inner: That of the environment inside, without what every state holds: those fields are kept once, here.
        memory: What the wrapper itself remembers, if anything.
    """

    inner: Any
    memory: Any = None


@struct.dataclass
class OuterParams(EnvParams):
    """Parameters of a wrapper that has some of its own; the time limit and the bank of levels are those of the wrapper.

    Attributes:
        inner: The parameters of the environment inside; of their time limit and their bank no use is made.
    """

    inner: Any = dataclasses.field(kw_only=True)


@struct.dataclass
class WrappedScene:
    """What a viewer may know of a wrapped environment.

    Attributes:
        inner: The scene inside.
        extra: What the wrapper adds.
    """

    inner: Any
    extra: Any


@dataclasses.dataclass(unsafe_hash=True)
class Wrapper(Environment[Any, WrappedState, Any, Any]):
    """An environment around another one; by itself it changes nothing.

    Attributes:
        env: The environment inside.
        env_id: The id of the environment inside.
        initial_params: The parameters that are used where none are given; those of the environment inside by default.
    """

    env: AnyEnvironment
    env_id: str = dataclasses.field(default="", kw_only=True)
    initial_params: Any = dataclasses.field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            raise WrapperError(
                f"{type(self).__name__} was given {self.env!r}; give an environment of jaxgym.make, another wrapper, "
                "or jaxgym.wrappers.FromGymnax(env) for an environment of gymnax."
            )
        # Written past the guard of `Environment`, which refuses a second value.
        object.__setattr__(self, "env_id", self.env_id or self.env.env_id)
        if self.initial_params is None:
            object.__setattr__(self, "initial_params", self.env.default_params)

    def inner_params(self, params: Any) -> Any:
        """Returns the parameters of the environment inside."""
        return params

    def inner_level(self, level: Any) -> Any:
        """Returns the level of the environment inside."""
        return level

    def inner_state(self, state: WrappedState) -> Any:
        """Returns the state of the environment inside, whole."""
        return dataclasses.replace(
            state.inner,
            time=state.time,
            level=self.inner_level(state.level),
            episode_return=state.episode_return,
            terminated=state.terminated,
            level_index=state.level_index,
        )

    def sample_level(self, key: jax.Array, params: Any) -> Any:
        """Samples a level of the environment inside; consumes `key`."""
        return self.env.sample_level(key, self.inner_params(params))

    def initial_state(self, level: Any, params: Any) -> WrappedState:
        """Returns the state in which an episode of `level` starts."""
        inner = self.env.initial_state(self.inner_level(level), self.inner_params(params))
        return WrappedState(
            time=inner.time,
            level=level,
            episode_return=inner.episode_return,
            terminated=inner.terminated,
            inner=bare(inner),
            memory=self.initial_memory(level, params),
        )

    def initial_memory(self, level: Any, params: Any) -> Any:
        """Returns what the wrapper remembers at the start of an episode."""
        del level, params

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Applies the rules of the environment inside."""
        made = self.env.transition(self.inner_state(state), action, self.inner_params(params))
        return dataclasses.replace(made, state=dataclasses.replace(state, time=made.state.time, inner=bare(made.state)))

    @property
    def metric(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Entry of `info` that the environment inside counts."""
        return self.env.metric

    def normalized_return(self, info: Mapping[str, jax.Array], state: WrappedState, params: Any) -> jax.Array:
        """Returns how much of the episode inside was achieved."""
        return self.env.normalized_return(info, self.inner_state(state), self.inner_params(params))

    def is_truncated(self, state: WrappedState, params: Any) -> jax.Array:
        """Whether the environment inside is truncated."""
        return self.env.is_truncated(self.inner_state(state), self.inner_params(params))

    def scene(self, state: WrappedState, params: Any) -> Any:
        """Returns the scene inside."""
        return self.env.scene(self.inner_state(state), self.inner_params(params))

    def observe_scene(self, scene: Any) -> Any:
        """Returns the observation of the environment inside."""
        return self.env.observe_scene(scene)

    def action_space(self, params: Any = None) -> Discrete | MultiDiscrete:
        """The action space of the environment inside."""
        return self.env.action_space(self.inner_params(self.default_params if params is None else params))

    def observation_space(self, params: Any = None) -> Box | Dict:
        """The observation space of the environment inside."""
        return self.env.observation_space(self.inner_params(self.default_params if params is None else params))

    def _checked_action(self, action: jax.Array | float, params: Any) -> jax.Array:
        return self.env._checked_action(action, self.inner_params(params))


def bare(inner: Any) -> Any:
    """Returns a state without what every state holds."""
    return dataclasses.replace(inner, time=None, level=None, episode_return=None, terminated=None, level_index=None)


def inside(params: OuterParams) -> Any:
    """Returns the parameters inside of a wrapper's own, with the wrapper's time limit and without a bank."""
    return dataclasses.replace(params.inner, max_steps_in_episode=params.max_steps_in_episode, levels=None)


def beside(observation: Any, name: str, entry: Any) -> dict[str, Any]:
    """Returns an observation (or its space's parts) as a dict with one more entry; one that was no dict becomes one."""
    leaves = observation if isinstance(observation, dict) else {"observation": observation}
    return {**leaves, name: entry}


def space_beside(space: Box | Dict, name: str, entry: Box) -> Dict:
    """Returns the space of what `beside` returns.

    Raises:
        WrapperError: If an observation has an entry of that name already.
    """
    if isinstance(space, Dict) and name in space.spaces:
        raise WrapperError(f"an observation has an entry {name!r} already: wrap an environment once for it.")
    return Dict(beside(dict(space.spaces) if isinstance(space, Dict) else space, name, entry))
