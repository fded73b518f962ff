"""Bullets, their trails and blasts: arrays of a fixed size, and their movement."""

import dataclasses
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.boss_fight.level import WORLD

NUM_SLOTS = 64
"""Slots for bullets. New ones take the next slots in turn; within the 50 steps in which a bullet can stay in the
world, at most 57 appear."""

TRAIL_LIFETIME, BLAST_LIFETIME = 8, 4
MOST_NEW_BLASTS = 4
"""Largest number of bullets that leave a blast in one step; the blasts of further ones are not shown."""

_GROWTH = np.float32(1.4)
_NONE_LEFT = 2**30


class BulletKind(IntEnum):
    """BulletKind of a bullet."""

    NONE = 0
    SHOT = 1
    BULLET = 2
    REFLECTED = 3


HALF_SIZES = np.asarray([0.25, 0.25, 0.5, 0.25], np.float32)
"""Half width and half height of each kind."""

_LIFETIMES = np.asarray([0, 25, 50, 4], np.int32)


@struct.dataclass
class Bullets:
    """Shots of the ship, bullets of the boss, and reflected shots.

    Attributes:
        kind: `BulletKind`, int32 (64,).
        x: float32 (64,), like `y`, `vx` and `vy`; the velocity is per step.
        y: See `x`.
        vx: See `x`.
        vy: See `x`.
        age: In steps, int32 (64,).
        next_slot: Slot of the next new bullet, int32 ().
    """

    kind: jax.Array
    x: jax.Array
    y: jax.Array
    vx: jax.Array
    vy: jax.Array
    age: jax.Array
    next_slot: jax.Array

    @classmethod
    def none(cls) -> "Bullets":
        """Return empty slots."""
        numbers, whole = jnp.zeros(NUM_SLOTS, jnp.float32), jnp.zeros(NUM_SLOTS, jnp.int32)
        return cls(whole, numbers, numbers, numbers, numbers, whole, jnp.int32(0))

    @property
    def half_size(self) -> jax.Array:
        """Half width and half height, float32 (64,)."""
        return jnp.asarray(HALF_SIZES)[self.kind]

    @property
    def newness(self) -> jax.Array:
        """0 for the newest bullet, 1 for the one before, and so on, int32 (64,)."""
        return (self.next_slot - 1 - np.arange(NUM_SLOTS, dtype=np.int32)) % NUM_SLOTS


@struct.dataclass
class Trails:
    """Trails of the boss's bullets; row i has those of i steps ago, in the slots of their bullets.

    Attributes:
        is_there: bool (9, 64).
        x: float32 (9, 64), like `y`, `vx` and `vy`.
        y: See `x`.
        vx: See `x`.
        vy: See `x`.
    """

    is_there: jax.Array
    x: jax.Array
    y: jax.Array
    vx: jax.Array
    vy: jax.Array

    @classmethod
    def none(cls) -> "Trails":
        """Return no trails."""
        shape = (TRAIL_LIFETIME + 1, NUM_SLOTS)
        numbers = jnp.zeros(shape, jnp.float32)
        return cls(jnp.zeros(shape, bool), numbers, numbers, numbers, numbers)


@struct.dataclass
class Blasts:
    """Blasts, which are only seen; row i has those of i steps ago in the order of their appearance.

    Attributes:
        is_there: bool (5, 5).
        x: float32 (5, 5), like `y`, `vx`, `vy`, and `radius`, the half width and half height.
        y: See `x`.
        vx: See `x`.
        vy: See `x`.
        radius: See `x`.
    """

    is_there: jax.Array
    x: jax.Array
    y: jax.Array
    vx: jax.Array
    vy: jax.Array
    radius: jax.Array

    @classmethod
    def none(cls) -> "Blasts":
        """Return no blasts."""
        shape = (BLAST_LIFETIME + 1, MOST_NEW_BLASTS + 1)
        numbers = jnp.zeros(shape, jnp.float32)
        return cls(jnp.zeros(shape, bool), numbers, numbers, numbers, numbers, numbers)


def moved(things: Any) -> Any:
    """Return the things at their next places."""
    return dataclasses.replace(things, x=things.x + things.vx, y=things.y + things.vy)


def aged(things: Any) -> Any:
    """Return trails or blasts with an empty row for new ones, without those that are too old."""
    return jax.tree.map(lambda leaf: jnp.concatenate([jnp.zeros_like(leaf[:1]), leaf[:-1]]), things)


def grown(blasts: Blasts) -> Blasts:
    """Return the blasts with their next size."""
    return dataclasses.replace(blasts, radius=blasts.radius * _GROWTH)


def with_new(things: Any, **new: jax.Array) -> Any:
    """Return trails or blasts with those of this step in the first row."""
    return dataclasses.replace(things, **{name: getattr(things, name).at[0].set(row) for name, row in new.items()})


def is_old(bullets: Bullets) -> jax.Array:
    """Return which bullets are beyond their lifetime, bool (64,)."""
    return bullets.age > jnp.asarray(_LIFETIMES)[bullets.kind]


def is_inside(things: Any, half_size: Any) -> jax.Array:
    """Return which things are at least partly inside of the world, a bool array of their shape."""
    return (
        (things.x + half_size >= 0)
        & (things.y + half_size >= 0)
        & (things.x - half_size <= WORLD)
        & (things.y - half_size <= WORLD)
    )


def appended(bullets: Bullets, new: dict[str, jax.Array], count: jax.Array) -> Bullets:
    """Return the bullets with the first `count` new ones, in the order of the arrays."""
    size = len(new["kind"])
    offset = (np.arange(NUM_SLOTS, dtype=np.int32) - bullets.next_slot) % NUM_SLOTS
    is_new, source = offset < count, jnp.minimum(offset, size - 1)
    fields = {name: jnp.where(is_new, values[source], getattr(bullets, name)) for name, values in new.items()}
    return dataclasses.replace(
        bullets,
        **fields,
        age=jnp.where(is_new, 0, bullets.age),
        next_slot=(bullets.next_slot + count) % NUM_SLOTS,
    )


def first_of(order: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Return the slots with the smallest entries of `order`, and whether there is one; `NEVER` is left out.

    Returns:
        int32 (count,) and bool (count,).
    """
    slots: list[jax.Array] = []
    found: list[jax.Array] = []
    for _ in range(count):
        slot = jnp.argmin(order).astype(jnp.int32)
        slots.append(slot)
        found.append(order[slot] < NEVER)
        order = jnp.where(np.arange(NUM_SLOTS, dtype=np.int32) == slot, NEVER, order)
    return jnp.stack(slots), jnp.stack(found)


NEVER = np.int32(_NONE_LEFT)
"""Place in an order of something that is not part of it."""
