"""Attention of one query per environment over a ring buffer equals softmax over the valid rows."""

import jax
import jax.numpy as jnp
import numpy as np

from baselines.memories.transformer import read_newest

SLOTS, HEADS, SIZE = 72, 4, 256
# Newest slot, and how many rows count: one, some, those on both sides of the ring's end, nearly all and all.
NEWEST = jnp.asarray([0, 10, 3, 40, 71, 9, 31, 63, 40], jnp.int32)
COUNT = jnp.asarray([1, 5, 33, 71, 72, 12, 32, 72, 10], jnp.int32)
TOLERANCE = 0.02  # of shares and sums in bfloat16, of numbers about 1


def test_reads_are_shares_of_the_newest_rows_alone() -> None:
    draws = np.random.default_rng(0)
    queries = jnp.asarray(0.2 * draws.standard_normal((len(NEWEST), HEADS, SIZE)), jnp.bfloat16)
    rows = jnp.asarray(draws.standard_normal((len(NEWEST), SLOTS, SIZE)), jnp.bfloat16)
    found = jax.jit(read_newest)(queries, rows, NEWEST, COUNT)
    assert found.dtype == jnp.bfloat16
    for index, (query, row) in enumerate(zip(*(np.asarray(part, np.float64) for part in (queries, rows)), strict=True)):
        counts = row[(int(NEWEST[index]) - np.arange(int(COUNT[index]))) % SLOTS]
        weight = np.exp(query @ counts.T)
        expected = weight / weight.sum(axis=-1, keepdims=True) @ counts
        np.testing.assert_allclose(np.asarray(found[index], np.float64), expected, atol=TOLERANCE)
