"""What is seen of Mystery Path: the agent, its cross, and the ends of the path, as a picture or as numbers."""

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
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, stamp
from jaxgym.rendering.looks import hiding_offsets, placement_looks
from jaxgym.rendering.sprites import bitmap

TILE_PX = SCREEN_PX // SIZE
_FRAME = (SCREEN_PX, SCREEN_PX, 3)
HIDDEN = -1
"""Column and row of a tile that is not shown."""

CROSS_CENTER_PX = 5
"""The pixel (column and row) of the cross that lies on the centre of the agent."""

NUM_SYMBOLS = 2 + NUM_HEADINGS + 2 * SIZE + 1 + 4 * SIZE

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
    """What a viewer may know of Mystery Path.

    Attributes:
        agent_position_px: Centre of the agent, int32 (2,).
        agent_heading: In eighths of a turn, int32 ().
        has_cross: Whether the agent is under a cross, bool ().
        origin_tile: Column and row of the start, or (-1, -1) where it is not shown, int32 (2,).
        goal_tile: Column and row of the goal, or (-1, -1) where it is not shown, int32 (2,).
    """

    agent_position_px: jax.Array
    agent_heading: jax.Array
    has_cross: jax.Array
    origin_tile: jax.Array
    goal_tile: jax.Array


def start_px(tile: jax.Array, agent_scale: float) -> jax.Array:
    """Returns where an agent starts on a tile, int32 (2,): it touches the tile's top and left side."""
    return TILE_PX * tile + agent_radius(agent_scale)


def cross_picture() -> np.ndarray:
    """Returns the cross, uint8 (10, 10, 3)."""
    cross = bitmap(_CROSS)[..., None]
    return np.where(cross, np.asarray(CROSS_COLOR, np.uint8), np.uint8(TRANSPARENT))


@functools.cache
def _figures(agent_scale: float) -> SpriteSheet:
    """Returns the agent at each of the eight headings, then the same with a cross over it."""
    agents, cross = agent_sprites(agent_scale), cross_picture()
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
    pictures = np.empty((len(_END_COLORS), TILE_PX, TILE_PX, 3), np.uint8)
    pictures[:] = np.reshape(_END_COLORS, (-1, 1, 1, 3))
    return SpriteSheet.of(pictures, anchor=0)


def _figure(scene: Scene) -> jax.Array:
    return scene.agent_heading + NUM_HEADINGS * scene.has_cross.astype(jnp.int32)


def draw(scene: Scene, agent_scale: float) -> jax.Array:
    """Returns the picture of a scene, uint8 (84, 84, 3), row first."""
    ground = _ground(scene.origin_tile, scene.goal_tile)
    return stamp(ground, _figures(agent_scale), _figure(scene), scene.agent_position_px)


def _paint(origin_tile: jax.Array, goal_tile: jax.Array) -> jax.Array:
    # The tile of an end that is not shown lies outside of the screen.
    canvas = stamp(jnp.zeros(_FRAME, jnp.uint8), _ends(), jnp.int32(_GOAL), TILE_PX * goal_tile)
    return stamp(canvas, _ends(), jnp.int32(_ORIGIN), TILE_PX * origin_tile)


_ground = custom_vmap(_paint)


# A batch in which no end is shown, as by default, skips both stamps: on a CPU they cost as much as all the rest.
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


@functools.cache
def _looks(agent_scale: float) -> np.ndarray:
    """Returns what looks like each placement of a figure, see `placement_looks`; x and y count from the radius."""
    radius = agent_radius(agent_scale)
    return placement_looks(_figures(agent_scale), radius, farthest_px(agent_scale), SCREEN_PX)


def farthest_px(agent_scale: float) -> int:
    """Returns the largest x and y of the agent's centre; the start of a large agent is partly outside."""
    return max(SCREEN_PX - agent_radius(agent_scale), TILE_PX * (SIZE - 1) + agent_radius(agent_scale))


def _visible(tile: jax.Array, scene: Scene, agent_scale: float) -> jax.Array:
    """Returns the tile, or (-1, -1) where it is not shown or a large agent covers it whole."""
    figures = _figures(agent_scale)
    is_hidden = hiding_offsets(figures, TILE_PX)
    if not is_hidden.any():
        return tile
    offset = TILE_PX * tile - scene.agent_position_px + figures.anchor + figures.side
    column, row = jnp.clip(offset, 0, is_hidden.shape[-1] - 1)
    return jnp.where(jnp.asarray(is_hidden)[_figure(scene), row, column], HIDDEN, tile)


def symbols(scene: Scene, agent_scale: float) -> jax.Array:
    """Returns a scene as numbers, float32 (53,); equal vectors and equal pictures go together.

    In order: agent centre x and y over 84 (2), its heading one-hot (8; headings that look alike share an entry), its
    tile one-hot in columns and rows (7 + 7), whether the cross is shown (1), the start tile and the goal tile one-hot
    in columns and rows (7 + 7 each; zero where it is not shown, or hidden by a large agent). Of the placements of the
    agent that look alike at the rim of the screen, the first stands for all.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    column, row = scene.agent_position_px - agent_radius(agent_scale)
    x, y, figure = jnp.asarray(_looks(agent_scale))[column, row, _figure(scene)]
    position = jnp.stack([x, y])
    ends = [_visible(tile, scene, agent_scale) for tile in (scene.origin_tile, scene.goal_tile)]
    return jnp.concatenate(
        [
            position.astype(jnp.float32) / np.float32(SCREEN_PX),
            one_hot(figure % NUM_HEADINGS, NUM_HEADINGS),
            one_hot(position // TILE_PX, SIZE).reshape(-1),
            (figure >= NUM_HEADINGS).astype(jnp.float32)[None],
            *(one_hot(tile, SIZE).reshape(-1) for tile in ends),
        ]
    )
