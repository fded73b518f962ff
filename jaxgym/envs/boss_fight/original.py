"""Levels that the original makes from its level seeds: 32-bit words of a Mersenne Twister."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxgym.envs.boss_fight import level as levels_of_game
from jaxgym.envs.boss_fight.level import (
    BOSS_HALF_HEIGHTS,
    BOSS_START,
    BOTTOM,
    METEOR_HALF_HEIGHTS,
    METEOR_HALF_WIDTH,
    MOST_METEORS,
    MOST_ROUNDS,
    SHIELD_HALF_HEIGHTS,
    SHIELD_HALF_WIDTH,
    SHIP_HALF_HEIGHTS,
    SHIP_HALF_WIDTH,
    WORDS_PER_STEP,
    WORLD,
    Level,
)
from jaxgym.spec import Original

LONGEST = 4000
"""Steps of the longest episode."""

_WORDS = 2**32
_MOST_TRIES = 100

_Box = tuple[np.float32, np.float32, np.float32, np.float32]


class Words:
    """Random words of a level seed."""

    def __init__(self, seed: int):
        self.generator = np.random.RandomState(seed)

    def words(self, count: int) -> np.ndarray:
        """Return the next words, uint32 (count,)."""
        return self.generator.randint(0, _WORDS, count, dtype="uint32")

    def below(self, count: int) -> np.int32:
        """Return an integer from 0 to `count` - 1."""
        return np.int32(self.words(1)[0] % count)

    def share(self) -> np.float32:
        """Return a number from 0 to 1."""
        return np.float32(self.words(1)[0] / _WORDS)


def level(seed: int, mode: str, max_given_steps: int = LONGEST, *, restrict_themes: bool = False) -> Level:
    """Return the level of a level seed, with the random words of the first `max_given_steps` steps, on the host."""
    draws = Words(seed)
    background_offset, background = draws.share(), draws.below(levels_of_game.NUM_BACKGROUNDS)
    draws.words(2)  # a place of the ship that is not used
    boss_theme = draws.below(len(BOSS_HALF_HEIGHTS))
    round_health, num_rounds = draws.below(levels_of_game.MOST_HEALTH) + 1, draws.below(MOST_ROUNDS) + 1
    closed_legs = draws.below(levels_of_game.MOST_CLOSED_LEGS[mode]) + levels_of_game.LEAST_CLOSED_LEGS
    ship_theme = draws.below(len(SHIP_HALF_HEIGHTS))
    shot_theme, bullet_theme = draws.below(levels_of_game.NUM_LASERS), draws.below(levels_of_game.NUM_LASERS)
    modes = [draws.below(levels_of_game.NUM_MODES) for _ in range(num_rounds)]

    half_height = SHIP_HALF_HEIGHTS[0 if restrict_themes else ship_theme]
    shown_boss = 0 if restrict_themes else boss_theme
    shield = BOSS_START, BOSS_START, SHIELD_HALF_WIDTH, SHIELD_HALF_HEIGHTS[shown_boss]
    ship = _ship(draws, half_height, shield)
    draws.share()  # a coin that nothing uses
    taken = [ship, shield]
    themes: list[np.int32] = []
    lowest = levels_of_game.lowest_meteor(half_height)
    for _ in range(draws.below(MOST_METEORS) + 1):
        y = draws.share() * (np.float32(BOTTOM) - lowest - METEOR_HALF_WIDTH) + lowest
        x = draws.share() * (np.float32(WORLD) - 2 * METEOR_HALF_WIDTH) + METEOR_HALF_WIDTH
        theme = draws.below(len(METEOR_HALF_HEIGHTS))
        meteor = x, y, METEOR_HALF_WIDTH, METEOR_HALF_HEIGHTS[0 if restrict_themes else theme]
        if not any(_touch(meteor, other) for other in taken):
            taken.append(meteor)
            themes.append(theme)
    meteors = np.zeros((MOST_METEORS, 2), np.float32)
    meteors[: len(themes)] = [box[:2] for box in taken[2:]]
    made = {
        "num_rounds": num_rounds,
        "round_health": round_health,
        "closed_legs": closed_legs,
        "attack_modes": np.asarray([*modes, *[0] * (MOST_ROUNDS - len(modes))], np.int32),
        "start_x": ship[0],
        "meteors": meteors,
        "meteor_themes": np.asarray([*themes, *[0] * (MOST_METEORS - len(themes))], np.int32),
        "num_meteors": np.int32(len(themes)),
        "boss_theme": boss_theme,
        "ship_theme": ship_theme,
        "shot_theme": shot_theme,
        "bullet_theme": bullet_theme,
        "background": background,
        "background_offset": background_offset,
        "words": draws.words(WORDS_PER_STEP * max_given_steps).reshape(max_given_steps, WORDS_PER_STEP),
        "num_given": np.int32(max_given_steps),
        "seed": np.asarray([seed, 0], np.uint32),
    }
    return Level(**made)


def levels(
    seeds: Sequence[int] | np.ndarray, mode: str, max_given_steps: int = LONGEST, *, restrict_themes: bool = False
) -> Level:
    """Return the levels of the original's level seeds, from 0 to 2^31 - 1, as a level buffer on the host."""
    made = [level(int(seed), mode, max_given_steps, restrict_themes=restrict_themes) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def _ship(draws: Words, half_height: np.float32, shield: _Box) -> _Box:
    x = y = np.float32(0)
    for _ in range(_MOST_TRIES):
        x = draws.share() * (np.float32(WORLD) - 2 * SHIP_HALF_WIDTH) + SHIP_HALF_WIDTH
        y = draws.share() * (np.float32(WORLD) - 2 * half_height) + half_height
        if not _touch((x, y, SHIP_HALF_WIDTH, half_height), shield):
            break
    return x, half_height, SHIP_HALF_WIDTH, half_height


def _touch(box: _Box, other: _Box) -> bool:
    (x, y, half_width, half_height), (other_x, other_y, other_half_width, other_half_height) = box, other
    is_close = levels_of_game.touch(x - other_x, half_width + other_half_width)
    return bool(is_close and levels_of_game.touch(y - other_y, half_height + other_half_height))


def _of_options(env: Any, options: Mapping[str, Any], seeds: np.ndarray) -> Level:
    del env
    mode, is_restricted = options["distribution_mode"], options["restrict_themes"]
    return levels(seeds, mode, options["max_given_steps"], restrict_themes=is_restricted)


ORIGINAL = Original(_of_options, None, lambda _: {"max_given_steps": LONGEST}, package=None)
