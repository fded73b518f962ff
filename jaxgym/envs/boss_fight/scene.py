"""Scene of BossFight and its symbols."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.boss_fight import exact
from jaxgym.envs.boss_fight.level import WORLD, shown
from jaxgym.envs.boss_fight.things import Blasts, BulletKind, Bullets, Trails

_UNIT = 2 / WORLD


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
