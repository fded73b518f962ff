"""What people may see of the games: pictures with all that is hidden, uint8 (336, 336, 3), row first.

They are drawn by the games' own drawing, of scenes that hide nothing, and enlarged four times. Agents never see them.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory import (
    arena,
    endless_mystery_path,
    mystery_path_scene,
    searing_spotlights_scene,
)
from jaxgym.envs.memory import endless_mystery_path_scene as seen
from jaxgym.envs.memory import endless_mystery_path_segments as segments
from jaxgym.envs.memory import mortar_mayhem_scene as mortar_scene
from jaxgym.envs.memory.mystery_path import only
from jaxgym.envs.memory.path_search import SIZE
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, stamp
from jaxgym.rendering.sprites import ring

SCALE = 4
"""Pixels of a picture for each pixel of a frame, along each axis."""

_GREEN, _WHITE = (0, 255, 0), 255
_RING_RADIUS_PX, _RING_WIDTH_PX = 7, 2
_PATH_ALPHA, _OPAQUE = 200, 255


def enlarged(frame: jax.Array) -> jax.Array:
    """Returns a frame enlarged, uint8 (4 · H, 4 · W, 3)."""
    return jnp.repeat(jnp.repeat(frame, SCALE, axis=0), SCALE, axis=1)


@functools.cache
def _ring() -> SpriteSheet:
    side = 2 * _RING_RADIUS_PX
    picture = np.full((side, side, 3), TRANSPARENT, np.uint8)
    picture[ring(side, (_RING_RADIUS_PX, _RING_RADIUS_PX), _RING_RADIUS_PX, _RING_WIDTH_PX)] = _GREEN
    return SpriteSheet.of(picture[None], anchor=_RING_RADIUS_PX)


def _with_target(frame: jax.Array, target_tile: jax.Array, arena_size: jax.Array) -> jax.Array:
    center = mortar_scene.tile_center_px(target_tile, arena_size)
    return enlarged(stamp(frame, _ring(), jnp.int32(0), center))


def mortar_mayhem_view(env: Any, state: Any, params: Any) -> jax.Array:
    """The frame, with a ring around the commanded tile."""
    scene = env.scene(state, params)
    return _with_target(mortar_scene.draw(scene, env.agent_scale), state.target_tile, scene.arena_size)


def endless_mortar_mayhem_view(env: Any, state: Any, params: Any) -> jax.Array:
    """The frame, with a ring around the commanded tile."""
    scene = env.scene(state, params)
    return _with_target(mortar_scene.draw_torus(scene, env.agent_scale), state.target_tile, scene.arena_size)


def mystery_path_view(env: Any, state: Any, params: Any) -> jax.Array:
    """The path in white, its start in blue and its goal in green, with the agent and its cross.

    The walls that bend the path, which the original paints red, are no part of a level: nothing in a game depends on
    them once the path is found.
    """
    tiles = jnp.stack(jnp.meshgrid(jnp.arange(SIZE), jnp.arange(SIZE)), axis=-1).reshape(-1, 2)
    on_path = jax.vmap(lambda tile: jnp.any(state.level.path & only(tile) != 0))(tiles).reshape(SIZE, SIZE)
    side = mystery_path_scene.TILE_PX
    path = jnp.repeat(jnp.repeat(on_path, side, axis=0), side, axis=1)
    shown = dataclasses.replace(
        env.scene(state, params),
        origin_tile=state.level.start_tile,
        goal_tile=state.level.goal_tile,
    )
    frame = mystery_path_scene.draw(shown, env.agent_scale)
    is_empty = jnp.all(frame == 0, axis=-1)
    return enlarged(jnp.where((is_empty & path)[..., None], np.full((1, 1, 3), _WHITE, np.uint8), frame))


def endless_mystery_path_view(env: Any, state: Any, params: Any) -> jax.Array:
    """All tiles of the path, translucent and without borders, with the agent, its cross and the stamina."""
    numbers = state.position_px[0] // seen.TILE_PX // segments.NUM_COLUMNS + jnp.arange(-1, 2)
    cells = jax.vmap(lambda number: endless_mystery_path.segment_at(state.level, number, params.segments))(numbers)
    cells = cells.astype(jnp.int32)
    columns = cells // segments.NUM_ROWS + segments.NUM_COLUMNS * numbers[:, None]
    tiles = jnp.stack([columns, cells % segments.NUM_ROWS], axis=-1).reshape(-1, 2)
    is_there = ((cells != segments.NO_TILE) & (numbers[:, None] >= 0)).reshape(-1)
    walked_px = state.position_px[0] - arena.agent_radius(env.agent_scale)
    path, _ = seen.columns_of(tiles, is_there, walked_px, params.camera)
    # The original moves a picture of the whole path, which is cut to whole px once.
    left = params.camera.cut_px(-walked_px) + seen.TILE_PX * seen.columns_near(walked_px, params.camera)
    scene = dataclasses.replace(
        env.scene(state, params),
        path_columns=path,
        path_left_px=left,
        lost_stamina_px=jnp.sum(state.stamina <= params.stamina_rows, dtype=jnp.int32),
    )
    ground = seen.ground(scene).astype(jnp.int32)
    covered = ground + (_WHITE - ground) * _PATH_ALPHA // _OPAQUE
    frame = jnp.where(seen.is_tile(scene)[..., None], covered, ground).astype(jnp.uint8)
    return enlarged(seen.with_things(frame, scene, env.agent_scale))


def searing_spotlights_view(env: Any, state: Any, params: Any) -> jax.Array:
    """The frame, with agent, coins and exit above the darkness."""
    yes = jnp.bool_(True)
    shown = dataclasses.replace(env.scene(state, params), agent_visible=yes, coins_visible=yes, exit_visible=yes)
    return enlarged(searing_spotlights_scene.draw(shown, env.look))
