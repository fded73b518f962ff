"""Consecutive episodes of the original, drawn from one generator while they are played.

For adapters that replace an environment of memory-gym: its `reset()` without a seed continues with the generator of the
last episode, and its Endless Searing Spotlights draws depending on the actions.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxgym import levels
from jaxgym.envs.common.draws import Draws
from jaxgym.errors import LevelError


def of(env_id: str, **options: Any) -> "EpisodeSequence":
    """Return the episode sequence of an id, for the options of `jaxgym.make`.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option does not exist or its value is invalid.
        LevelError: If the id has no original, or its episodes can't be continued.
    """
    original, env, _, plain = levels.build_original(env_id, options)
    if original.sequence is None:
        raise LevelError(
            f"{env_id}: expected an id of memory-gym or minigrid, whose episodes can be continued, got another one. "
            "Use jaxgym.levels.original for the level of a seed."
        )
    sequence = original.sequence(env, plain)
    sequence.sizes = {name: plain[name] for name in original.sizes(plain)}
    return sequence


@dataclasses.dataclass
class EpisodeSequence:
    """Consecutive episodes of one environment.

    Use in an adapter; `sizes` are the options with capacity for the levels:

        sequence = jaxgym.envs.common.episode_sequence.of(env_id, **options)
        env, params = jaxgym.make(env_id, **{**options, **sequence.sizes})
        level = sequence.start(seed)  # for reset(seed=seed); None continues with the generator
        observation, state = env.reset_to_level(key, level, params)
        state = sequence.follow(state)
        ...
        observation, state, reward, terminated, info = env.step_env(key, state, action, params)
        state = sequence.follow(state)

    Pass every state to `follow`, including the last one of an episode, and continue with the state that it returns. Use
    `step_env` (jitted by the adapter) and not `step`, which replaces the last state by that of a new episode.

    Attributes:
        env: An environment of the game, which determines the sizes of levels.
        options: Given options and the defaults of the others.
        levels: Function that draws the levels of the streams; see `jaxgym.levels.original`.
        later: Function that repeats one draw of the original during an episode; None if it draws in the reset only.
        num_later: Function of a state and the options; returns the number of such draws since the reset.
        sizes: Options with which `jaxgym.make` makes an environment with capacity for these levels.
    """

    env: Any
    options: Mapping[str, Any]
    levels: Callable[[Any, Mapping[str, Any], Draws], Any]
    later: Callable[[Draws, Mapping[str, Any]], Any] | None = None
    num_later: Callable[[Any, Mapping[str, Any]], int] | None = None
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    _draws: Draws | None = dataclasses.field(default=None, init=False, repr=False)
    _num_drawn: int = dataclasses.field(default=0, init=False, repr=False)

    @property
    def draws(self) -> Draws:
        """Stream of the episodes.

        Raises:
            LevelError: Before the first `start`.
        """
        if self._draws is None:
            raise LevelError(f"{self.env.env_id}: expected start(seed) before the sequence continues, got no start.")
        return self._draws

    def start(self, seed: int | None = None, after: "EpisodeSequence | None" = None) -> Any:
        """Return the level of the next episode, as host arrays.

        Args:
            seed: Seed as for the original's reset. None continues with the generator; at first, it is seeded at random.
            after: Sequence whose generator to continue with, if the last episode belonged to one with other options.

        Raises:
            LevelError: If the seed is not an integer from 0 to 2^32 - 1.
        """
        played = self if after is None else after
        draws = played._draws
        if seed is not None or draws is None:
            chosen = np.random.SeedSequence().generate_state(1)[0] if seed is None else levels.checked_seeds(seed)
            draws = Draws.of(np.atleast_1d(chosen))
        else:
            played._finish(draws)
        draws.start_of_play = None
        level = jax.tree.map(lambda leaf: leaf[0], self.levels(self.env, self.options, draws))
        self._draws, self._num_drawn = draws, 0
        return level

    def follow(self, state: Any) -> Any:
        """Record the draws of an episode up to this state, and return the state to continue with."""
        if self.num_later is not None:
            self._num_drawn = max(self._num_drawn, self.num_later(state, self.options))
        return state

    def _finish(self, draws: Draws) -> None:
        """Move to the place of the original's generator at the end of the episode."""
        if draws.start_of_play is not None:
            draws.go_to(draws.start_of_play)
        if self.later is not None:
            for _ in range(self._num_drawn):
                self.later(draws, self.options)
