"""Human views of Mystery Path: enlarged frames that hide nothing, uint8 (336, 336, 3), row first."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mystery_path import endless
from jaxgym.envs.mystery_path import endless_scene as seen
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path import scene as path_scene
from jaxgym.envs.mystery_path.game import has
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.rendering.canvas import enlarged

_WHITE = 255
_PATH_ALPHA, _OPAQUE = 200, 255


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return a frame with the path in white, its start in blue and its goal in green, the agent and its cross.

    Levels do not have the walls, which the original paints red: after the path is found, nothing depends on them.
    """
    tiles = jnp.stack(jnp.meshgrid(jnp.arange(SIZE), jnp.arange(SIZE)), axis=-1).reshape(-1, 2)
    on_path = has(state.level.path, tiles).reshape(SIZE, SIZE)
    side = path_scene.TILE_PX
    path = jnp.repeat(jnp.repeat(on_path, side, axis=0), side, axis=1)
    shown = dataclasses.replace(
        env.scene(state, params), origin_tile=state.level.start_tile, goal_tile=state.level.goal_tile
    )
    frame = path_scene.draw(shown, env.agent_scale)
    is_empty = jnp.all(frame == 0, axis=-1)
    return enlarged(jnp.where((is_empty & path)[..., None], np.full((1, 1, 3), _WHITE, np.uint8), frame))


def endless_view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return a frame with all tiles of the path, translucent without borders, the agent, its cross and the stamina."""
    numbers = state.position_px[0] // seen.TILE_PX // segments.NUM_COLUMNS + jnp.arange(-1, 2)
    cells = jax.vmap(lambda number: endless.segment_at(state.level, number, params.segments))(numbers)
    cells = cells.astype(jnp.int32)
    columns = cells // segments.NUM_ROWS + segments.NUM_COLUMNS * numbers[:, None]
    tiles = jnp.stack([columns, cells % segments.NUM_ROWS], axis=-1).reshape(-1, 2)
    is_there = ((cells != segments.NO_TILE) & (numbers[:, None] >= 0)).reshape(-1)
    walked_px = state.position_px[0] - arena.agent_radius(env.agent_scale)
    camera = params.camera
    path, _ = seen.columns_of(tiles, is_there, walked_px, camera)
    # The original shifts an image of the whole path, which is truncated to whole px once.
    left = camera.cut_px(-walked_px) + seen.TILE_PX * seen.columns_near(walked_px, camera)
    scene = dataclasses.replace(
        env.scene(state, params),
        path_columns=path,
        path_left_px=left,
        lost_stamina_px=params.lost_stamina_px(state.stamina),
    )
    ground = seen.ground(scene).astype(jnp.int32)
    covered = ground + (_WHITE - ground) * _PATH_ALPHA // _OPAQUE
    frame = jnp.where(seen.is_tile(scene)[..., None], covered, ground).astype(jnp.uint8)
    return enlarged(seen.with_things(frame, scene, env.agent_scale))
