"""What the games of the family share: the screen, headings, the two ways to move, tiles and commands.

Pixels are (x, y) with x to the right and y down; tiles are (column, row). Headings count eighths of a turn,
counter-clockwise from up.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np

SCREEN_PX = 84
"""Side of the square screen."""

NUM_HEADINGS = 8
HEADING_DEGREES = 45
"""Degrees of one heading step, as the original counts them."""


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


FREE_ACTIONS = (len(Along), len(Along))
"""The free games' action: horizontal (left is negative), vertical (up is negative)."""

# The heading of a movement (dx, dy), at index [dy + 1, dx + 1]; -1 where there is no movement.
_HEADING_OF = np.asarray([[1, 0, 7], [2, -1, 6], [3, 4, 5]], dtype=np.int32)
# The movement (dx, dy) of one tile along each heading.
_AHEAD = np.asarray([[0, -1], [-1, -1], [-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1]], dtype=np.int32)


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


def clamp_px(position: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Returns the position moved into low … high; where the agent does not fit, low wins."""
    return jnp.maximum(jnp.minimum(position, high), low)


def turn(heading: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the heading of a grid agent after a quarter turn to the left or right, if the action is one."""
    quarters = (action == GridAction.TURN_LEFT).astype(jnp.int32) - (action == GridAction.TURN_RIGHT).astype(jnp.int32)
    return (heading + 2 * quarters) % NUM_HEADINGS


def step_forward(cell: jax.Array, heading: jax.Array, action: jax.Array, size: jax.Array) -> jax.Array:
    """Returns the cell one ahead, if the action is to go forward and that cell lies in the size × size grid."""
    ahead = cell + jnp.asarray(_AHEAD)[heading]
    is_free = jnp.all((ahead >= 0) & (ahead < size))
    return jnp.where((action == GridAction.FORWARD) & is_free, ahead, cell)


# The tiles and commands of Mortar Mayhem.

TILE_PX = 14
SMALLEST_ARENA = 2
LARGEST_ARENA = 6

COMMANDS = ("right", "down", "left", "up", "stay", "right-down", "right-up", "left-down", "left-up")
NUM_COMMANDS = len(COMMANDS)
NO_COMMAND = NUM_COMMANDS
"""Stands for the blank between two commands."""

COMMAND_MOVES = np.asarray(
    [[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int32
)
"""The movement (columns, rows) of each command."""

COMMAND_ONE_HOT = np.asarray([1, 4, 2, 3, 0, 5, 6, 7, 8], dtype=np.int32)
"""The place of each command in the one-hot code of the act-only games, whose order is another one."""


def arena_corner_px(arena_size: jax.Array | int) -> jax.Array | int:
    """Returns the x and y of the arena's top-left corner; the arena is centred on the screen."""
    return SCREEN_PX // 2 - TILE_PX // 2 * arena_size


def tile_center_px(tile: jax.Array, arena_size: jax.Array) -> jax.Array:
    """Returns the centre of a tile in px, int32 (2,)."""
    return arena_corner_px(arena_size) + TILE_PX * tile + TILE_PX // 2


def tile_at(position_px: jax.Array, arena_size: jax.Array) -> jax.Array:
    """Returns the tile (column, row) at a position, int32 (2,)."""
    return (position_px - arena_corner_px(arena_size)) // TILE_PX


def sample_commands(
    bits: jax.Array, start_tile: jax.Array, arena_size: jax.Array, allowed_commands: jax.Array
) -> jax.Array:
    """Returns a sequence of commands, each uniform over those that keep the commanded tile inside the arena.

    Args:
        bits: Random uint32 (N,), one for each command.
        start_tile: Where the sequence starts, int32 (2,).
        arena_size: Tiles along a side, int32 ().
        allowed_commands: The first so many commands may occur, int32 ().

    Returns:
        Command indices, int32 (N,).
    """
    tile, commands = start_tile, []
    for random in bits:
        is_possible = [
            (jnp.asarray(command) < allowed_commands) & jnp.all((tile + move >= 0) & (tile + move < arena_size))
            for command, move in enumerate(jnp.asarray(COMMAND_MOVES))
        ]
        num_possible = sum((possible.astype(jnp.uint32) for possible in is_possible), start=jnp.uint32(0))
        left = (random % num_possible).astype(jnp.int32)
        command = jnp.int32(0)
        # Written out instead of a cumulative sum: one fused elementwise program.
        for index, possible in enumerate(is_possible):
            command = jnp.where(possible & (left == 0), index, command)
            left -= possible.astype(jnp.int32)
        commands.append(command)
        tile = tile + jnp.asarray(COMMAND_MOVES)[command]
    return jnp.stack(commands)
