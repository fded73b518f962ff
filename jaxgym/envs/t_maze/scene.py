"""Scene of the T-Maze and its frame."""

import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.common.tiles import Tile, bits, place, stack
from jaxgym.envs.common.tiles import draw as draw_tiles

MOST_STEPS = 2**21 - 1
"""Largest time and largest x that a frame can show."""

_SIDE_PX, _NUM_TILES = 7, 12
_CORRIDOR_ROW, _JUNCTION_COLUMN, _PLACE_COLUMN = 5, 9, 4
_SIGN, _LAMP, _NOISE = (3, 1), (5, 11), (7, 1)
_NUM_BITS = 2 * _NUM_TILES
_X_ROW, _TIME_ROW = 0, 10

_WALL, _FLOOR, _BODY = (52, 54, 66), (214, 208, 192), (214, 60, 52)
_SIGN_COLOR, _LIT, _UNLIT = (250, 222, 84), (120, 220, 120), (36, 38, 46)


class Sprite(enum.IntEnum):
    """Sprites of the frame."""

    WALL = 0
    FLOOR = 1
    AGENT = 2
    DOWN = 3
    UP = 4
    BIT_OFF = 5
    BIT_ON = 6


@struct.dataclass
class Scene:
    """Facts that the observation of a T-Maze shows, each 0 if it is not shown; all int32 ().

    Attributes:
        x: Square along the corridor; with an ambiguous position 1 at the end of the corridor and in its arms, else 0.
        y: 1 in the upper arm, -1 in the lower arm, 0 in the corridor.
        cue: y of the goal.
        time: Number of steps so far.
        lamp: 1 at the end of the corridor, in the game with a lamp.
        noise: A random number, -1, 0 or 1.
    """

    x: jax.Array
    y: jax.Array
    cue: jax.Array
    time: jax.Array
    lamp: jax.Array
    noise: jax.Array


@functools.cache
def _sprites() -> np.ndarray:
    tile = Tile(_SIDE_PX)
    return stack(
        [
            tile.sprite(_WALL),
            tile.sprite(_FLOOR),
            tile.sprite(_FLOOR, (tile.disc(0.95), _BODY)),
            tile.sprite(_WALL, (tile.down(0.95), _SIGN_COLOR)),
            tile.sprite(_WALL, (tile.up(0.95), _SIGN_COLOR)),
            tile.sprite(_WALL, (tile.disc(0.7), _UNLIT)),
            tile.sprite(_WALL, (tile.disc(0.7), _LIT)),
        ]
    )


def _maze() -> np.ndarray:
    """Return the sprites of a frame without the agent and the signs, int32 (12, 12)."""
    tiles = np.full((_NUM_TILES, _NUM_TILES), int(Sprite.WALL), np.int32)
    tiles[_CORRIDOR_ROW, 1 : _JUNCTION_COLUMN + 1] = Sprite.FLOOR
    tiles[_CORRIDOR_ROW - 1 : _CORRIDOR_ROW + 2, _JUNCTION_COLUMN] = Sprite.FLOOR
    return tiles


def draw(scene: Scene, *, is_ambiguous: bool) -> jax.Array:
    """Return the frame of a scene, uint8 (84, 84, 3), row first; x and the time are shown as binary numbers."""
    is_at_end = (scene.x == 1) if is_ambiguous else jnp.zeros((), bool)
    is_at_end |= (scene.y != 0) | (scene.lamp != 0)
    column = jnp.where(is_at_end, _JUNCTION_COLUMN, _PLACE_COLUMN)
    tiles = place(jnp.asarray(_maze()), int(Sprite.AGENT), _CORRIDOR_ROW - scene.y, column)
    for value, position in ((scene.cue, _SIGN), (scene.noise, _NOISE)):
        sprite = jnp.where(value > 0, int(Sprite.UP), jnp.where(value < 0, int(Sprite.DOWN), -1))
        tiles = place(tiles, sprite, *position)
    tiles = place(tiles, jnp.where(scene.lamp > 0, int(Sprite.BIT_ON), -1), *_LAMP)
    for value, row in ((jnp.int32(0) if is_ambiguous else scene.x, _X_ROW), (scene.time, _TIME_ROW)):
        digits = jnp.where(value > 0, int(Sprite.BIT_OFF) + bits(value, _NUM_BITS), int(Sprite.WALL))
        tiles = jax.lax.dynamic_update_slice(tiles, digits.reshape(2, _NUM_TILES).astype(jnp.int32), (row, 0))
    return draw_tiles(tiles, _sprites())
