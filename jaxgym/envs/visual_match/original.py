"""Levels that the originals make from their seeds: legacy random numbers of NumPy.

The originals draw boards from NumPy's global generator. Visual Match draws colors and targets from a generator of its
own, whose colors belong to an environment and not to an episode.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import one_by_one
from jaxgym.envs.visual_match import game, rooms
from jaxgym.spec import Original


def kept(generator: np.random.RandomState, grid: tuple[str, ...], letter: str, count: int) -> np.ndarray:
    """Draw which squares with a letter are kept, int32 (count, 2)."""
    places = rooms.places_of(grid, letter)
    return generator.permutation(places)[len(places) - count :].astype(np.int32)


def apples(generator: np.random.RandomState, count: int) -> np.ndarray:
    """Draw the places of the apples, bool (7, 11)."""
    mask = np.zeros((rooms.ROWS, rooms.COLUMNS), bool)
    places = kept(generator, rooms.APPLES, "a", count)
    mask[places[:, 0], places[:, 1]] = True
    return mask


def apple_draws(generator: np.random.RandomState, count: int, *, is_fixed: bool) -> np.ndarray:
    """Draw random numbers for rewards of apples, float64 (count,); one of two values is 0 or 0.5."""
    draw = (lambda: generator.randint(0, 2) / 2) if is_fixed else generator.random_sample
    return np.asarray([draw() for _ in range(count)])


def explore(generator: np.random.RandomState, grid: tuple[str, ...], letter: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw the place of a thing in the first phase, and the start."""
    thing = kept(generator, grid, letter, 1)[0]
    return thing, kept(generator, grid, "+", 1)[0]


class ColorStream:
    """Colors of the doors, and the target of each reset, of an environment with this seed."""

    def __init__(self, seed: int) -> None:
        """Draw the colors, and a target that is not used."""
        self._generator = np.random.RandomState(seed)
        colors = [0, 1, 2]
        self._generator.shuffle(colors)
        self.colors = np.asarray(colors, np.int32)
        self.target()

    def target(self) -> int:
        """Draw the target of the next reset."""
        return int(self._generator.randint(0, game.NUM_DOORS))


def level(
    seed: int, colors: np.ndarray, target: int, env: game.VisualMatch, num_apples: int, *, is_fixed: bool = True
) -> Any:
    """Return the level of a reset for a seed of NumPy's global generator, on the host."""
    generator = np.random.RandomState(seed)
    explore(generator, env.explore_grid, "p")  # the original builds each phase once to test it
    apples(generator, num_apples)
    if is_fixed:
        generator.randint(0, 2)
    square, start = explore(generator, env.explore_grid, "p")
    return game.Level(
        square=square,  # pyright: ignore[reportArgumentType] — host arrays
        explore_start=start,  # pyright: ignore[reportArgumentType]
        apples=apples(generator, num_apples),  # pyright: ignore[reportArgumentType]
        apple_draws=apple_draws(generator, env.num_draws, is_fixed=is_fixed),  # pyright: ignore[reportArgumentType]
        apple_start=rooms.places_of(rooms.APPLES, "+")[0],
        reward_start=rooms.places_of(game.REWARD, "+")[0],
        colors=colors,  # pyright: ignore[reportArgumentType]
        target=np.int32(target),  # pyright: ignore[reportArgumentType]
    )


def _first(env: game.VisualMatch, options: Mapping[str, Any], seed: int) -> Any:
    stream = ColorStream(seed)
    colors = np.arange(game.NUM_DOORS, dtype=np.int32) if options["fix_colors"] else stream.colors
    num_apples, is_fixed = options["num_apples"], options["fix_apple_reward"]
    return level(seed, colors, stream.target(), env, num_apples, is_fixed=is_fixed)


ORIGINAL = Original(one_by_one(_first), sequence=None, package=None)
