"""Scene of Mystery Path and its frame: the agent, its cross, and the ends of the path."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jax.custom_batching import custom_vmap

from jaxgym.envs.memory_gym.agent import agent_sprites
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, agent_radius
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, draw_sprite
from jaxgym.rendering.sprites import bitmap

TILE_PX = SCREEN_PX // SIZE
_FRAME = (SCREEN_PX, SCREEN_PX, 3)
HIDDEN = -1
"""Column and row of a hidden tile."""

CROSS_CENTER_PX = 5
"""Column and row of the cross's pixel on the center of the agent."""


_CROSS = """
##......##
###....###
.###..###.
..######..
...####...
...####...
..######..
.###..###.
###....###
##......##
"""
CROSS_COLOR = (255, 0, 0)
_END_COLORS = ((0, 0, 255), (0, 255, 0))
_ORIGIN, _GOAL = range(len(_END_COLORS))


@struct.dataclass
class Scene:
    """Scene of Mystery Path.

    Attributes:
        agent_position_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 ().
        has_cross: Whether the cross is shown on the agent, bool ().
        origin_tile: Column and row of the start, or (-1, -1) if it is not shown, int32 (2,).
        goal_tile: Column and row of the goal, or (-1, -1) if it is not shown, int32 (2,).
    """

    agent_position_px: jax.Array
    agent_heading: jax.Array
    has_cross: jax.Array
    origin_tile: jax.Array
    goal_tile: jax.Array


def start_px(tile: jax.Array, agent_scale: float) -> jax.Array:
    """Return the agent's start position on a tile, int32 (2,): it touches the tile's top and left side."""
    return TILE_PX * tile + agent_radius(agent_scale)


def cross_image() -> np.ndarray:
    """Return the cross, uint8 (10, 10, 3)."""
    cross = bitmap(_CROSS)[..., None]
    return np.where(cross, np.asarray(CROSS_COLOR, np.uint8), np.uint8(TRANSPARENT))


@functools.cache
def figures(agent_scale: float) -> SpriteSheet:
    """Return the agent's sprites for the eight headings, without and then with a cross."""
    agents, cross = agent_sprites(agent_scale), cross_image()
    anchor = max(agents.anchor, CROSS_CENTER_PX)
    side = anchor + max(agents.side - agents.anchor, len(cross) - CROSS_CENTER_PX)
    whole, corner = slice(agents.side, 2 * agents.side), anchor - agents.anchor
    plain = np.full((NUM_HEADINGS, side, side, 3), TRANSPARENT, np.uint8)
    plain[:, corner : corner + agents.side, corner : corner + agents.side] = agents.pixels[:, whole, whole]
    crossed, corner = plain.copy(), anchor - CROSS_CENTER_PX
    window = crossed[:, corner : corner + len(cross), corner : corner + len(cross)]
    np.copyto(window, cross, where=cross != TRANSPARENT)
    return SpriteSheet.of(np.concatenate([plain, crossed]), anchor=anchor)


@functools.cache
def _ends() -> SpriteSheet:
    images = np.empty((len(_END_COLORS), TILE_PX, TILE_PX, 3), np.uint8)
    images[:] = np.reshape(_END_COLORS, (-1, 1, 1, 3))
    return SpriteSheet.of(images, anchor=0)


def figure_of(scene: Scene) -> jax.Array:
    """Return the index of the agent's sprite in `figures`, with or without cross, int32 ()."""
    return scene.agent_heading + NUM_HEADINGS * scene.has_cross.astype(jnp.int32)


def draw(scene: Scene, agent_scale: float) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first."""
    ground = _ground(scene.origin_tile, scene.goal_tile)
    return draw_sprite(ground, figures(agent_scale), figure_of(scene), scene.agent_position_px)


def _paint(origin_tile: jax.Array, goal_tile: jax.Array) -> jax.Array:
    # A hidden end gets a tile outside of the screen.
    canvas = draw_sprite(jnp.zeros(_FRAME, jnp.uint8), _ends(), jnp.int32(_GOAL), TILE_PX * goal_tile)
    return draw_sprite(canvas, _ends(), jnp.int32(_ORIGIN), TILE_PX * origin_tile)


_ground = custom_vmap(_paint)


# A batch that shows no ends, which is the default, skips both sprites: on a CPU they cost as much as all the rest.
@_ground.def_vmap
def _ground_of_batch(
    size: int, is_batched: list[bool], origin_tile: jax.Array, goal_tile: jax.Array
) -> tuple[jax.Array, bool]:
    tiles = [
        tile if batched else jnp.broadcast_to(tile, (size, *tile.shape))
        for tile, batched in zip((origin_tile, goal_tile), is_batched, strict=True)
    ]
    is_any_shown = (tiles[0] != HIDDEN).any() | (tiles[1] != HIDDEN).any()
    black = jnp.zeros((size, *_FRAME), jnp.uint8)
    return lax.cond(is_any_shown, jax.vmap(_paint), lambda *_: black, *tiles), True
