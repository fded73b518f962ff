"""Episodes of the original one after the other, drawn from one generator while they are played.

For adapters that stand in for an environment of memory-gym, whose `reset()` without a seed goes on with the generator
where the last episode left it, and whose Endless Searing Spotlights draws by what is done.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxgym import levels
from jaxgym.envs.memory_gym.draws import Draws
from jaxgym.errors import LevelError


def of(env_id: str, **options: Any) -> "Course":
    """Return the course of an id, for the options of `jaxgym.make`.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option does not exist, or does not take the given value.
        LevelError: If the id has no original.
    """
    original, env, _, plain = levels.build_original(env_id, options)
    return original.course(env, plain)


def nothing_later(_: Draws, __: Mapping[str, Any]) -> None:
    """Draws nothing, for games whose levels are drawn by the reset alone."""


def none_drawn(_: Any, __: Mapping[str, Any]) -> int:
    """Return 0, likewise."""
    return 0


@dataclasses.dataclass
class Course:
    """The episodes of one environment, one after the other.

    An adapter uses it so; `sizes` are options that make room for the levels:

        course = jaxgym.envs.memory_gym.course.of(env_id, **options)
        env, params = jaxgym.make(env_id, **{**options, **course.sizes})
        level = course.start(seed)  # for reset(seed=seed); None goes on with the generator
        observation, state = env.reset_to_level(key, level, params)
        state = course.follow(state)
        ...
        observation, state, reward, terminated, info = env.step_env(key, state, action, params)
        state = course.follow(state)

    `follow` takes every state, the last one of an episode included, and returns the state to go on with. That is why
    the step is `step_env` (jitted by the adapter), not `step`, which puts a new episode in the last state's place.

    Attributes:
        env: An environment of the game, which says how large levels are.
        options: The options as they were given, or their defaults.
        levels: Draws the levels of the streams; see `jaxgym.levels.original`.
        later: Draws one thing that the original draws during an episode.
        num_later: Takes a state and the options; returns how many such things have been drawn since the reset.
        size_names: The options that make room for the levels.
    """

    env: Any
    options: Mapping[str, Any]
    levels: Callable[[Any, Mapping[str, Any], Draws], Any]
    later: Callable[[Draws, Mapping[str, Any]], Any] = nothing_later
    num_later: Callable[[Any, Mapping[str, Any]], int] = none_drawn
    size_names: tuple[str, ...] = ()
    _draws: Draws | None = dataclasses.field(default=None, init=False, repr=False)
    _num_drawn: int = dataclasses.field(default=0, init=False, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """The options with which `jaxgym.make` makes an environment that these levels fit."""
        return {name: self.options[name] for name in self.size_names}

    @property
    def draws(self) -> Draws:
        """The stream.

        Raises:
            LevelError: Before the first `start`.
        """
        if self._draws is None:
            raise LevelError(f"the course of {self.env.env_id} was followed before its start; call start(seed) first.")
        return self._draws

    def start(self, seed: int | None = None, after: "Course | None" = None) -> Any:
        """Return the level of the next episode, of arrays on the host.

        Args:
            seed: As for the original's reset. None goes on with the generator; the first time, it is seeded at random.
            after: The course whose generator to go on with, if the last episode was of another one: of the same
                environment under other options.

        Raises:
            LevelError: If the seed is no integer from 0 to 2^32 - 1.
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
        """Record what an episode has come to; returns the state to go on with."""
        self._num_drawn = max(self._num_drawn, self.num_later(state, self.options))
        return state

    def _finish(self, draws: Draws) -> None:
        """Goes to where the original's generator is when the episode is left."""
        if draws.start_of_play is not None:
            draws.go_to(draws.start_of_play)
        for _ in range(self._num_drawn):
            self.later(draws, self.options)
