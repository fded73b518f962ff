"""Layouts of Mystery Path: the ends of a path, the walls around it, and the path between them.

Tiles are numbered column · 7 + row; a start, a goal and a tile are such numbers, int32 (). Walls bend the path and are
invisible. Inner walls lie in columns and rows 1 to 4 (not 5, as in the original); outer walls lie on the border, away
from inner walls and from the ends of the path. A path always exists: the border connects start and goal, with a detour
around each outer wall.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.mystery_path import path_search
from jaxgym.envs.mystery_path.path_search import MAX_DRAWS, NUM_TILES, SIZE

WALL_PERCENT = 33
"""Probability of an inner wall."""

OUTER_WALL_COUNTS = (4, 8)
"""Possible numbers of outer walls, as far as they fit."""

MAX_COST = 8
"""Largest cost that the search draws; the smallest is 1."""

_COLUMNS, _ROWS = np.divmod(np.arange(NUM_TILES), SIZE)
_LAST = SIZE - 1
_IS_INNER = (np.minimum(_COLUMNS, _ROWS) >= 1) & (np.maximum(_COLUMNS, _ROWS) <= SIZE - 3)
_IS_BORDER = (np.minimum(_COLUMNS, _ROWS) == 0) | (np.maximum(_COLUMNS, _ROWS) == _LAST)
INNER_TILES, BORDER_TILES = np.nonzero(_IS_INNER)[0], np.nonzero(_IS_BORDER)[0]
"""Possible tiles of inner and outer walls, by column and then by row."""

_DX, _DY = (np.abs(part[:, None] - part[BORDER_TILES]) for part in (_COLUMNS, _ROWS))
# Whether a tile, bool (49, 24), is a border tile or one of its 4 neighbors, or one of its 8 neighbors.
_IS_NEAR, _TOUCHES = _DX + _DY <= 1, np.maximum(_DX, _DY) == 1
_OTHER_TILES = np.nonzero(~_IS_INNER & ~_IS_BORDER)[0]
# Index of each tile among inner, border and other tiles.
_PLACES = np.argsort(np.concatenate([INNER_TILES, BORDER_TILES, _OTHER_TILES])).astype(np.int32)

_COST_BITS = 3
_COSTS_PER_WORD = 32 // _COST_BITS
_WORDS = {"inner": len(INNER_TILES), "count": 1, "outer": len(BORDER_TILES), "cost": -(-MAX_DRAWS // _COSTS_PER_WORD)}
PATH_WORDS = sum(_WORDS.values())
"""Number of random words of `sample_path`."""


def ends_of(side: jax.Array, start_along: jax.Array, goal_along: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the numbers of the start tile and of the goal tile, int32 () each.

    Args:
        side: Side of the start: 0 left, 1 right, 2 top, 3 bottom; the goal is on the opposite side.
        start_along: Row or column of the start, 0 to 6.
        goal_along: Row or column of the goal, 0 to 6.
    """
    is_horizontal, is_near = side <= 1, side % 2 == 0
    start_across, goal_across = jnp.where(is_near, 0, _LAST), jnp.where(is_near, _LAST, 0)
    start = jnp.where(is_horizontal, start_across * SIZE + start_along, start_along * SIZE + start_across)
    goal = jnp.where(is_horizontal, goal_across * SIZE + goal_along, goal_along * SIZE + goal_across)
    return start, goal


def may_be_outer_wall(start: jax.Array, goal: jax.Array, is_inner_wall: jax.Array) -> jax.Array:
    """Return which tiles of `BORDER_TILES` may become walls, bool (24,), beside walls of `INNER_TILES`, bool (16,).

    These tiles are neither start nor goal nor next to them, and touch no inner wall, not even at a corner.
    """
    is_near = jnp.asarray(_IS_NEAR)
    touches_wall = jnp.any(is_inner_wall[:, None] & _TOUCHES[INNER_TILES], axis=0)
    return ~(is_near[start] | is_near[goal] | touches_wall)


def walls_of(is_inner_wall: jax.Array, is_outer_wall: jax.Array) -> jax.Array:
    """Return whether each tile is a wall, bool (49,), from `INNER_TILES` (16,) and `BORDER_TILES` (24,)."""
    others = jnp.zeros(len(_OTHER_TILES), bool)
    return jnp.concatenate([is_inner_wall, is_outer_wall, others])[_PLACES]


def draw_walls(start: jax.Array, goal: jax.Array, inner: jax.Array, count: jax.Array, outer: jax.Array) -> jax.Array:
    """Draw inner walls, then up to four or eight outer ones; return whether each tile is a wall, bool (49,).

    `inner`, `count` and `outer` are random words, uint32 (16,), () and (24,).
    """
    is_inner_wall = inner % jnp.uint32(100) < jnp.uint32(WALL_PERCENT)
    is_candidate = may_be_outer_wall(start, goal, is_inner_wall)
    few, many = OUTER_WALL_COUNTS
    # The candidates with the largest words are a uniform choice without repetition.
    own, other = outer[:, None], outer[None]
    is_before = np.tri(len(BORDER_TILES), k=-1, dtype=bool)
    is_larger = (other > own) | ((other == own) & is_before)
    rank = jnp.sum(is_larger & is_candidate[None], axis=1, dtype=jnp.int32)
    is_outer_wall = is_candidate & (rank < jnp.where(count % jnp.uint32(2) == 0, few, many))
    return walls_of(is_inner_wall, is_outer_wall)


def find_path(start: jax.Array, goal: jax.Array, is_wall: jax.Array, costs: jax.Array) -> jax.Array:
    """Return the path that `path_search.search` finds, see `path_to`."""
    return path_to(goal, path_search.search(start, goal, is_wall, costs)[0])


def path_to(goal: jax.Array, predecessor: jax.Array) -> jax.Array:
    """Return the tiles that lead to the goal in order, int32 (49,), -1 after the last; from predecessors (49,)."""

    def back(tile: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return jnp.where(tile < 0, -1, predecessor[tile]), tile

    backwards = jax.lax.scan(back, goal, None, length=NUM_TILES)[1]
    place = jnp.sum(backwards >= 0, dtype=jnp.int32) - 1 - jnp.arange(NUM_TILES)
    return jnp.where(place < 0, -1, backwards[place])


def sample_path(start: jax.Array, goal: jax.Array, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sample walls from random words, uint32 (`PATH_WORDS`,), and find the path between tiles on opposite sides.

    Returns:
        The path, see `path_to`, and whether each tile is a wall, bool (49,).
    """
    inner, count, outer, cost = jnp.split(bits, np.cumsum(list(_WORDS.values()))[:-1])
    is_wall = draw_walls(start, goal, inner, count[0], outer)
    shifts = _COST_BITS * jnp.arange(_COSTS_PER_WORD, dtype=jnp.uint32)
    costs = (cost[:, None] >> shifts[None]).reshape(-1)[:MAX_DRAWS] % jnp.uint32(MAX_COST)
    return find_path(start, goal, is_wall, costs.astype(jnp.int32) + 1), is_wall
