"""Scripted player of BossFight: dodge what comes within the next steps, and shoot the boss when its shield is open."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.boss_fight.game import DRAG, FIRE, INERTIA, NUM_MOVES, PUSH, STAY, STEPS_BETWEEN_SHOTS, BossFight
from jaxgym.envs.boss_fight.level import WORLD
from jaxgym.envs.boss_fight.state import State
from jaxgym.envs.boss_fight.things import HALF_SIZES, BulletKind

_HORIZON = 16
_HOLDS = 2, 5, 9
"""Numbers of steps for which a plan accelerates in one direction; then the ship only brakes."""

_MARGIN = np.float32(0.12)
_HIGHEST_Y = np.float32(3.5)
_OFF_CENTER, _HEIGHT, _UNDER_METEOR = 1.0, 0.3, 3.0
_PER_SAFE_STEP = 1000.0
_STEPS_TO_BOSS = 10
_DIRECTIONS = np.stack([np.arange(NUM_MOVES) // 3 - 1, np.arange(NUM_MOVES) % 3 - 1], axis=1).astype(np.float32)
_PLANS = np.tile(_DIRECTIONS, (len(_HOLDS), 1))
_PLAN_HOLDS = np.repeat(np.asarray(_HOLDS, np.int32), NUM_MOVES)


def expert_action(env: BossFight, state: State, _: Any) -> jax.Array:
    """Return the first action of the best plan, int32 ()."""
    sizes, boss, bullets = env.sizes(state.level), state.boss, state.bullets
    half = sizes.ship
    count = len(sizes.meteors)
    is_meteor = np.arange(count, dtype=np.int32) < state.level.num_meteors
    is_danger = jnp.concatenate([bullets.kind == BulletKind.BULLET, is_meteor, jnp.ones(1, bool)])
    still = jnp.zeros((count, 2), jnp.float32)
    places = jnp.stack([bullets.x, bullets.y], axis=1)
    places = jnp.concatenate([places, state.level.meteors, boss.place[None]])
    velocities = jnp.concatenate([jnp.stack([bullets.vx, bullets.vy], axis=1), still, boss.velocity[None]])
    bullet = jnp.full((len(bullets.x), 2), HALF_SIZES[BulletKind.BULLET])
    reach = jnp.concatenate([bullet, sizes.meteors, sizes.boss[None]]) + half[None] + _MARGIN

    def advance(carry: Any, step: jax.Array) -> tuple[Any, jax.Array]:
        place, velocity = carry
        push = jnp.where((step < _PLAN_HOLDS)[:, None], _PLANS, 0.0)
        velocity = np.float32(DRAG) * (INERTIA * velocity + PUSH * push)
        place = jnp.clip(place + velocity, half[None], WORLD - half[None])
        there = places + velocities * (step + 1).astype(jnp.float32)
        distance = jnp.abs(place[:, None] - there[None])
        return (place, velocity), ((distance < reach[None]).all(axis=2) & is_danger[None]).any(axis=1)

    start = tuple(jnp.broadcast_to(part, _PLANS.shape) for part in (state.place, state.velocity))
    (place, _), is_hit = jax.lax.scan(advance, start, jnp.arange(_HORIZON))
    safe_steps = jnp.where(is_hit.any(axis=0), jnp.argmax(is_hit, axis=0), _HORIZON).astype(jnp.float32)

    target = boss.place[0] + boss.velocity[0] * _STEPS_TO_BOSS
    off_center = jnp.abs(place[:, 0] - jnp.clip(target, half[0], WORLD - half[0]))
    is_covered = jnp.abs(place[:, :1] - state.level.meteors[None, :, 0]) < reach[None, len(places) - count - 1 : -1, 0]
    is_covered = (is_covered & is_meteor[None]).any(axis=1).astype(jnp.float32)
    height = jnp.maximum(place[:, 1] - half[1], 0.0) + jnp.maximum(place[:, 1] - _HIGHEST_Y, 0.0)
    cost = _OFF_CENTER * off_center + _HEIGHT * height + _UNDER_METEOR * is_covered
    best = jnp.argmax(_PER_SAFE_STEP * safe_steps - cost)
    move = (best % NUM_MOVES).astype(jnp.int32)

    can_fire = ~boss.has_shield & (state.time + 1 - state.last_fire >= STEPS_BETWEEN_SHOTS)
    is_aimed = jnp.abs(state.place[0] - target) < sizes.boss[0]
    can_stay = safe_steps[STAY] >= safe_steps[best]
    return jnp.where(can_fire & is_aimed & can_stay, FIRE, move).astype(jnp.int32)
