"""Vector environments for Gymnasium."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit

from jaxgym import forks
from jaxgym.errors import ActionError, LevelError, OptionError, shown
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import AnyEnvironment, Game
from jaxgym.gymnasium_api.single import stand_in
from jaxgym.options import is_integer

_MASK = "reset_mask"


class GymnasiumVectorEnv(VectorEnv[Any, Any, np.ndarray]):
    """A `gymnasium.vector.VectorEnv` of a jaxgym environment; one jitted program steps the batch.

    Environment i plays the same episodes as a `GymnasiumEnv` that is reset with the seed of environment i. The
    autoreset modes are those of Gymnasium:

    - `NEXT_STEP`, the default: the step after the end of an episode ignores the action and returns the first
      observation of the next episode, with reward 0.
    - `SAME_STEP`: the step that ends an episode returns the first observation of the next one; `infos` has the last
      observation in `final_obs` and the metrics of the episode in `final_info`.
    - `DISABLED`: `reset(options={"reset_mask": mask})` starts the next episodes.

    Attributes:
        game: The environment and the parameters of the whole batch.
    """

    def __init__(
        self,
        num_envs: int,
        env_id: str,
        *,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **options: Any,
    ):
        """Make the environments.

        Args:
            num_envs: Number of environments.
            env_id: One of `jaxgym.registered_envs()`.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            autoreset_mode: When the next episode starts: an `AutoresetMode` or its value.
            **options: Options of `jaxgym.make`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option does not exist or its value is invalid.
            LevelError: If `levels` are of another environment.
        """
        _check_num_envs(env_id, num_envs)
        self._mode = _checked_mode(env_id, autoreset_mode)
        self.metadata = {**games.metadata_of(env_id), "autoreset_mode": self._mode}
        self.render_mode = games.checked_render_mode(env_id, render_mode)
        self.num_envs = num_envs
        self.game = Game.of(env_id, options)
        self.single_observation_space = self.game.observation_space
        self.single_action_space = self.game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._env_id, self._options = env_id, options
        self._roots = np.asarray([games.root_of(None) for _ in range(num_envs)])
        self._episodes = np.zeros(num_envs, dtype=np.uint32)
        self._states: Any = None
        self._observations: Any = None
        self._ended = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in every environment, or in those of a mask.

        Args:
            seed: A seed for each environment, or one seed s for s, s + 1, …; None continues an environment's sequence
                of episodes.
            options: Options of the whole batch that override those of `make` until the next reset with options; an
                empty dict restores those of `make`. They must not change a space. `{"reset_mask": mask}`, a NumPy bool
                array of shape (num_envs,), resets the environments where it is true and keeps the options.

        Returns:
            The observations, and an empty dict. Environments that were not reset return their current observation.

        Raises:
            OptionError: If an option does not exist, its value is invalid, or it changes a space; if the mask is
                invalid, or comes with other options.
            LevelError: If the number of seeds differs from the number of environments, or a seed is not an integer of
                at least 0.
            ResetNeeded: If the first reset has a mask.
            ForkError: In a forked child of a process that runs JAX; `step` and `render` raise it too.
        """
        forks.check()
        seeds = self._seeds_of_envs(seed)
        chosen = {} if options is None else games.checked_options(self._env_id, options)
        mask = self._checked_mask(chosen) if _MASK in chosen else np.ones(self.num_envs, dtype=bool)
        super().reset(seed=seeds[0])
        if options is not None and _MASK not in chosen:
            self.game = self.game.under(self._env_id, {**self._options, **chosen})
        for index, given in enumerate(seeds):
            if not mask[index]:
                continue
            if given is None:
                self._episodes[index] += 1
            else:
                self._roots[index], self._episodes[index] = games.root_of(given), 0
        if mask.all():
            started = _reset(self.game.env, self._roots, self._episodes, self.game.params)
        else:
            started = self._restarted(mask, self._observations, self._states)
        self._observations, self._states = started
        self._ended = self._ended & ~mask
        return games.on_host(self._observations), {}

    def _checked_mask(self, options: dict[str, Any]) -> np.ndarray:
        mask = options[_MASK]
        is_mask = isinstance(mask, np.ndarray) and (mask.dtype, mask.shape) == (np.bool_, (self.num_envs,))
        if not is_mask or not mask.any():
            raise OptionError(
                f"{self._env_id}: expected {_MASK} to be a NumPy array of bool of shape ({self.num_envs},) with a true "
                f"entry, got {shown(mask)}."
            )
        if len(options) > 1:
            others = ", ".join(repr(name) for name in options if name != _MASK)
            raise OptionError(
                f"{self._env_id}: expected {_MASK} alone, got it with {others}. Pass options, which apply to the whole "
                "batch, to a reset without a mask."
            )
        games.started(self._env_id, self._states)
        return mask

    def _seeds_of_envs(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if _is_seed(seed):
            return [int(seed) + index for index in range(self.num_envs)]  # pyright: ignore[reportArgumentType]
        given = list(seed) if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str) else [seed]
        if not all(each is None or _is_seed(each) for each in given):
            raise LevelError(
                f"{self._env_id}: seed: expected an integer of at least 0, or a list with an integer or None for each "
                f"environment, got {seed!r}."
            )
        if len(given) != self.num_envs:
            raise LevelError(f"{self._env_id}: seed: expected {self.num_envs} seeds or one integer, got {len(given)}.")
        return [None if each is None else int(each) for each in given]

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every environment, and reset those that the autoreset mode requires.

        Raises:
            ResetNeeded: If there was no reset, or, without autoreset, none after the end of an episode.
            ActionError: If the actions are not in the space.
        """
        env, params, resets = self.game.env, self.game.params, self._ended
        before = games.started(self._env_id, self._states)
        if self._mode is AutoresetMode.DISABLED and resets.any():
            indices = np.flatnonzero(resets).tolist()
            raise gymnasium.error.ResetNeeded(
                f"{self._env_id}: expected running episodes, got ended ones at index {indices}. "
                f'Call reset(options={{"{_MASK}": terminated | truncated}}) first.'
            )
        given = games.checked_action(env, actions, self.action_space)
        if given.shape[:1] != (self.num_envs,):
            raise ActionError(
                f"{self._env_id}: actions must have shape {self.action_space.shape}, got {given.shape}. "
                "Pass one action for each environment."
            )
        observations, states, *results = _step(env, before, given, params)
        rewards, terminated, truncated, info = jax.device_get(results)
        # In the mode NEXT_STEP, the step after the end of an episode has no reward. In other modes, `resets` is False.
        rewards = np.where(resets, 0.0, rewards.astype(np.float64))
        terminated, truncated = terminated & ~resets, truncated & ~resets
        ended = terminated | truncated
        if self._mode is AutoresetMode.SAME_STEP:
            infos, resets, self._ended = _where(info, ~ended), ended, np.zeros_like(ended)
            if ended.any():
                infos |= {"final_obs": _objects(observations, ended), "_final_obs": ended}
                infos |= {"final_info": _where(info, ended), "_final_info": ended}
        else:
            infos, self._ended = _where(info, ~resets), ended
        if resets.any():
            self._episodes += resets
            observations, states = self._restarted(resets, observations, states)
        self._observations, self._states = observations, states
        return games.on_host(observations), rewards, terminated, truncated, infos

    def _restarted(self, mask: np.ndarray, observations: Any, states: Any) -> tuple[Any, Any]:
        """Return the observations and states, with those of the episodes that start where the mask is true."""
        game = self.game
        return _restart(game.env, self._roots, self._episodes, mask, (observations, states), game.params)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return an image for each environment; see `GymnasiumEnv.render`."""
        render_mode = self.render_mode
        if render_mode is None:
            return None
        states = games.started(self._env_id, self._states)
        entries = (jax.tree.map(lambda leaf: leaf[index], states) for index in range(self.num_envs))  # noqa: B023
        return tuple(self.game.image(state, render_mode) for state in entries)


def _checked_mode(env_id: str, mode: Any) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        allowed = ", ".join(f"AutoresetMode.{each.name} ({each.value!r})" for each in AutoresetMode)
        raise OptionError(f"{env_id}: expected autoreset_mode to be one of {allowed}, got {shown(mode)}.") from error


def _check_num_envs(env_id: str, num_envs: Any) -> None:
    if not is_integer(num_envs) or num_envs < 1:
        raise OptionError(f"{env_id}: expected num_envs to be an integer from 1 up, got {shown(num_envs)}.")


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, int | np.integer) and not isinstance(seed, bool) and int(seed) >= 0


def _where(info: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, Any]:
    """Return the entries where the mask is true in Gymnasium's format: zeros elsewhere, and a mask for each entry."""
    chosen = {
        name: np.where(np.expand_dims(mask, tuple(range(1, entry.ndim))), entry, np.zeros_like(entry))
        for name, entry in info.items()
    }
    return chosen | {f"_{name}": mask for name in info}


def _objects(observations: Any, mask: np.ndarray) -> np.ndarray:
    """Return an object array with the observations where the mask is true, and None elsewhere."""
    host = games.on_host(observations)
    entries = np.full(len(mask), None, dtype=object)
    for index in np.flatnonzero(mask):
        entries[index] = jax.tree.map(lambda leaf: leaf[index], host)  # noqa: B023 — called at once.
    return entries


@partial(jax.jit, static_argnames=("env",))
def _reset(env: AnyEnvironment, roots: jax.Array, episodes: jax.Array, params: Any) -> tuple[Any, Any]:
    return jax.vmap(partial(games.reset, env), in_axes=(0, 0, None))(roots, episodes, params)


@partial(jax.jit, static_argnames=("env",))
def _step(env: AnyEnvironment, states: Any, actions: jax.Array, params: Any) -> Any:
    return jax.vmap(partial(games.step, env), in_axes=(0, 0, None))(states, actions, params)


@partial(jax.jit, static_argnames=("env",))
def _restart(
    env: AnyEnvironment, roots: jax.Array, episodes: jax.Array, ended: jax.Array, current: Any, params: Any
) -> tuple[Any, Any]:
    """Return the observations and states `current`, with those of a new episode where the last one has ended."""

    def choose(started: jax.Array, running: jax.Array) -> jax.Array:
        return jnp.where(jnp.expand_dims(ended, tuple(range(1, started.ndim))), started, running)

    return jax.tree.map(choose, _reset(env, roots, episodes, params), current)


def make(
    num_envs: int,
    env_id: str,
    *,
    memory_gym_layout: bool = False,
    minigrid_layout: bool = False,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    max_episode_steps: int | None = None,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """Make a vector environment: one jitted program, or single environments that are stepped one by one.

    `memory_gym_layout` and `minigrid_layout` select single environments, in a `SyncVectorEnv`.

    Args:
        num_envs: Number of environments.
        env_id: One of `jaxgym.registered_envs()`.
        memory_gym_layout: Whether to use the interface and levels of memory-gym 1.0.2.
        minigrid_layout: Whether to use the interface and levels of minigrid 3.2.0.
        autoreset_mode: When the next episode starts, as in Gymnasium.
        max_episode_steps: Steps after which an episode is truncated; 0 or less means no limit, None the limit of the
            environment.
        **kwargs: Arguments of `GymnasiumVectorEnv`, `MemoryGymEnv` or `MiniGridEnv`.

    Raises:
        OptionError: If the value of an argument is invalid, or there are two limits.
    """
    _check_num_envs(env_id, num_envs)
    mode = _checked_mode(env_id, autoreset_mode)
    if max_episode_steps is not None and not is_integer(max_episode_steps):
        raise OptionError(f"{env_id}: expected max_episode_steps to be an integer, got {shown(max_episode_steps)}.")
    kind = stand_in(memory_gym_layout, minigrid_layout)
    if kind is None:
        if max_episode_steps is not None and kwargs.get("max_steps") is not None:
            raise OptionError(
                f"{env_id}: expected one time limit, got max_episode_steps={max_episode_steps} and "
                f"max_steps={shown(kwargs['max_steps'])}. Leave one of them out."
            )
        limit = {} if max_episode_steps is None else {"max_steps": max_episode_steps}
        return GymnasiumVectorEnv(num_envs, env_id, autoreset_mode=mode, **{**kwargs, **limit})

    def single() -> gymnasium.Env[Any, Any]:
        env = kind(env_id, **kwargs)
        return TimeLimit(env, max_episode_steps) if max_episode_steps is not None and max_episode_steps > 0 else env

    return SyncVectorEnv([single] * num_envs, autoreset_mode=mode)
