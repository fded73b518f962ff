"""One environment for Gymnasium."""

from typing import Any

import gymnasium
import jax
import numpy as np

from jaxgym import forks
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import Game
from jaxgym.gymnasium_api.memory_gym import MemoryGymEnv


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """A `gymnasium.Env` that plays one of our environments.

    Observations are NumPy arrays, or a dict of them; rewards, flags and the numbers in `info` are Python's. `info` has
    the same entries on every step, and none at a reset.

    Attributes:
        game: The environment and the parameters of the present episode.
    """

    metadata = games.METADATA

    def __init__(self, env_id: str, *, render_mode: str | None = None, **options: Any):
        """Make the environment.

        Args:
            env_id: One of `jaxgym.registered_envs()`.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            **options: Those of `jaxgym.make`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option does not exist, or does not take the given value.
            LevelError: If `levels` are of another environment.
        """
        self.metadata = games.metadata_of(env_id)
        self.render_mode = games.checked_render_mode(env_id, render_mode)
        self.game = Game.of(env_id, options)
        self.observation_space = self.game.observation_space
        self.action_space = self.game.action_space
        self._env_id, self._options, self._chosen = env_id, options, games.comparable(options)
        self._word, self._episode = games.word_of(None), 0
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Starts a stream of episodes, any integer from 0 up; None goes on with it.
            options: Options of the game to play under until others are given, on top of those of `make`; those
                alone for an empty dict. They may not change a space.

        Returns:
            The first observation, and an empty dict.

        Raises:
            OptionError: If an option does not exist, does not take the given value, or changes a space.
            LevelError: If the seed is no integer from 0 up.
            ForkError: In a forked child of a process that runs JAX; `step` and `render` raise it too.
        """
        forks.check()
        seed = games.checked_seed(self._env_id, seed)
        super().reset(seed=seed)
        if options is not None:
            self._choose({**self._options, **games.checked_options(self._env_id, options)})
        if seed is None:
            self._episode += 1
        else:
            self._word, self._episode = games.word_of(seed), 0
        observation, self._state = games.reset(self.game.env, self._word, np.uint32(self._episode), self.game.params)
        return games.on_host(observation), {}

    def _choose(self, options: dict[str, Any]) -> None:
        chosen = games.comparable(options)
        if chosen != self._chosen:
            self.game, self._chosen = self.game.under(self._env_id, options), chosen

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step.

        Raises:
            ResetNeeded: If there was no reset before.
            ActionError: If the action is none of the space.
        """
        state = games.started(self._env_id, self._state)
        given = games.checked_action(self.game.env, action, self.action_space)
        made = games.step(self.game.env, state, given, self.game.params)
        self._state = made[1]
        observation, reward, terminated, truncated, info = jax.device_get((made[0], *made[2:]))
        return (
            jax.tree.map(np.array, observation),
            reward.item(),
            terminated.item(),
            truncated.item(),
            {name: entry if entry.ndim else entry.item() for name, entry in info.items()},
        )

    def render(self) -> np.ndarray | None:
        """Return a picture of the present state, row first: `"rgb_array"` is what the agent sees, uint8 (84, 84, 3).

        `"debug_rgb_array"` is what it has to find out, uint8 (336, 336, 3). None without a render mode.
        """
        if self.render_mode is None:
            return None
        return self.game.picture(games.started(self._env_id, self._state), self.render_mode)


class Maker:
    """What Gymnasium calls for an environment; a class, since Gymnasium looks for metadata at what it calls."""

    metadata = games.METADATA

    def __call__(self, env_id: str, *, memory_gym_layout: bool = False, **kwargs: Any) -> "GymnasiumEnv | MemoryGymEnv":
        """Make an environment: one that stands in for memory-gym's, or one of ours."""
        return MemoryGymEnv(env_id, **kwargs) if memory_gym_layout else GymnasiumEnv(env_id, **kwargs)


make = Maker()
