"""Replay of recordings of Endless Mystery Path."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.memory_gym.agent import sprite_center_px
from jaxgym.envs.mystery_path import endless as game
from jaxgym.envs.mystery_path import endless_scene as seen
from jaxgym.envs.mystery_path import endless_segments as segments
from tests.parity.recordings import Family, Recording

FEWEST_SEGMENTS = 3
# Rounded up, so that most recordings share one compilation.
GIVEN_SEGMENTS = 16


def level(recording: Recording, env: game.EndlessMysteryPath) -> segments.EndlessMysteryPathLevel:
    path = recording.arrays["path"].astype(np.int32)
    given = np.full((env.max_given_segments, segments.MAX_TILES), segments.NO_TILE, np.uint8)
    for number in range(path[-1, 0] + 1):
        tiles = path[path[:, 0] == number, 1:]
        given[number] = segments.pack(tiles - [segments.NUM_COLUMNS * number, 0])
    return segments.EndlessMysteryPathLevel(start_row=path[0, 2], seed=np.uint32(0), segments=given)


@functools.partial(jax.jit, static_argnames=("env",))
def traced_answers(env: Any, state: game.EndlessMysteryPathState, params: Any) -> dict[str, jax.Array]:
    radius = arena.agent_radius(env.agent_scale)
    tile = state.position_px // seen.TILE_PX
    node = state.level.segments[state.segment, state.place].astype(jnp.int32)
    column = node // segments.NUM_ROWS + segments.NUM_COLUMNS * state.segment
    walked = state.position_px[0] - radius
    is_ended_by_fall = state.terminated & state.is_off_path
    places = jnp.arange(segments.MAX_TILES, dtype=jnp.uint32)
    return {
        "agent_pos": state.position_px,
        "agent_rot": state.heading * arena.HEADING_DEGREES,
        "agent_tile": tile,
        "agent_draw_px": seen.agent_x_px(env.agent_scale, params.camera) - sprite_center_px(env.agent_scale),
        "camera_px": walked - params.camera.offset_px,
        "bg_scroll": -game.moved_ground_px(walked, params),
        "off_path": state.is_off_path,
        "cross_visible": env.scene(state, params).has_cross,
        "num_fails": state.num_fails,
        "stamina": state.stamina,
        "max_x": state.max_x,
        "tiles_visited": state.tiles_visited,
        "current_segment": tile[0] // segments.NUM_COLUMNS,
        "num_segments": jnp.maximum(state.max_x // segments.NUM_COLUMNS + 2, FEWEST_SEGMENTS),
        "current_node": jnp.stack([column, node % segments.NUM_ROWS]),
        # A fall that ends the episode is not remembered.
        "num_fall_off_locations": state.num_fails - is_ended_by_fall.astype(jnp.int32),
        "ground_truth": jax.nn.one_hot(state.next_direction, game.NUM_DIRECTIONS),
        "stamina_visited_here": (state.refreshed >> places) & 1 == 1,
    }


def answers(env: Any, state: game.EndlessMysteryPathState, params: Any) -> dict[str, Any]:
    is_tile = np.asarray(state.level.segments) != segments.NO_TILE
    marks = np.asarray(state.rewarded)[: len(is_tile), None] >> np.arange(segments.MAX_TILES, dtype=np.uint32)
    return {**traced_answers(env, state, params), "reward_visited": (marks & 1 == 1)[is_tile]}


def derived(recording: Recording) -> dict[str, np.ndarray]:
    """Return the marks of the last path tile's segment, and positions in whole px; our states keep no others."""
    arrays = recording.arrays
    number = arrays["current_node"][:, 0] // segments.NUM_COLUMNS
    here = np.zeros((len(number), segments.MAX_TILES), bool)
    for t, marks in enumerate(arrays["stamina_visited"]):
        of_segment = marks[arrays["path"][:, 0] == number[t]]
        here[t, : len(of_segment)] = of_segment
    return {
        "stamina_visited_here": here,
        "agent_draw_px": np.trunc(arrays["agent_draw_x"]),
        "camera_px": np.ceil(arrays["camera_x"]),
    }


def capacities(recording: Recording) -> dict[str, Any]:
    count = int(recording.arrays["path"][-1, 0]) + 1
    return {"max_given_segments": GIVEN_SEGMENTS * math.ceil(count / GIVEN_SEGMENTS)}


FAMILIES = {"emp": Family(level, answers, capacities, derived=derived)}
