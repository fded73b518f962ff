"""Segments of an endless path, and the segment buffer from which they are drawn.

A segment is a path through seven columns of seven rows, found like that of Mystery Path, and one more tile to the
right, where the next segment starts. It depends only on its start and end row, so the buffer holds many segments for
each pair of rows; a step looks one up and never searches.

A segment is an array of uint8 (32,): the numbers of its tiles in path order, column · 7 + row, and `NO_TILE` after the
last one.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import levels
from jaxgym.envs.mystery_path import layout as mystery_layout
from jaxgym.envs.mystery_path.path_search import SIZE

NUM_ROWS = SIZE
NUM_COLUMNS = SIZE + 1
"""Columns of a segment, including that of the last tile."""

MAX_TILES = 32
"""Capacity of a segment; fewer than one in 10 000 has 20 tiles."""

NO_TILE = 255
SEGMENTS_PER_PAIR = 1024
"""Number of segments in the buffer for each start and end row."""

_LAST_COLUMN = SIZE * NUM_ROWS
_SEED = 0


@struct.dataclass
class EndlessMysteryPathLevel:
    """Sampled parts of an episode.

    Attributes:
        start_row: Row of the first tile, int32 ().
        seed: Seed of the segments that are not listed, uint32 ().
        segments: Listed first segments, uint8 (N, 32), `NO_TILE` where not listed; None if none can be listed.
    """

    start_row: jax.Array
    seed: jax.Array
    segments: Any


def pack(tiles: Sequence[tuple[int, int]] | np.ndarray) -> np.ndarray:
    """Return a segment of tiles (column, row) in path order, uint8 (32,)."""
    segment = np.full(MAX_TILES, NO_TILE, dtype=np.uint8)
    segment[: len(tiles)] = [column * NUM_ROWS + row for column, row in tiles]
    return segment


def end_row(segment: jax.Array) -> jax.Array:
    """Return the row of a segment's last tile, int32 ()."""
    tiles = segment.astype(jnp.int32)
    return jnp.max(jnp.where(tiles == NO_TILE, 0, tiles)) - _LAST_COLUMN


def find(segment: jax.Array, column: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the index of a tile on the path of a segment, int32 (), and whether it is on the path, bool ()."""
    is_tile = (segment.astype(jnp.int32) == column * NUM_ROWS + row) & (row >= 0) & (row < NUM_ROWS)
    return jnp.argmax(is_tile).astype(jnp.int32), jnp.any(is_tile)


@functools.cache
def make_segment_buffer() -> jax.Array:
    """Return the segment buffer by start row, end row and number, uint8 (7, 7, 1024, 32); it is always the same."""
    rows = np.arange(NUM_ROWS, dtype=np.int32)
    # Evaluated eagerly, because an environment may be made inside a trace.
    with jax.ensure_compile_time_eval():
        keys = jax.random.split(jax.random.key(_SEED, impl="threefry2x32"), (NUM_ROWS, NUM_ROWS, SEGMENTS_PER_PAIR))
        return _sample_all(keys, rows[:, None, None], rows[:, None])


@jax.jit
def _sample_all(keys: jax.Array, start_rows: jax.Array, end_rows: jax.Array) -> jax.Array:
    pairs = (part.reshape(-1) for part in jnp.broadcast_arrays(keys, start_rows, end_rows))
    return jax.vmap(sample)(*pairs).reshape(*keys.shape, MAX_TILES)


def sample(key: jax.Array, start_row: jax.Array, end_row: jax.Array) -> jax.Array:
    """Sample a segment between two rows, uint8 (32,); consumes `key`."""
    goal = _LAST_COLUMN - NUM_ROWS + end_row
    bits = jax.random.bits(key, (mystery_layout.PATH_WORDS,), jnp.uint32)
    path = mystery_layout.sample_path(start_row, goal, bits)[0]
    length = jnp.sum(path >= 0, dtype=jnp.int32)
    tiles = jnp.where(path < 0, NO_TILE, path).at[length].set(goal + NUM_ROWS)
    return tiles[:MAX_TILES].astype(jnp.uint8)


def drawn_words(level: EndlessMysteryPathLevel, number: jax.Array) -> jax.Array:
    """Return the random words of a segment, uint32 (2,), for its end row and its number in the buffer."""
    return jax.random.bits(jax.random.fold_in(levels.level_key(level.seed), number), (2,), jnp.uint32)


def given_at(level: EndlessMysteryPathLevel, number: jax.Array) -> jax.Array:
    """Return the listed segment of a number, or `NO_TILE` if it is not listed."""
    # A negative number would count from the end.
    number = jnp.where(number < 0, level.segments.shape[0], number)
    return level.segments.at[number].get(mode="fill", fill_value=NO_TILE)


def end_row_at(level: EndlessMysteryPathLevel, number: jax.Array) -> jax.Array:
    """Return the end row of the segment of a number; before the first segment, the start row."""
    row = (drawn_words(level, number)[0] % jnp.uint32(NUM_ROWS)).astype(jnp.int32)
    if level.segments is not None:
        given = given_at(level, number)
        row = jnp.where(given[0] == NO_TILE, row, end_row(given))
    return jnp.where(number < 0, level.start_row, row)


def segment_at(level: EndlessMysteryPathLevel, number: jax.Array, buffer: jax.Array) -> jax.Array:
    """Return the segment of a number, uint8 (32,), listed in the level or drawn from the buffer."""
    index = (drawn_words(level, number)[1] % jnp.uint32(buffer.shape[2])).astype(jnp.int32)
    segment = jnp.asarray(buffer)[end_row_at(level, number - 1), end_row_at(level, number), index]
    if level.segments is None:
        return segment
    given = given_at(level, number)
    return jnp.where(given[0] == NO_TILE, segment, given)


def direction_after(segment: jax.Array, place: jax.Array, before: jax.Array) -> jax.Array:
    """Return the direction of the path at a place in a segment: 0 right, 1 up, 2 down; `before` if it leads left."""
    tiles = segment.astype(jnp.int32)
    following = tiles.at[place + 1].get(mode="fill", fill_value=NO_TILE)
    step = following - tiles[place]
    ways = jnp.stack([(following == NO_TILE) | (step == NUM_ROWS), step == -1, step == 1])
    return jnp.where(jnp.any(ways), jnp.argmax(ways).astype(jnp.int32), before)
