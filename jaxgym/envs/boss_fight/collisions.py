"""Collisions of BossFight: what ends the ship, and what bullets, shots and meteors do to each other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.boss_fight import attacks, exact, things
from jaxgym.envs.boss_fight.level import HalfSizes, touch
from jaxgym.envs.boss_fight.state import HURT_STEPS, State
from jaxgym.envs.boss_fight.things import BulletKind

ROUND_REWARD, WIN_REWARD = 1.0, 10.0


def is_touched(state: State, sizes: HalfSizes) -> jax.Array:
    """Return whether the ship touches a bullet of the boss, the boss or a meteor, bool ()."""
    level, bullets, half = state.level, state.bullets, sizes.ship
    size = things.HALF_SIZES[BulletKind.BULLET]
    is_shot = (
        (bullets.kind == BulletKind.BULLET)
        & touch(bullets.x - state.place[0], size + half[0])
        & touch(bullets.y - state.place[1], size + half[1])
    )
    hits_boss = touch(state.boss.place - state.place, sizes.boss + half).all()
    hits_meteor = touch(level.meteors - state.place[None], sizes.meteors + half[None]).all(axis=1)
    is_meteor = np.arange(len(hits_meteor), dtype=np.int32) < level.num_meteors
    return is_shot.any() | hits_boss | (hits_meteor & is_meteor).any()


def collide(state: State, shield_place: jax.Array, sizes: HalfSizes) -> tuple[State, jax.Array, jax.Array]:
    """Resolve hits of the shield, the boss and the meteors.

    Returns:
        The state, the reward, float32 (), and whether the boss is defeated, bool ().
    """
    level, boss, bullets = state.level, state.boss, state.bullets
    is_marked = things.is_old(bullets)
    is_shot = (bullets.kind == BulletKind.SHOT) & ~is_marked
    size = things.HALF_SIZES[BulletKind.SHOT]

    def touches(place: jax.Array, half: jax.Array) -> jax.Array:
        return touch(bullets.x - place[0], size + half[0]) & touch(bullets.y - place[1], size + half[1])

    at_shield = is_shot & touches(shield_place, sizes.shield)
    at_boss = is_shot & touches(boss.place, sizes.boss) & ~boss.has_shield

    # The newest shot hits first. After the hit that wins a round, the shield reflects the others.
    newness = bullets.newness
    is_before = newness[None] <= newness[:, None]
    place_in_order = (is_before & at_boss[None]).sum(axis=1, dtype=jnp.int32)
    needed = (boss.health - 1) % level.round_health + 1
    is_last_round = boss.health == needed
    num_at_boss = at_boss.sum(dtype=jnp.int32)
    is_round_won = num_at_boss >= needed
    is_won = is_round_won & is_last_round
    is_hit = at_boss & (place_in_order <= needed)
    winner_newness = jnp.min(jnp.where(at_boss & (place_in_order == needed), newness, things.NEVER))
    closes = is_round_won & ~is_last_round
    is_reflected = at_shield & ~is_hit & (boss.has_shield | (closes & (newness > winner_newness)))

    # Hits after the defeat count on, so that they can win a round that does not exist.
    has_extra_round = is_won & (num_at_boss >= needed + level.round_health)
    reward = jnp.where(is_round_won, ROUND_REWARD, 0.0) + jnp.where(is_won, WIN_REWARD, 0.0)
    reward = reward + jnp.where(has_extra_round, ROUND_REWARD, 0.0)

    angle = exact.reflection_angle(state.share, attacks.PI)
    vx, vy = exact.velocity(angle, attacks.REFLECTED_SPEED)
    bullets = dataclasses.replace(
        bullets,
        kind=jnp.where(is_reflected, int(BulletKind.REFLECTED), bullets.kind),
        age=jnp.where(is_reflected, 0, bullets.age),
        vx=jnp.where(is_reflected, vx, bullets.vx),
        vy=jnp.where(is_reflected, vy, bullets.vy),
    )
    hit_boss = dataclasses.replace(
        boss,
        health=boss.health - jnp.minimum(num_at_boss, needed),
        round=boss.round + closes.astype(jnp.int32),
        has_shield=boss.has_shield | closes,
        swap_timer=jnp.where(closes, level.closed_legs, boss.swap_timer),
        leg_timer=jnp.where(closes, HURT_STEPS, boss.leg_timer),
        hurt_until=jnp.where(closes, state.time + HURT_STEPS, boss.hurt_until),
        velocity=jnp.where(closes, 0.0, boss.velocity),
    )
    state = dataclasses.replace(state, boss=hit_boss, bullets=bullets)
    is_last_hit = closes & (newness == winner_newness)
    hit_velocity = jnp.where(is_last_hit[None], 0.0, boss.velocity[:, None])
    state = _erase(state, sizes, is_marked, is_hit, hit_velocity)
    return state, reward.astype(jnp.float32), is_won


def _erase(state: State, sizes: HalfSizes, is_marked: jax.Array, is_hit: jax.Array, hit_velocity: jax.Array) -> State:
    """Let meteors stop bullets and trails, add blasts, and remove everything that ended or left the world."""
    level, bullets, trails, blasts = state.level, state.bullets, state.trails, state.blasts
    half, size = sizes.meteors, bullets.half_size
    is_stoppable = ((bullets.kind == BulletKind.BULLET) | (bullets.kind == BulletKind.SHOT)) & ~is_marked & ~is_hit
    stopped_by = jnp.full_like(bullets.kind, -1)
    for index in range(len(half)):  # the newest meteor comes first, which is the last one
        x, y = level.meteors[index]
        is_there = index < level.num_meteors
        stops = touch(bullets.x - x, size + half[index, 0]) & touch(bullets.y - y, size + half[index, 1])
        stopped_by = jnp.where(stops & is_there, index, stopped_by)
        trail_half = things.HALF_SIZES[BulletKind.BULLET] + half[index]
        ends = touch(trails.x - x, trail_half[0]) & touch(trails.y - y, trail_half[1]) & is_there
        trails = dataclasses.replace(trails, is_there=trails.is_there & ~ends)
    is_stopped = is_stoppable & (stopped_by >= 0)

    turn = jnp.where(is_hit, 0, len(half) - stopped_by) * things.NUM_SLOTS + bullets.newness
    order = jnp.where(is_hit | is_stopped, turn, things.NEVER)
    slots, is_new = things.first_of(order, things.MOST_NEW_BLASTS)
    moving = jnp.where(is_hit[None], hit_velocity, 0.0)
    spare = jnp.zeros(1, jnp.float32)  # the place of a blast at the boss
    blasts = things.with_new(
        blasts,
        is_there=jnp.concatenate([is_new, spare != 0]),
        x=jnp.concatenate([bullets.x[slots], spare]),
        y=jnp.concatenate([bullets.y[slots], spare]),
        vx=jnp.concatenate([moving[0, slots], spare]),
        vy=jnp.concatenate([moving[1, slots], spare]),
        radius=jnp.concatenate([attacks.BLAST_SHARE * size[slots], spare]),
    )
    is_kept = ~(is_marked | is_hit | is_stopped) & things.is_inside(bullets, size)
    bullets = dataclasses.replace(bullets, kind=jnp.where(is_kept, bullets.kind, int(BulletKind.NONE)))
    trail_size = things.HALF_SIZES[BulletKind.BULLET]
    trails = dataclasses.replace(trails, is_there=trails.is_there & things.is_inside(trails, trail_size))
    blasts = dataclasses.replace(blasts, is_there=blasts.is_there & things.is_inside(blasts, blasts.radius))
    return dataclasses.replace(state, bullets=bullets, trails=trails, blasts=blasts)
