"""Levels that the original makes from seeds of NumPy's global generator: legacy random numbers of NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import one_by_one
from jaxgym.envs.key_to_door import game
from jaxgym.envs.visual_match import rooms
from jaxgym.envs.visual_match.original import apple_draws, apples, explore
from jaxgym.spec import Original


def level(seed: int, env: game.KeyToDoor, num_apples: int, *, is_fixed: bool = True, num_drawn: int = 1) -> Any:
    """Return the level of a reset, on the host.

    Args:
        seed: Seed of NumPy's global generator.
        env: The environment.
        num_apples: Number of apples.
        is_fixed: Whether all apples have the same reward.
        num_drawn: Number of random numbers that the rewards of apples take. The original draws the third room
            after them: with `is_fixed`, one number; otherwise one for each picked apple.
    """
    generator = np.random.RandomState(seed)
    explore(generator, game.EXPLORE, "k")  # the original builds each phase once to test it
    apples(generator, num_apples)
    if is_fixed:
        generator.randint(0, 2)
    explore(generator, env.reward_grid, "d")
    key, start = explore(generator, game.EXPLORE, "k")
    places = apples(generator, num_apples)
    before = generator.get_state()
    draws = apple_draws(generator, env.num_draws, is_fixed=is_fixed)
    generator.set_state(before)
    apple_draws(generator, num_drawn, is_fixed=is_fixed)
    door, reward_start = explore(generator, env.reward_grid, "d")
    return game.Level(
        key=key,  # pyright: ignore[reportArgumentType] — host arrays
        explore_start=start,  # pyright: ignore[reportArgumentType]
        apples=places,  # pyright: ignore[reportArgumentType]
        apple_draws=draws,  # pyright: ignore[reportArgumentType]
        apple_start=rooms.places_of(rooms.APPLES, "+")[0],
        door=door,  # pyright: ignore[reportArgumentType]
        reward_start=reward_start,  # pyright: ignore[reportArgumentType]
    )


def _first(env: game.KeyToDoor, options: Mapping[str, Any], seed: int) -> Any:
    return level(seed, env, options["num_apples"], is_fixed=options["fix_apple_reward"])


ORIGINAL = Original(one_by_one(_first), sequence=None, package=None)
