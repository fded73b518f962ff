"""Single environments for Gymnasium."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxgym import forks
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import Game
from jaxgym.gymnasium_api.memory_gym import MemoryGymEnv
from jaxgym.gymnasium_api.minigrid import MiniGridEnv


class GymnasiumEnv(games.SingleEnv):
    """A `gymnasium.Env` of a jaxgym environment.

    Observations are NumPy arrays or dicts of them; rewards, flags and scalars in `info` are Python values. `info` has
    the same entries on every step, and none at a reset.
    """

    def __init__(self, env_id: str, *, render_mode: str | None = None, **options: Any):
        """Make the environment.

        Args:
            env_id: One of `jaxgym.registered_envs()`.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            **options: Options of `jaxgym.make`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option does not exist or its value is invalid.
            LevelError: If `levels` are of another environment.
        """
        super().__init__(env_id, render_mode, options)
        self.game = Game.of(env_id, options)
        self.observation_space = self.game.observation_space
        self.action_space = self.game.action_space
        self._root, self._episode = games.root_of(None), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Starts a sequence of episodes, any integer of at least 0; None continues the current sequence.
            options: Options that override those of `make` until the next reset with options; an empty dict restores
                those of `make`. They must not change a space.

        Returns:
            The first observation, and an empty dict.

        Raises:
            OptionError: If an option does not exist, its value is invalid, or it changes a space.
            LevelError: If the seed is not an integer of at least 0.
            ForkError: In a forked child of a process that runs JAX; `step` and `render` raise it too.
        """
        forks.check()
        seed = games.checked_seed(self._env_id, seed)
        super().reset(seed=seed)
        if options is not None:
            chosen = {**self._options, **games.checked_options(self._env_id, options)}
            self.game = self.game.under(self._env_id, chosen)
        if seed is None:
            self._episode += 1
        else:
            self._root, self._episode = games.root_of(seed), 0
        observation, self._state = games.reset(self.game.env, self._root, np.uint32(self._episode), self.game.params)
        return games.observed(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step.

        Raises:
            ResetNeeded: If the environment has not been reset.
            ActionError: If the action is not in the space.
        """
        state = games.started(self._env_id, self._state)
        given = games.checked_action(self.game.env, action, self.action_space)
        made = games.step(self.game.env, state, given, self.game.params)
        self._state = made[1]
        observation, reward, terminated, truncated, info = jax.device_get((made[0], *made[2:]))
        return (
            games.observed(observation),
            reward.item(),
            terminated.item(),
            truncated.item(),
            {name: entry if entry.ndim else entry.item() for name, entry in info.items()},
        )


def stand_in(memory_gym_layout: bool, minigrid_layout: bool) -> Callable[..., games.SingleEnv] | None:
    """Return the class with the interface of another package, or None if no other is asked for."""
    if minigrid_layout:
        return MiniGridEnv
    return MemoryGymEnv if memory_gym_layout else None


class EntryPoint:
    """Entry point for Gymnasium; a class, because Gymnasium reads the attribute `metadata` of its entry point."""

    metadata = games.METADATA

    def __call__(
        self, env_id: str, *, memory_gym_layout: bool = False, minigrid_layout: bool = False, **kwargs: Any
    ) -> games.SingleEnv:
        """Make an environment, with the interface of memory-gym or minigrid if asked for."""
        kind = stand_in(memory_gym_layout, minigrid_layout) or GymnasiumEnv
        return kind(env_id, **kwargs)


make = EntryPoint()
