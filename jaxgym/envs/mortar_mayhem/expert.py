"""Scripted experts of Mortar Mayhem and Endless Mortar Mayhem; see `jaxgym.envs.memory_gym.steering`."""

import jax
import jax.numpy as jnp

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.memory_gym.steering import as_action, toward, turn_or_go
from jaxgym.envs.mortar_mayhem import endless, game
from jaxgym.envs.mortar_mayhem import scene as tiles_seen


def action(env: game.MortarMayhem, state: game.State, params: game.Params) -> jax.Array:
    """Return an action towards the target tile; stay on it while the others are deadly; int32 () or (2,)."""
    if env.grid:
        return turn_or_go(state.target_tile - tiles_seen.tile_at(state.position_px, params.arena_size), state.heading)
    away = tiles_seen.tile_center_px(state.target_tile, params.arena_size) - state.position_px
    return as_action(toward(away, params.agent_speed), flat=env.flat_actions)


def endless_action(
    env: endless.EndlessMortarMayhem, state: endless.EndlessMortarMayhemState, params: endless.EndlessMortarMayhemParams
) -> jax.Array:
    """Return an action towards the target tile, across the border if that is shorter; int32 () or (2,)."""
    center = tiles_seen.tile_center_px(state.target_tile, jnp.int32(tiles_seen.LARGEST_ARENA))
    around = arena.SCREEN_PX + int(2 * env.rim_px)
    away = (center - state.position_px + around // 2) % around - around // 2
    return as_action(toward(away, params.agent_speed), flat=env.flat_actions)
