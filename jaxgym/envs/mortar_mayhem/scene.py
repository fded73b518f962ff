"""Scene of Mortar Mayhem and its frame: the arena, the glyphs and the agent.

All images are made once, on the host. A frame is one of a few background images (every arena, plain, with a glyph, or
with deadly tiles around a safe one) with the agent's sprite on it.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.envs.memory_gym.agent import agent_sprites
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.mortar_mayhem.commands import NO_COMMAND, NUM_COMMANDS
from jaxgym.envs.mortar_mayhem.glyphs import GLYPHS
from jaxgym.pytrees import first_frame
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet, draw_sprite, enlarged
from jaxgym.rendering.sprites import rectangle, ring

TILE_PX = 14
SMALLEST_ARENA = 2
LARGEST_ARENA = 6

_TILE = ((21, 43, 77), (29, 60, 107))
_DEADLY_TILE = ((81, 18, 26), (112, 24, 36))
_GLYPH = 255
_TARGET = (0, 255, 0)
_RING_RADIUS_PX, _RING_WIDTH_PX = 7, 2


def arena_corner_px(arena_size: jax.Array | int) -> jax.Array | int:
    """Return x and y of the arena's top-left corner; the arena is centered on the screen."""
    return SCREEN_PX // 2 - TILE_PX // 2 * arena_size


def tile_center_px(tile: jax.Array, arena_size: jax.Array) -> jax.Array:
    """Return the center of a tile in px, int32 (2,)."""
    return arena_corner_px(arena_size) + TILE_PX * tile + TILE_PX // 2


def tile_at(position_px: jax.Array, arena_size: jax.Array) -> jax.Array:
    """Return the tile (column, row) at a position, int32 (2,)."""
    return (position_px - arena_corner_px(arena_size)) // TILE_PX


@struct.dataclass
class Scene:
    """Scene of Mortar Mayhem.

    Attributes:
        arena_size: Tiles per side, int32 ().
        agent_position_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 ().
        command: Shown command, or `NO_COMMAND`, int32 ().
        safe_tile: The tile that is not red, or (-1, -1) if no tile is red, int32 (2,).
        commands: Commands of the act-only games, int32 (N,), -1 after the last one; else None.
    """

    arena_size: jax.Array
    agent_position_px: jax.Array
    agent_heading: jax.Array
    command: jax.Array
    safe_tile: jax.Array
    commands: Any


@functools.cache
def _arena_frames() -> tuple[np.ndarray, np.ndarray]:
    """Return all frames without agent, uint8 (N, 84, 84, 3), and the index of each arena size's first frame.

    Each arena has one frame per shown command, one without a command, and one per safe tile, row by row.
    """
    frames, first = [], np.zeros(LARGEST_ARENA + 1, dtype=np.int32)
    for arena_size in range(SMALLEST_ARENA, LARGEST_ARENA + 1):
        first[arena_size] = len(frames)
        plain = _arena_frame(arena_size, None)
        frames += [*(_with_glyph(plain, *glyph) for glyph in GLYPHS), plain]
        frames += [_arena_frame(arena_size, (column, row)) for row in range(arena_size) for column in range(arena_size)]
    return np.stack(frames), first


def _with_glyph(frame: np.ndarray, glyph: np.ndarray, corner: int) -> np.ndarray:
    frame = frame.copy()
    frame[corner : corner + len(glyph), corner : corner + len(glyph)][glyph] = _GLYPH
    return frame


def _arena_frame(arena_size: int, safe_tile: tuple[int, int] | None) -> np.ndarray:
    frame = np.zeros((SCREEN_PX, SCREEN_PX, 3), dtype=np.uint8)
    corner = int(arena_corner_px(arena_size))
    for row in range(arena_size):
        for column in range(arena_size):
            fill, border = _TILE if safe_tile in (None, (column, row)) else _DEADLY_TILE
            y, x = corner + TILE_PX * row, corner + TILE_PX * column
            frame[y : y + TILE_PX, x : x + TILE_PX] = rectangle(TILE_PX, TILE_PX, fill, border)
    return frame


def draw(scene: Scene, agent_scale: float) -> jax.Array:
    """Return the frame of a scene of Mortar Mayhem, uint8 (84, 84, 3), row first."""
    frames, first = _arena_frames()
    column, row = scene.safe_tile
    is_red = column >= 0
    index = jnp.where(is_red, NO_COMMAND + 1 + row * scene.arena_size + column, scene.command)
    start = jnp.sum(jnp.where(jnp.arange(LARGEST_ARENA + 1) == scene.arena_size, jnp.asarray(first), 0))
    frame = lax.dynamic_index_in_dim(jnp.asarray(frames), start + index, keepdims=False)
    return draw_sprite(frame, agent_sprites(agent_scale), scene.agent_heading, scene.agent_position_px, keep=_GLYPH)


@functools.cache
def _torus_frames() -> np.ndarray:
    """Return the frames of the endless game without agent, uint8 (37, 10, 84, 84, 3): by safe tile, then command.

    The first of the 37 has no red tile; the others have one safe tile, row by row. The last of the ten has no command.
    """
    tiles = [(column, row) for row in range(LARGEST_ARENA) for column in range(LARGEST_ARENA)]
    arenas = [_arena_frame(LARGEST_ARENA, safe_tile) for safe_tile in (None, *tiles)]
    return np.stack([[*(_with_glyph(arena, *glyph) for glyph in GLYPHS), arena] for arena in arenas])


def draw_torus(scene: Scene, agent_scale: float) -> jax.Array:
    """Return the frame of a scene of the endless game, uint8 (84, 84, 3); commands may be shown over red tiles."""
    frames = _torus_frames()
    column, row = scene.safe_tile
    safe_tile = jnp.where(column >= 0, 1 + row * LARGEST_ARENA + column, 0)
    flat = jnp.asarray(frames.reshape(-1, *frames.shape[2:]))
    frame = lax.dynamic_index_in_dim(flat, safe_tile * (NUM_COMMANDS + 1) + scene.command, keepdims=False)
    return draw_sprite(frame, agent_sprites(agent_scale), scene.agent_heading, scene.agent_position_px, keep=_GLYPH)


@functools.cache
def _ring() -> SpriteSheet:
    side = 2 * _RING_RADIUS_PX
    image = np.full((side, side, 3), TRANSPARENT, np.uint8)
    image[ring(side, (_RING_RADIUS_PX, _RING_RADIUS_PX), _RING_RADIUS_PX, _RING_WIDTH_PX)] = _TARGET
    return SpriteSheet.of(image[None], anchor=_RING_RADIUS_PX)


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with a ring around the target tile, enlarged four times, uint8 (336, 336, 3)."""
    scene = env.scene(state, params)
    frame = first_frame(dataclasses.replace(env, observation="pixels").observe_scene(scene))
    center = tile_center_px(state.target_tile, scene.arena_size)
    return enlarged(draw_sprite(frame, _ring(), jnp.int32(0), center))
