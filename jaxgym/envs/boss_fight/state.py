"""State of BossFight."""

import jax
from flax import struct

from jaxgym.environment import EnvState, starts_at
from jaxgym.envs.boss_fight.things import Blasts, Bullets, Trails

HURT_STEPS = 40
"""Steps after a won round in which the boss does not attack."""


@struct.dataclass
class Boss:
    """The boss; its shield has the same center.

    Attributes:
        place: x and y, float32 (2,).
        velocity: Per step, float32 (2,).
        health: Hits left, int32 ().
        round: Rounds won, int32 ().
        leg_timer: Steps left of the leg, int32 ().
        swap_timer: Legs left until the shield opens or closes, int32 ().
        hurt_until: Last step without an attack after a won round, int32 ().
        has_shield: Whether the shield is closed, bool ().
    """

    place: jax.Array
    velocity: jax.Array
    health: jax.Array
    round: jax.Array
    leg_timer: jax.Array
    swap_timer: jax.Array
    hurt_until: jax.Array
    has_shield: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        place: x and y of the ship, float32 (2,).
        velocity: Of the ship, per step, float32 (2,).
        boss: The boss.
        bullets: All bullets.
        trails: Trails of the boss's bullets.
        blasts: Blasts.
        last_fire: Step of the last shot, int32 ().
        share: Random number of the last step that sets the direction of reflected shots, float32 ().
    """

    place: jax.Array
    velocity: jax.Array
    boss: Boss
    bullets: Bullets
    trails: Trails
    blasts: Blasts
    last_fire: jax.Array = starts_at(0)
    share: jax.Array = starts_at(0.0)
