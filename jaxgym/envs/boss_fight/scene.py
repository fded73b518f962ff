"""Scene of BossFight, its frame and its symbols. All shapes are drawings of ours."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.boss_fight import exact
from jaxgym.envs.boss_fight.level import NUM_BACKGROUNDS, WORLD, shown
from jaxgym.envs.boss_fight.things import HALF_SIZES, Blasts, BulletKind, Bullets, Trails

SIDE = 64
"""Width and height of a frame in px."""

SEEN_TRAILS = 6
"""Rows of `Trails` that are drawn; the later ones would be too faint."""

_PX = np.float32(SIDE / WORLD)
_UNIT = 2 / WORLD
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
_EYE, _SHIELD, _STAR, _SPACE, _REFLECTED = _packed(
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


@struct.dataclass
class Scene:
    """Scene of BossFight.

    Attributes:
        ship: x, y, half width and half height, float32 (4,).
        boss: x, y, half width and half height, float32 (4,).
        shield: Half width and half height, float32 (2,).
        has_shield: Whether the shield is closed, bool ().
        meteors: x, y, half width and half height of each, float32 (3, 4); a half width of 0 means none.
        bullets: All bullets.
        trails: Trails of the boss's bullets.
        blasts: Blasts.
        themes: Of the boss, the ship, its shots, the boss's bullets, and the meteors, int32 (7,).
        background: From 0 to 12, int32 ().
        background_offset: From 0 to 1, float32 (); below 0 without a background.
    """

    ship: jax.Array
    boss: jax.Array
    shield: jax.Array
    has_shield: jax.Array
    meteors: jax.Array
    bullets: Bullets
    trails: Trails
    blasts: Blasts
    themes: jax.Array
    background: jax.Array
    background_offset: jax.Array


def scene_of(env: Any, state: Any) -> Scene:
    """Return the scene of a state of `BossFight`."""
    level, sizes = state.level, env.sizes(state.level)
    is_meteor = np.arange(len(level.meteors), dtype=np.int32) < level.num_meteors
    meteors = jnp.concatenate([level.meteors, sizes.meteors], axis=1)
    themes = jnp.stack([level.boss_theme, level.ship_theme, level.shot_theme, level.bullet_theme])
    return Scene(
        ship=jnp.concatenate([state.place, sizes.ship]),
        boss=jnp.concatenate([state.boss.place, sizes.boss]),
        shield=sizes.shield,
        has_shield=state.boss.has_shield,
        meteors=jnp.where(is_meteor[:, None], meteors, 0.0),
        bullets=state.bullets,
        trails=state.trails,
        blasts=state.blasts,
        themes=shown(jnp.concatenate([themes, level.meteor_themes]), restrict_themes=env.restrict_themes),
        background=level.background,
        background_offset=level.background_offset if env.use_backgrounds else jnp.float32(-1),
    )


def symbols_of(scene: Scene) -> jax.Array:
    """Return the numbers of the symbolic observation, float32 (464,)."""
    bullets = scene.bullets
    order = (bullets.next_slot - 1 - np.arange(len(bullets.kind), dtype=np.int32)) % len(bullets.kind)
    kinds = bullets.kind[order][:, None] == np.asarray(
        [[BulletKind.SHOT, BulletKind.BULLET, BulletKind.REFLECTED]], np.int32
    )
    places = _relative(jnp.stack([bullets.x, bullets.y], axis=1)[order])
    velocities = jnp.stack([bullets.vx, bullets.vy], axis=1)[order]
    is_there = kinds.any(axis=1, keepdims=True)
    shown = jnp.where(is_there, jnp.concatenate([places, velocities], axis=1), 0.0)
    rows = jnp.concatenate([kinds.astype(jnp.float32), shown], axis=1)
    is_meteor = scene.meteors[:, 2:3] > 0
    meteors = jnp.concatenate(
        [is_meteor.astype(jnp.float32), jnp.where(is_meteor, _relative(scene.meteors[:, :2]), 0.0)], axis=1
    )
    bodies = [part for body in (scene.ship, scene.boss) for part in (_relative(body[:2]), exact.times(body[3:], _UNIT))]
    flag = scene.has_shield.astype(jnp.float32)[None]
    return jnp.concatenate([*bodies, flag, meteors.reshape(-1), rows.reshape(-1)]).astype(jnp.float32)


def _relative(places: jax.Array) -> jax.Array:
    """Return places relative to the center of the world, -1 and 1 at its edges."""
    return exact.times(places, _UNIT) - 1


def _span(center: jax.Array, half: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the first px that a thing covers along an axis, and the one after the last, int32 of its shape."""
    first, end = (jnp.round(_PX * edge).astype(jnp.int32) for edge in (center - half, center + half))
    return first, end


def _spans(x: jax.Array, y: jax.Array, half_width: jax.Array, half_height: jax.Array) -> tuple[jax.Array, ...]:
    """Return first and end column, and first and end row."""
    return *_span(x, half_width), *_span(WORLD - y, half_height)


def _cover(first: jax.Array, end: jax.Array, is_there: jax.Array) -> jax.Array:
    """Return for each px of an axis which of n things cover it, as bits, uint32 (64, n / 32 rounded up)."""
    px = np.arange(SIDE, dtype=np.int32)[:, None]
    covers = (px >= first[None]) & (px < end[None]) & is_there[None]
    covers = jnp.pad(covers, ((0, 0), (0, -covers.shape[1] % _WORD))).reshape(SIDE, -1, _WORD)
    bits = np.uint32(1) << np.arange(_WORD, dtype=np.uint32)
    return jnp.where(covers, bits[None, None], jnp.uint32(0)).sum(axis=2, dtype=jnp.uint32)


def _boxes(spans: tuple[jax.Array, ...], is_there: jax.Array) -> jax.Array:
    """Return which of n boxes cover each px, as bits, uint32 (64, 64, n / 32 rounded up), row first."""
    left, right, top, bottom = spans
    return _cover(top, bottom, is_there)[:, None] & _cover(left, right, jnp.ones_like(is_there))[None]


def _ellipse(spans: tuple[jax.Array, ...], shrink: Any = 0) -> Any:
    """Return the ellipse in a box that is made smaller at each side, bool (64, 64); with integers, so it is exact."""
    left, right, top, bottom = spans
    rows, columns = np.indices((SIDE, SIDE), np.int32)
    across, down = 2 * columns + 1 - (left + right), 2 * rows + 1 - (top + bottom)
    width, height = jnp.maximum(right - left - 2 * shrink, 0), jnp.maximum(bottom - top - 2 * shrink, 0)
    return (across * height) ** 2 + (down * width) ** 2 <= (width * height) ** 2


def _triangle(spans: tuple[jax.Array, ...]) -> Any:
    """Return the triangle with its tip at the middle of the upper side of a box, bool (64, 64)."""
    left, right, top, bottom = spans
    rows, columns = np.indices((SIDE, SIDE), np.int32)
    across, below = jnp.abs(2 * columns + 1 - (left + right)), rows - top
    height = jnp.maximum(bottom - top, 1)
    return (below >= 0) & (rows < bottom) & (across * height <= (below + 1) * (right - left))


def draw(scene: Scene, boss: Any = None, most: Any = None) -> jax.Array:
    """Return the frame, uint8 (64, 64, 3), row first; with a boss, bars for its `most` hits and its next swap."""
    themes = scene.themes
    frame = _with_trails(scene, _ground(scene))
    spans = _spans(*scene.boss)
    eye_size = (spans[1] - spans[0]) // 3
    frame = jnp.where(_ellipse(spans), jnp.asarray(_BOSSES)[themes[0]], frame)
    frame = jnp.where(_ellipse(spans, eye_size), _EYE, frame)
    around = _spans(*scene.boss[:2], *scene.shield)
    frame = jnp.where(_ellipse(around) & ~_ellipse(around, 1) & scene.has_shield, _SHIELD, frame)
    for index in range(len(scene.meteors)):
        is_there = scene.meteors[index, 2] > 0
        color = jnp.asarray(_METEORS)[themes[4 + index]]
        frame = jnp.where(_ellipse(_spans(*scene.meteors[index])) & is_there, color, frame)
    frame = _with_lasers(scene, frame)
    frame = jnp.where(_triangle(_spans(*scene.ship)), jnp.asarray(_SHIPS)[themes[1]], frame)
    if boss is not None:
        frame = _with_bars(frame, boss, most)
    return (frame[..., None] >> _CHANNEL_BITS[None, None]).astype(jnp.uint8)


def _ground(scene: Scene) -> jax.Array:
    has_ground = scene.background_offset >= 0
    shift = jnp.clip((scene.background_offset * SIDE).astype(jnp.int32), 0, SIDE)
    stars = jax.lax.dynamic_slice(jnp.asarray(_STARS), (jnp.int32(0), shift), (SIDE, SIDE))
    ground = jnp.where(stars, _STAR, jnp.asarray(_GROUNDS)[scene.background])
    return jnp.where(has_ground, ground, _SPACE)


def _with_trails(scene: Scene, frame: jax.Array) -> jax.Array:
    trail_colors = jnp.asarray(_TRAILS)[scene.themes[3]]
    seen = jax.tree.map(lambda leaf: leaf[:SEEN_TRAILS].reshape(-1), scene.trails)
    size = jnp.full_like(seen.x, HALF_SIZES[BulletKind.BULLET])
    hits = _boxes(_spans(seen.x, seen.y, size, size), seen.is_there).reshape(SIDE, SIDE, SEEN_TRAILS, -1)
    for age in reversed(range(SEEN_TRAILS)):
        frame = jnp.where((hits[:, :, age] != 0).any(axis=2), trail_colors[age], frame)
    return frame


def _with_lasers(scene: Scene, frame: jax.Array) -> jax.Array:
    """Draw bullets and blasts."""
    bullets, blasts = scene.bullets, scene.blasts
    half = bullets.half_size
    spans = _spans(bullets.x, bullets.y, half, half)
    lasers = jnp.asarray(_LASERS)
    colors = {
        BulletKind.SHOT: lasers[scene.themes[2]],
        BulletKind.REFLECTED: _REFLECTED,
        BulletKind.BULLET: lasers[scene.themes[3]],
    }
    for kind, color in colors.items():
        frame = jnp.where((_boxes(spans, bullets.kind == int(kind)) != 0).any(axis=2), color, frame)
    for age in reversed(range(len(blasts.x))):
        row = jax.tree.map(lambda leaf, age=age: leaf[age], blasts)
        hits = _boxes(_spans(row.x, row.y, row.radius, row.radius), row.is_there)
        frame = jnp.where(hits[:, :, 0] != 0, _BLASTS[age], frame)
    return frame


def _with_bars(frame: jax.Array, boss: Any, most: jax.Array) -> jax.Array:
    """Draw a bar for the health of the boss, and one below it for the legs until its shield opens."""
    rows, columns = np.indices((SIDE, SIDE), np.int32)
    legs = jnp.where(boss.has_shield, jnp.minimum(boss.swap_timer, _MOST_LEGS), 0)
    for row, (share, total, color) in enumerate(((boss.health, most, _HEALTH), (legs, _MOST_LEGS, _LEGS))):
        is_full = columns * total < share * SIDE
        frame = jnp.where(rows == row, jnp.where(is_full, color, _BAR), frame)
    return frame
