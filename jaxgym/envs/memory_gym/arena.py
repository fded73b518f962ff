"""What the games of the family share: the screen, headings, and the two ways to move.

Pixels are (x, y) with x to the right and y down; tiles are (column, row). Headings count eighths of a turn,
counter-clockwise from up.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.options import Flag, Real
from jaxgym.spaces import Box, Discrete, MultiDiscrete

SCREEN_PX = 84
"""Side of the square screen."""

NUM_HEADINGS = 8
HEADING_DEGREES = 45
"""Degrees of one heading step, as the original counts them."""


AGENT_SCALE = Real(0.25, "size of the agent", low=0.04, high=1.0)
AGENT_SPEED = Real(3.0, "px per step", low=0.0, high=float(SCREEN_PX))
FLAT_ACTIONS = Flag(False, "take one action in 0 … 8 instead of two in 0 … 2")
"""Options of several games."""


class Heading(enum.IntEnum):
    """The four headings of a grid agent; the odd numbers between them are the diagonals."""

    UP = 0
    LEFT = 2
    DOWN = 4
    RIGHT = 6


class GridAction(enum.IntEnum):
    """The actions of the grid games."""

    NOTHING = 0
    TURN_LEFT = 1
    TURN_RIGHT = 2
    FORWARD = 3


class Along(enum.IntEnum):
    """One entry of a free action: the movement along an axis."""

    STAY = 0
    NEGATIVE = 1
    POSITIVE = 2


# The heading of a movement (dx, dy), at index [dy + 1, dx + 1]; -1 where there is no movement.
_HEADING_OF = np.asarray([[1, 0, 7], [2, -1, 6], [3, 4, 5]], dtype=np.int32)
# The movement (dx, dy) of one tile along each heading.
_AHEAD = np.asarray([[0, -1], [-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1]], dtype=np.int32)


def frame_space() -> Box:
    """Returns the space of a frame, uint8 (84, 84, 3), row first."""
    return Box(low=0, high=255, shape=(SCREEN_PX, SCREEN_PX, 3), dtype=jnp.uint8)


def free_space(*, flat: bool) -> Discrete | MultiDiscrete:
    """Returns the space of free actions: horizontal (left is negative) and vertical (up is negative), or one number."""
    return Discrete(len(Along) ** 2) if flat else MultiDiscrete((len(Along), len(Along)))


def agent_radius(agent_scale: float) -> int:
    """Radius of the agent's body in px."""
    return int(25 * agent_scale)


def free_action(flat: jax.Array) -> jax.Array:
    """Returns the (horizontal, vertical) action, int32 (2,), of a flat one in 0 … 8: 3 · horizontal + vertical."""
    is_action = (flat >= 0) & (flat < len(Along) ** 2)
    return jnp.where(is_action, jnp.stack([flat // len(Along), flat % len(Along)]), 0)


def direction_of(action: jax.Array) -> jax.Array:
    """Returns the movement (dx, dy) in -1, 0, 1 of a free action, int32 (2,)."""
    forward = (action == Along.POSITIVE).astype(jnp.int32)
    return forward - (action == Along.NEGATIVE).astype(jnp.int32)


def heading_of(direction: jax.Array, heading: jax.Array) -> jax.Array:
    """Returns the heading of a movement; without movement the agent keeps its heading."""
    turned = jnp.asarray(_HEADING_OF)[direction[1] + 1, direction[0] + 1]
    return jnp.where(turned < 0, heading, turned)


def free_displacement_px(direction: jax.Array, speed_px: jax.Array) -> jax.Array:
    """Returns the displacement of a free agent: the normalised direction times the speed, cut to whole px.

    With speed 3 that is 3 px straight and 2 px along each axis of a diagonal.
    """
    is_diagonal = jnp.all(direction != 0)
    length = jnp.where(is_diagonal, speed_px / np.float32(np.sqrt(2)), speed_px)
    return direction * jnp.trunc(length).astype(jnp.int32)


def round_half_away(value: jax.Array) -> jax.Array:
    """Returns the nearest whole number, halves away from zero, int32."""
    return (jnp.sign(value) * jnp.floor(jnp.abs(value) + np.float32(0.5))).astype(jnp.int32)


def wrap_px(position: jax.Array, margin_px: float) -> jax.Array:
    """Returns the position on a torus that is the screen and a margin: beyond one rim it goes on at the other.

    Args:
        position: Whole px as float32 (2,).
        margin_px: How far the centre may lie outside of the screen.

    Returns:
        Whole px, int32 (2,).
    """
    high = np.float32(SCREEN_PX + margin_px)
    moved = jnp.where(position > high, -np.float32(margin_px), position)
    return round_half_away(jnp.where(moved < -np.float32(margin_px), high, moved))


def clamp_px(position: jax.Array, low: jax.Array | int, high: jax.Array | int) -> jax.Array:
    """Returns the position moved into low … high; where the agent does not fit, low wins."""
    return jnp.maximum(jnp.minimum(position, high), low)


def turn(heading: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the heading of a grid agent after a quarter turn to the left or right, if the action is one."""
    quarters = (action == GridAction.TURN_LEFT).astype(jnp.int32) - (action == GridAction.TURN_RIGHT).astype(jnp.int32)
    return (heading + 2 * quarters) % NUM_HEADINGS


def movement_of(heading: jax.Array) -> jax.Array:
    """Returns the movement (columns, rows) of one tile along a heading, int32 (2,)."""
    return jnp.asarray(_AHEAD)[heading]


def step_forward(cell: jax.Array, heading: jax.Array, action: jax.Array, size: jax.Array) -> jax.Array:
    """Returns the cell one ahead, if the action is to go forward and that cell lies in the size × size grid."""
    ahead = cell + movement_of(heading)
    is_free = jnp.all((ahead >= 0) & (ahead < size))
    return jnp.where((action == GridAction.FORWARD) & is_free, ahead, cell)
