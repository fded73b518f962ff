"""Facts that a frame of Mortar Mayhem shows, as integers. The symbolic observation and the text are made from them.

A scene may contain objects that its frame hides behind others. Placements with the same pixels are represented by the
first of them. Therefore equal frames have equal facts, and vice versa.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from jaxgym.envs.memory_gym.agent import agent_sprites, first_headings, first_placements
from jaxgym.envs.mortar_mayhem.scene import LARGEST_ARENA, TILE_PX, Scene, arena_corner_px, tile_at
from jaxgym.rendering.placements import hiding_offsets

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
    return Visible(
        agent_px=position,
        agent_heading=heading,
        agent_tile=jnp.where((tile >= 0) & (tile < LARGEST_ARENA), tile, NOWHERE),
        arena_size=scene.arena_size,
        is_red=scene.safe_tile[0] >= 0,
        safe_tile=_visible_safe_tile(scene, agent_scale),
        command=scene.command,
        commands=scene.commands,
    )


def _visible_safe_tile(scene: Scene, agent_scale: float) -> jax.Array:
    sprites = agent_sprites(agent_scale)
    is_hidden = hiding_offsets(sprites, TILE_PX)
    if not is_hidden.any():
        return scene.safe_tile
    corner = arena_corner_px(scene.arena_size) + TILE_PX * scene.safe_tile
    offset = corner - scene.agent_position_px + sprites.anchor + sprites.side
    column, row = jnp.clip(offset, 0, is_hidden.shape[-1] - 1)
    return jnp.where(jnp.asarray(is_hidden)[scene.agent_heading, row, column], NOWHERE, scene.safe_tile)
