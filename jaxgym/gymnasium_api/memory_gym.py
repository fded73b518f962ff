"""Gymnasium environments with the interface of memory-gym 1.0.2.

Frames, seeds, options, endings and `info` follow memory-gym where it differs from Gymnasium or jaxgym.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np

from jaxgym import forks, registration
from jaxgym.envs.common import episode_sequence
from jaxgym.gymnasium_api import games
from jaxgym.gymnasium_api.games import AnyEnvironment, Game
from jaxgym.levels import SPLIT_SIZE
from jaxgym.options import with_preset

_NO_LIMIT = -1
_ORIGINAL_NAMES = {"episode_return": "reward", "episode_length": "length"}
_LAST_SEED = 2 * SPLIT_SIZE - 1


class MemoryGymEnv(games.SingleEnv):
    """A `gymnasium.Env` for code that was written for memory-gym.

    Frames are column first. The time limit terminates an episode; no episode is truncated. `reset(seed=s)` plays the
    level that memory-gym makes for seed s; `reset()` continues the random numbers of the last episode. `info` is empty
    except at the last step of an episode; in endless environments every `info` has a `ground_truth`. The entries have
    memory-gym's names: `reward` is the return of the episode, and `length` its number of steps.

    Attributes:
        reset_params: All options of the current episode.
        max_episode_steps: Maximum length of the episode; -1 without a limit.
        has_ground_truth_info: Whether `info` has a `ground_truth`.
        ground_truth_space: Space of the `ground_truth`, if there is one.
    """

    def __init__(self, env_id: str, *, render_mode: str | None = None, **options: Any):
        """Make the environment.

        Args:
            env_id: An id with an original.
            render_mode: `"rgb_array"`, `"debug_rgb_array"` or None.
            **options: Options of `jaxgym.make` except `levels`; they are the defaults of `reset`.

        Raises:
            UnknownIdError: If the id is not registered.
            OptionError: If an option does not exist, its value is invalid, or the original is not in memory-gym.
            LevelError: If the id has no original.
        """
        games.check_layout(env_id, "memory_gym")
        super().__init__(env_id, render_mode, options)
        self._choose(options)
        self.action_space = self.game.action_space
        self.observation_space = self.game.observation_space
        self.has_ground_truth_info = hasattr(self.game.env, "ground_truth")
        if self.has_ground_truth_info:
            _, _, ground_truth = jax.eval_shape(partial(_sampled, self.game.env), self.game.params)
            self.ground_truth_space = gymnasium.spaces.Box(0.0, 1.0, ground_truth.shape, ground_truth.dtype)

    def _choose(self, options: Mapping[str, Any], before: Game | None = None) -> None:
        given = dict(options)
        presets = registration.presets(self._env_id)
        given = with_preset(self._env_id, presets, given.pop("preset", None), given)
        chosen = episode_sequence.of(self._env_id, **given)
        sized = {**given, **chosen.sizes, "levels": "fresh"}
        self.game = before.under(self._env_id, sized) if before else Game.of(self._env_id, sized)
        self._sequence = chosen
        self.reset_params = dict(self._sequence.options)
        self.max_episode_steps = max_episode_steps(self.reset_params)
        self._chosen = games.comparable(options)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seed of memory-gym's level, from 0 to 2^32 - 1; None continues the random numbers.
            options: Options of this episode (memory-gym's reset parameters); they override those of `make`.

        Returns:
            The first observation, and a dict with the ground truth if the environment has one.

        Raises:
            OptionError: If an option does not exist, its value is invalid, or it changes a space.
            LevelError: If the seed is not an integer of that range, or memory-gym fails to make the level.
            ForkError: In a forked child of a process that runs JAX; `step` and `render` raise it too.
        """
        forks.check()
        seed = games.checked_seed(self._env_id, seed, most=_LAST_SEED)
        super().reset(seed=seed)
        played, chosen = self._sequence, {**self._options, **games.checked_options(self._env_id, options)}
        if games.comparable(chosen) != self._chosen:
            self._choose(chosen, self.game)
        level = self._sequence.start(seed, after=played)
        observation, state, ground_truth = _start(self.game.env, level, self.game.params)
        self._state = self._sequence.follow(state)
        return column_first(games.on_host(observation)), {} if ground_truth is None else {
            "ground_truth": np.array(ground_truth)
        }

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step.

        Raises:
            ResetNeeded: If the environment has not been reset.
            ActionError: If the action is not in the space.
        """
        state = games.started(self._env_id, self._state)
        given = games.checked_action(self.game.env, action, self.action_space)
        made = games.step(self.game.env, state, given, self.game.params)
        self._state = self._sequence.follow(made[1])
        observation, reward, terminated, truncated, info = jax.device_get((made[0], *made[2:]))
        ended = bool(terminated | truncated)
        reported = {
            _ORIGINAL_NAMES.get(name, name): np.array(entry) if entry.ndim else entry.item()
            for name, entry in info.items()
            if ended or name == "ground_truth"
        }
        return column_first(jax.tree.map(np.array, observation)), reward.item(), ended, False, reported


def column_first(observation: Any) -> Any:
    """Return an observation with transposed frames."""
    if isinstance(observation, dict):
        return {name: column_first(part) for name, part in observation.items()}
    is_picture = observation.dtype == np.uint8
    return np.ascontiguousarray(observation.swapaxes(0, 1)) if is_picture else observation


def max_episode_steps(options: Mapping[str, Any]) -> int:
    """Return the maximum length of an episode for a complete set of options; -1 without a limit."""
    if options["max_steps"] > 0:
        return options["max_steps"]
    if "command_count" not in options:
        return _NO_LIMIT
    names = ("command_show_duration", "command_show_delay", "explosion_delay", "explosion_duration")
    frames = sum(max(options.get(name, [0])) for name in names)
    # The episode ends at the first step of the last explosion.
    return max(options["command_count"]) * frames - max(options["explosion_duration"]) + 1


def _sampled(env: AnyEnvironment, params: Any) -> tuple[Any, Any, jax.Array | None]:
    return _start(env, env.sample_level(jax.random.key(0), params), params)


@partial(jax.jit, static_argnames=("env",))
def _start(env: AnyEnvironment, level: Any, params: Any) -> tuple[Any, Any, jax.Array | None]:
    state = env.initial_state(level, params)
    tell = getattr(env, "ground_truth", None)
    return env.observe(jax.random.key(0), state, None, params), state, None if tell is None else tell(state)
