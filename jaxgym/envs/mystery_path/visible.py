"""Facts that a frame of Mystery Path shows, as integers. The symbolic observation and the text are made from them.

A scene may contain objects that its frame hides behind others. Placements with the same pixels are represented by the
first of them. Therefore equal frames have equal facts, and vice versa.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, agent_radius
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.scene import HIDDEN, TILE_PX, Scene, figure_of, figures
from jaxgym.rendering.placements import first_placements, hiding_offsets


@struct.dataclass
class Visible:
    """Facts that a frame of Mystery Path shows.

    Attributes:
        agent_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 (); the first of the headings with the same sprite.
        agent_tile: Column and row of the agent's tile, int32 (2,); -1 outside of the screen.
        has_cross: Whether the cross is shown, bool ().
        origin_tile: Tile of the start, int32 (2,); -1 if it is not shown or a large agent hides it.
        goal_tile: Tile of the goal, likewise.
    """

    agent_px: jax.Array
    agent_heading: jax.Array
    agent_tile: jax.Array
    has_cross: jax.Array
    origin_tile: jax.Array
    goal_tile: jax.Array


def visible_in(scene: Scene, agent_scale: float) -> Visible:
    """Return the facts that the frame of a scene shows."""
    column, row = scene.agent_position_px - agent_radius(agent_scale)
    x, y, figure = jnp.asarray(_first_placements(agent_scale))[column, row, figure_of(scene)]
    position = jnp.stack([x, y])
    tile = position // TILE_PX
    return Visible(
        agent_px=position,
        agent_heading=figure % NUM_HEADINGS,
        agent_tile=jnp.where((tile >= 0) & (tile < SIZE), tile, HIDDEN),
        has_cross=figure >= NUM_HEADINGS,
        origin_tile=_visible_tile(scene.origin_tile, scene, agent_scale),
        goal_tile=_visible_tile(scene.goal_tile, scene, agent_scale),
    )


@functools.cache
def _first_placements(agent_scale: float) -> np.ndarray:
    """Return the first placement with the same pixels, see `first_placements`; x and y start at the radius."""
    places = range(agent_radius(agent_scale), farthest_px(agent_scale) + 1)
    return first_placements(figures(agent_scale), SCREEN_PX, places, places)


def farthest_px(agent_scale: float) -> int:
    """Return the largest x and y of the agent's center; the start of a large agent is partly outside."""
    return max(SCREEN_PX - agent_radius(agent_scale), TILE_PX * (SIZE - 1) + agent_radius(agent_scale))


def _visible_tile(tile: jax.Array, scene: Scene, agent_scale: float) -> jax.Array:
    """Return the tile, or (-1, -1) if it is not shown or a large agent covers it completely."""
    sprites = figures(agent_scale)
    is_hidden = hiding_offsets(sprites, TILE_PX)
    if not is_hidden.any():
        return tile
    offset = TILE_PX * tile - scene.agent_position_px + sprites.anchor + sprites.side
    column, row = jnp.clip(offset, 0, is_hidden.shape[-1] - 1)
    return jnp.where(jnp.asarray(is_hidden)[figure_of(scene), row, column], HIDDEN, tile)
