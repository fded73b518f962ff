"""Many environments for Gymnasium, side by side."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from jaxgym.errors import ActionError, LevelError, OptionError
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import AnyEnvironment, Game
from jaxgym.gymnasium_api.memory_gym import MemoryGymEnv


class GymnasiumVectorEnv(VectorEnv[Any, Any, np.ndarray]):
    """A `gymnasium.vector.VectorEnv` of one of our environments, all lanes in one program.

    It resets in the same step: where an episode ends, the observation is the first of the next one, and `infos` has the
    last one in `final_obs` and the numbers of the episode in `final_info`. Lane i plays what `GymnasiumEnv` plays with
    the seed of that lane, episode after episode.

    Attributes:
        game: The environment and the parameters of all lanes.
    """

    def __init__(self, num_envs: int, env_id: str, *, render_mode: str | None = None, **options: Any):
        """Makes the environments.

        Args:
            num_envs: Number of lanes.
            env_id: One of `jaxgym.registered_envs()`.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            **options: Those of `jaxgym.make`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option does not exist, or does not take the given value.
            LevelError: If `levels` are of another environment.
        """
        if not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise OptionError(f"{env_id} was given num_envs={num_envs!r}; give an integer from 1 up.")
        self.metadata = {**games.metadata_of(env_id), "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = games.checked_render_mode(env_id, render_mode)
        self.num_envs = num_envs
        self.game = Game.of(env_id, options)
        self.single_observation_space = self.game.observation_space
        self.single_action_space = self.game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._env_id, self._options, self._chosen = env_id, options, games.comparable(options)
        self._words = np.asarray([games.word_of(None) for _ in range(num_envs)])
        self._episodes = np.zeros(num_envs, dtype=np.uint32)
        self._states: Any = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in every lane.

        Args:
            seed: A seed for each lane, or s for s, s + 1, …; a lane without one goes on with its stream of episodes.
            options: Options of the game for all lanes, to play under until others are given, on top of those of
                `make`; those alone for an empty dict. They may not change a space.

        Returns:
            The first observations, and an empty dict.

        Raises:
            OptionError: If an option does not exist, does not take the given value, or changes a space.
            LevelError: If there are more or fewer seeds than lanes, or one is no integer from 0 up.
        """
        seeds = self._seeds_of_lanes(seed)
        super().reset(seed=seeds[0])
        if options is not None:
            self._choose({**self._options, **games.checked_options(self._env_id, options)})
        for lane, given in enumerate(seeds):
            if given is None:
                self._episodes[lane] += 1
            else:
                self._words[lane], self._episodes[lane] = games.word_of(given), 0
        observations, self._states = _reset(self.game.env, self._words, self._episodes, self.game.params)
        return games.on_host(observations), {}

    def _choose(self, options: dict[str, Any]) -> None:
        chosen = games.comparable(options)
        if chosen != self._chosen:
            self.game, self._chosen = self.game.under(self._env_id, options), chosen

    def _seeds_of_lanes(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if _is_seed(seed):
            return [int(seed) + lane for lane in range(self.num_envs)]  # pyright: ignore[reportArgumentType]
        given = list(seed) if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str) else [seed]
        if not all(each is None or _is_seed(each) for each in given):
            raise LevelError(
                f"{self._env_id} was given seed={seed!r}; give one integer from 0 up, or a list with an integer or "
                "None for each lane."
            )
        if len(given) != self.num_envs:
            raise LevelError(
                f"{self._env_id} was given {len(given)} seeds for {self.num_envs} lanes; give one for each, or one "
                "integer for all."
            )
        return [None if each is None else int(each) for each in given]

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes a step in every lane, and a reset where an episode ends.

        Raises:
            ResetNeeded: If there was no reset before.
            ActionError: If the actions are none of the space.
        """
        env, params = self.game.env, self.game.params
        before = games.started(self._env_id, self._states)
        given = games.checked_action(env, actions, self.action_space)
        if given.shape[:1] != (self.num_envs,):
            raise ActionError(
                f"{self._env_id} was given actions of shape {given.shape} for {self.num_envs} lanes; give one for "
                f"each, in the shape {self.action_space.shape}."
            )
        observations, states, *told = _step(env, before, given, params)
        rewards, terminated, truncated, info = jax.device_get(told)
        ended = terminated | truncated
        infos = _where(info, ~ended)
        if ended.any():
            infos |= {"final_obs": _lanes(observations, ended), "_final_obs": ended}
            infos |= {"final_info": _where(info, ended), "_final_info": ended}
            self._episodes += ended
            observations, states = _restart(env, self._words, self._episodes, ended, (observations, states), params)
        self._states = states
        flags = np.array(terminated), np.array(truncated)
        return games.on_host(observations), rewards.astype(np.float64), *flags, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Returns a picture for each lane; see `GymnasiumEnv.render`."""
        render_mode = self.render_mode
        if render_mode is None:
            return None
        states = games.started(self._env_id, self._states)
        lanes = (jax.tree.map(lambda leaf: leaf[lane], states) for lane in range(self.num_envs))  # noqa: B023
        return tuple(self.game.picture(state, render_mode) for state in lanes)


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, int | np.integer) and not isinstance(seed, bool) and int(seed) >= 0


def _where(info: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, Any]:
    """Returns the entries of some lanes in Gymnasium's form: zeros elsewhere, and a mask beside each."""
    chosen = {
        name: np.where(np.expand_dims(mask, tuple(range(1, entry.ndim))), entry, np.zeros_like(entry))
        for name, entry in info.items()
    }
    return chosen | {f"_{name}": mask for name in info}


def _lanes(observations: Any, mask: np.ndarray) -> np.ndarray:
    """Returns an array of objects: the observations of some lanes, None elsewhere."""
    host = games.on_host(observations)
    lanes = np.full(len(mask), None, dtype=object)
    for lane in np.flatnonzero(mask):
        lanes[lane] = jax.tree.map(lambda leaf: leaf[lane], host)  # noqa: B023 — called at once.
    return lanes


@partial(jax.jit, static_argnames=("env",))
def _reset(env: AnyEnvironment, words: jax.Array, episodes: jax.Array, params: Any) -> tuple[Any, Any]:
    return jax.vmap(partial(games.reset, env), in_axes=(0, 0, None))(words, episodes, params)


@partial(jax.jit, static_argnames=("env",))
def _step(env: AnyEnvironment, states: Any, actions: jax.Array, params: Any) -> Any:
    return jax.vmap(partial(games.step, env), in_axes=(0, 0, None))(states, actions, params)


@partial(jax.jit, static_argnames=("env",))
def _restart(
    env: AnyEnvironment, words: jax.Array, episodes: jax.Array, ended: jax.Array, here: Any, params: Any
) -> tuple[Any, Any]:
    """Returns the observations and states `here`, with those of a new episode in the lanes where one ended."""

    def choose(started: jax.Array, going_on: jax.Array) -> jax.Array:
        return jnp.where(jnp.expand_dims(ended, tuple(range(1, started.ndim))), started, going_on)

    return jax.tree.map(choose, _reset(env, words, episodes, params), here)


def make(num_envs: int, env_id: str, *, memory_gym_layout: bool = False, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Makes environments side by side: one program, or as many stand-ins for memory-gym's, which step in turn."""
    if not memory_gym_layout:
        return GymnasiumVectorEnv(num_envs, env_id, **kwargs)
    single = partial[gymnasium.Env[Any, Any]](MemoryGymEnv, env_id, **kwargs)
    return SyncVectorEnv([single] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
