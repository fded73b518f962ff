"""Human views of Mortar Mayhem: enlarged frames that hide nothing, uint8 (336, 336, 3), row first."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.endless import EndlessMortarMayhem
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


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with a ring around the target tile."""
    scene = env.scene(state, params)
    draw = seen.draw_torus if isinstance(env, EndlessMortarMayhem) else seen.draw
    center = seen.tile_center_px(state.target_tile, scene.arena_size)
    return enlarged(draw_sprite(draw(scene, env.agent_scale), _ring(), jnp.int32(0), center))
