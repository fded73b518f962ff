"""Scene of the Numpad with a ball that moves from pad to pad, and its frame."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.common.tiles import MARGIN, SCREEN_PX, Tile, stack
from jaxgym.envs.common.tiles import draw as draw_tiles

GROUND, BALL = (192, 192, 192), (255, 0, 0)
LIGHT_ON, LIGHT_OFF = (255, 255, 102), (50, 50, 0)
"""Colors of the original."""

_PAD, _BALL_RADIUS, _DIGIT = 0.8, 0.45, 0.16
_NUM_BITS = 4


@struct.dataclass
class Scene:
    """Scene of the Numpad.

    Attributes:
        lights: Whether each pad is shown as lit, bool (k²,).
        ball: Row and column of the ball, int32 (2,).
    """

    lights: jax.Array
    ball: jax.Array


@functools.cache
def _sprites(side: int) -> np.ndarray:
    """Return the sprites by place in the sequence (0 for none), light and ball, uint8 (17 · 4, side, side, 3)."""
    tile = Tile(side)
    pad = tile.box(-_PAD, -_PAD, _PAD, _PAD)
    sprites = []
    for place in range((1 << _NUM_BITS) + 1):
        bits = [bit for bit in range(_NUM_BITS + 1) if place >> bit & 1]
        marks = [
            (tile.box(0.6 - 0.3 * bit - _DIGIT / 2, 0.45, 0.6 - 0.3 * bit + _DIGIT, 0.7), (90, 160, 255))
            for bit in bits
        ]
        for color in (LIGHT_OFF, LIGHT_ON):
            for ball in ([], [(tile.disc(_BALL_RADIUS), BALL)]):
                sprites.append(tile.sprite(GROUND if place == 0 else MARGIN, (pad, color), *ball, *marks))
    return stack(sprites)


def draw(scene: Scene, sequence: jax.Array | None = None) -> jax.Array:
    """Return the frame, uint8 (84, 84, 3), row first; a sequence marks its pads with their places."""
    num_pads = len(scene.lights)
    size = round(num_pads**0.5)
    numbers = np.arange(num_pads, dtype=np.int32)
    is_ball = numbers == scene.ball[0] * size + scene.ball[1]
    places = jnp.zeros(num_pads, jnp.int32)
    if sequence is not None:
        order = np.arange(1, len(sequence) + 1, dtype=np.int32)
        places = jnp.where(numbers[:, None] == sequence[None], order[None], 0).sum(axis=1, dtype=jnp.int32)
    tiles = 4 * places + 2 * scene.lights.astype(jnp.int32) + is_ball.astype(jnp.int32)
    return draw_tiles(tiles.reshape(size, size), _sprites(SCREEN_PX // size))
