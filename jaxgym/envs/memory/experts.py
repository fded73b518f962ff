"""Scripted experts of Mortar Mayhem and Mystery Path: they read the state, so they know all that is hidden.

An expert is a pure function of environment, state and parameters; it returns an action of the environment's space. It
shows that a game can be won, and gives tests, videos and imitation something to go by. Agents that move freely are
steered with whole steps, so that options may make a game too fast or too large for an expert.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory import arena, endless_mortar_mayhem, mortar_mayhem, mystery_path
from jaxgym.envs.memory import mortar_mayhem_scene as tiles_seen
from jaxgym.envs.memory import mystery_path_scene as path_seen
from jaxgym.envs.memory.path_search import SIZE

_QUARTER = 2
_FAR = SIZE * SIZE
_STEPS = np.asarray([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.int32)


def mortar_mayhem_action(
    env: mortar_mayhem.MortarMayhem, state: mortar_mayhem.State, params: mortar_mayhem.Params
) -> jax.Array:
    """Goes to the commanded tile, and stays there while the others are deadly; int32 () or (2,)."""
    if env.grid:
        return turn_or_go(state.target_tile - tiles_seen.tile_at(state.position_px, params.arena_size), state.heading)
    away = tiles_seen.tile_center_px(state.target_tile, params.arena_size) - state.position_px
    return as_action(toward(away, params.agent_speed), flat=env.flat_actions)


def endless_mortar_mayhem_action(
    env: endless_mortar_mayhem.EndlessMortarMayhem,
    state: endless_mortar_mayhem.State,
    params: endless_mortar_mayhem.Params,
) -> jax.Array:
    """Goes to the commanded tile, over the rim of the screen where that is shorter; int32 () or (2,)."""
    center = tiles_seen.tile_center_px(state.target_tile, jnp.int32(tiles_seen.LARGEST_ARENA))
    around = arena.SCREEN_PX + int(2 * env.rim_px)
    away = (center - state.position_px + around // 2) % around - around // 2
    return as_action(toward(away, params.agent_speed), flat=env.flat_actions)


def mystery_path_action(
    env: mystery_path.MysteryPath, state: mystery_path.State, params: mystery_path.Params
) -> jax.Array:
    """Goes along the path; between two tiles a free agent first lines up with the middle; int32 () or (2,)."""
    # The action after a fall is ignored, so that it does not matter where a fallen agent would go.
    tile = state.position_px // path_seen.TILE_PX
    ahead = next_tile(tile, state.level)
    if env.grid:
        return turn_or_go(ahead - tile, state.heading)
    direction = toward(path_seen.TILE_PX * ahead + path_seen.TILE_PX // 2 - state.position_px, params.agent_speed)
    across = jnp.where(ahead == tile, direction, 0)
    return as_action(jnp.where(jnp.any(across != 0), across, direction), flat=env.flat_actions)


def endless_mystery_path_action(env: Any, state: Any, params: Any) -> jax.Array:
    """Goes where the path goes; int32 ()."""
    del env, params
    return state.next_direction + 1


def next_tile(tile: jax.Array, level: mystery_path.Level) -> jax.Array:
    """Returns the path tile beside a path tile (column, row) from which the goal is nearest along the path."""
    numbers = np.arange(SIZE * SIZE, dtype=np.int32)
    on_path = jnp.stack([jnp.any(level.path & mystery_path.tile_set(numbers[number, None]) != 0) for number in numbers])
    on_path = on_path.reshape(SIZE, SIZE)
    is_goal = numbers.reshape(SIZE, SIZE) == level.goal_tile[0] * SIZE + level.goal_tile[1]

    def spread(_: int, distance: jax.Array) -> jax.Array:
        edged = jnp.pad(distance, 1, constant_values=_FAR)
        beside = jnp.minimum(
            jnp.minimum(edged[2:, 1:-1], edged[:-2, 1:-1]), jnp.minimum(edged[1:-1, 2:], edged[1:-1, :-2])
        )
        return jnp.where(on_path, jnp.minimum(distance, beside + 1), _FAR)

    distance = lax.fori_loop(0, _FAR, spread, jnp.where(is_goal, 0, _FAR))
    column, row = (tile[None] + _STEPS).T
    is_inside = (column >= 0) & (column < SIZE) & (row >= 0) & (row < SIZE)
    beside = jnp.where(is_inside, distance[jnp.clip(column, 0, SIZE - 1), jnp.clip(row, 0, SIZE - 1)], _FAR)
    return tile + jnp.asarray(_STEPS)[jnp.argmin(beside)]


def turn_or_go(away: jax.Array, heading: jax.Array) -> jax.Array:
    """Returns the action of a grid agent that is `away` (columns, rows) from where it wants to be, int32 ()."""
    ahead, left = arena.movement_of(heading), arena.movement_of((heading + _QUARTER) % arena.NUM_HEADINGS)
    is_ahead, is_left = jnp.sum(ahead * away) > 0, jnp.sum(left * away) > 0
    turn = jnp.where(is_left, arena.GridAction.TURN_LEFT, arena.GridAction.TURN_RIGHT)
    action = jnp.where(is_ahead, arena.GridAction.FORWARD, turn)
    return jnp.where(jnp.any(away != 0), action, arena.GridAction.NOTHING).astype(jnp.int32)


def toward(away_px: jax.Array, speed_px: jax.Array) -> jax.Array:
    """Returns the direction (dx, dy) in -1, 0, 1 that leads nearer, int32 (2,); 0 within half a step."""
    step = jnp.maximum(jnp.trunc(speed_px).astype(jnp.int32), 1)
    return jnp.where(2 * jnp.abs(away_px) > step, jnp.sign(away_px), 0)


def as_action(direction: jax.Array, *, flat: bool) -> jax.Array:
    """Returns the free action that moves along a direction, int32 (2,); flat ones are int32 ()."""
    sides = jnp.where(direction < 0, arena.Along.NEGATIVE, arena.Along.POSITIVE)
    action = jnp.where(direction == 0, arena.Along.STAY, sides).astype(jnp.int32)
    return len(arena.Along) * action[0] + action[1] if flat else action
