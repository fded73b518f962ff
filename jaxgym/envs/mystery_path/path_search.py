"""Path search of Mystery Path: it returns the path of the original's search, which is not the shortest one.

Tiles are numbered column · 7 + row. The search is that of memory-gym 1.0.2, with its peculiarities: it takes the first
open tile that is cheaper than the oldest one, not the cheapest; a better path to an open tile changes its predecessor
and its estimate, but not its cost.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SIZE = 7
NUM_TILES = SIZE * SIZE
MAX_DRAWS = 2 * SIZE * (SIZE - 1)
"""Largest number of costs that a search draws: one for each pair of neighbors, since closed tiles are not examined."""

_NOT_OPEN = np.int32(1 << 20)
_MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))

_TILES = np.stack(np.divmod(np.arange(NUM_TILES), SIZE), axis=-1)
_BESIDE = _TILES[:, None] + np.asarray(_MOVES)
_IS_INSIDE = ((_BESIDE >= 0) & (_BESIDE < SIZE)).all(axis=-1)
# Number of the neighbor of each tile by move, -1 outside of the grid.
_NEIGHBORS = np.where(_IS_INSIDE, _BESIDE @ np.asarray([SIZE, 1]), -1).astype(np.int32)
_DISTANCES = np.linalg.norm(_TILES[:, None] - _TILES[None], axis=-1).astype(np.float32)


def search(start: jax.Array, goal: jax.Array, is_wall: jax.Array, costs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Search a path between two tiles, int32 () each, around walls, bool (49,), with costs 1 to 8, int32 (84,).

    Returns:
        The predecessor of each tile, int32 (49,), -1 for none; the chain from the goal is the path. The number of costs
        used, in order, int32 ().
    """
    tiles = jnp.arange(NUM_TILES, dtype=jnp.int32)
    distance = jnp.asarray(_DISTANCES)[goal]

    def choose(order: jax.Array, estimate: jax.Array) -> jax.Array:
        oldest = jnp.argmin(order)
        is_better = (order < _NOT_OPEN) & (estimate < estimate[oldest])
        better = jnp.argmin(jnp.where(is_better, order, _NOT_OPEN))
        return jnp.where(jnp.any(is_better), better, oldest).astype(jnp.int32)

    def goes_on(carry: tuple[jax.Array, ...]) -> jax.Array:
        return (carry[0] != goal) & jnp.any(carry[1] < _NOT_OPEN)

    def expand(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        current, order, is_closed, cost, estimate, predecessor, added, drawn = carry
        order = jnp.where(tiles == current, _NOT_OPEN, order)
        is_closed = is_closed | (tiles == current)
        own_cost = cost[current]
        for k in range(len(_MOVES)):
            tile = jnp.asarray(_NEIGHBORS)[current, k]
            at = tiles == tile
            is_candidate = jnp.any(at & ~is_closed & ~is_wall)
            reached = own_cost + costs[jnp.minimum(drawn, MAX_DRAWS - 1)]
            is_open = jnp.any(at & (order < _NOT_OPEN))
            is_better = is_candidate & is_open & (reached < cost[tile])
            is_added = is_candidate & ~is_open
            cost = jnp.where(at & is_added, reached, cost)
            changed = at & (is_added | is_better)
            estimate = jnp.where(changed, cost.astype(jnp.float32) + distance, estimate)
            predecessor = jnp.where(changed, current, predecessor)
            order = jnp.where(at & is_added, added, order)
            added, drawn = added + is_added.astype(jnp.int32), drawn + is_candidate.astype(jnp.int32)
        return choose(order, estimate), order, is_closed, cost, estimate, predecessor, added, drawn

    zeros = jnp.zeros(NUM_TILES, jnp.int32)
    carry = (
        start,
        jnp.where(tiles == start, 0, _NOT_OPEN),
        zeros > 0,
        zeros,
        zeros.astype(jnp.float32),
        zeros - 1,
        jnp.int32(1),
        jnp.int32(0),
    )
    found = lax.while_loop(goes_on, expand, carry)
    return found[5], found[7]
