"""Levels that the original makes from its seeds: random numbers of Python's `random`.

The original ignores the seed of `reset`. The seed of its constructor counts, and each reset draws on.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import one_by_one, whole
from jaxgym.envs.endless_t_maze.game import Level
from jaxgym.spec import Original


def first_level(seed: int, num_corridors: int, max_length: int, min_length: int | None = None) -> Level:
    """Return the level of the first reset of an original with this seed, on the host.

    Args:
        seed: Seed of the constructor.
        num_corridors: Number of corridors.
        max_length: Largest length.
        min_length: Smallest length of corridors that have different lengths; None if all have the largest.
    """
    generator = random.Random(seed)

    def length() -> int:
        return max_length if min_length is None else generator.randint(min_length, max_length)

    def start() -> tuple[int, list[int]]:
        return length(), [generator.choice((-1, 1)) for _ in range(num_corridors)]

    start()  # the constructor draws a level that is not played
    first, cues = start()
    lengths = [first, *(length() for _ in range(num_corridors - 1))]  # the others are drawn when they are reached
    return Level(whole(np.asarray(cues), np.int8), whole(np.asarray(lengths)))


def _first(env: Any, options: Mapping[str, Any], seed: int) -> Level:
    del env
    shortest = options["min_length"] if options["is_uniform"] else None
    return first_level(seed, options["num_corridors"], options["max_length"], shortest)


ORIGINAL = Original(one_by_one(_first), sequence=None, package=None)
