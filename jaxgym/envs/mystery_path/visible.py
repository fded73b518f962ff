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
from jaxgym.rendering.placements import first_placements, is_hidden


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
    sprites, position = figures(agent_scale), scene.agent_position_px
    is_covered = is_hidden(sprites, figure_of(scene), position, TILE_PX * tile, TILE_PX)
    return jnp.where(is_covered, HIDDEN, tile)


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (53,); equal vectors have equal frames and vice versa.

    In order: agent center x and y divided by 84 (2), heading one-hot (8; headings with the same sprite share an entry),
    tile one-hot in columns and rows (7 + 7), whether the cross is shown (1), the start tile and the goal tile one-hot
    in columns and rows (7 + 7 each; zeros if not shown or hidden by a large agent). Placements at the screen's edge
    with the same pixels are represented by the first of them.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    return jnp.concatenate(
        [
            seen.agent_px.astype(jnp.float32) / np.float32(SCREEN_PX),
            one_hot(seen.agent_heading, NUM_HEADINGS),
            one_hot(seen.agent_tile, SIZE).reshape(-1),
            seen.has_cross.astype(jnp.float32)[None],
            *(one_hot(tile, SIZE).reshape(-1) for tile in (seen.origin_tile, seen.goal_tile)),
        ]
    )
