"""Worlds of MiniGrid: a grid of things, the agent in it, and the seven actions.

A cell holds one thing. A thing is one number, so that a move of a thing is one assignment:

    bits 0-3 type | bits 4-6 color | bits 7-8 state of a door | bits 9-15 number of the thing in its level

The number tells things apart that look the same. Grids are indexed (x, y): x to the right, y down.

Source: package minigrid 3.2.0, with the same types, colors, states, directions and actions. Floors of color, goals and
lava occur in none of the environments here.
"""

import dataclasses
import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

_TYPE_BITS, _COLOR_BITS, _STATE_BITS = 4, 3, 2
_COLOR_AT = _TYPE_BITS
_STATE_AT = _COLOR_AT + _COLOR_BITS
_NUMBER_AT = _STATE_AT + _STATE_BITS
_APPEARANCE = (1 << _NUMBER_AT) - 1


class Type(enum.IntEnum):
    """Types of things, with minigrid's numbers."""

    UNSEEN = 0
    EMPTY = 1
    WALL = 2
    DOOR = 4
    KEY = 5
    BALL = 6
    BOX = 7


class Color(enum.IntEnum):
    """Colors, with minigrid's numbers."""

    RED = 0
    GREEN = 1
    BLUE = 2
    PURPLE = 3
    YELLOW = 4
    GREY = 5


class Door(enum.IntEnum):
    """States of a door; the state of any other thing is 0."""

    OPEN = 0
    CLOSED = 1
    LOCKED = 2


class Direction(enum.IntEnum):
    """Directions that the agent faces."""

    RIGHT = 0
    DOWN = 1
    LEFT = 2
    UP = 3


class MiniGridAction(enum.IntEnum):
    """Actions, with minigrid's numbers."""

    LEFT = 0
    RIGHT = 1
    FORWARD = 2
    PICKUP = 3
    DROP = 4
    TOGGLE = 5
    DONE = 6


STEPS = np.asarray([[1, 0], [0, 1], [-1, 0], [0, -1]], np.int32)
"""Change of x and y by one step in each direction, int32 (4, 2)."""


def thing(kind: int, color: int = 0, state: int = 0, number: int = 0) -> int:
    """Return a thing; `kind` is a `Type`."""
    return int(kind) | int(color) << _COLOR_AT | int(state) << _STATE_AT | number << _NUMBER_AT


UNSEEN, EMPTY, WALL = thing(Type.UNSEEN), thing(Type.EMPTY), thing(Type.WALL, Color.GREY)

NO_CONTENTS = np.full(1, EMPTY, np.uint16)
"""Contents of boxes in a level whose boxes are empty."""


def type_of(things: Any) -> Any:
    """Return the `Type` of each thing of a NumPy or JAX array, int32."""
    return (things & ((1 << _TYPE_BITS) - 1)).astype(np.int32)


def color_of(things: Any) -> Any:
    """Return the `Color` of each thing, int32."""
    return (things >> _COLOR_AT & ((1 << _COLOR_BITS) - 1)).astype(np.int32)


def state_of(things: Any) -> Any:
    """Return the state of each thing, int32."""
    return (things >> _STATE_AT & ((1 << _STATE_BITS) - 1)).astype(np.int32)


def number_of(things: Any) -> Any:
    """Return the number of each thing in its level, int32."""
    return (things >> _NUMBER_AT).astype(np.int32)


def appearance_of(things: Any) -> Any:
    """Return each thing without its number, which no observation shows."""
    return things & _APPEARANCE


@struct.dataclass
class GridWorld:
    """A grid and the agent in it.

    Attributes:
        cells: The thing in each cell, uint16 (W, H); the agent is none of them. The cells at the border are walls.
        position: x and y of the agent, int32 (2,).
        direction: The agent's `Direction`, int32 ().
        carrying: The thing that the agent carries, uint16 (); `EMPTY` for none.
    """

    cells: jax.Array
    position: jax.Array
    direction: jax.Array
    carrying: jax.Array


def coordinates(width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of each cell of a grid, two int32 (W, H)."""
    x, y = np.indices((width, height), np.int32)
    return x, y


def step_of(direction: jax.Array) -> jax.Array:
    """Return the change of x and y by one step in a direction, int32 (2,)."""
    return jnp.asarray(STEPS)[direction]


def act(world: GridWorld, action: jax.Array, contents: jax.Array | np.ndarray = NO_CONTENTS) -> GridWorld:
    """Apply one action.

    Args:
        world: The world.
        action: A `MiniGridAction`, int32 (); other values do nothing.
        contents: What boxes contain, by the number of the box, uint16 (N,); `EMPTY` for nothing.
    """
    front = world.position + step_of(world.direction)
    ahead = world.cells[front[0], front[1]]
    is_empty, has_hands_free = ahead == EMPTY, world.carrying == EMPTY
    is_open_door = (type_of(ahead) == Type.DOOR) & (state_of(ahead) == Door.OPEN)
    is_portable = (type_of(ahead) >= Type.KEY) & (type_of(ahead) <= Type.BOX)
    moves = (action == MiniGridAction.FORWARD) & (is_empty | is_open_door)
    picks_up = (action == MiniGridAction.PICKUP) & is_portable & has_hands_free
    drops = (action == MiniGridAction.DROP) & is_empty & ~has_hands_free
    toggled = _toggled(ahead, world.carrying, contents)
    after = jnp.where(action == MiniGridAction.TOGGLE, toggled, ahead)
    after = jnp.where(picks_up, EMPTY, jnp.where(drops, world.carrying, after))
    x, y = coordinates(*world.cells.shape)
    turn = (action == MiniGridAction.RIGHT).astype(jnp.int32) - (action == MiniGridAction.LEFT).astype(jnp.int32)
    return dataclasses.replace(
        world,
        # The auto-reset selects all cells anyway, and a mask over all of them fuses with that; a scatter does not.
        cells=jnp.where((x == front[0]) & (y == front[1]), after, world.cells),
        position=jnp.where(moves, front, world.position),
        direction=(world.direction + turn) % len(Direction),
        carrying=jnp.where(picks_up, ahead, jnp.where(drops, EMPTY, world.carrying)),
    )


def _toggled(ahead: jax.Array, carrying: jax.Array, contents: jax.Array | np.ndarray) -> jax.Array:
    """Return what a toggle makes of a thing: it opens and closes doors, and replaces a box by its content."""
    state = state_of(ahead)
    has_key = (type_of(carrying) == Type.KEY) & (color_of(carrying) == color_of(ahead))
    after = jnp.where(state == Door.OPEN, Door.CLOSED, Door.OPEN)
    after = jnp.where((state == Door.LOCKED) & ~has_key, Door.LOCKED, after).astype(ahead.dtype)
    door = ahead & ~jnp.asarray(((1 << _STATE_BITS) - 1) << _STATE_AT, ahead.dtype) | after << _STATE_AT
    inside = jnp.asarray(contents).at[number_of(ahead)].get(mode="clip")
    return jnp.where(type_of(ahead) == Type.DOOR, door, jnp.where(type_of(ahead) == Type.BOX, inside, ahead))
