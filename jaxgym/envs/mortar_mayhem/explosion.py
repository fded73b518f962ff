"""When Mortar Mayhem checks a command, and how long its tiles stay deadly; the same in the endless game.

The functions take the state of either game.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp


def is_check_due(state: Any) -> jax.Array:
    """Whether the delay of the current command is over and its tile has to be reached."""
    return ~state.tiles_on & (state.command_steps > 0) & (state.command_steps % state.level.explosion_delay == 0)


def is_explosion_over(state: Any) -> jax.Array:
    """Whether tiles were deadly for long enough."""
    return state.tiles_on & (state.verify_step > 0) & (state.verify_step % state.level.explosion_duration == 0)


def count_explosion(state: Any, is_over: jax.Array) -> Any:
    """Count one more step of the explosion or of the delay; tiles are safe again when it is over."""
    burns = state.tiles_on & ~is_over
    return dataclasses.replace(
        state,
        command_steps=state.command_steps + (~state.tiles_on).astype(jnp.int32),
        verify_step=jnp.where(is_over, 0, state.verify_step + burns.astype(jnp.int32)),
        tiles_on=burns,
    )
