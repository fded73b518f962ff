"""The base of every environment: a level, then a pure function of the actions.

An environment says how a level is sampled, which state it starts in, what an action does, and what a viewer may know.
This class makes a gymnax 1.x environment of it: six values a step, auto-reset, and one drawing a step.
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

from jaxgym import forks, levels, pytrees
from jaxgym.errors import ActionError, LevelError
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete, unbounded

_ACTIONS = np.iinfo(np.int32)


@struct.dataclass
class EnvState(gymnax_environment.EnvState):
    """What every state holds; each game adds its own fields.

    Attributes:
        time: Steps made since the reset, int32 ().
        level: What was sampled for this episode, a `Level` of the game.
        episode_return: Sum of the rewards since the reset, float32 ().
        terminated: Whether the last step ended the episode by the rules of the game, bool ().
        level_index: Index of the level in the level buffer that the reset drew from, int32 (); -1 for any other level.
    """

    time: jax.Array  # pyright: ignore[reportIncompatibleVariableOverride] — gymnax says int, and stores arrays.
    level: Any
    episode_return: jax.Array
    terminated: jax.Array
    # By keyword with a default, so that a game that builds its state need not name it.
    level_index: jax.Array | np.ndarray = struct.field(default=levels.NO_INDEX, kw_only=True)


@struct.dataclass
class EnvParams(gymnax_environment.EnvParams):
    """What every game's parameters hold; all fields are traced and may be vmapped.

    Attributes:
        max_steps_in_episode: The time limit in steps, int32 (); 0 or less means none.
        levels: A bank of levels for resets to draw from (see `jaxgym.levels`), or None to sample fresh ones.
        SHARED: The fields that all lanes of vmapped parameters share (see `jaxgym.levels.params_axes`).
    """

    SHARED: ClassVar[tuple[str, ...]] = ("levels",)

    # gymnax says int, and takes whatever can be compared with the time.
    max_steps_in_episode: jax.Array | np.ndarray | int = 0  # pyright: ignore[reportIncompatibleVariableOverride]
    levels: Any = None


@struct.dataclass
class Transition:
    """What one step did.

    Attributes:
        state: The state after the step.
        reward: float32 ().
        terminated: Whether the rules of the game ended the episode, bool ().
        metrics: The game's own entries of `info`, the same on every step.
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

    Subclasses are dataclasses (`unsafe_hash=True`) whose fields fix shapes and programs and never change. Two
    instances with equal fields are equal and hash equal, so a jitted function traces once for both.

    Attributes:
        env_id: The id that it was made by.
        initial_params: The parameters of the `make` call that built it; they take no part in equality.
    """

    env_id: str
    initial_params: TParams = dataclasses.field(compare=False, repr=False)

    def __setattr__(self, name: str, value: Any) -> None:
        # Not a frozen dataclass: gymnax's vector wrapper replaces the methods of its copy.
        if name in self.__dataclass_fields__ and name in self.__dict__:
            raise AttributeError(f"{name} of {self.env_id} can't be changed; make another environment.")
        super().__setattr__(name, value)

    # What a game defines.

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of the environment and its parameters that follow from the options; none by default.

        Args:
            env_id: The id, to name in an error.
            values: A plain value for each option, and what `Spec.fixed` holds. A result of the same name replaces it.

        Raises:
            OptionError: If values do not fit each other.
        """
        del env_id, values
        return {}

    def sample_level(self, key: jax.Array, params: TParams) -> TLevel:
        """Samples everything that is random in an episode; consumes `key`."""
        raise NotImplementedError  # Every game has its own.

    def initial_state(self, level: TLevel, params: TParams) -> TState:
        """Returns the state in which an episode of `level` starts."""
        raise NotImplementedError  # Every game has its own.

    def transition(self, state: TState, action: jax.Array, params: TParams) -> Transition:
        """Applies the rules of one step; `state.time` already counts this step."""
        raise NotImplementedError  # Every game has its own.

    def scene(self, state: TState, params: TParams) -> TScene:
        """Returns what a viewer may know of `state`, as small integers."""
        raise NotImplementedError  # Every game has its own.

    def observe_scene(self, scene: TScene) -> Any:
        """Returns the observation of a scene."""
        raise NotImplementedError  # Every game has its own.

    metric: ClassVar[str] = "success"  # entry of `info` that the game counts as its result

    def normalized_return(self, info: Mapping[str, jax.Array], state: TState, params: TParams) -> jax.Array:
        """Returns the return in `info` divided by the largest of the level, float32 (); `state` is any of the episode.

        By default it is `info[self.metric]`: the success, or what an endless game counts. Without that, the return.
        """
        del state, params
        return info.get(self.metric, info["reward"]).astype(jnp.float32)

    # What this class makes of it.

    @property
    def name(self) -> str:
        """The id."""
        return self.env_id

    @property
    def default_params(self) -> TParams:
        """The parameters of the `make` call that built this environment."""
        return self.initial_params

    # `reset` and `step` are plain methods around jitted ones: the default parameters are no part of an environment's
    # equality, so they have to be looked up outside of the trace.
    def reset(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, key: jax.Array, params: TParams | None = None
    ) -> tuple[Any, TState]:
        """Starts an episode in a level drawn from the bank, or in a fresh training level.

        Args:
            key: A PRNG key; it is consumed.
            params: Parameters; those of `make` if None.

        Returns:
            The first observation and the state.

        Raises:
            StateError: If the parameters are not of this environment's class.
            LevelError: If `params.levels` is no bank of this environment.
            ForkError: In a forked child of a process that runs JAX; `step` and `reset_to_level` raise it too.
        """
        forks.check()
        return self._reset(key, self._checked_params(params))

    def reset_to_level(self, key: jax.Array, level: TLevel, params: TParams | None = None) -> tuple[Any, TState]:
        """Starts an episode in the given level.

        Args:
            key: A PRNG key, for games whose first observation needs one; none does so far.
            level: A level of this game, from `sample_level`, `jaxgym.levels.level_from_seed` or a bank.
            params: Parameters; those of `make` if None.

        Returns:
            The first observation and the state.

        Raises:
            StateError: If the parameters are not of this environment's class.
            LevelError: If the level has other arrays than those of this environment. Their values are not checked, for
                they may be traced: to give a level of the same options is the caller's part.
        """
        forks.check()
        params = self._checked_params(params)
        try:
            return self._reset_to_level(key, level, params)
        except TypeError:  # of JAX, for what is no array
            levels.check_level(self, level, params)
            raise

    def step(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, key: jax.Array, state: TState, action: jax.Array | int, params: TParams | None = None
    ) -> tuple[Any, TState, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """Makes a step; where the episode ends, the state and the observation returned are those of the next one.

        The state is chosen before anything is drawn, so a step costs one drawing. `info["final_observation"]` is drawn
        from the state before the reset; a program that does not read it does not pay for it.

        Args:
            key: A PRNG key for the reset that may follow; it is consumed. The step itself is deterministic.
            state: The state.
            action: An integer action of the action space's shape. Values outside of the space do nothing.
            params: Parameters; those of `make` if None.

        Returns:
            Observation, state, reward float32 (), terminated bool (), truncated bool (), and `info`, whose entries are
            the same on every step: `reward` (sum so far, this step included) and `length` of the episode, the game's
            own, `terminated`, `truncated`, `level_index` (of this episode's level in the level buffer that its reset
            drew from, int32 (); -1 for any other level), and `final_observation`. Both flags may be true together.

        Raises:
            ActionError: If the action has another shape than the action space, is not of an integer dtype, or, unless
                it is an array of JAX, does not fit int32.
            StateError: If the state or the parameters are those of another environment or library.
            LevelError: If `params.levels` is no bank of this environment.
        """
        forks.check()
        pytrees.check_state(self.env_id, state, EnvState)
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
        started = self._start(key, params)
        pytrees.check_state(self.env_id, state, started)
        stepped, reward, terminated, info = self._advance(state, action, params)
        truncated = self.is_truncated(stepped, params)
        ended = terminated | truncated
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
        """Starts an episode; gymnax's hook, not jitted. See `reset`."""
        pytrees.check_params(self.env_id, params, type(self.default_params))
        state = self._start(key, params)
        pytrees.register_nodes((state, params))
        return self.observe(key, state, None, params), state

    def _start(self, key: jax.Array, params: TParams) -> TState:
        level, index = levels.draw(self, key, params)
        return dataclasses.replace(self.initial_state(level, params), level_index=index)

    def step_env(
        self, key: jax.Array, state: TState, action: jax.Array | float, params: TParams
    ) -> tuple[Any, TState, jax.Array, jax.Array, dict[str, Any]]:
        """Makes a step without auto-reset and without time limit; gymnax's hook, not jitted."""
        pytrees.check_state(self.env_id, state, EnvState)
        pytrees.check_params(self.env_id, params, type(self.default_params))
        stepped, reward, terminated, info = self._advance(state, action, params)
        return self.observe(key, stepped, action, params), stepped, reward, terminated, info

    def _advance(
        self, state: TState, action: jax.Array | float, params: TParams
    ) -> tuple[TState, jax.Array, jax.Array, dict[str, jax.Array]]:
        pytrees.register_nodes((state, params))
        action = self._checked_action(action, params)
        made = self.transition(dataclasses.replace(state, time=state.time + 1), action, params)
        stepped = dataclasses.replace(
            made.state,
            episode_return=state.episode_return + made.reward,
            terminated=made.terminated,
            level_index=state.level_index,
        )
        info = {"reward": stepped.episode_return, "length": stepped.time, **made.metrics}
        return stepped, made.reward, made.terminated, info

    def observe(self, key: jax.Array, state: TState, action: Any, params: TParams) -> Any:
        """Returns the observation of a state; `key` and `action` are not used, so the state alone decides it."""
        del key, action
        # Without the barriers XLA computes the transition again for every pixel, and every pixel again for its readers.
        scene = lax.optimization_barrier(self.scene(state, params))
        return lax.optimization_barrier(self.observe_scene(scene))

    def is_truncated(self, state: TState, params: TParams) -> jax.Array:
        """Whether the time limit is reached; never, if the limit is 0 or less."""
        limit = params.max_steps_in_episode
        return (jnp.asarray(limit) > 0) & (state.time >= limit)

    def is_terminated(self, state: TState, params: TParams) -> jax.Array:
        """Whether the step that led to `state` ended the episode by the rules of the game."""
        del params
        return state.terminated

    def _checked_params(self, params: TParams | None) -> TParams:
        params = self.default_params if params is None else params
        pytrees.check_params(self.env_id, params, type(self.default_params))
        if isinstance(params.levels, str):  # which would not get through jit, to the check of banks
            raise LevelError(
                f"{self.env_id} was given parameters with levels={params.levels!r}; "
                "give a bank, or None for fresh levels."
            )
        return params

    def action_array(self, action: Any) -> jax.Array | np.ndarray:
        """Returns an action, or a batch of them, as an array of numbers, which JAX takes.

        Raises:
            ActionError: If it is no number or list of numbers, or is known to hold an integer beyond int32.
        """
        if isinstance(action, jax.Array):
            return action
        try:
            given = np.asarray(action)
        except jax.errors.TracerArrayConversionError:  # a list of traced numbers
            return jnp.asarray(action)
        except ValueError:  # lists of different lengths
            given = np.asarray(None)
        is_integer = np.issubdtype(given.dtype, np.integer)
        is_number = is_integer or np.issubdtype(given.dtype, np.floating) or given.dtype == np.bool_
        if not is_number or (is_integer and ((given < _ACTIONS.min) | (given > _ACTIONS.max)).any()):
            space = self.action_space(self.default_params)
            raise ActionError(
                f"{self.env_id} was given the action {action!r}; "
                f"it takes integers of int32 in the shape {space.shape} ({space!r})."
            )
        return given

    def _checked_action(self, action: jax.Array | float, params: TParams) -> jax.Array:
        space = self.action_space(params)
        action = jnp.asarray(self.action_array(action))
        if action.shape != space.shape:
            raise ActionError(
                f"{self.env_id} was given an action of shape {action.shape}; it takes {space.shape} ({space!r}): "
                "for a batch of actions, jax.vmap the step over them."
            )
        if not jnp.issubdtype(action.dtype, jnp.integer):
            raise ActionError(
                f"{self.env_id} was given an action of dtype {action.dtype}; it takes integers ({space!r}): "
                "pass action.astype(jnp.int32)."
            )
        return action.astype(jnp.int32)

    @property
    def num_actions(self) -> int:
        """The number of different actions."""
        space = self.action_space(self.default_params)
        return int(np.prod(space.nvec)) if isinstance(space, MultiDiscrete) else space.n

    def action_space(self, params: TParams | None = None) -> Discrete | MultiDiscrete:
        """The action space, the same for all parameters."""
        raise NotImplementedError  # Every game has its own.

    def observation_space(self, params: TParams | None = None) -> Box | Dict:
        """The observation space, the same for all parameters."""
        raise NotImplementedError  # Every game has its own.

    def state_space(self, params: TParams | None = None) -> Dict:
        """One unbounded box for each array of the state, under its path."""
        params = self.default_params if params is None else params
        level = jax.eval_shape(self.sample_level, jax.random.key(0), params)
        state = jax.eval_shape(self.initial_state, level, params)
        leaves = jax.tree_util.tree_leaves_with_path(state)
        return Dict({jax.tree_util.keystr(path).lstrip("."): unbounded(leaf) for path, leaf in leaves})


AnyEnvironment = Environment[Any, Any, Any, Any]
