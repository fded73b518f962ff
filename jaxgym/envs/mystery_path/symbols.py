"""Symbolic observations of Mystery Path and its endless sibling."""

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

NUM_SYMBOLS = 2 + NUM_HEADINGS + 2 * SIZE + 1 + 4 * SIZE
"""Length of the vector of `symbols`."""

_one_hot = functools.partial(jax.nn.one_hot, dtype=jnp.float32)


def symbols(seen: Visible) -> jax.Array:
    """Return the facts of a frame as numbers, float32 (53,); equal vectors and equal pictures go together.

    In order: agent centre x and y over 84 (2), its heading one-hot (8; headings that look alike share an entry), its
    tile one-hot in columns and rows (7 + 7), whether the cross is shown (1), the start tile and the goal tile one-hot
    in columns and rows (7 + 7 each; zero where it is not shown, or hidden by a large agent). Of the placements of the
    agent that look alike at the rim of the screen, the first stands for all.
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
    """Return the facts of a frame as numbers, float32 (104,); equal vectors and equal pictures go together.

    In order: agent centre x and y over 84 (2), its heading one-hot (8; headings that look alike share an entry), its
    row of tiles one-hot (7), whether the cross is shown (1), the path tiles shown, column by column (9 · 7), the left
    edge of these columns in tiles (9; zero where a column has none), how far the ice has moved one-hot (12; zero for no
    ice), whether stamina is shown (1), its lost share (1). An agent outside of the screen is all zero; of the places
    and headings that look alike at the rim, the first stands for all. A tile of which nothing is seen is left out.

    One exception: a large agent that the right edge cuts may be told apart from others that look alike while it is also
    nearly outside above or below.
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
