"""Cells that can be reached from a cell of a grid, with one integer of bits for each column of cells."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def columns_of_bits(mask: jax.Array) -> jax.Array:
    """Return a mask of cells, bool (W, H) with H up to 32, as uint32 (W,): bit y of entry x is cell (x, y)."""
    return jnp.sum(mask.astype(jnp.uint32) << np.arange(mask.shape[1], dtype=np.uint32)[None], axis=1, dtype=jnp.uint32)


def flood(start: jax.Array, passable: jax.Array) -> jax.Array:
    """Return the cells that can be reached through passable cells.

    Args:
        start: The passable cells to start from, uint32 (W,); see `columns_of_bits`.
        passable: The passable cells, uint32 (W,).

    Returns:
        The cells that can be reached, those of the start included, uint32 (W,).
    """

    def spread(reached: jax.Array) -> jax.Array:
        """Spread to the neighboring columns, then along each column."""
        beside = jnp.pad(reached, 1)
        reached = (reached | beside[2:] | beside[:-2]) & passable
        # An addition carries through a run of ones; the doubled shifts spread in the other direction.
        up = ((passable + reached) ^ passable | reached) & passable
        down, free = reached, passable
        for shift in (1, 2, 4, 8, 16):
            down, free = down | free & down >> shift, free & free >> shift
        return up | down

    def advance(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        before = spread(carry[0])
        reached = spread(before)  # the second step saves a transfer of the condition to the host on a GPU
        return reached, jnp.any(reached != before)

    return lax.while_loop(lambda carry: carry[1], advance, (start, jnp.bool_(True)))[0]
