"""Levels of the original's seeds: draws from one NumPy generator, which goes on from episode to episode."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.ballet.dances import MOVES
from jaxgym.envs.ballet.game import Ballet, Level
from jaxgym.envs.common.draws import one_by_one
from jaxgym.spec import Original


def level(generator: np.random.Generator, env: Ballet) -> Any:
    """Draw the level of the next episode, on the host; `np.random.default_rng(seed)` is the first generator."""
    count = env.num_dancers
    target = np.int32(generator.integers(count))
    squares, looks, colors = env.choices
    drawn = [values.copy() for values in (np.arange(len(squares)), np.arange(1, len(MOVES) + 1), colors, looks)]
    for values in drawn:
        generator.shuffle(values)
    places, dances, colors, looks = (values[:count].astype(np.int32) for values in drawn)
    return Level(
        target=target,  # pyright: ignore[reportArgumentType] — host arrays
        squares=squares[places],  # pyright: ignore[reportArgumentType]
        dances=dances,  # pyright: ignore[reportArgumentType]
        shapes=looks,  # pyright: ignore[reportArgumentType]
        colors=colors,  # pyright: ignore[reportArgumentType]
    )


def _first(env: Ballet, options: Mapping[str, Any], seed: int) -> Any:
    del options
    return level(np.random.default_rng(seed), env)


ORIGINAL = Original(one_by_one(_first), sequence=None, package=None)
