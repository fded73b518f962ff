"""The generator without a loop returns the same numbers as JAX's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym import levels
from jaxgym.threefry import FLAT

DRAWS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "bits": lambda key: jax.random.bits(key, (7, 3), jnp.uint32),
    "bits of no shape": lambda key: jax.random.bits(key, (), jnp.uint32),
    "bytes": lambda key: jax.random.bits(key, (5,), jnp.uint8),
    "short words": lambda key: jax.random.bits(key, (5,), jnp.uint16),
    "integers": lambda key: jax.random.randint(key, (9,), -3, 11),
    "fractions": lambda key: jax.random.uniform(key, (2, 2)),
    "an order": lambda key: jax.random.permutation(key, 19),
    "a folded key": lambda key: jax.random.key_data(jax.random.fold_in(key, 0xFFFFFFFF)),
    "split keys": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "draws of split keys": lambda key: jax.vmap(lambda key: jax.random.bits(key, (3,), jnp.uint32))(
        jax.random.split(key, 4)
    ),
}


@partial(jax.jit, static_argnums=1)
def _drawn(data: jax.Array, impl: Any) -> dict[str, jax.Array]:
    key = jax.random.wrap_key_data(data, impl=impl)
    return {name: draw(key) for name, draw in DRAWS.items()}


@pytest.mark.parametrize("data", [(0, 0), (1, 0xFFFFFFFE), (0x9E3779B9, 7)])
@jax.debug_key_reuse(False)
def test_the_same_key_draws_the_same(data: tuple[int, int]):
    ours, jaxs = (_drawn(np.asarray(data, np.uint32), impl) for impl in (FLAT, "threefry2x32"))
    for name, drawn in jaxs.items():
        np.testing.assert_array_equal(ours[name], drawn, err_msg=name)


def test_the_same_seed_makes_the_same_key():
    for seed in (0, 7, 2**31 - 1):
        ours, jaxs = (jax.random.key_data(jax.random.key(seed, impl=impl)) for impl in (FLAT, "threefry2x32"))
        np.testing.assert_array_equal(ours, jaxs)


def test_the_key_of_a_level_has_the_same_numbers():
    for seed in (0, 2**32 - 1):
        ours, jaxs = (jax.random.key_data(key) for key in (levels.level_key(seed, FLAT), levels.level_key(seed)))
        np.testing.assert_array_equal(ours, jaxs)


def test_sixty_four_bits_are_those_of_jax():
    with jax.enable_x64(True):
        ours, jaxs = (
            jax.random.bits(jax.random.key(5, impl=impl), (3,), jnp.uint64) for impl in (FLAT, "threefry2x32")
        )
        np.testing.assert_array_equal(ours, jaxs)
