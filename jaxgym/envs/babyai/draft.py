"""Partial level: the draws that a jitted program has made so far."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.babyai.random_missions import Bits
from jaxgym.envs.babyai.rooms import COLORS, Rooms
from jaxgym.envs.minigrid.world import EMPTY, Direction, Type

KINDS = np.asarray([Type.KEY, Type.BALL, Type.BOX], np.int32)
"""Types of objects, int32 (3,)."""

COLOR_ARRAY = np.asarray(COLORS, np.int32)
"""Colors, int32 (6,)."""

PAIRS = np.asarray([(kind, color) for kind in KINDS for color in COLOR_ARRAY], np.int32)
"""Pairs of type and color, int32 (18, 2)."""


@dataclasses.dataclass
class Draft:
    """Partial level of a builder.

    Attributes:
        cells: uint16 (W, H).
        gates: x and y of the gate of each inner wall, int32 (walls, 2).
        doors: The door of each inner wall, uint16 (walls,); `EMPTY` for none.
        is_open: The inner walls that are removed, bool (walls,).
        objects: Each object, uint16 (), with its cell, int32 (2,).
        noted: The pairs of type and color that occur, bool (18,).
        locked: The rooms with a locked door, bool (columns, rows).
        position: x and y of the agent, int32 (2,).
        direction: Its direction, int32 ().
        content: What a box contains, uint16 ().
        is_accepted: Whether nothing was rejected, bool ().
    """

    cells: jax.Array
    gates: jax.Array
    doors: jax.Array
    is_open: np.ndarray
    objects: list[tuple[jax.Array, jax.Array]]
    noted: jax.Array
    locked: jax.Array
    position: jax.Array
    direction: jax.Array
    content: jax.Array
    is_accepted: jax.Array

    @classmethod
    def of(cls, rooms: Rooms, bits: Bits) -> "Draft":
        """Return a blank grid with drawn gates."""
        corners = np.asarray([rooms.corner(wall.room) for wall in rooms.walls], np.int32).reshape(-1, 2)
        is_right = np.asarray([wall.side == Direction.RIGHT for wall in rooms.walls], np.bool_)[:, None]
        across = np.where(is_right, (rooms.stride, 0), (0, rooms.stride)).astype(np.int32)
        along = (
            1 + bits.integers(rooms.stride - 1, len(rooms.walls), 1) if rooms.walls else jnp.zeros((0, 1), jnp.int32)
        )
        return cls(
            cells=jnp.asarray(rooms.blank),
            gates=jnp.asarray(corners + across) + along * np.where(is_right, (0, 1), (1, 0)).astype(np.int32),
            doors=jnp.full(len(rooms.walls), EMPTY, jnp.uint16),
            is_open=np.zeros(len(rooms.walls), np.bool_),
            objects=[],
            noted=jnp.zeros(len(PAIRS), jnp.bool_),
            locked=jnp.zeros((rooms.columns, rooms.rows), jnp.bool_),
            position=jnp.asarray(rooms.middle, jnp.int32),
            direction=jnp.int32(0),
            content=jnp.uint16(EMPTY),
            is_accepted=jnp.bool_(True),
        )
