"""What one query of each lane reads from the newest rows of a ring buffer.

XLA multiplies by all rows twice, for the scores and for the reads, and keeps the scores in between; a lane whose
episode has just begun costs as much as one that has filled its buffer. On a GPU a kernel of our own reads each row
once, and only those that count.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_jvp
def read_newest(queries: jax.Array, rows: jax.Array, newest: jax.Array, count: jax.Array) -> jax.Array:
    """Sums of rows, weighed by softmax of their products with queries, (B, H, D) in the type of the rows.

    Args:
        queries: of H heads, (B, H, D).
        rows: ring buffers of S slots, (B, S, D).
        newest: slot of the newest row, int32 (B,).
        count: how many rows count, the newest and those before it, 1 to S, int32 (B,).
    """
    if rows.dtype != jnp.bfloat16:
        return read_by_products(queries, rows, newest, count)
    from baselines.memories import one_pass  # imports Pallas, a third of a second for those alone who may need it

    if queries.shape[1] > one_pass.QUERIES or queries.shape[2] % one_pass.COLUMNS:
        return read_by_products(queries, rows, newest, count)
    given = queries, rows, newest, count
    return lax.platform_dependent(*given, cuda=one_pass.read_in_one_pass, default=read_by_products)


@read_newest.defjvp
def _slopes(given: Any, moves: Any) -> tuple[jax.Array, jax.Array]:
    """The kernel is for acting: what learns is not given to it."""
    return jax.jvp(read_by_products, given, moves)


def ages(newest: jax.Array, slots: int) -> jax.Array:
    """How many steps before the newest slot, int32 (B,), each of the ring's slots was written, int32 (B, S)."""
    return (newest[:, None] - jnp.arange(slots, dtype=jnp.int32)[None]) % slots


def read_by_products(queries: jax.Array, rows: jax.Array, newest: jax.Array, count: jax.Array) -> jax.Array:
    """What `read_newest` does, of any width and type, on any device."""
    scores = jnp.einsum("bhd,bnd->bhn", queries, rows, preferred_element_type=jnp.float32)
    counts = ages(newest, rows.shape[1]) < count[:, None]
    shares = jax.nn.softmax(jnp.where(counts[:, None], scores, -jnp.inf)).astype(rows.dtype)
    return jnp.einsum("bhn,bnd->bhd", shares, rows, preferred_element_type=jnp.float32).astype(rows.dtype)
