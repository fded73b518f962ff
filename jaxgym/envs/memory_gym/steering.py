"""Steering for scripted experts: actions that move the agent towards a target.

An expert is a pure function of environment, state and parameters that returns an action. It reads the state, including
all hidden information. It proves that a game can be solved, and serves tests, videos and imitation learning. Free
agents are steered in whole steps, so some options make a game too fast or too large for an expert.
"""

import jax
import jax.numpy as jnp

from jaxgym.envs.memory_gym import arena

_QUARTER = 2


def turn_or_go(away: jax.Array, heading: jax.Array) -> jax.Array:
    """Return the action of a grid agent towards a target that is `away` (columns, rows), int32 ()."""
    ahead, left = arena.movement_of(heading), arena.movement_of((heading + _QUARTER) % arena.NUM_HEADINGS)
    is_ahead, is_left = jnp.sum(ahead * away) > 0, jnp.sum(left * away) > 0
    turn = jnp.where(is_left, arena.GridAction.TURN_LEFT, arena.GridAction.TURN_RIGHT)
    action = jnp.where(is_ahead, arena.GridAction.FORWARD, turn)
    return jnp.where(jnp.any(away != 0), action, arena.GridAction.NOTHING).astype(jnp.int32)


def toward(away_px: jax.Array, speed_px: jax.Array) -> jax.Array:
    """Return the direction (dx, dy) in -1, 0, 1 towards the target, int32 (2,); 0 within half a step."""
    step = jnp.maximum(jnp.trunc(speed_px).astype(jnp.int32), 1)
    return jnp.where(2 * jnp.abs(away_px) > step, jnp.sign(away_px), 0)


def as_action(direction: jax.Array, *, flat: bool) -> jax.Array:
    """Return the free action that moves along a direction, int32 (2,), or int32 () if flat."""
    sides = jnp.where(direction < 0, arena.AxisMove.NEGATIVE, arena.AxisMove.POSITIVE)
    action = jnp.where(direction == 0, arena.AxisMove.STAY, sides).astype(jnp.int32)
    return len(arena.AxisMove) * action[0] + action[1] if flat else action
