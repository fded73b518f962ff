"""Base class of all environments: an episode is a pure function of its level, the parameters and the actions.

A subclass samples levels, returns the initial state of a level, applies actions, and returns the scene of a state. The
base class makes a gymnax 1.x environment of these methods: `step` returns six values, resets automatically, and renders
one observation.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import environment as gymnax_environment
from jax import lax

from jaxgym import actions, auto_reset, forks, levels, pytrees
from jaxgym.errors import LevelError
from jaxgym.facts import Facts
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete, frames_or_symbols, unbounded

INFO = ("episode_return", "episode_length", "terminated", "truncated", "level_index", "final_observation")
"""Entries of `info` that every environment has."""


def starts_at(value: int | float | bool) -> Any:
    """Declare a field of a state, a scalar of 32 bits or bool, with its value at the start of an episode."""
    return dataclasses.field(default={bool: np.bool_, int: np.int32, float: np.float32}[type(value)](value))


@struct.dataclass(kw_only=True)
class EnvState(gymnax_environment.EnvState):
    """Fields of every state; each game adds its own.

    Attributes:
        time: Number of steps since the reset, int32 ().
        level: The level of this episode, a `Level` of the environment.
        episode_return: Sum of the rewards since the reset, float32 ().
        terminated: Whether the last step ended the episode by the rules of the environment, bool ().
        level_index: Index of the level in the level buffer that the reset drew from, int32 (); -1 for any other level.
    """

    time: jax.Array = starts_at(0)  # pyright: ignore[reportIncompatibleVariableOverride] — gymnax says int, and stores arrays.
    level: Any
    episode_return: jax.Array = starts_at(0.0)
    terminated: jax.Array = starts_at(False)
    level_index: jax.Array = starts_at(int(levels.NO_INDEX))


@struct.dataclass
class EnvParams(gymnax_environment.EnvParams):
    """Parameters of every environment; all fields are traced and can be vmapped.

    Attributes:
        max_steps_in_episode: Time limit in steps, int32 (); 0 or less means none.
        levels: Level buffer from which resets draw (see `jaxgym.levels`), or None to sample fresh levels.
        level_weights: Weights of the N levels in draws, float32 (N,), at least 0 and not all 0; None for equal weights.
        SHARED: Fields without a batch axis in vmapped parameters (see `jaxgym.levels.params_axes`).
    """

    SHARED: ClassVar[tuple[str, ...]] = ("levels", "level_weights")

    # gymnax declares int, and accepts any value that can be compared with the time.
    max_steps_in_episode: jax.Array | np.ndarray | int = 0  # pyright: ignore[reportIncompatibleVariableOverride]
    levels: Any = None
    level_weights: Any = None


@struct.dataclass
class Transition:
    """Result of one step.

    Attributes:
        state: The state after the step.
        reward: float32 ().
        terminated: Whether the rules of the environment ended the episode, bool ().
        metrics: The game's own entries of `info`; every step has the same keys, none of them in `INFO`.
    """

    state: Any
    reward: jax.Array
    terminated: jax.Array
    metrics: dict[str, jax.Array]


TLevel = TypeVar("TLevel")
TState = TypeVar("TState", bound=EnvState)
TParams = TypeVar("TParams", bound=EnvParams)
TScene = TypeVar("TScene")


@dataclasses.dataclass(unsafe_hash=True)
class Environment(gymnax_environment.Environment[TState, TParams], Generic[TLevel, TState, TParams, TScene]):
    """A gymnax 1.x environment made of levels, transitions and scenes.

    Subclasses are dataclasses (`unsafe_hash=True`) with static, read-only fields: they determine array shapes
    and the compiled program. Instances with equal fields are equal and hash equal, so they share one compilation.

    Attributes:
        env_id: The environment id.
        initial_params: The parameters of the `make` call that built it; equality and hash ignore them.
    """

    env_id: str
    initial_params: TParams = dataclasses.field(compare=False, repr=False)

    def __setattr__(self, name: str, value: Any) -> None:
        # Not a frozen dataclass: gymnax's vector wrapper replaces the methods of its copy.
        if name in self.__dataclass_fields__ and name in self.__dict__:
            raise AttributeError(f"{self.env_id}: {name} is read-only. Make another environment.")
        super().__setattr__(name, value)

    # Methods that a subclass defines.

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of the environment and its parameters that follow from the options; none by default.

        Args:
            env_id: The id, to name in an error.
            values: Value of each option and of each field in `Spec.fixed`. A returned field replaces the value of the
                same name.

        Raises:
            OptionError: If option values are incompatible.
        """
        return {}

    def sample_level(self, key: jax.Array, params: TParams) -> TLevel:
        """Sample a level, which contains everything random of an episode; consumes `key`."""
        raise NotImplementedError  # Every environment has its own.

    def initial_state(self, level: TLevel, params: TParams) -> TState:
        """Return the state in which an episode of `level` starts."""
        raise NotImplementedError  # Every environment has its own.

    def transition(self, state: TState, action: jax.Array, params: TParams) -> Transition:
        """Apply the rules of one step; `state.time` already counts this step."""
        raise NotImplementedError  # Every environment has its own.

    def scene(self, state: TState, params: TParams) -> TScene:
        """Return the scene: all that observations and texts may show, as small arrays of integers or bools."""
        raise NotImplementedError  # Every environment has its own.

    def observe_scene(self, scene: TScene) -> Any:
        """Return the observation of a scene."""
        raise NotImplementedError  # Every environment has its own.

    metric: ClassVar[str] = "success"  # entry of `info` with the result of an episode

    def normalized_return(self, info: Mapping[str, jax.Array], state: TState, params: TParams) -> jax.Array:
        """Return the normalized return of an episode, float32 ().

        The default is `info[self.metric]`, or the return if `info` has no such entry. Override it to divide the return
        by the best possible return of the level. `info` is that of the last step,
        `state` any state of the episode.
        """
        return info.get(self.metric, info["episode_return"]).astype(jnp.float32)

    def reseed(self, state: TState, key: jax.Array) -> TState:
        """Return the state with other chance events in the steps to come; consumes `key`.

        The default returns the state: its level has no chance events after the start. Override it in a game whose level
        determines such events, for example slips. The scene and the fixed parts of the level must not change.
        """
        return state

    def hidden(self, state: TState, params: TParams) -> Facts:
        """Return the facts that the observation hides, such as the commands to remember, by name; none by default.

        With them, the observation suffices to act. `observability="full"` adds them to the observation.
        """
        return {}

    # Methods that this class provides.

    observability: ClassVar[str] = "partial"  # "full" in environments of `make(..., observability="full")`

    @property
    def name(self) -> str:
        """The environment id."""
        return self.env_id

    @property
    def default_params(self) -> TParams:
        """The parameters of the `make` call that built this environment."""
        return self.initial_params

    # `reset` and `step` are plain methods around jitted ones. Equality ignores the default parameters, so a trace must
    # not read them.
    def reset(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, key: jax.Array, params: TParams | None = None
    ) -> tuple[Any, TState]:
        """Start an episode on a level of the level buffer, or on a fresh training level without a buffer.

        Args:
            key: A PRNG key; it is consumed.
            params: Parameters; those of `make` if None.

        Returns:
            The first observation and the state.

        Raises:
            RandomKeyError: If `key` is not one PRNG key.
            StateError: If the parameters are not of this environment's class.
            LevelError: If `params.levels` is not a level buffer of this environment.
            ForkError: In a forked child of a process that runs JAX; `step` and `reset_to_level` raise it too.
        """
        forks.check()
        pytrees.check_key(self.env_id, key)
        return self._reset(key, self._checked_params(params))

    def reset_to_level(self, key: jax.Array, level: TLevel, params: TParams | None = None) -> tuple[Any, TState]:
        """Start an episode on the given level.

        Args:
            key: A PRNG key for `observe`; no environment of jaxgym uses it.
            level: A level of this environment, from `sample_level`, `jaxgym.levels.level_from_seed` or a level buffer.
            params: Parameters; those of `make` if None.

        Returns:
            The first observation and the state.

        Raises:
            StateError: If the parameters are not of this environment's class.
            LevelError: If an array of the level has another shape or dtype than this environment's. Values are not
                checked, because they may be traced; the level must belong to the same options.
        """
        forks.check()
        params = self._checked_params(params)
        try:
            return self._reset_to_level(key, level, params)
        except TypeError:  # JAX raises it for a leaf that is not an array
            levels.check_level(self, level, params)
            raise

    def step(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, key: jax.Array, state: TState, action: jax.Array | int, params: TParams | None = None
    ) -> tuple[Any, TState, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Make a step; if the episode ends, return the state and the observation of the next episode.

        The auto-reset selects the state before it renders, so a step renders once. `info["final_observation"]` is
        rendered from the state before the reset; XLA removes it from a program that does not read it.

        Args:
            key: A PRNG key for the auto-reset; it is consumed. The step itself is deterministic.
            state: The state.
            action: An integer action with the shape of the action space. Values outside of the space
                have no effect, but the step counts.
            params: Parameters; those of `make` if None.

        Returns:
            Observation, state, reward float32 (), terminated bool (), truncated bool (), and `info`. Every step has the
            same entries of `info`: `episode_return` (sum of the rewards so far), `episode_length` (steps so far), the
            environment's own metrics, `terminated`, `truncated`, `level_index` (index of the episode's level in the
            level buffer, int32 (); -1 if it does not come from a buffer), and `final_observation`. Both flags can be
            true at once.

        Raises:
            ActionError: If the action does not have the shape of the action space and an integer dtype. If the action
                is not a JAX array, values outside int32 also raise it.
            RandomKeyError: If `key` is not one PRNG key.
            StateError: If the state or the parameters belong to another environment or library.
            LevelError: If `params.levels` is not a level buffer of this environment.
        """
        forks.check()
        pytrees.check_state(self.env_id, state, EnvState)
        pytrees.check_key(self.env_id, key)
        return self._step(key, state, self.action_array(action), self._checked_params(params))

    @partial(jax.jit, static_argnames=("self",))
    def _reset(self, key: jax.Array, params: TParams) -> tuple[Any, TState]:
        return self.reset_env(key, params)

    @partial(jax.jit, static_argnames=("self",))
    def _reset_to_level(self, key: jax.Array, level: TLevel, params: TParams) -> tuple[Any, TState]:
        levels.check_level(self, level, params)
        state = self.initial_state(level, params)
        pytrees.register_nodes((state, params))
        return self.observe(key, state, None, params), state

    @partial(jax.jit, static_argnames=("self",))
    def _step(
        self, key: jax.Array, state: TState, action: jax.Array, params: TParams
    ) -> tuple[Any, TState, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        pytrees.check_state(self.env_id, state, jax.eval_shape(self._start, key, params))
        stepped, reward, terminated, info = self._advance(state, action, params)
        truncated = self.is_truncated(stepped, params)
        ended = terminated | truncated
        level, index = auto_reset.following_level(self, key, params, ended, state.level)
        started = dataclasses.replace(self.initial_state(level, params), level_index=index)
        following = jax.tree.map(partial(jnp.where, ended), started, stepped)
        info = {
            **info,
            "terminated": terminated,
            "truncated": truncated,
            "level_index": stepped.level_index,
            "final_observation": self.observe(key, stepped, action, params),
        }
        return self.observe(key, following, action, params), following, reward, terminated, truncated, info

    def reset_env(self, key: jax.Array, params: TParams) -> tuple[Any, TState]:
        """Start an episode, see `reset`; the hook of gymnax, not jitted."""
        pytrees.check_params(self.env_id, params, type(self.default_params))
        state = self._start(key, params)
        pytrees.register_nodes((state, params))
        return self.observe(key, state, None, params), state

    def _start(self, key: jax.Array, params: TParams) -> TState:
        level, index = levels.draw(self, key, params)
        state = self.initial_state(level, params)
        pytrees.checked_kind(self.env_id, "initial_state", state, EnvState)
        return dataclasses.replace(state, level_index=index)

    def step_env(
        self, key: jax.Array, state: TState, action: jax.Array | float, params: TParams
    ) -> tuple[Any, TState, jax.Array, jax.Array, dict[str, Any]]:
        """Make a step without auto-reset and without time limit; the hook of gymnax, not jitted."""
        pytrees.check_state(self.env_id, state, EnvState)
        pytrees.check_params(self.env_id, params, type(self.default_params))
        stepped, reward, terminated, info = self._advance(state, action, params)
        return self.observe(key, stepped, action, params), stepped, reward, terminated, info

    def _advance(
        self, state: TState, action: jax.Array | float, params: TParams
    ) -> tuple[TState, jax.Array, jax.Array, dict[str, jax.Array]]:
        pytrees.register_nodes((state, params))
        action = self._checked_action(action, params)
        before = dataclasses.replace(state, time=state.time + 1)
        made = pytrees.checked_kind(self.env_id, "transition", self.transition(before, action, params), Transition)
        pytrees.check_transition(self.env_id, made, before, INFO)
        stepped = dataclasses.replace(
            made.state,
            episode_return=state.episode_return + made.reward,
            terminated=made.terminated,
            level_index=state.level_index,
        )
        info = {"episode_return": stepped.episode_return, "episode_length": stepped.time, **made.metrics}
        return stepped, made.reward, made.terminated, info

    def observe(self, key: jax.Array, state: TState, action: Any, params: TParams) -> Any:
        """Return the observation of a state; `key` and `action` are ignored."""
        # Without the barriers, XLA fuses the transition into every pixel and the pixels into every use of them.
        scene = lax.optimization_barrier(self.scene(state, params))
        return lax.optimization_barrier(self.observe_scene(scene))

    def is_truncated(self, state: TState, params: TParams) -> jax.Array:
        """Return whether the time limit is reached, bool (); False if the limit is 0 or less."""
        limit = params.max_steps_in_episode
        return (jnp.asarray(limit) > 0) & (state.time >= limit)

    def is_terminated(self, state: TState, params: TParams) -> jax.Array:
        """Return whether the last step ended the episode by the rules of the environment, bool ()."""
        return state.terminated

    def _checked_params(self, params: TParams | None) -> TParams:
        params = self.default_params if params is None else params
        pytrees.check_params(self.env_id, params, type(self.default_params))
        if isinstance(params.levels, str):  # jit would raise a TypeError before the check of the level buffer
            raise LevelError(
                f"{self.env_id}: expected params.levels to be a level buffer or None, got {params.levels!r}. "
                "Use None to sample fresh levels."
            )
        return params

    def action_array(self, action: Any) -> jax.Array | np.ndarray:
        """Return an action or a batch of actions as an array that JAX accepts; raises `ActionError` for others."""
        return actions.as_array(self, action)

    def _checked_action(self, action: jax.Array | float, params: TParams) -> jax.Array:
        return actions.checked_action(self, action, params)

    @property
    def num_actions(self) -> int:
        """Number of different actions; for `MultiDiscrete`, the product of its branches."""
        space = self.action_space(self.default_params)
        return int(np.prod(space.nvec)) if isinstance(space, MultiDiscrete) else space.n

    def action_space(self, params: TParams | None = None) -> Discrete | MultiDiscrete:
        """Return the action space, the same for all parameters."""
        raise NotImplementedError  # Every environment has its own.

    def observation_space(self, params: TParams | None = None) -> Box | Dict:
        """Return the observation space, the same for all parameters; by default `jaxgym.spaces.frames_or_symbols`."""
        return frames_or_symbols(self, params)

    def state_space(self, params: TParams | None = None) -> Dict:
        """Return a dict space with an unbounded box for each array of the state, by path."""
        params = self.default_params if params is None else params
        state = jax.eval_shape(self._start, jax.random.key(0), params)
        leaves = jax.tree_util.tree_leaves_with_path(state)
        return Dict({jax.tree_util.keystr(path).lstrip("."): unbounded(leaf) for path, leaf in leaves})


AnyEnvironment = Environment[Any, Any, Any, Any]
