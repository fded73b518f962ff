"""Random draws and the path search of the original Mystery Path and Endless Mystery Path.

The endless game draws one segment after another, so a level can list them.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.envs.common.draws import Draws, by_seed, whole
from jaxgym.envs.common.episode_sequence import EpisodeSequence
from jaxgym.envs.mystery_path import endless as endless_mystery_path
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path import game as mystery_path
from jaxgym.envs.mystery_path import layout as mystery_layout
from jaxgym.envs.mystery_path import path_search
from jaxgym.envs.mystery_path.layout import INNER_TILES
from jaxgym.envs.mystery_path.path_search import MAX_DRAWS, SIZE
from jaxgym.envs.mystery_path.scene import TILE_PX
from jaxgym.errors import LevelError
from jaxgym.spec import Original

_PERCENT = 100
_RESET_SEGMENTS = 3
_BATCHES = (1, 64, 1024)
"""Batch sizes of searches; a program is compiled for each size in use."""


def levels(env: mystery_path.MysteryPath, options: Mapping[str, Any], draws: Draws) -> mystery_path.Level:
    """Draw a level of Mystery Path for each stream."""
    del env
    side = draws.choice(options["cardinal_origin_choice"])
    along = [draws.integers(0, SIZE) for _ in range(2)]
    start, goal = _batched(_ends, whole(side), *map(whole, along))
    tiles = _batched(_tile_sets, draw_path(draws, start, goal))
    return mystery_path.Level(start_tile=whole(_tiles(start)), goal_tile=whole(_tiles(goal)), path=tiles)


def draw_path(draws: Draws, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Draw walls and search a path between two tiles of each of n streams, int32 (n,).

    Returns:
        Tiles in path order, int32 (n, 49), and -1 after the last one.
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
    path, taken = _batched(_search, start, goal, inner, outer, whole(np.stack(costs, axis=-1)))
    following, waiting = (np.stack(part)[taken, np.arange(len(draws))] for part in zip(*places, strict=True))
    draws.go_to((following, waiting))
    return path


def _find(start: Any, goal: Any, inner: Any, outer: Any, costs: Any) -> tuple[Any, Any]:
    """Return the path and the number of costs that the search takes."""
    predecessor, taken = path_search.search(start, goal, mystery_layout.walls_of(inner, outer), costs)
    return mystery_layout.path_to(goal, predecessor), taken


_ends = jax.jit(jax.vmap(mystery_layout.ends_of))
_candidates = jax.jit(jax.vmap(mystery_layout.may_be_outer_wall))
_search = jax.jit(jax.vmap(_find))
_tile_sets = jax.jit(jax.vmap(mystery_path.tile_set))


def _batched(function: Any, *arguments: np.ndarray) -> Any:
    """Run a compiled function on n rows, padded to a size that it is compiled for, on the host."""
    count = len(arguments[0])
    size = next((size for size in _BATCHES if size >= count), count)
    filled = [np.resize(argument, (size, *argument.shape[1:])) for argument in arguments]
    return jax.tree.map(lambda leaf: leaf[:count], jax.device_get(function(*filled)))


def _tiles(number: np.ndarray) -> np.ndarray:
    return np.stack(np.divmod(number, SIZE), axis=-1)


def endless_sizes(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of listed segments of an endless level: all that an episode can reach."""
    return {"max_given_segments": options["max_segments"]}


def endless_sizes_of(buffer: Any) -> dict[str, int]:
    """Return the size with which `make` accepts a level buffer."""
    if not isinstance(buffer, endless_mystery_path.EndlessMysteryPathLevel) or buffer.segments is None:
        return {}
    return {"max_given_segments": buffer.segments.shape[-2]}


def endless_levels(
    env: endless_mystery_path.EndlessMysteryPath, options: Mapping[str, Any], draws: Draws
) -> endless_mystery_path.EndlessMysteryPathLevel:
    """Draw a level of Endless Mystery Path for each stream; its segments do not depend on the actions.

    From segment `max_given_segments` on, segments are drawn from the level's `seed`, unlike the original's.

    Raises:
        LevelError: If a segment has more tiles than a level can hold.
    """
    del options
    start_row = row = draws.integers(0, SIZE)
    draws.start_of_play = draws.places
    listed = []
    for _ in range(env.max_given_segments):
        row, segment = _segment(draws, row)
        listed.append(segment)
    return endless_mystery_path.EndlessMysteryPathLevel(
        start_row=whole(start_row),
        seed=whole(draws.seeds, np.uint32),
        segments=whole(np.stack(listed, axis=1), np.uint8),
    )


def _segment(draws: Draws, start_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw the segment that starts in a row; return its end row, (n,), and its tiles, (n, 32)."""
    end_row = draws.integers(0, SIZE)
    path = draw_path(draws, whole(start_row), whole((SIZE - 1) * SIZE + end_row))
    length = np.sum(path >= 0, axis=-1)
    if length.max() >= segments.MAX_TILES:
        raise LevelError(
            f"expected segments of at most {segments.MAX_TILES} tiles, got {length.max() + 1} for seed "
            f"{draws.seeds[np.argmax(length)]}. Leave this seed out."
        )
    tiles = np.where(path >= 0, path, segments.NO_TILE)[:, : segments.MAX_TILES]
    tiles[np.arange(len(draws)), length] = SIZE * SIZE + end_row
    return end_row, tiles


@dataclasses.dataclass
class EndlessMysteryPathSequence(EpisodeSequence):
    """Sequence of Endless Mystery Path; the original draws a segment when the agent enters the second-to-last one."""

    _start_row: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64), init=False, repr=False)

    def start(
        self, seed: int | None = None, after: EpisodeSequence | None = None
    ) -> endless_mystery_path.EndlessMysteryPathLevel:
        """Return the level of the next episode; see `EpisodeSequence.start`."""
        level = super().start(seed, after)
        self._start_row = np.atleast_1d(level.start_row)
        return level

    def _finish(self, draws: Draws) -> None:
        # Segments depend on each other, so those of the reset are drawn again too.
        if draws.start_of_play is not None:
            draws.go_to(draws.start_of_play)
        row = self._start_row
        for _ in range(_RESET_SEGMENTS + self._num_drawn):
            row, _ = _segment(draws, row)


def _num_later_segments(state: endless_mystery_path.EndlessMysteryPathState, options: Mapping[str, Any]) -> int:
    del options
    entered = int(state.position_px[0]) // (TILE_PX * segments.NUM_COLUMNS)
    return max(entered + 2 - _RESET_SEGMENTS, 0)


ORIGINAL = Original(by_seed(levels, num_words=72), partial(EpisodeSequence, levels=levels))
ENDLESS_ORIGINAL = Original(
    by_seed(endless_levels, num_words=256),
    partial(EndlessMysteryPathSequence, levels=endless_levels, num_later=_num_later_segments),
    endless_sizes,
)
