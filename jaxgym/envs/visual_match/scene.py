"""Scene of the rooms of Visual Match and Key-to-Door: the view of the agent."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.common.tiles import SCREEN_PX, Tile, draw, stack
from jaxgym.envs.visual_match.rooms import COLORS, VIEW


@struct.dataclass
class RoomScene:
    """Scene of a room.

    Attributes:
        kinds: `Kind` of each square of the view, row by row, the agent in the middle, int32 (5, 5).
    """

    kinds: jax.Array


def _sprites(side: int) -> np.ndarray:
    tile = Tile(side)
    return stack([tile.sprite((red, green, blue)) for red, green, blue in COLORS.tolist()])


def draw_view(kinds: jax.Array) -> jax.Array:
    """Return the frame of a view or of a board, uint8 (84, 84, 3), row first."""
    return draw(kinds, _sprites(SCREEN_PX // max(kinds.shape)))


def numbers_of(scene: RoomScene) -> jax.Array:
    """Return the colors of the view as in the original, float32 (75,): channel, row, column, from 0 to 255."""
    colors = jnp.asarray(COLORS)[scene.kinds]
    return colors.transpose(2, 0, 1).reshape(3 * VIEW * VIEW).astype(jnp.float32)
