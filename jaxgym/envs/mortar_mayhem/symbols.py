"""Symbolic observation of Mortar Mayhem."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.mortar_mayhem.commands import NUM_COMMANDS, command_code
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, SMALLEST_ARENA
from jaxgym.envs.mortar_mayhem.visible import Visible


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (n,); equal vectors have equal frames and vice versa.

    In order: agent center x and y divided by 84 (2), heading one-hot (8; headings with the same sprite share an entry),
    tile one-hot in columns and rows (6 + 6), arena size one-hot (5), whether tiles are red (1), the safe tile one-hot
    in columns and rows (6 + 6; zeros if no tile is red or a large agent hides it), the shown command one-hot (9; zeros
    for none). The act-only games append the 180 numbers of the command code.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    parts = [
        seen.agent_px.astype(jnp.float32) / np.float32(SCREEN_PX),
        one_hot(seen.agent_heading, NUM_HEADINGS),
        one_hot(seen.agent_tile, LARGEST_ARENA).reshape(-1),
        one_hot(seen.arena_size - SMALLEST_ARENA, LARGEST_ARENA - SMALLEST_ARENA + 1),
        seen.is_red.astype(jnp.float32)[None],
        one_hot(seen.safe_tile, LARGEST_ARENA).reshape(-1),
        one_hot(seen.command, NUM_COMMANDS),
    ]
    if seen.commands is not None:
        parts.append(command_code(seen.commands))
    return jnp.concatenate(parts)
