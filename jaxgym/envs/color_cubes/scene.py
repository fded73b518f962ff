"""Scene of Color-Cubes and its frame."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.common.tiles import MARGIN, SCREEN_PX, Color, Tile, stack
from jaxgym.envs.common.tiles import draw as draw_tiles

COLORS: dict[str, Color] = {
    "red": (220, 50, 47),
    "green": (60, 180, 75),
    "blue": (50, 90, 220),
    "yellow": (240, 210, 60),
    "purple": (150, 60, 190),
    "cyan": (70, 200, 220),
    "orange": (240, 140, 40),
    "white": (245, 245, 245),
}
"""Colors of cubes by name."""

UNKNOWN = len(COLORS) + 1
"""Number of a cube in the grid whose color is not shown; others have 1 plus the index of their color."""

_FLOOR, _GRAY, _AGENT = (60, 62, 74), (130, 130, 136), (20, 20, 24)
_NUM_KINDS = UNKNOWN + 1
_EMPTY = 2 * _NUM_KINDS


@struct.dataclass
class Scene:
    """Scene of Color-Cubes.

    Attributes:
        position: Row and column of the agent, int32 (2,).
        cubes: 0 for a cell without a shown cube, 1 plus the index of the cube's color, or `UNKNOWN`, int32 (G, G).
        target: 1 plus the index of the target's color in the first observation of a phase, else 0, int32 ().
    """

    position: jax.Array
    cubes: jax.Array
    target: jax.Array


@functools.cache
def _sprites(side: int) -> np.ndarray:
    """Return the sprites of each number of the grid, the same with the agent, and an empty place."""
    tile = Tile(side)
    cube, agent = tile.box(-0.85, -0.85, 0.85, 0.85), tile.disc(0.5)
    colors = [_FLOOR, *COLORS.values(), _GRAY]
    alone = [tile.sprite(_FLOOR, (cube, color)) for color in colors]
    # A light ring makes the agent visible on floor and on every color.
    ring = tile.disc(0.65)
    shared = [tile.sprite(_FLOOR, (cube, color), (ring, (250, 250, 250)), (agent, _AGENT)) for color in colors]
    return stack([*alone, *shared, tile.sprite(MARGIN)])


def draw(scene: Scene) -> jax.Array:
    """Return the frame, uint8 (84, 84, 3), row first: the target's color at the top left, the grid below."""
    size = scene.cubes.shape[0]
    rows, columns = np.indices((size, size), np.int32)
    is_agent = (rows == scene.position[0]) & (columns == scene.position[1])
    grid = scene.cubes + jnp.where(is_agent, _NUM_KINDS, 0)
    is_first = np.arange(size, dtype=np.int32) == 0
    header = jnp.where(is_first & (scene.target > 0), scene.target, _EMPTY)
    tiles = jnp.concatenate([header[None], grid]).astype(jnp.int32)
    return draw_tiles(tiles, _sprites(SCREEN_PX // (size + 1)))


def symbols_of(scene: Scene) -> jax.Array:
    """Return row and column of the agent, the target, and the grid row by row, float32 (3 + G²,)."""
    return jnp.concatenate([scene.position, scene.target[None], scene.cubes.reshape(-1)]).astype(jnp.float32)
