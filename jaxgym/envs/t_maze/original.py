"""Levels that the original makes from its seeds: legacy random numbers of NumPy."""

from collections.abc import Sequence

import numpy as np

from jaxgym.envs.common.draws import whole
from jaxgym.envs.t_maze.game import Level
from jaxgym.envs.t_maze.lamp import NoisyLevel
from jaxgym.spec import Original

_WAYS = (-1, 1)


def levels(seeds: Sequence[int] | np.ndarray) -> Level:
    """Return the levels of `reset(seed=...)`, as a level buffer on the host."""
    return Level(whole(np.asarray([np.random.RandomState(seed).choice(_WAYS) for seed in seeds])))


def noisy_levels(seeds: Sequence[int] | np.ndarray, noise_length: int) -> NoisyLevel:
    """Return the levels of `reset(seed=...)` of the T-Maze with a lamp, as a level buffer on the host."""
    generators = [np.random.RandomState(seed) for seed in seeds]
    goals = np.asarray([generator.choice(_WAYS) for generator in generators])
    # An array of random numbers takes other words of the generator than one number after the other.
    noise = [[generator.randint(-1, 2) for _ in range(noise_length)] for generator in generators]
    return NoisyLevel(whole(goals), whole(np.asarray(noise), np.int8))


ORIGINAL = Original(lambda _env, _options, seeds: levels(seeds), sequence=None, package=None)
LAMP_ORIGINAL = Original(
    lambda _env, options, seeds: noisy_levels(seeds, options["noise_length"]), sequence=None, package=None
)
