"""What holds for every test: JAX at its strictest, few threads, one fresh key each time one is asked for."""

import os
import zlib

# Before JAX starts: CPU unless the caller says otherwise, and as many threads as a worker's share of the cores.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("NPROC", str(share))

from collections.abc import Callable, Iterator

import jax
import pytest

jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def get_key(request: pytest.FixtureRequest) -> Callable[[], jax.Array]:
    """Return a function whose every call gives another key, the same sequence in every run of the test."""
    keys = _keys(request.node.name)
    return lambda: next(keys)


@pytest.fixture(autouse=True)
def _standard_promotion(request: pytest.FixtureRequest) -> Iterator[None]:
    """Relax the promotion rules for a test marked `standard_promotion`."""
    if request.node.get_closest_marker("standard_promotion") is None:
        yield
    else:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            yield


def _keys(name: str) -> Iterator[jax.Array]:
    key = jax.random.key(zlib.crc32(name.encode()))
    while True:
        key, key_given = jax.random.split(key)
        yield key_given
