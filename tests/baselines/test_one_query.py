"""What one query of each lane reads from a ring buffer is what softmax over the rows that count gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from baselines.memories.one_pass import read_in_one_pass
from baselines.memories.one_query import read_by_products, read_newest

SLOTS, HEADS, SIZE = 72, 4, 256  # slots that the kernel's blocks of rows do not divide
# Newest slot, and how many rows count: one, some, those on both sides of the ring's end, nearly all and all, and some
# of which the oldest is alone in its block.
NEWEST = jnp.asarray([0, 10, 3, 40, 71, 9, 31, 63, 40], jnp.int32)
COUNT = jnp.asarray([1, 5, 33, 71, 72, 12, 32, 72, 10], jnp.int32)
# From jax 0.11 on, a program that holds the kernel warns when it is lowered; the kernel runs all the same.
pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
# A Triton kernel is lowered for a device that is present or named.
GPU = AbstractMesh((), (), abstract_device=AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu"))
TOLERANCE = 0.02  # of shares and sums in bfloat16, of numbers about 1


@pytest.fixture(scope="module")
def drawn() -> tuple[jax.Array, jax.Array]:
    draws = np.random.default_rng(0)
    queries = 0.2 * draws.standard_normal((len(NEWEST), HEADS, SIZE))
    rows = draws.standard_normal((len(NEWEST), SLOTS, SIZE))
    return jnp.asarray(queries, jnp.bfloat16), jnp.asarray(rows, jnp.bfloat16)


@pytest.fixture(scope="module")
def expected(drawn: tuple[jax.Array, jax.Array]) -> np.ndarray:
    reads = []
    for lane, (query, row) in enumerate(zip(*(np.asarray(part, np.float64) for part in drawn), strict=True)):
        counts = row[(int(NEWEST[lane]) - np.arange(int(COUNT[lane]))) % SLOTS]
        weight = np.exp(query @ counts.T)
        reads.append(weight / weight.sum(axis=-1, keepdims=True) @ counts)
    return np.asarray(reads)


@pytest.mark.parametrize("read", [read_by_products, lambda *given: read_in_one_pass(*given, interpret=True)])
def test_reads_are_shares_of_the_newest_rows_alone(
    read: Callable[..., jax.Array], drawn: tuple[jax.Array, jax.Array], expected: np.ndarray
) -> None:
    found = jax.jit(read)(*drawn, NEWEST, COUNT)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, atol=TOLERANCE)


def test_what_is_read_has_slopes_on_every_platform(drawn: tuple[jax.Array, jax.Array]) -> None:
    def total(read: Callable[..., jax.Array]) -> Any:
        return jax.jit(jax.grad(lambda *given: (read(*given, NEWEST, COUNT) ** 2).sum(), argnums=(0, 1)))

    # The kernel has none, so that a program with slopes must not hold it.
    with use_abstract_mesh(GPU):
        with_slopes = total(read_newest).trace(*drawn).lower(lowering_platforms=("cuda",)).as_text()
        without = jax.jit(read_newest).trace(*drawn, NEWEST, COUNT).lower(lowering_platforms=("cuda",)).as_text()
    assert "triton" not in with_slopes
    assert "triton" in without
    for found, plain in zip(total(read_newest)(*drawn), total(read_by_products)(*drawn), strict=True):
        np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(plain, np.float32))


@pytest.mark.gpu
def test_a_gpu_reads_the_same(drawn: tuple[jax.Array, jax.Array], expected: np.ndarray) -> None:
    found = jax.jit(read_in_one_pass)(*drawn, NEWEST, COUNT)
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, atol=TOLERANCE)
    pairs = (jnp.stack([part, part]) for part in (*drawn, NEWEST, COUNT))
    both = jax.jit(jax.vmap(read_in_one_pass))(*pairs)
    np.testing.assert_allclose(np.asarray(both, np.float64), np.stack([expected, expected]), atol=TOLERANCE)
