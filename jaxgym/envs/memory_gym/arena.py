"""Screen, headings, and the two kinds of movement, for all games of the family.

Pixels are (x, y) with x to the right and y down; tiles are (column, row). Headings count eighths of a turn,
counter-clockwise from up.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.options import Flag, Real
from jaxgym.spaces import Discrete, MultiDiscrete

SCREEN_PX = 84
"""Width and height of the screen."""

NUM_HEADINGS = 8
HEADING_DEGREES = 45
"""Degrees per heading step, as in the original."""


AGENT_SCALE = Real(0.25, "size of the agent", low=0.04, high=1.0)
AGENT_SPEED = Real(3.0, "speed of the agent in px per step", low=0.0, high=float(SCREEN_PX))
FLAT_ACTIONS = Flag(False, "use one action from 0 to 8 instead of two from 0 to 2")
"""Options of several games."""


class Heading(enum.IntEnum):
    """The four headings of a grid agent; the odd numbers in between are the diagonals."""

    UP = 0
    LEFT = 2
    DOWN = 4
    RIGHT = 6


class GridAction(enum.IntEnum):
    """Actions of the grid games."""

    NOTHING = 0
    TURN_LEFT = 1
    TURN_RIGHT = 2
    FORWARD = 3


class AxisMove(enum.IntEnum):
    """One entry of a free action: the movement along an axis."""

    STAY = 0
    NEGATIVE = 1
    POSITIVE = 2


# Heading of a movement (dx, dy), at index [dy + 1, dx + 1]; -1 without movement.
_HEADING_OF = np.asarray([[1, 0, 7], [2, -1, 6], [3, 4, 5]], dtype=np.int32)
# Movement (dx, dy) of one tile along each heading.
_AHEAD = np.asarray([[0, -1], [-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1]], dtype=np.int32)


def free_space(*, flat: bool) -> Discrete | MultiDiscrete:
    """Return the space of free actions: horizontal (left, right) and vertical (up, down), or one number."""
    return Discrete(len(AxisMove) ** 2) if flat else MultiDiscrete((len(AxisMove), len(AxisMove)))


def agent_radius(agent_scale: float) -> int:
    """Return the radius of the agent's body in px."""
    return int(25 * agent_scale)


def free_action(flat: jax.Array) -> jax.Array:
    """Return the (horizontal, vertical) action, int32 (2,), of a flat action in 0 … 8: 3 · horizontal + vertical."""
    is_action = (flat >= 0) & (flat < len(AxisMove) ** 2)
    return jnp.where(is_action, jnp.stack([flat // len(AxisMove), flat % len(AxisMove)]), 0)


def direction_of(action: jax.Array) -> jax.Array:
    """Return the movement (dx, dy) in -1, 0, 1 of a free action, int32 (2,)."""
    forward = (action == AxisMove.POSITIVE).astype(jnp.int32)
    return forward - (action == AxisMove.NEGATIVE).astype(jnp.int32)


def heading_of(direction: jax.Array, heading: jax.Array) -> jax.Array:
    """Return the heading of a movement; without movement, the heading is unchanged."""
    turned = jnp.asarray(_HEADING_OF)[direction[1] + 1, direction[0] + 1]
    return jnp.where(turned < 0, heading, turned)


def free_displacement_px(direction: jax.Array, speed_px: jax.Array) -> jax.Array:
    """Return the displacement of a free agent: the normalized direction times the speed, truncated to whole px.

    A speed of 3 gives 3 px straight, and 2 px along each axis of a diagonal.
    """
    is_diagonal = jnp.all(direction != 0)
    length = jnp.where(is_diagonal, speed_px / np.float32(np.sqrt(2)), speed_px)
    return direction * jnp.trunc(length).astype(jnp.int32)


def round_half_away(value: jax.Array) -> jax.Array:
    """Round to the nearest whole number, halves away from zero, int32."""
    return (jnp.sign(value) * jnp.floor(jnp.abs(value) + np.float32(0.5))).astype(jnp.int32)


def wrap_px(position: jax.Array, margin_px: float) -> jax.Array:
    """Wrap a position, whole px as float32 (2,), on the torus of the screen and a margin; return int32 (2,)."""
    high = np.float32(SCREEN_PX + margin_px)
    moved = jnp.where(position > high, -np.float32(margin_px), position)
    return round_half_away(jnp.where(moved < -np.float32(margin_px), high, moved))


def clamp_px(position: jax.Array, low: jax.Array | int, high: jax.Array | int) -> jax.Array:
    """Clamp a position to low … high; if low is above high, low wins."""
    return jnp.maximum(jnp.minimum(position, high), low)


def turn(heading: jax.Array, action: jax.Array) -> jax.Array:
    """Return the heading of a grid agent after the action, a quarter turn to the left or right or none."""
    quarters = (action == GridAction.TURN_LEFT).astype(jnp.int32) - (action == GridAction.TURN_RIGHT).astype(jnp.int32)
    return (heading + 2 * quarters) % NUM_HEADINGS


def movement_of(heading: jax.Array) -> jax.Array:
    """Return the movement (columns, rows) of one tile along a heading, int32 (2,)."""
    return jnp.asarray(_AHEAD)[heading]


def step_forward(cell: jax.Array, heading: jax.Array, action: jax.Array, size: jax.Array) -> jax.Array:
    """Return the next cell along the heading if the action is to go forward and the size × size grid has that cell."""
    ahead = cell + movement_of(heading)
    is_free = jnp.all((ahead >= 0) & (ahead < size))
    return jnp.where((action == GridAction.FORWARD) & is_free, ahead, cell)
