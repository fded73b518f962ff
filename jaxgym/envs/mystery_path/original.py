"""Random draws and the path search of the original Mystery Path."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.envs.common.course import Course
from jaxgym.envs.common.draws import Draws, by_seed, whole
from jaxgym.envs.mystery_path import game as mystery_path
from jaxgym.envs.mystery_path import layout as mystery_layout
from jaxgym.envs.mystery_path import path_search
from jaxgym.envs.mystery_path.layout import INNER_TILES
from jaxgym.envs.mystery_path.path_search import MAX_DRAWS, NUM_TILES, SIZE
from jaxgym.spec import Original

_PERCENT = 100
_WORD_BITS = 32
_BATCHES = (1, 64, 1024)
"""Batch sizes of searches; a program is compiled for each size in use."""


def levels(env: mystery_path.MysteryPath, options: Mapping[str, Any], draws: Draws) -> mystery_path.Level:
    """Draw a level of Mystery Path for each stream."""
    del env
    side = draws.choice(options["cardinal_origin_choice"])
    along = [draws.integers(0, SIZE) for _ in range(2)]
    start, goal = _batched(_ends, whole(side), *map(whole, along))
    path = draw_path(draws, start, goal)
    tiles = np.zeros((len(draws), 2), dtype=np.uint32)
    for tile in path.T:
        bit = np.where(tile >= 0, np.uint32(1) << (tile % _WORD_BITS).astype(np.uint32), np.uint32(0))
        tiles |= np.where((tile // _WORD_BITS)[:, None] == np.arange(2), bit[:, None], np.uint32(0))
    return mystery_path.Level(
        start_tile=whole(_tiles(start)), goal_tile=whole(_tiles(goal)), path=whole(tiles, np.uint32)
    )


def draw_path(draws: Draws, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Draw walls and search a path between two tiles of each of n streams, int32 (n,).

    Returns:
        Tiles in path order, (n, 49), and -1 after the last one.
    """
    inner = np.stack([draws.integers(0, _PERCENT) < mystery_layout.WALL_PERCENT for _ in INNER_TILES], axis=-1)
    is_candidate = np.asarray(_batched(_candidates, start, goal, inner)).copy()
    count, outer = draws.choice(mystery_layout.OUTER_WALL_COUNTS), np.zeros_like(is_candidate)
    for number in range(max(mystery_layout.OUTER_WALL_COUNTS)):
        left = is_candidate.sum(axis=-1)
        is_drawn = (number < count) & (left > 0)
        rank = draws.integers(0, left, is_drawn)
        is_picked = is_candidate & (is_candidate.cumsum(axis=-1) == rank[:, None] + 1) & is_drawn[:, None]
        outer, is_candidate = outer | is_picked, is_candidate & ~is_picked
    # A search draws a cost for each tile that it examines. All costs are drawn in advance, and unused ones again later.
    places, costs = [draws.places], []
    for _ in range(MAX_DRAWS):
        costs.append(draws.integers(1, mystery_layout.MAX_COST + 1))
        places.append(draws.places)
    predecessor, taken = _batched(_search, start, goal, inner, outer, whole(np.stack(costs, axis=-1)))
    following, waiting = (np.stack(part)[taken, np.arange(len(draws))] for part in zip(*places, strict=True))
    draws.go_to((following, waiting))
    return _chain(predecessor, goal)


def _chain(predecessor: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return the tiles that lead to the goal, in order, (n, 49), and -1 after the last."""
    indices, tile = np.arange(len(goal)), np.asarray(goal)
    chain = np.full((len(goal), NUM_TILES), -1)
    for index in range(NUM_TILES):
        chain[:, index] = tile
        tile = np.where(tile >= 0, predecessor[indices, tile], -1)
        if (tile < 0).all():
            break
    length = np.sum(chain >= 0, axis=-1, keepdims=True)
    place = length - 1 - np.arange(NUM_TILES)
    return np.where(place >= 0, np.take_along_axis(chain, np.maximum(place, 0), axis=-1), -1)


def _search_walls(start: Any, goal: Any, inner: Any, outer: Any, costs: Any) -> Any:
    return path_search.search(start, goal, mystery_layout.walls_of(inner, outer), costs)


_ends = jax.jit(jax.vmap(mystery_layout.ends_of))
_candidates = jax.jit(jax.vmap(mystery_layout.may_be_outer_wall))
_search = jax.jit(jax.vmap(_search_walls))


def _batched(function: Any, *arguments: np.ndarray) -> Any:
    """Run a compiled function on n rows, padded to a size that it is compiled for, on the host."""
    count = len(arguments[0])
    size = next((size for size in _BATCHES if size >= count), count)
    filled = [np.resize(argument, (size, *argument.shape[1:])) for argument in arguments]
    return jax.tree.map(lambda leaf: leaf[:count], jax.device_get(function(*filled)))


def _tiles(number: np.ndarray) -> np.ndarray:
    return np.stack(np.divmod(number, SIZE), axis=-1)


ORIGINAL = Original(by_seed(levels, num_words=72), partial(Course, levels=levels))
