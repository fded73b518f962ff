"""Human views of Mortar Mayhem: enlarged frames that hide nothing, uint8 (336, 336, 3), row first."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.mortar_mayhem import scene as mortar_scene
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, draw_sprite, enlarged
from jaxgym.rendering.sprites import ring

_GREEN = (0, 255, 0)
_RING_RADIUS_PX, _RING_WIDTH_PX = 7, 2


@functools.cache
def _ring() -> SpriteSheet:
    side = 2 * _RING_RADIUS_PX
    image = np.full((side, side, 3), TRANSPARENT, np.uint8)
    image[ring(side, (_RING_RADIUS_PX, _RING_RADIUS_PX), _RING_RADIUS_PX, _RING_WIDTH_PX)] = _GREEN
    return SpriteSheet.of(image[None], anchor=_RING_RADIUS_PX)


def _with_target(frame: jax.Array, target_tile: jax.Array, arena_size: jax.Array) -> jax.Array:
    center = mortar_scene.tile_center_px(target_tile, arena_size)
    return enlarged(draw_sprite(frame, _ring(), jnp.int32(0), center))


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with a ring around the target tile."""
    scene = env.scene(state, params)
    return _with_target(mortar_scene.draw(scene, env.agent_scale), state.target_tile, scene.arena_size)


def endless_view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with a ring around the target tile."""
    scene = env.scene(state, params)
    return _with_target(mortar_scene.draw_torus(scene, env.agent_scale), state.target_tile, scene.arena_size)
