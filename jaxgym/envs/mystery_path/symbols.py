"""Symbolic observations of Mystery Path and Endless Mystery Path."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX
from jaxgym.envs.mystery_path.endless_scene import NUM_ROWS
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.scene import TILE_PX
from jaxgym.envs.mystery_path.visible import Visible

_one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (53,); equal vectors have equal frames and vice versa.

    In order: agent center x and y divided by 84 (2), heading one-hot (8; headings with the same sprite share an entry),
    tile one-hot in columns and rows (7 + 7), whether the cross is shown (1), the start tile and the goal tile one-hot
    in columns and rows (7 + 7 each; zeros if not shown or hidden by a large agent). Placements at the screen's edge
    with the same pixels are represented by the first of them.
    """
    return jnp.concatenate(
        [
            seen.agent_px.astype(jnp.float32) / np.float32(SCREEN_PX),
            _one_hot(seen.agent_heading, NUM_HEADINGS),
            _one_hot(seen.agent_tile, SIZE).reshape(-1),
            seen.has_cross.astype(jnp.float32)[None],
            *(_one_hot(tile, SIZE).reshape(-1) for tile in (seen.origin_tile, seen.goal_tile)),
        ]
    )


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
    place = seen.agent_px.astype(jnp.float32) / np.float32(SCREEN_PX)
    agent = [place, _one_hot(seen.agent_heading, NUM_HEADINGS), _one_hot(seen.agent_row, NUM_ROWS)]
    lost = seen.lost_stamina_px.astype(jnp.float32) / np.float32(SCREEN_PX)
    return jnp.concatenate(
        [
            jnp.where(seen.has_agent, jnp.concatenate(agent), jnp.float32(0.0)),
            seen.has_cross.astype(jnp.float32)[None],
            seen.tiles.astype(jnp.float32).reshape(-1),
            seen.left_px.astype(jnp.float32) / np.float32(TILE_PX),
            _one_hot(seen.ice_px, TILE_PX),
            jnp.stack([seen.has_stamina.astype(jnp.float32), lost]),
        ]
    )
