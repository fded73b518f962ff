"""The agent's view: seven by seven cells, from which walls and closed doors hide others."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.minigrid.world import (
    UNSEEN,
    Color,
    Direction,
    Door,
    GridWorld,
    Type,
    appearance_of,
    color_of,
    coordinates,
    state_of,
    step_of,
    type_of,
)
from jaxgym.spaces import Box, Dict, Discrete

SIZE = 7
"""Rows and columns of the view."""

OWN = (SIZE // 2, SIZE - 1)
"""Column and row of the agent in its view."""

NUM_TYPES = 11
"""Number of minigrid's types, including those that do not occur here."""

AGENT = 10
"""Minigrid's type of the agent, in the whole grid."""

_COLUMN, _ROW = np.indices((SIZE, SIZE), np.int32)
_TO_THE_RIGHT, _AHEAD = _COLUMN - OWN[0], OWN[1] - _ROW
_IS_OWN = (_TO_THE_RIGHT == 0) & (_AHEAD == 0)
_ALL = (1 << SIZE) - 1
_PARTS, _ONE_HOT_SIZES = (type_of, color_of, state_of), (NUM_TYPES, len(Color), len(Door))


@struct.dataclass
class Visible:
    """Facts that the agent sees; the symbolic observation and the text are made from them.

    Attributes:
        cells: The thing in each cell of the view without its number, int32 (7, 7), by column from the left and row from
            the far end; 0 where it is not visible. The agent's own cell holds what the agent carries.
        direction: The agent's `Direction`, int32 ().
    """

    cells: jax.Array
    direction: jax.Array


def visible_in(world: GridWorld) -> Visible:
    """Return the facts that the agent sees."""
    window, lit = window_of(world)
    cells = jnp.where(jnp.asarray(_IS_OWN), world.carrying, jnp.where(lit, window, UNSEEN))
    return Visible(appearance_of(cells).astype(jnp.int32), world.direction)


def window_of(world: GridWorld) -> tuple[jax.Array, jax.Array]:
    """Return the things of the view, uint16 (7, 7), and which of them are lit, bool (7, 7), both by column and row."""
    forward_x, forward_y = step_of(world.direction)
    x = world.position[0] + forward_x * _AHEAD - forward_y * _TO_THE_RIGHT
    y = world.position[1] + forward_y * _AHEAD + forward_x * _TO_THE_RIGHT
    width, height = world.cells.shape
    # Clipping continues the outer wall, which is what minigrid has outside of the grid.
    window = world.cells[jnp.clip(x, 0, width - 1), jnp.clip(y, 0, height - 1)]
    is_opaque = (type_of(window) == Type.WALL) | ((type_of(window) == Type.DOOR) & (state_of(window) != Door.OPEN))
    return window, lit_cells(~is_opaque)


def lit_cells(is_transparent: jax.Array) -> jax.Array:
    """Return which cells of a view are lit, bool (7, 7), by column and row.

    Light starts at the agent. In each row, from the near end to the far end, it spreads to both sides through
    transparent cells and to the first opaque cell. Each lit transparent cell lights the three cells ahead of it. So
    light also reaches around corners, as in minigrid.

    Args:
        is_transparent: bool (7, 7), by column and row.
    """
    bits = jnp.sum(jnp.where(is_transparent, 1 << _COLUMN, 0), axis=0, dtype=jnp.int32)
    lit, rows = jnp.int32(1 << OWN[0]), list[jax.Array]()
    for row in reversed(range(SIZE)):
        shining = lit & bits[row]
        # Each pass doubles the distance: 1, 2 and 4 cells to the left and to the right.
        open_left = open_right = bits[row]
        for shift in (1, 2, 4):
            shining |= (shining << shift & open_left) | (shining >> shift & open_right)
            open_left, open_right = open_left & open_left << shift, open_right & open_right >> shift
        beside = (shining | shining << 1 | shining >> 1) & _ALL
        rows.append(lit | beside)
        lit = beside
    far_to_near = jnp.stack(rows[::-1])
    return (far_to_near[None] >> _COLUMN[:, :1] & 1) > 0


def symbols(seen: Visible, *, is_one_hot: bool) -> dict[str, jax.Array]:
    """Return the symbolic observation: `image`, uint8 (7, 7, 3), or one-hot (7, 7, 20); `direction`, int32 ()."""
    return {"image": one_hot_of(seen.cells) if is_one_hot else image_of(seen.cells), "direction": seen.direction}


def symbolic_space(*, is_one_hot: bool) -> Dict:
    """Return the space of `symbols`."""
    channels, highest = (sum(_ONE_HOT_SIZES), 1) if is_one_hot else (len(_ONE_HOT_SIZES), NUM_TYPES - 1)
    image = Box(low=0, high=highest, shape=(SIZE, SIZE, channels), dtype=jnp.uint8)
    return Dict({"image": image, "direction": Discrete(len(Direction))})


def grid_of(world: GridWorld, *, is_one_hot: bool) -> jax.Array:
    """Return the whole grid with the agent as minigrid's type 10, uint8 (W, H, 3), or one-hot (W, H, 20)."""
    x, y = coordinates(*world.cells.shape)
    is_agent = (x == world.position[0]) & (y == world.position[1])
    things = jnp.where(is_agent, jnp.uint16(AGENT), appearance_of(world.cells))
    return one_hot_of(things) if is_one_hot else image_of(things)


def image_of(things: jax.Array) -> jax.Array:
    """Return type, color and state of each thing, which is minigrid's encoding, uint8 (..., 3)."""
    return jnp.stack([part(things) for part in _PARTS], axis=-1).astype(jnp.uint8)


def one_hot_of(things: jax.Array) -> jax.Array:
    """Return type, color and state of each thing, each one-hot, uint8 (..., 20)."""
    parts = zip(_PARTS, _ONE_HOT_SIZES, strict=True)
    return jnp.concatenate([jax.nn.one_hot(part(things), size, dtype=jnp.uint8) for part, size in parts], axis=-1)
