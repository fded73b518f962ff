"""Steering of scripted experts: the actions that bring an agent nearer to where it wants to be.

An expert is a pure function of environment, state and parameters; it returns an action of the environment's space. It
reads the state, so it knows all that is hidden. It shows that a game can be won, and gives tests, videos and imitation
something to go by. Agents that move freely are steered with whole steps, so that options may make a game too fast or
too large for an expert.
"""

import jax
import jax.numpy as jnp

from jaxgym.envs.memory_gym import arena

_QUARTER = 2


def turn_or_go(away: jax.Array, heading: jax.Array) -> jax.Array:
    """Return the action of a grid agent that is `away` (columns, rows) from where it wants to be, int32 ()."""
    ahead, left = arena.movement_of(heading), arena.movement_of((heading + _QUARTER) % arena.NUM_HEADINGS)
    is_ahead, is_left = jnp.sum(ahead * away) > 0, jnp.sum(left * away) > 0
    turn = jnp.where(is_left, arena.GridAction.TURN_LEFT, arena.GridAction.TURN_RIGHT)
    action = jnp.where(is_ahead, arena.GridAction.FORWARD, turn)
    return jnp.where(jnp.any(away != 0), action, arena.GridAction.NOTHING).astype(jnp.int32)


def toward(away_px: jax.Array, speed_px: jax.Array) -> jax.Array:
    """Return the direction (dx, dy) in -1, 0, 1 that leads nearer, int32 (2,); 0 within half a step."""
    step = jnp.maximum(jnp.trunc(speed_px).astype(jnp.int32), 1)
    return jnp.where(2 * jnp.abs(away_px) > step, jnp.sign(away_px), 0)


def as_action(direction: jax.Array, *, flat: bool) -> jax.Array:
    """Return the free action that moves along a direction, int32 (2,); flat ones are int32 ()."""
    sides = jnp.where(direction < 0, arena.Along.NEGATIVE, arena.Along.POSITIVE)
    action = jnp.where(direction == 0, arena.Along.STAY, sides).astype(jnp.int32)
    return len(arena.Along) * action[0] + action[1] if flat else action
