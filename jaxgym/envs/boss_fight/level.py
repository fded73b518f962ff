"""Levels of BossFight: sizes of the things by theme, and sampling."""

from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.boss_fight import exact

WORLD = 20
"""Width and height of the world."""

MOST_ROUNDS, MOST_HEALTH, NUM_MODES, MOST_METEORS = 5, 9, 4, 3
NUM_BACKGROUNDS, NUM_LASERS = 13, 3
MOST_CLOSED_LEGS = {"easy": 2, "hard": 4}
"""Number of possible values of `Level.closed_legs` in each distribution mode; the smallest is 2."""
LEAST_CLOSED_LEGS = 2

BOSS_START = np.float32(WORLD / 2)
BOTTOM = 6
"""Height of the part of the world that the boss does not visit, apart from its lower edge."""

SHIP_HALF_WIDTH, BOSS_HALF_WIDTH, METEOR_HALF_WIDTH = np.float32(0.75), np.float32(3), np.float32(0.6)
_SHIELD_SCALE = 1.2
_EDGE_SHARE = np.float32(0.98)
SHIELD_HALF_WIDTH = np.float32(_SHIELD_SCALE * float(BOSS_HALF_WIDTH))
_TRIES = 16


def _half_heights(half_width: np.float32, sizes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return the half height of each theme, whose sprite in the original has a width and a height in px."""
    return np.asarray([half_width / np.float32(width / height) for width, height in sizes], np.float32)


SHIP_HALF_HEIGHTS = _half_heights(SHIP_HALF_WIDTH, ((99, 75), (99, 75), (112, 75), (98, 75)))
BOSS_HALF_HEIGHTS = _half_heights(BOSS_HALF_WIDTH, ((93, 84), (104, 84), (103, 84), (82, 84)))
SHIELD_HALF_HEIGHTS = (_SHIELD_SCALE * BOSS_HALF_HEIGHTS.astype(np.float64)).astype(np.float32)
METEOR_HALF_HEIGHTS = _half_heights(
    METEOR_HALF_WIDTH,
    ((215, 211), (212, 218), (214, 227), (220, 221), (101, 84), (120, 98), (89, 82), (98, 96)),
)


class Mode(IntEnum):
    """Attack of the boss in a round."""

    FAN = 0
    CROSS = 1
    RING = 2
    AIMLESS = 3


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        num_rounds: Rounds to win, from 1 to 5, int32 ().
        round_health: Hits to win a round, from 1 to 9, int32 ().
        closed_legs: Number of legs after which the shield opens, int32 ().
        attack_modes: `Mode` of each round, int32 (5,); the boss does not reach those after the last round.
        start_x: Start of the ship, float32 ().
        meteors: x and y of each meteor, float32 (3, 2).
        meteor_themes: From 0 to 7, int32 (3,).
        num_meteors: Number of meteors, int32 ().
        boss_theme: From 0 to 3, int32 (), like `ship_theme`.
        ship_theme: See `boss_theme`.
        shot_theme: From 0 to 2, int32 (), like `bullet_theme`.
        bullet_theme: See `shot_theme`.
        background: From 0 to 12, int32 ().
        background_offset: From 0 to 1, float32 ().
        words: Random words of the first steps, uint32 (`max_given_steps`, 5).
        num_given: Number of steps whose random words are given, int32 ().
        seed: Key of the random words of all later steps, uint32 (2,).
    """

    num_rounds: jax.Array
    round_health: jax.Array
    closed_legs: jax.Array
    attack_modes: jax.Array
    start_x: jax.Array
    meteors: jax.Array
    meteor_themes: jax.Array
    num_meteors: jax.Array
    boss_theme: jax.Array
    ship_theme: jax.Array
    shot_theme: jax.Array
    bullet_theme: jax.Array
    background: jax.Array
    background_offset: jax.Array
    words: jax.Array
    num_given: jax.Array
    seed: jax.Array


WORDS_PER_STEP = 5


@struct.dataclass
class HalfSizes:
    """Half width and half height of things.

    Attributes:
        ship: float32 (2,), like `reach`, `boss` and `shield`.
        reach: Distance from the center of the ship at which the edge of the world stops it.
        boss: See `ship`.
        shield: See `ship`.
        meteors: float32 (3, 2).
    """

    ship: jax.Array
    reach: jax.Array
    boss: jax.Array
    shield: jax.Array
    meteors: jax.Array

    @classmethod
    def of(cls, level: Level, *, restrict_themes: bool) -> "HalfSizes":
        """Return the sizes of a level's things."""

        def half(width: np.float32, heights: np.ndarray, theme: jax.Array) -> jax.Array:
            height = jnp.asarray(heights)[shown(theme, restrict_themes=restrict_themes)]
            return jnp.stack([jnp.full_like(height, width), height], axis=-1)

        return cls(
            ship=half(SHIP_HALF_WIDTH, SHIP_HALF_HEIGHTS, level.ship_theme),
            reach=half(_EDGE_SHARE * SHIP_HALF_WIDTH, _EDGE_SHARE * SHIP_HALF_HEIGHTS, level.ship_theme),
            boss=half(BOSS_HALF_WIDTH, BOSS_HALF_HEIGHTS, level.boss_theme),
            shield=half(SHIELD_HALF_WIDTH, SHIELD_HALF_HEIGHTS, level.boss_theme),
            meteors=half(METEOR_HALF_WIDTH, METEOR_HALF_HEIGHTS, level.meteor_themes),
        )


def shown(theme: jax.Array, *, restrict_themes: bool) -> jax.Array:
    """Return the theme whose size and picture a thing has."""
    return jnp.zeros_like(theme) if restrict_themes else theme


def touch(distance: Any, half_sizes: Any) -> Any:
    """Return whether boxes touch along an axis, given the distance of their centers and the sum of half sizes."""
    return abs(distance) < half_sizes


def lowest_meteor(ship_half_height: Any) -> Any:
    """Return the lowest y of a meteor above a ship, float32."""
    return (2 * ship_half_height + METEOR_HALF_WIDTH) + np.float32(0.5)


def sample_level(key: jax.Array, mode: str, max_given_steps: int, *, restrict_themes: bool) -> Level:
    """Sample a level with the distribution of the original; consumes `key`."""
    keys = iter(jax.random.split(key, 16))

    def below(count: int, shape: tuple[int, ...] = ()) -> jax.Array:
        return jax.random.randint(next(keys), shape, 0, count, jnp.int32)

    def shares(shape: tuple[int, ...] = ()) -> jax.Array:
        return exact.share(jax.random.bits(next(keys), shape, jnp.uint32))

    boss_theme, ship_theme = below(len(BOSS_HALF_HEIGHTS)), below(len(SHIP_HALF_HEIGHTS))
    shown_boss, shown_ship = (shown(theme, restrict_themes=restrict_themes) for theme in (boss_theme, ship_theme))
    half_height = jnp.asarray(SHIP_HALF_HEIGHTS)[shown_ship]
    start_x = _sample_start(shares((_TRIES, 2)), half_height, jnp.asarray(SHIELD_HALF_HEIGHTS)[shown_boss])
    meteor_themes = below(len(METEOR_HALF_HEIGHTS), (MOST_METEORS,))
    meteors, meteor_themes, num_meteors = _sample_meteors(
        shares((MOST_METEORS, 2)),
        meteor_themes,
        below(MOST_METEORS) + 1,
        (start_x, half_height),
        restrict_themes=restrict_themes,
    )
    return Level(
        num_rounds=below(MOST_ROUNDS) + 1,
        round_health=below(MOST_HEALTH) + 1,
        closed_legs=below(MOST_CLOSED_LEGS[mode]) + LEAST_CLOSED_LEGS,
        attack_modes=below(NUM_MODES, (MOST_ROUNDS,)),
        start_x=start_x,
        meteors=meteors,
        meteor_themes=meteor_themes,
        num_meteors=num_meteors,
        boss_theme=boss_theme,
        ship_theme=ship_theme,
        shot_theme=below(NUM_LASERS),
        bullet_theme=below(NUM_LASERS),
        background=below(NUM_BACKGROUNDS),
        background_offset=shares(),
        words=jnp.zeros((max_given_steps, WORDS_PER_STEP), jnp.uint32),
        num_given=jnp.int32(0),
        seed=jax.random.bits(next(keys), (2,), jnp.uint32),
    )


def _sample_start(places: jax.Array, half_height: jax.Array, shield_half_height: jax.Array) -> jax.Array:
    """Return the x of the first place that is free of the boss and its shield, float32 ()."""
    x = exact.times(places[:, 0], WORLD - 2 * float(SHIP_HALF_WIDTH)) + SHIP_HALF_WIDTH
    y = exact.times(places[:, 1], np.float32(WORLD) - 2 * half_height) + half_height
    is_taken = touch(x - BOSS_START, SHIP_HALF_WIDTH + SHIELD_HALF_WIDTH) & touch(
        y - BOSS_START, half_height + shield_half_height
    )
    return x[jnp.argmin(is_taken)]


def _sample_meteors(
    places: jax.Array, themes: jax.Array, count: jax.Array, ship: tuple[jax.Array, jax.Array], *, restrict_themes: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return places, themes and number of the meteors that touch nothing; the others are dropped."""
    start_x, half_height = ship
    lowest = lowest_meteor(half_height)
    y = exact.times(places[:, 1], (np.float32(BOTTOM) - lowest) - METEOR_HALF_WIDTH) + lowest
    x = exact.times(places[:, 0], WORLD - 2 * float(METEOR_HALF_WIDTH)) + METEOR_HALF_WIDTH
    half = jnp.asarray(METEOR_HALF_HEIGHTS)[shown(themes, restrict_themes=restrict_themes)]
    is_kept: list[jax.Array] = []
    for index in range(MOST_METEORS):
        hits_ship = touch(x[index] - start_x, METEOR_HALF_WIDTH + SHIP_HALF_WIDTH) & touch(
            y[index] - half_height, half[index] + half_height
        )
        is_free = (index < count) & ~hits_ship
        for before, kept in enumerate(is_kept):
            is_free &= ~(
                kept
                & touch(x[index] - x[before], 2 * METEOR_HALF_WIDTH)
                & touch(y[index] - y[before], half[index] + half[before])
            )
        is_kept.append(is_free)
    kept = jnp.stack(is_kept)
    order = jnp.argsort(~kept, stable=True)
    kept_places = jnp.where(kept[:, None], jnp.stack([x, y], axis=1), 0.0)
    return kept_places[order], jnp.where(kept, themes, 0)[order], kept.sum(dtype=jnp.int32)
