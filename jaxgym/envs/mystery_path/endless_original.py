"""Random draws of the original Endless Mystery Path: one segment after another, so a level can list them."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from jaxgym.envs.common.course import Course
from jaxgym.envs.common.draws import Draws, by_seed, whole
from jaxgym.envs.mystery_path import endless as endless_mystery_path
from jaxgym.envs.mystery_path import endless_segments as segments
from jaxgym.envs.mystery_path.endless_scene import TILE_PX
from jaxgym.envs.mystery_path.original import draw_path
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.errors import LevelError
from jaxgym.spec import Original

_RESET_SEGMENTS = 3


def sizes(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of listed segments of an endless level: all that an episode can reach."""
    return {"max_given_segments": options["max_segments"]}


def sizes_of(buffer: Any) -> dict[str, int]:
    """Return the size with which `make` accepts a level buffer."""
    if not isinstance(buffer, endless_mystery_path.EndlessMysteryPathLevel) or buffer.segments is None:
        return {}
    return {"max_given_segments": buffer.segments.shape[-2]}


def levels(
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
class EndlessMysteryPathCourse(Course):
    """Course of Endless Mystery Path; the original draws a segment when the agent enters the second-to-last one."""

    _start_row: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(1, np.int64), init=False, repr=False)

    def start(
        self, seed: int | None = None, after: Course | None = None
    ) -> endless_mystery_path.EndlessMysteryPathLevel:
        """Return the level of the next episode; see `Course.start`."""
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


ORIGINAL = Original(
    by_seed(levels, num_words=256),
    partial(EndlessMysteryPathCourse, levels=levels, num_later=_num_later_segments, size_names=("max_given_segments",)),
    sizes,
)
