"""Commands of Mortar Mayhem: their order, movements, sampling and encoding."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

COMMANDS = ("right", "down", "left", "up", "stay", "right-down", "right-up", "left-down", "left-up")
NUM_COMMANDS = len(COMMANDS)
NO_COMMAND = NUM_COMMANDS
"""Value for the blank between two commands."""

COMMAND_MOVES = np.asarray(
    [[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int32
)
"""Movement (columns, rows) of each command."""

COMMAND_ONE_HOT = np.asarray([1, 4, 2, 3, 0, 5, 6, 7, 8], dtype=np.int32)
"""Index of each command in the one-hot code of the act-only games, which has another order."""

VECTOR_COMMANDS = 20
"""Number of command slots in the act-only games' vector observation."""


def _commands_that_move(axis: int, sign: int) -> int:
    """Return the set of commands that move along an axis, as bits of an integer."""
    return sum(1 << command for command, move in enumerate(COMMAND_MOVES) if move[axis] == sign)


_RIGHT, _LEFT = _commands_that_move(0, 1), _commands_that_move(0, -1)
_DOWN, _UP = _commands_that_move(1, 1), _commands_that_move(1, -1)


def sample_commands(
    bits: jax.Array, start_tile: jax.Array, arena_size: jax.Array, allowed_commands: jax.Array
) -> jax.Array:
    """Return a sequence of commands, each sampled uniformly from those that stay inside the arena.

    Sets of commands are bits of an integer. This keeps the program small, since auto-reset runs it on every step.

    Args:
        bits: Random uint32 (N,), one per command.
        start_tile: Start of the sequence, int32 (2,).
        arena_size: Tiles per side, int32 ().
        allowed_commands: Number of allowed commands, from the first on, int32 ().

    Returns:
        Command indices, int32 (N,).
    """
    allowed = (jnp.int32(1) << allowed_commands) - 1
    (column, row), commands = start_tile, []
    for random in bits:
        leaving = [(column == 0, _LEFT), (column == arena_size - 1, _RIGHT)]
        leaving += [(row == 0, _UP), (row == arena_size - 1, _DOWN)]
        possible = allowed
        for is_at_edge, outward in leaving:
            possible &= jnp.where(is_at_edge, ~outward, -1)
        rank = (random % lax.population_count(possible).astype(jnp.uint32)).astype(jnp.int32)
        for passed in range(NUM_COMMANDS - 1):
            possible = jnp.where(passed < rank, possible & (possible - 1), possible)  # clears the lowest member
        command = lax.population_count((possible & -possible) - 1)
        commands.append(command)
        column += _has(_RIGHT, command) - _has(_LEFT, command)
        row += _has(_DOWN, command) - _has(_UP, command)
    return jnp.stack(commands)


def _has(members: int, command: jax.Array) -> jax.Array:
    """Return 1 if the command is in the set, else 0."""
    return (jnp.int32(members) >> command) & 1


def select(values: jax.Array, index: jax.Array) -> jax.Array:
    """Return `values[index]` of int32 (N,), or 0 past its end; under vmap, a sum is cheaper than a gather."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == index, values, 0), dtype=values.dtype)


def move_of(commands: jax.Array, index: jax.Array) -> jax.Array:
    """Return the movement (columns, rows) of command number `index`, or zero past the last command."""
    command = jnp.where(index < commands.shape[0], select(commands, index), -1)
    is_command = jnp.arange(NUM_COMMANDS) == command
    return jnp.sum(jnp.where(is_command[:, None], jnp.asarray(COMMAND_MOVES), 0), axis=0, dtype=jnp.int32)


def command_code(commands: jax.Array) -> jax.Array:
    """Return the one-hot code of the commands, float32 (180,): nine numbers per slot, zeros for an empty slot."""
    place = jnp.where(commands >= 0, jnp.asarray(COMMAND_ONE_HOT)[commands], -1)
    code = jax.nn.one_hot(place, NUM_COMMANDS, dtype=jnp.float32)
    return jnp.pad(code, [(0, VECTOR_COMMANDS - commands.shape[0]), (0, 0)]).reshape(-1)
