"""The commands of Mortar Mayhem: their order, their moves, how they are sampled and encoded."""

import jax
import jax.numpy as jnp
import numpy as np

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

VECTOR_COMMANDS = 20
"""The command slots of the act-only games' vector observation."""


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


def select(values: jax.Array, index: jax.Array) -> jax.Array:
    """Returns `values[index]` of int32 (N,), or 0 beyond its end; a sum is cheaper than a gather under vmap."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == index, values, 0))


def move_of(commands: jax.Array, index: jax.Array) -> jax.Array:
    """Returns the movement (columns, rows) of command number `index`, or none beyond the last one."""
    command = jnp.where(index < commands.shape[0], select(commands, index), -1)
    is_command = jnp.arange(NUM_COMMANDS) == command
    return jnp.sum(jnp.where(is_command[:, None], jnp.asarray(COMMAND_MOVES), 0), axis=0)


def command_code(commands: jax.Array) -> jax.Array:
    """Returns the one-hot code of the commands, float32 (180,): nine numbers a slot, zero where there is none."""
    place = jnp.where(commands >= 0, jnp.asarray(COMMAND_ONE_HOT)[commands], -1)
    code = jax.nn.one_hot(place, NUM_COMMANDS, dtype=jnp.float32)
    return jnp.pad(code, [(0, VECTOR_COMMANDS - commands.shape[0]), (0, 0)]).reshape(-1)
