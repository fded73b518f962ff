"""Replay of recordings of Mystery Path."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mystery_path import game
from jaxgym.envs.mystery_path import scene as seen
from jaxgym.envs.mystery_path.path_search import NUM_TILES, SIZE
from tests.parity.recordings import Family, Recording


def level(recording: Recording, _: Any) -> game.Level:
    arrays = recording.arrays
    path = arrays["path"].astype(np.int32)
    return game.Level(
        start_tile=jnp.asarray(arrays["start"], jnp.int32),
        goal_tile=jnp.asarray(arrays["goal"], jnp.int32),
        path=game.tile_set(path[:, 0] * SIZE + path[:, 1]),
    )


@functools.partial(jax.jit, static_argnames=("env",))
def answers(env: Any, state: game.State, params: Any) -> dict[str, jax.Array]:
    tiles = jnp.arange(NUM_TILES, dtype=jnp.uint32)
    was_rewarded = state.level.path & ~state.unrewarded & ~game.end_tiles(state.level)
    visited = (was_rewarded[tiles // 32] >> tiles % 32) & 1
    return {
        "agent_pos": state.position_px,
        "agent_rot": state.heading * arena.HEADING_DEGREES,
        "agent_tile": state.position_px // seen.TILE_PX,
        "off_path": state.is_off_path,
        "num_fails": state.num_fails,
        "visited": visited.reshape(SIZE, SIZE) == 1,
        "cross_visible": env.scene(state, params).has_cross,
    }


def without_levels(_: Recording) -> dict[str, Any]:
    return {"levels": "fresh"}


FAMILIES = dict.fromkeys(("mp", "mpg"), Family(level, answers, without_levels))
