"""Settings of every test: JAX's strictest checks, few threads, and a function for fresh keys."""

import gc
import os
import tempfile
import zlib
from importlib import metadata

# Before JAX starts: CPU unless the caller says otherwise, and as many threads as a worker's share of the cores.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("NPROC", str(share))
# Compilation takes most of the time. Without XLA's fusion emitters it takes about half as long, and programs run about
# as fast. Versions from 0.11 on do not have this flag, and abort.
if metadata.version("jaxlib").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
# Many tests compile the same programs, and so do the processes that they start: all workers share one cache.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    PROGRAMS = tempfile.TemporaryDirectory(prefix="programs-", ignore_cleanup_errors=True)
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": PROGRAMS.name, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05"}

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

# Tracing makes millions of objects that live: the default looks through them too often.
gc.set_threshold(100_000, 20, 20)
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


# Sampling levels of Mystery Path and playing many episodes take longer than compiling, so these programs are optimized:
# those of tests with a path in their name, and of these files.
OPTIMIZED = (
    "envs/babyai/",
    "envs/memory/test_searing",
    "envs/test_",
    "parity/",
    "test_play.py",
    "text/test_memory_text.py",
    "text/test_players.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose how programs are compiled, also in processes that the test starts."""
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    is_long = place.startswith(OPTIMIZED) or "path" in item.nodeid.lower()
    is_fast = not is_long and item.get_closest_marker("slow") is None
    jax.config.update("jax_disable_most_optimizations", is_fast)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(is_fast))


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
