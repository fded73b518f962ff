"""Bullets and movement of the boss, and the numbers of the original."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.boss_fight import exact, things
from jaxgym.envs.boss_fight.level import BOSS_HALF_WIDTH, BOTTOM, WORLD, Mode
from jaxgym.envs.boss_fight.things import Blasts, BulletKind, Bullets

PI = np.float32(np.pi)
SPEEDS = {"easy": 0.5, "hard": 0.75}
"""Speed of the boss's bullets in each distribution mode."""

REFLECTED_SPEED, TRAIL_SPEED = 0.5, np.float32(0.5)
BLAST_SHARE = np.float32(0.5)
_SMOKE_RADIUS = np.float32(0.75)
_SHOT_SPEED = 1.0
_OPEN_RATE = np.float32(0.1)
_MOST_BULLETS = 8
_INTERVALS = np.asarray([8, 5, 10, 4], np.int32)
"""Steps between the attacks of each mode."""
_COUNTS = np.asarray([5, 4, 8, 1], np.int32)
_SWEEP = 8


def _fan() -> np.ndarray:
    """Return the angles of the fan, float32 (8,), of which 5 are used."""
    steps = (np.arange(5) - 2).astype(np.float32) * PI / np.float32(8)
    return np.resize((np.float64(PI) * 1.5 + steps).astype(np.float32), _MOST_BULLETS)


def _crosses() -> np.ndarray:
    """Return the angles of the cross for each place of its sweep, float32 (9, 8), of which 4 are used."""
    quarters = (np.arange(4).astype(np.float32) * PI / np.float32(2)).astype(np.float64)
    turns = np.float64(PI) * (1.25 + 0.5 * np.arange(_SWEEP + 1) / _SWEEP)
    return np.tile((turns[:, None] + quarters).astype(np.float32), (1, 2))


_FAN, _CROSSES = _fan(), _crosses()
_RING = np.float32(2) * PI / np.float32(_MOST_BULLETS) * np.arange(_MOST_BULLETS).astype(np.float32)


def bullets_of(mode: jax.Array, time: jax.Array, shares: jax.Array, *, is_open: jax.Array) -> tuple[Any, jax.Array]:
    """Return the angles of the bullets that the boss fires, float32 (8,), and how many of them, int32 ()."""
    turn, rate = shares[1], shares[2]
    place = jnp.abs(_SWEEP - (time // _INTERVALS[Mode.CROSS]) % (2 * _SWEEP))
    ring = exact.times(2 * turn, PI) + _RING
    single = jnp.full(_MOST_BULLETS, PI * (1 + turn), jnp.float32)
    mode = jnp.where(is_open, int(Mode.AIMLESS), mode)
    choices = [mode == int(Mode.FAN), mode == int(Mode.CROSS), mode == int(Mode.RING)]
    angles = jnp.select(choices, [jnp.asarray(_FAN), jnp.asarray(_CROSSES)[place], ring], single)
    fires = jnp.where(is_open, rate < _OPEN_RATE, time % jnp.asarray(_INTERVALS)[mode] == 0)
    return angles, jnp.where(fires, jnp.asarray(_COUNTS)[mode], 0)


def with_shot(bullets: Bullets, place: dict[str, jax.Array], fires: jax.Array) -> Bullets:
    """Return the bullets with a shot of the ship, if it fires."""
    new = {
        "kind": jnp.full(1, int(BulletKind.SHOT), jnp.int32),
        **place,
        "vx": jnp.zeros(1, jnp.float32),
        "vy": jnp.full(1, _SHOT_SPEED, jnp.float32),
    }
    return things.appended(bullets, new, fires.astype(jnp.int32))


def with_bullets(bullets: Bullets, place: jax.Array, angles: jax.Array, count: jax.Array, mode: str) -> Bullets:
    """Return the bullets with `count` bullets of the boss."""
    vx, vy = exact.velocity(angles, SPEEDS[mode])
    new = {
        "kind": jnp.full_like(angles, int(BulletKind.BULLET), jnp.int32),
        "x": jnp.broadcast_to(place[0], angles.shape),
        "y": jnp.broadcast_to(place[1], angles.shape),
        "vx": vx,
        "vy": vy,
    }
    return things.appended(bullets, new, count)


def with_smoke(blasts: Blasts, place: jax.Array, half: jax.Array, shares: jax.Array, is_new: jax.Array) -> Blasts:
    """Return the blasts with one at a random place of the boss."""
    x, y = place + exact.times(2 * shares - 1, half)
    row = {"is_there": is_new, "x": x, "y": y, "radius": _SMOKE_RADIUS}
    last = things.MOST_NEW_BLASTS
    return things.with_new(
        blasts, **{name: getattr(blasts, name)[0].at[last].set(value) for name, value in row.items()}
    )


def leg_velocity(place: jax.Array, shares: jax.Array, num_steps: int) -> jax.Array:
    """Return the velocity toward a random destination, float32 (2,)."""
    width, height = WORLD - 2 * float(BOSS_HALF_WIDTH), WORLD - 2 * float(BOSS_HALF_WIDTH) - BOTTOM
    x = exact.times(shares[0], width) + BOSS_HALF_WIDTH
    y = exact.kept(exact.times(shares[1], height) + BOSS_HALF_WIDTH) + np.float32(BOTTOM)
    return exact.times(jnp.stack([x, y]) - place, 1 / num_steps)
