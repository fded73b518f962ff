"""JAX's default generator without a loop: the same numbers from the same keys, but faster on a CPU.

On a CPU, JAX compiles the rounds of Threefry to a loop. The loop compiles faster, but takes tens of microseconds, more
than the rest of a small batch of resets.

    key = jax.random.key(0, impl=threefry.FLAT)  # or jax.random.wrap_key_data(data, impl=threefry.FLAT)

Source: Threefry-2x32 with 20 rounds, from "Parallel random numbers: as easy as 1, 2, 3" (Salmon, Moraes, Dror and Shaw,
SC 2011); counters are those of JAX with `jax_threefry_partitionable`, which is its default.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import random as extended

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5
_PARITY = 0x1BD11BDA
_WORD_BITS = 32


def _words(key: jax.Array, counters: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the two words, uint32 (...), of a key, uint32 (2,), and counters, uint32 (...)."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    one, other = jnp.full_like(counters, keys[0]), counters + keys[1]
    for group in range(_GROUPS):
        for turn in _ROTATIONS[group % len(_ROTATIONS)]:
            one += other
            other = ((other << turn) | (other >> (_WORD_BITS - turn))) ^ one
        one += keys[(group + 1) % len(keys)]
        # Two additions, because XLA compiles them to fewer and faster kernels than the addition of a sum.
        other = other + keys[(group + 2) % len(keys)] + jnp.uint32(group + 1)
    return one, other


def _seed(seed: jax.Array) -> jax.Array:
    return jnp.stack([jnp.uint32(0), seed.astype(jnp.uint32)])


def _fold_in(key: jax.Array, data: Any) -> jax.Array:
    return jnp.stack(_words(key, jnp.asarray(data, jnp.uint32)))


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    counters = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    return jnp.stack(_words(key, counters), axis=-1).reshape(*shape, 2)


def _random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    one, other = _words(key, jnp.arange(math.prod(shape), dtype=jnp.uint32))
    if bit_width > _WORD_BITS:
        return ((one.astype(jnp.uint64) << _WORD_BITS) | other.astype(jnp.uint64)).reshape(shape)
    return (one ^ other).astype(jnp.dtype(f"uint{bit_width}")).reshape(shape)


FLAT = extended.define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="jaxgym_threefry2x32",
    tag="jtf",
)
"""PRNG implementation for the argument `impl` of functions that make keys; seeds have 32 bits."""
