"""Times of Mortar Mayhem's checks and explosions, for both games.

The functions accept the state of either game.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp


def is_check_due(state: Any) -> jax.Array:
    """Return whether the delay of the current command is over, so that its target is checked."""
    return ~state.tiles_on & (state.command_steps > 0) & (state.command_steps % state.level.explosion_delay == 0)


def is_explosion_over(state: Any) -> jax.Array:
    """Return whether the explosion has reached its duration."""
    return state.tiles_on & (state.verify_step > 0) & (state.verify_step % state.level.explosion_duration == 0)


def count_explosion(state: Any, is_over: jax.Array) -> Any:
    """Advance the explosion or the delay by one step; when the explosion is over, the tiles are safe."""
    burns = state.tiles_on & ~is_over
    return dataclasses.replace(
        state,
        command_steps=state.command_steps + (~state.tiles_on).astype(jnp.int32),
        verify_step=jnp.where(is_over, 0, state.verify_step + burns.astype(jnp.int32)),
        tiles_on=burns,
    )
