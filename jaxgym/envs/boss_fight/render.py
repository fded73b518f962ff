"""Frame of BossFight. All shapes are our own.

Bullets, trails and blasts are boxes. For each row and each column of the frame, bits tell which boxes cover it; a pixel
is covered by the boxes that cover both. The other shapes are sums of a number for the row and one for the column, which
are compared with a limit. So a pixel needs few operations, and all of them are exact.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.boss_fight.level import NUM_BACKGROUNDS, WORLD
from jaxgym.envs.boss_fight.scene import Scene
from jaxgym.envs.boss_fight.things import BLAST_LIFETIME, HALF_SIZES, MOST_NEW_BLASTS, NUM_SLOTS, BulletKind

SIDE = 64
"""Width and height of a frame in px."""

SEEN_TRAILS = 6
"""Rows of `Trails` that are drawn; the later ones would be too faint."""

_PX = np.float32(SIDE / WORLD)
_WORD = 32
_NUM_STARS, _STAR_STEP = 40, 1597
_CHANNEL_BITS = np.asarray([0, 8, 16], np.uint32)


def _packed(*colors: tuple[int, ...]) -> np.ndarray:
    """Return colors as 24 bits each, uint32 (n,)."""
    return (np.asarray(colors, np.uint32) << _CHANNEL_BITS).sum(axis=1, dtype=np.uint32)


_BOSSES = _packed((96, 104, 128), (72, 116, 216), (84, 176, 92), (204, 76, 76))
_SHIPS = _packed((96, 196, 255), (128, 240, 128), (255, 176, 72), (255, 104, 104))
_LASER_COLORS = ((120, 255, 120), (255, 96, 96), (112, 160, 255))
_LASERS = _packed(*_LASER_COLORS)
_FADE = 0.7
_TRAILS = np.stack(
    [
        _packed(*(tuple(int(c * _FADE ** (age + 1)) for c in color) for age in range(SEEN_TRAILS)))
        for color in _LASER_COLORS
    ]
)
_METEORS = _packed(*((150 - 6 * theme, 126 - 6 * theme, 104 + 4 * theme) for theme in range(8)))
_BLASTS = _packed((255, 255, 220), (255, 232, 120), (255, 188, 64), (232, 120, 40), (160, 72, 32))
_EYE_COLOR, _SHIELD_COLOR, _STAR, _SPACE, _REFLECTED = _packed(
    (24, 24, 32), (120, 220, 255), (150, 150, 160), (0, 0, 0), (200, 200, 200)
)
_GROUNDS = _packed(
    *((6 + 3 * (index % 4), 6 + 4 * (index % 3), 20 + 3 * (index % 5)) for index in range(NUM_BACKGROUNDS))
)
_HEALTH, _LEGS, _BAR = _packed((230, 60, 60), (90, 140, 240), (40, 40, 40))
_MOST_LEGS = 6


def _star_map() -> np.ndarray:
    """Return where stars are, bool (64, 128); the right half repeats the left one."""
    numbers = np.arange(_NUM_STARS)
    cells = (_STAR_STEP * numbers * (numbers + 1)) % (SIDE * SIDE)
    stars = np.isin(np.arange(SIDE * SIDE), cells).reshape(SIDE, SIDE)
    return np.tile(stars, (1, 2))


_STARS = _star_map()
_WORDS_PER_ROW = NUM_SLOTS // _WORD
_BLASTS_PER_ROW = MOST_NEW_BLASTS + 1
_FAR = 2**30
_BOSS, _EYE, _SHIELD, _INSIDE, _METEOR, _SHIP = 0, 1, 2, 3, 4, 7
"""Rows of `_shapes`; those of the meteors follow each other."""


def draw(scene: Scene, boss: Any = None, most: Any = None) -> jax.Array:
    """Return the frame, uint8 (64, 64, 3), row first; with a boss, bars for its `most` hits and its next swap."""
    # Without the barriers, XLA repeats the computations for rows and columns in every pixel.
    rows, columns = lax.optimization_barrier(_cover(scene))
    down, across, limits = lax.optimization_barrier(_shapes(scene))

    def covers(word: int, bits: Any) -> jax.Array:
        return rows[:, word][:, None] & columns[:, word][None] & bits != 0

    def fills(shape: int) -> jax.Array:
        return down[shape][:, None] + across[shape][None] <= limits[shape]

    themes, every = scene.themes, np.uint32(0xFFFFFFFF)
    frame = _ground(scene)
    for age in reversed(range(SEEN_TRAILS)):
        first = age * _WORDS_PER_ROW
        is_trail = covers(first, every) | covers(first + 1, every)
        frame = jnp.where(is_trail, jnp.asarray(_TRAILS)[themes[3], age], frame)
    frame = jnp.where(fills(_BOSS), jnp.asarray(_BOSSES)[themes[0]], frame)
    frame = jnp.where(fills(_EYE), _EYE_COLOR, frame)
    frame = jnp.where(fills(_SHIELD) & ~fills(_INSIDE), _SHIELD_COLOR, frame)
    for index in range(len(scene.meteors)):
        frame = jnp.where(fills(_METEOR + index), jnp.asarray(_METEORS)[themes[4 + index]], frame)
    lasers = jnp.asarray(_LASERS)
    colors = {
        BulletKind.SHOT: lasers[themes[2]],
        BulletKind.REFLECTED: _REFLECTED,
        BulletKind.BULLET: lasers[themes[3]],
    }
    first = SEEN_TRAILS * _WORDS_PER_ROW
    for kind, color in colors.items():
        bits = _packed_bits(scene.bullets.kind == int(kind))
        frame = jnp.where(covers(first, bits[0]) | covers(first + 1, bits[1]), color, frame)
    for age in reversed(range(BLAST_LIFETIME + 1)):
        bits = np.uint32((1 << _BLASTS_PER_ROW) - 1) << np.uint32(age * _BLASTS_PER_ROW)
        frame = jnp.where(covers(first + _WORDS_PER_ROW, bits), _BLASTS[age], frame)
    frame = jnp.where(fills(_SHIP), jnp.asarray(_SHIPS)[themes[1]], frame)
    if boss is not None:
        frame = _with_bars(frame, boss, most)
    return (frame[..., None] >> _CHANNEL_BITS[None, None]).astype(jnp.uint8)


def _ground(scene: Scene) -> jax.Array:
    has_ground = scene.background_offset >= 0
    shift = jnp.clip((scene.background_offset * SIDE).astype(jnp.int32), 0, SIDE)
    stars = lax.dynamic_slice(jnp.asarray(_STARS), (jnp.int32(0), shift), (SIDE, SIDE))
    ground = jnp.where(stars, _STAR, jnp.asarray(_GROUNDS)[scene.background])
    return jnp.where(has_ground, ground, _SPACE)


def _span(center: jax.Array, half: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the first px that a thing covers along an axis, and the one after the last, int32 of its shape."""
    first, end = (jnp.round(_PX * edge).astype(jnp.int32) for edge in (center - half, center + half))
    return first, end


def _packed_bits(flags: jax.Array | np.ndarray) -> jax.Array:
    """Return flags (…, n) as bits, uint32 (…, n / 32)."""
    bits = np.uint32(1) << np.arange(_WORD, dtype=np.uint32)
    flags = flags.reshape(*flags.shape[:-1], -1, _WORD)
    return jnp.where(flags, bits.reshape((1,) * (flags.ndim - 1) + (-1,)), np.uint32(0)).sum(axis=-1, dtype=jnp.uint32)


def _cover(scene: Scene) -> tuple[jax.Array, jax.Array]:
    """Return which trails, bullets and blasts cover each row and each column, as bits, uint32 (64, 15) each."""
    bullets = scene.bullets
    trails, blasts = (
        jax.tree.map(lambda leaf, rows=rows: leaf[:rows].reshape(-1), part)
        for part, rows in ((scene.trails, SEEN_TRAILS), (scene.blasts, BLAST_LIFETIME + 1))
    )
    parts = (
        (trails, jnp.full_like(trails.x, HALF_SIZES[BulletKind.BULLET]), trails.is_there),
        (bullets, bullets.half_size, bullets.kind != BulletKind.NONE),
        (blasts, blasts.radius, blasts.is_there),
    )

    def joined(arrays: list[jax.Array]) -> jax.Array:
        whole = jnp.concatenate(arrays)
        return jnp.pad(whole, (0, -len(whole) % _WORD))

    x, y = joined([each.x for each, _, _ in parts]), joined([each.y for each, _, _ in parts])
    half, is_there = joined([size for _, size, _ in parts]), joined([flag for _, _, flag in parts])
    px = np.arange(SIDE, dtype=np.int32)[:, None]

    def covered(center: jax.Array) -> jax.Array:
        first, end = _span(center, half)
        return _packed_bits((px >= first[None]) & (px < end[None]) & is_there[None])

    return covered(WORLD - y), covered(x)


def _shapes(scene: Scene) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return numbers of rows and columns, int32 (8, 64) each, and the limits of their sums, int32 (8,), by shape.

    Ellipses fill boxes, some of which are smaller than their thing; the ship is a triangle.
    """
    boxes = jnp.concatenate(
        [
            jnp.tile(scene.boss[None], (2, 1)),
            jnp.tile(jnp.concatenate([scene.boss[:2], scene.shield])[None], (2, 1)),
            scene.meteors,
            scene.ship[None],
        ]
    )
    is_there = jnp.concatenate(
        [jnp.ones(2, bool), jnp.tile(scene.has_shield[None], 2), scene.meteors[:, 2] > 0, jnp.ones(1, bool)]
    )
    left, right = _span(boxes[:, 0], boxes[:, 2])
    top, bottom = _span(WORLD - boxes[:, 1], boxes[:, 3])
    shrink = jnp.zeros(len(boxes), jnp.int32).at[_EYE].set((right - left)[_BOSS] // 3).at[_INSIDE].set(1)
    width, height = jnp.maximum(right - left - 2 * shrink, 0), jnp.maximum(bottom - top - 2 * shrink, 0)
    px = np.arange(SIDE, dtype=np.int32)[None]
    across, down = (2 * px + 1 - (first + end)[:, None] for first, end in ((left, right), (top, bottom)))
    across = jnp.square(across * height[:, None])
    down = jnp.square(down * width[:, None])
    limits = jnp.where(is_there, jnp.square(width * height), -1)
    below = px[0] - top[_SHIP]
    is_inside = (below >= 0) & (px[0] < bottom[_SHIP])
    across = across.at[_SHIP].set(jnp.abs(2 * px[0] + 1 - (left + right)[_SHIP]) * height[_SHIP])
    down = down.at[_SHIP].set(jnp.where(is_inside, -(below + 1) * width[_SHIP], _FAR))
    return down, across, limits.at[_SHIP].set(0)


def _with_bars(frame: jax.Array, boss: Any, most: jax.Array) -> jax.Array:
    """Draw a bar for the health of the boss, and one below it for the legs until its shield opens."""
    rows, columns = np.indices((SIDE, SIDE), np.int32)
    legs = jnp.where(boss.has_shield, jnp.minimum(boss.swap_timer, _MOST_LEGS), 0)
    for row, (share, total, color) in enumerate(((boss.health, most, _HEALTH), (legs, _MOST_LEGS, _LEGS))):
        is_full = columns * total < share * SIDE
        frame = jnp.where(rows == row, jnp.where(is_full, color, _BAR), frame)
    return frame
