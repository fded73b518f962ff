"""Gymnasium environments with the interface of minigrid 3.2.0, for BabyAI and MiniGrid-Memory.

Levels, seeds, observations and `info` follow minigrid where it differs from jaxgym.
"""

import string
from typing import Any

import gymnasium
import jax

from jaxgym import forks
from jaxgym.envs.common import episode_sequence
from jaxgym.errors import OptionError
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import Game
from jaxgym.levels import SPLIT_SIZE

_LAST_SEED = 2 * SPLIT_SIZE - 1
_NUM_DIRECTIONS = 4
_LONGEST_MISSION = 512
"""Bound of the mission space; missions have at most 72 words of at most 6 letters."""


class MiniGridEnv(games.SingleEnv):
    """A `gymnasium.Env` for code that was written for minigrid.

    Observations are dicts of `image`, `direction` and the string `mission`. `reset(seed=s)` plays the level that
    minigrid makes for seed s; `reset()` continues the random numbers of the last episode. `info` is empty.

    Attributes:
        mission: The mission of the current episode.
    """

    def __init__(self, env_id: str, *, render_mode: str | None = None, **options: Any):
        """Make the environment.

        Args:
            env_id: An id of BabyAI or MiniGrid-Memory.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            **options: Options of `jaxgym.make` except `levels`; `observation` is `"symbolic"` by default, as in
                minigrid, and selects the format of `image`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If the id is of another game, an option does not exist or its value is invalid.
        """
        games.check_layout(env_id, "minigrid")
        options = {"observation": "symbolic", **options}
        super().__init__(env_id, render_mode, options)
        self.game = Game.of(env_id, {**options, "levels": "fresh"})
        self._sequence = episode_sequence.of(env_id, **options)
        self.mission = ""
        seen = self.game.observation_space
        self.action_space = self.game.action_space
        self.observation_space = gymnasium.spaces.Dict(
            {
                "image": seen["image"] if isinstance(seen, gymnasium.spaces.Dict) else seen,
                "direction": gymnasium.spaces.Discrete(_NUM_DIRECTIONS),
                "mission": gymnasium.spaces.Text(_LONGEST_MISSION, charset=f"{string.ascii_lowercase} ,"),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seed of minigrid's level, from 0 to 2^32 - 1; None continues the random numbers.
            options: None or an empty dict.

        Returns:
            The first observation, and an empty dict.

        Raises:
            OptionError: If there are options.
            LevelError: If the seed is not an integer of that range.
            ForkError: In a forked child of a process that runs JAX; `step` and `render` raise it too.
        """
        forks.check()
        seed = games.checked_seed(self._env_id, seed, most=_LAST_SEED)
        if options:
            raise OptionError(f"{self._env_id}: expected no options of a reset, got some. Pass them to gymnasium.make.")
        super().reset(seed=seed)
        level = self._sequence.start(seed)
        env: Any = self.game.env
        self.mission = env.mission_of(level)
        observation, self._state = env.reset_to_level(jax.random.key(0), level, self.game.params)
        return self._converted(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step.

        Raises:
            ResetNeeded: If the environment has not been reset.
            ActionError: If the action is not in the space.
        """
        state = games.started(self._env_id, self._state)
        given = games.checked_action(self.game.env, action, self.action_space)
        observation, self._state, *results, _ = games.step(self.game.env, state, given, self.game.params)
        reward, terminated, truncated = (result.item() for result in jax.device_get(results))
        return self._converted(observation), reward, terminated, truncated, {}

    def _converted(self, observation: Any) -> dict[str, Any]:
        """Return an observation as minigrid's dict."""
        seen = games.on_host(observation)
        parts = seen if isinstance(seen, dict) else {"image": seen}
        direction = int(self._state.world.direction)
        return {"image": parts["image"], "direction": direction, "mission": self.mission}
