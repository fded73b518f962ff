"""Board of the Numpad with a ball that rolls, its scene and its frame."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.numpad.pads import NO_PAD
from jaxgym.envs.numpad.scene import BALL, GROUND, LIGHT_OFF, LIGHT_ON

_MARK = (90, 160, 255)


@struct.dataclass
class RollingScene:
    """Scene of the Numpad with a ball that rolls.

    Attributes:
        position: Row and column of the ball in px, a float (2,).
        velocity: In px per step, a float (2,).
        normalized: The four numbers of position and velocity in the symbolic observation, a float (4,).
        lights: Whether each pad is shown as lit, bool (k²,).
    """

    position: jax.Array
    velocity: jax.Array
    normalized: jax.Array
    lights: jax.Array


@dataclasses.dataclass(frozen=True)
class PadBoard:
    """Places of the pads.

    Attributes:
        size: Rows and columns of pads.
        pad: Width of a pad in px.
        gap: Width of the gap at each side of a pad in px.
        ball: Width of the ball in px.
    """

    size: int
    pad: int
    gap: int
    ball: int

    @property
    def cell(self) -> int:
        """Distance of the centers of two pads in px."""
        return self.pad + 2 * self.gap

    @property
    def side(self) -> int:
        """Width of the frame in px."""
        return self.size * self.cell

    def center_of(self, pad: jax.Array) -> jax.Array:
        """Return row and column of the center of a pad in px, a float (2,)."""
        row_and_column = jnp.stack([pad // self.size, pad % self.size])
        return row_and_column.astype(jnp.float32) * float(self.cell) + self.cell / 2

    def pad_at(self, position: jax.Array) -> jax.Array:
        """Return the pad at a place, `NO_PAD` in a gap, int32 (); the edges of pads belong to the gaps."""
        place = jnp.floor(position / self.cell)
        offset = jnp.abs(position - (place * self.cell + self.cell / 2))
        row, column = place.astype(jnp.int32)
        return jnp.where((offset < self.pad / 2).all(), row * self.size + column, NO_PAD).astype(jnp.int32)

    @functools.cached_property
    def pad_of_pixels(self) -> np.ndarray:
        """The pad that is drawn at each pixel, `NO_PAD` for none, int32 (side, side)."""
        pixels = np.full((self.side, self.side), NO_PAD, np.int32)
        for pad in range(self.size**2):
            row, column = (round(place * self.cell + self.cell / 2) for place in divmod(pad, self.size))
            reach = self.pad // 2
            pixels[max(row - reach, 0) : row + reach + 1, max(column - reach, 0) : column + reach + 1] = pad
        return pixels


def draw(scene: RollingScene, board: PadBoard, sequence: jax.Array | None = None) -> jax.Array:
    """Return the frame, uint8 (side, side, 3), row first; with a sequence, its first pad has a blue center."""
    pads = board.pad_of_pixels
    colors = jnp.asarray([LIGHT_OFF, LIGHT_ON, GROUND], jnp.uint8)
    kinds = jnp.where(pads == NO_PAD, 2, scene.lights.astype(jnp.int32)[pads])
    frame = colors[kinds]
    rows, columns = np.indices(pads.shape, np.int32)
    if sequence is not None:
        order = np.arange(1, len(sequence) + 1, dtype=np.int32)
        place = jnp.where(pads[..., None] == sequence[None, None], order[None, None], 0).sum(axis=-1, dtype=jnp.int32)
        # A pad has as many blue columns as its place in the sequence, with a column between two of them.
        column = columns % board.cell - board.gap
        is_marked = (column % 2 == 0) & (column // 2 < place)
        frame = jnp.where(is_marked[..., None], jnp.asarray(_MARK, jnp.uint8)[None, None], frame)
    at = jnp.round(scene.position).astype(jnp.int32)
    reach = board.ball // 2
    is_ball = (jnp.abs(rows - at[0]) <= reach) & (jnp.abs(columns - at[1]) <= reach)
    return jnp.where(is_ball[..., None], jnp.asarray(BALL, jnp.uint8)[None, None], frame)
