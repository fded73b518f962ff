"""Maps of Frozen Lake: the holes, and the test for a path around them.

A map is bool (N, N), row first, True for a hole; a cell is (row, column).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SMALLEST, LARGEST = 2, 16
"""Limits of the number of rows and columns."""

MOST_PROPOSALS = 64
"""Maximum number of maps that are sampled for a level."""

_UNROLLED = 4
"""Maps up to this size are searched without a loop, because an iteration would cost more than its work."""

_FRACTION_BITS = 24
_BITS = 32

_DRAWN = {
    "4x4": "SFFF FHFH FFFH HFFG",
    "8x8": "SFFFFFFF FFFFFFFF FFFHFFFF FFFFFHFF FFFHFFFF FHHFFFHF FHFFHFHF FFFHFFFG",
}

FIXED = {name: np.asarray([[cell == "H" for cell in row] for row in rows.split()]) for name, rows in _DRAWN.items()}
"""Gymnasium's maps by name, with the start at the top left and the goal at the bottom right."""


def at(cell: jax.Array, size: int) -> jax.Array:
    """Return a map with only this cell set, bool (size, size)."""
    numbers = jnp.arange(size)
    return (numbers == cell[0])[:, None] & (numbers == cell[1])[None]


def packed(cells: jax.Array) -> jax.Array:
    """Pack each row into bits, the first column lowest, uint32 (N,)."""
    bits = jnp.uint32(1) << jnp.arange(len(cells), dtype=jnp.uint32)
    return jnp.sum(jnp.where(cells, bits[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32)


def is_solvable(is_hole: jax.Array, start_cell: jax.Array, goal_cell: jax.Array) -> jax.Array:
    """Return whether a path leads from start to goal, bool ()."""
    size = len(is_hole)
    # Sixteen columns fit one word, so an iteration takes a few operations on a short array. Each iteration reaches at
    # least one more cell, or is the last.
    is_open, goal = packed(~is_hole), packed(at(goal_cell, size))
    reached = packed(at(start_cell, size))

    def is_growing(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        reached, has_grown = carry
        return has_grown & ~jnp.any(reached & goal != 0)

    def grown(reached: jax.Array) -> jax.Array:
        around = jnp.pad(reached, 1)
        return reached | (is_open & ((reached << 1) | (reached >> 1) | around[:size] | around[2:]))

    def grow(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reached, _ = carry
        further = grown(grown(reached))  # twice, because a loop iteration costs more than its work
        return further, jnp.any(further != reached)

    if size <= _UNROLLED:  # the longest path takes fewer iterations than there are cells
        for _ in range(size * size - 1):
            reached = grown(reached)
    else:
        reached, _ = lax.while_loop(is_growing, grow, (reached, jnp.bool_(True)))
    return jnp.any(reached & goal != 0)


def propose(key: jax.Array, p: Any, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sample a map that may have no path: each cell is frozen with probability `p`, start and goal always.

    Returns:
        Holes bool (size, size), start cell int32 (2,), goal cell int32 (2,); all pairs of different cells have the same
        probability.
    """
    num_cells = size * size
    bits = jax.random.bits(key, (num_cells + 2,), jnp.uint32)
    share = (bits[:num_cells] >> (_BITS - _FRACTION_BITS)).astype(jnp.float32) / np.float32(1 << _FRACTION_BITS)
    start = bits[num_cells] % jnp.uint32(num_cells)
    goal = (start + 1 + bits[num_cells + 1] % jnp.uint32(num_cells - 1)) % jnp.uint32(num_cells)
    start_cell, goal_cell = (jnp.stack([end // size, end % size]).astype(jnp.int32) for end in (start, goal))
    is_hole = (share >= p).reshape(size, size) & ~at(start_cell, size) & ~at(goal_cell, size)
    return is_hole, start_cell, goal_cell


def corner_path(start_cell: jax.Array, goal_cell: jax.Array, size: int) -> jax.Array:
    """Return the cells along the start's row to the goal's column, then along it to the goal, bool (size, size)."""
    numbers = jnp.arange(size)
    first, last = jnp.minimum(start_cell, goal_cell), jnp.maximum(start_cell, goal_cell)
    is_row, is_column = ((numbers >= first[axis]) & (numbers <= last[axis]) for axis in (0, 1))
    along_row = (numbers == start_cell[0])[:, None] & is_column[None]
    along_column = is_row[:, None] & (numbers == goal_cell[1])[None]
    return along_row | along_column


_Sampled = tuple[jax.Array, jax.Array, tuple[jax.Array, jax.Array, jax.Array]]
"""Number of proposals so far, whether the last one has a path, and the last one."""


def sample(key: jax.Array, p: Any, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sample a map with a path from start to goal: the first one among `MOST_PROPOSALS` proposals.

    Maps without a path are rejected as a whole, so nearby starts and goals are more frequent than distant ones, and
    more than `p` of the cells are frozen. If no proposal has a path, the last one gets a path with at most one corner.
    At 4 × 4, this happens in less than one level in a million for any `p`; at 16 × 16, in two in a million at p = 0.5
    and in two in five at p = 0.

    Returns:
        Holes bool (size, size), start cell int32 (2,), goal cell int32 (2,).
    """

    def lacks_way(carry: _Sampled) -> jax.Array:
        number, is_solved, _ = carry
        return ~is_solved & (number < MOST_PROPOSALS)

    def retry(carry: _Sampled) -> _Sampled:
        number, _, _ = carry
        proposed = propose(jax.random.fold_in(key, number), p, size)
        return number + 1, is_solvable(*proposed), proposed

    nowhere = jnp.zeros(2, jnp.int32)
    nothing = (jnp.zeros((size, size), bool), nowhere, nowhere)
    first = retry((jnp.int32(0), jnp.bool_(False), nothing))  # usually the last one, so that no loop runs
    _, is_solved, (is_hole, start_cell, goal_cell) = lax.while_loop(lacks_way, retry, first)
    way = corner_path(start_cell, goal_cell, size)
    return is_hole & (is_solved | ~way), start_cell, goal_cell


def valid_levels(env: Any, buffer: Any, _: Any) -> dict[str, np.ndarray]:
    """Return whether each level of a buffer has start and goal on ice, a path between them, and the named map; (n,)."""
    size, levels = env.size, np.arange(len(buffer.is_hole))
    starts, goals = buffer.start_cell, buffer.goal_cell
    is_start, is_goal = (((cells >= 0) & (cells < size)).all(axis=1) for cells in (starts, goals))
    inner_starts, inner_goals = (np.clip(cells, 0, size - 1) for cells in (starts, goals))
    is_start &= ~buffer.is_hole[levels, *inner_starts.T]
    is_goal &= ~buffer.is_hole[levels, *inner_goals.T] & (starts != goals).any(axis=1)
    if env.map_name is not None:
        is_start &= (starts == 0).all(axis=1)
        is_goal &= (goals == size - 1).all(axis=1)
        is_map = (buffer.is_hole == FIXED[env.map_name]).all(axis=(1, 2))
    else:
        with jax.ensure_compile_time_eval():  # the environment may be made inside a trace
            is_map = np.asarray(jax.jit(jax.vmap(is_solvable))(buffer.is_hole, inner_starts, inner_goals))
    return {"start_cell": is_start, "goal_cell": is_goal, "is_hole": is_map | ~is_start | ~is_goal}
