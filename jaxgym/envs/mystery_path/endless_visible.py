"""Facts that a frame of Endless Mystery Path shows, and its symbols; see `jaxgym.envs.mystery_path.visible`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, agent_radius
from jaxgym.envs.mystery_path.endless_scene import (
    BAR_LEFT_PX,
    IS_BORDER,
    NUM_ROWS,
    EndlessMysteryPathScene,
    X,
    spans,
    with_things,
)
from jaxgym.envs.mystery_path.scene import TILE_PX, figures
from jaxgym.rendering.canvas import TRANSPARENT
from jaxgym.rendering.placements import first_placements

# A smaller agent cannot hide the whole visible part of a tile.
_HIDING_RADIUS_PX = 8


@struct.dataclass
class EndlessMysteryPathVisible:
    """Facts that a frame of Endless Mystery Path shows.

    Exception: a large agent at the right edge that is also nearly outside above or below may have different facts for
    equal frames.

    Attributes:
        has_agent: Whether anything of the agent is on the screen, bool ().
        agent_px: Center of the agent, int32 (2,).
        agent_heading: Heading in eighths of a turn, int32 (); the first of the headings with the same sprite.
        agent_row: Row of tiles of the agent, int32 (); -1 outside of the screen.
        has_cross: Whether the cross is shown, bool ().
        tiles: Visible path tiles, column by column, bool (9, 7).
        left_px: Left edge of these columns, int32 (9,); 0 for a column without tiles.
        ice_px: Shift of the ice, int32 (); -1 without ice.
        has_stamina: Whether stamina is shown, bool ().
        lost_stamina_px: Red pixels of the bar, int32 ().
    """

    has_agent: jax.Array
    agent_px: jax.Array
    agent_heading: jax.Array
    agent_row: jax.Array
    has_cross: jax.Array
    tiles: jax.Array
    left_px: jax.Array
    ice_px: jax.Array
    has_stamina: jax.Array
    lost_stamina_px: jax.Array


def visible_in(scene: EndlessMysteryPathScene, agent_scale: float) -> EndlessMysteryPathVisible:
    """Return the facts that the frame of a scene shows."""
    placements = jnp.asarray(_first_placements(agent_scale))
    reach = (len(placements) - SCREEN_PX) // 2
    y = jnp.clip(scene.agent_px[1] + reach, 0, len(placements) - 1)
    _, y, figure = placements[y, scene.agent_heading + NUM_HEADINGS * scene.has_cross.astype(jnp.int32)]
    row, tiles = y // TILE_PX, _seen_tiles(scene, agent_scale)
    return EndlessMysteryPathVisible(
        has_agent=y > -reach,
        agent_px=jnp.stack([scene.agent_px[0], y]),
        agent_heading=figure % NUM_HEADINGS,
        agent_row=jnp.where((row >= 0) & (row < NUM_ROWS), row, -1),
        has_cross=figure >= NUM_HEADINGS,
        tiles=tiles,
        left_px=jnp.where(jnp.any(tiles, axis=1), scene.path_left_px, 0),
        ice_px=scene.background_px,
        has_stamina=scene.lost_stamina_px >= 0,
        lost_stamina_px=jnp.maximum(scene.lost_stamina_px, 0),
    )


@functools.cache
def _first_placements(agent_scale: float) -> np.ndarray:
    """Return the first placement with the same pixels as each placement of the agent, without and then with a cross.

    The agent may be partly outside of the screen, or hidden by the cross. All placements outside of the screen have the
    same pixels; the first of them is the first row.

    Returns:
        x (in px, constant), y (in px) and index in `figures`, int32 (N, 16, 3), from y = -(N - 84) / 2 on.
    """
    sprites = figures(agent_scale)
    center = SCREEN_PX // 2
    return first_placements(
        sprites, SCREEN_PX, range(center, center + 1), range(-sprites.side, SCREEN_PX + sprites.side)
    )[0]


def _seen_tiles(scene: EndlessMysteryPathScene, agent_scale: float) -> jax.Array:
    """Return the path tiles of which a pixel differs from the ground, bool (9, 7)."""
    covers, is_side = spans(scene)
    has_ice = scene.background_px >= 0
    ice = (scene.background_px + X) % TILE_PX
    looks_alike = has_ice & is_side & ((ice == 0) | (ice == TILE_PX - 1))[None]
    differs = covers & ~looks_alike
    tiles = (scene.path_columns[:, None] >> np.arange(NUM_ROWS)[None]) & 1 == 1
    # Truncated positions overlap by one px at the left edge, where a tile lies under its neighbor.
    left = scene.path_left_px
    is_under = (left[:-1] + TILE_PX - 1 == 0) & (left[1:] == 0)
    tiles = tiles.at[:-1].set(tiles[:-1] & ~(is_under[:, None] & tiles[1:]))
    if agent_radius(agent_scale) < _HIDING_RADIUS_PX:
        end = jnp.where(scene.lost_stamina_px >= 0, BAR_LEFT_PX, SCREEN_PX)
        return tiles & jnp.any(differs & (end > X[None]), axis=1)[:, None]
    empty = jnp.full((SCREEN_PX, SCREEN_PX, 3), TRANSPARENT, jnp.uint8)
    is_open = jnp.all(with_things(empty, scene, agent_scale) == TRANSPARENT, axis=-1)
    # The ice has the same border above and below as a tile.
    in_border, inside = (
        jnp.any((is_open & rows[:, None]).reshape(NUM_ROWS, TILE_PX, SCREEN_PX), axis=1)
        for rows in (IS_BORDER, ~IS_BORDER)
    )
    is_seen = (differs[:, None] & inside[None]) | (covers[:, None] & in_border[None] & ~has_ice)
    return tiles & jnp.any(is_seen, axis=-1)


def endless_symbols(seen: EndlessMysteryPathVisible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (104,); equal vectors have equal frames and vice versa.

    In order: agent center x and y divided by 84 (2), heading one-hot (8; headings with the same sprite share an entry),
    row of tiles one-hot (7), whether the cross is shown (1), the visible path tiles, column by column (9 · 7), the left
    edge of these columns in tiles (9; zero for a column without tiles), the shift of the ice one-hot (12; zeros without
    ice), whether stamina is shown (1), its lost share (1). An agent outside of the screen is all zeros; placements at
    the edge with the same pixels are represented by the first of them.

    Exception: a large agent at the right edge that is also nearly outside above or below may have different vectors for
    equal frames.
    """
    one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)
    place = seen.agent_px.astype(jnp.float32) / np.float32(SCREEN_PX)
    agent = [place, one_hot(seen.agent_heading, NUM_HEADINGS), one_hot(seen.agent_row, NUM_ROWS)]
    lost = seen.lost_stamina_px.astype(jnp.float32) / np.float32(SCREEN_PX)
    return jnp.concatenate(
        [
            jnp.where(seen.has_agent, jnp.concatenate(agent), jnp.float32(0.0)),
            seen.has_cross.astype(jnp.float32)[None],
            seen.tiles.astype(jnp.float32).reshape(-1),
            seen.left_px.astype(jnp.float32) / np.float32(TILE_PX),
            one_hot(seen.ice_px, TILE_PX),
            jnp.stack([seen.has_stamina.astype(jnp.float32), lost]),
        ]
    )
