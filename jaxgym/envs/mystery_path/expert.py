"""Scripted experts of Mystery Path and Endless Mystery Path; see `jaxgym.envs.memory_gym.steering`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.memory_gym.steering import as_action, toward, turn_or_go
from jaxgym.envs.mystery_path import game
from jaxgym.envs.mystery_path import scene as path_seen
from jaxgym.envs.mystery_path.path_search import SIZE

_FAR = SIZE * SIZE
_STEPS = np.asarray([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.int32)


def action(env: game.MysteryPath, state: game.State, params: game.Params) -> jax.Array:
    """Return an action along the path; between tiles, a free agent first aligns with the middle; int32 () or (2,)."""
    # The action after a fall is ignored, so it can be any.
    tile = state.position_px // path_seen.TILE_PX
    ahead = next_tile(tile, state.level)
    if env.grid:
        return turn_or_go(ahead - tile, state.heading)
    direction = toward(path_seen.TILE_PX * ahead + path_seen.TILE_PX // 2 - state.position_px, params.agent_speed)
    across = jnp.where(ahead == tile, direction, 0)
    return as_action(jnp.where(jnp.any(across != 0), across, direction), flat=env.flat_actions)


def endless_action(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the action in the direction of the path; int32 ()."""
    del env, params
    return state.next_direction + 1


def next_tile(tile: jax.Array, level: game.Level) -> jax.Array:
    """Return the next path tile (column, row) towards the goal."""
    numbers = np.arange(SIZE * SIZE, dtype=np.int32)
    on_path = jnp.stack([jnp.any(level.path & game.tile_set(numbers[number, None]) != 0) for number in numbers])
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
