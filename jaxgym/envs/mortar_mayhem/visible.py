"""Facts that a frame of Mortar Mayhem shows, as integers. The symbolic observation and the text are made from them.

A scene may contain objects that its frame hides behind others. Placements with the same pixels are represented by the
first of them. Therefore equal frames have equal facts, and vice versa.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.memory_gym.agent import agent_sprites, first_headings, first_placements
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.mortar_mayhem.commands import NUM_COMMANDS, command_code
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, SMALLEST_ARENA, TILE_PX, Scene, arena_corner_px, tile_at
from jaxgym.rendering.placements import is_hidden

NOWHERE = -1
"""Column and row of a hidden or missing tile."""


@struct.dataclass
class Visible:
    """Facts that a frame of Mortar Mayhem shows.

    Attributes:
        agent_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 (); the first of the headings with the same sprite.
        agent_tile: Column and row of the agent's tile, int32 (2,); -1 outside of the largest arena.
        arena_size: Tiles per side, int32 ().
        is_red: Whether tiles are red, bool ().
        safe_tile: The tile that is not red, int32 (2,); -1 if no tile is red or a large agent hides it.
        command: Shown command, or `NO_COMMAND`, int32 ().
        commands: Commands of the act-only games, int32 (N,), -1 after the last one; else None.
    """

    agent_px: jax.Array
    agent_heading: jax.Array
    agent_tile: jax.Array
    arena_size: jax.Array
    is_red: jax.Array
    safe_tile: jax.Array
    command: jax.Array
    commands: Any


def visible_in(scene: Scene, agent_scale: float, margin_px: int | None = None) -> Visible:
    """Return the facts that the frame of a scene shows.

    `margin_px` is the largest distance of the agent's center from the screen; None if it cannot leave.
    """
    position, heading = scene.agent_position_px, jnp.asarray(first_headings(agent_scale))[scene.agent_heading]
    if margin_px is not None:
        column, row = position + margin_px
        placement = jnp.asarray(first_placements(agent_scale, margin_px))[column, row, scene.agent_heading]
        position, heading = placement[:2], placement[2]
    tile = tile_at(position, scene.arena_size)
    corner = arena_corner_px(scene.arena_size) + TILE_PX * scene.safe_tile
    is_covered = is_hidden(agent_sprites(agent_scale), scene.agent_heading, scene.agent_position_px, corner, TILE_PX)
    return Visible(
        agent_px=position,
        agent_heading=heading,
        agent_tile=jnp.where((tile >= 0) & (tile < LARGEST_ARENA), tile, NOWHERE),
        arena_size=scene.arena_size,
        is_red=scene.safe_tile[0] >= 0,
        safe_tile=jnp.where(is_covered, NOWHERE, scene.safe_tile),
        command=scene.command,
        commands=scene.commands,
    )


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
