"""The kernel of `baselines.memories.one_query`, for NVIDIA GPUs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

COLUMNS = 128
"""Columns that are multiplied together: rows have a multiple of them."""
QUERIES = 16
"""Queries that are multiplied together: each lane has at most so many."""
_ROWS = 32  # of the buffer, multiplied together
_LOWEST = -1e30  # finite, so that differences are


def read_in_one_pass(
    queries: jax.Array, rows: jax.Array, newest: jax.Array, count: jax.Array, *, interpret: bool = False
) -> jax.Array:
    """What `one_query.read_newest` does.

    Args:
        queries: of H heads, at most `QUERIES`, (B, H, D), D a multiple of `COLUMNS`.
        rows: ring buffers of S slots, (B, S, D).
        newest: slot of the newest row, int32 (B,).
        count: how many rows count, int32 (B,).
        interpret: run as JAX operations on any device, for tests.
    """
    (lanes, heads, size), slots = queries.shape, rows.shape[1]

    def spec(*shape: int) -> pl.BlockSpec:
        """One lane of an array, and rows beyond its end, which are never read or written."""
        return pl.BlockSpec((None, *shape), lambda lane: (lane, *(0 for _ in shape)))

    call = pl.pallas_call(
        functools.partial(_kernel, heads=heads, slots=slots),
        out_shape=jax.ShapeDtypeStruct((lanes, heads, size), rows.dtype),
        grid=(lanes,),
        in_specs=[spec(QUERIES, size), spec(pl.cdiv(slots, _ROWS) * _ROWS, size), spec(), spec()],
        out_specs=spec(QUERIES, size),
        compiler_params=triton.CompilerParams(num_warps=2, num_stages=2),
        interpret=interpret,
    )
    return call(queries.astype(rows.dtype), rows, newest, count)


def _kernel(queries: Any, rows: Any, newest: Any, count: Any, reads: Any, *, heads: int, slots: int) -> None:
    """One lane: the share of one block of rows after the other, from that of the oldest row on."""
    blocks = pl.cdiv(slots, _ROWS)
    parts = [pl.ds(start, COLUMNS) for start in range(0, queries.shape[1], COLUMNS)]
    asks = (jnp.arange(QUERIES, dtype=jnp.int32) < heads)[:, None]
    asked = [triton.load(queries.at[:, part], mask=asks, other=0.0) for part in parts]
    last, seen = newest[...], count[...]
    oldest = last - seen + 1
    first = lax.div(jnp.where(oldest < 0, oldest + slots, oldest), _ROWS)
    visits = lax.div(last, _ROWS) - first + 1
    visits = jnp.where(oldest < 0, visits + blocks, visits)

    def add_block(visit: jax.Array, so_far: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        highest, total, *sums = so_far
        block = jnp.where(first + visit < blocks, first + visit, first + visit - blocks)
        slot = block * _ROWS + jnp.arange(_ROWS, dtype=jnp.int32)
        age = jnp.where(slot > last, last - slot + slots, last - slot)
        inside = (slot < slots) & (age < seen)
        here = pl.ds(block * _ROWS, _ROWS)
        held = [triton.load(rows.at[here, part], mask=inside[:, None], other=0.0) for part in parts]
        products = [triton.dot(query, row, trans_b=True) for query, row in zip(asked, held, strict=True)]
        scores = jnp.where(inside[None], functools.reduce(jnp.add, products), _LOWEST)
        peak = jnp.maximum(highest, scores.max(axis=1))
        kept, shares = jnp.exp(highest - peak), jnp.exp(scores - peak[:, None])
        total = total * kept + shares.sum(axis=1)
        shares = shares.astype(held[0].dtype)
        sums = [before * kept[:, None] + triton.dot(shares, row) for before, row in zip(sums, held, strict=True)]
        return peak, total, *sums

    empty = [jnp.zeros((QUERIES, COLUMNS), jnp.float32) for _ in parts]
    start = jnp.full(QUERIES, _LOWEST, jnp.float32), jnp.zeros(QUERIES, jnp.float32), *empty
    # The oldest rows of a ring that is nearly full are in the block of the newest, which is visited once.
    _, total, *sums = lax.fori_loop(0, jnp.minimum(visits, blocks), add_block, start)
    for part, found in zip(parts, sums, strict=True):
        triton.store(reads.at[:, part], (found / total[:, None]).astype(reads.dtype), mask=asks)
