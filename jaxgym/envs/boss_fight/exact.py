"""Arithmetic that rounds exactly where the original rounds.

The original computes some values with 64 bits and rounds the result once to 32 bits. So does this module, also without
`jax_enable_x64`. A compiler may fuse a product with the addition that follows, and then skip a rounding; see `kept`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_MAGNITUDE, _SIGN = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
_INFINITY = np.int32(0x7F800000)
_SMALLEST_NORMAL = np.int32(0x00800000)
"""Bits of the float32 number 2^-126."""
_TINIEST = 2.0**-149


def times(a: jax.Array, factor: Any) -> jax.Array:
    """Return a · `factor`, rounded once to float32; `a` is float32, and a Python float has 64 bits."""
    with jax.enable_x64(True):
        product = _single(lax.mul(_double(a), jnp.broadcast_to(_double(factor), a.shape)))
    return kept(product)


def slowed(velocity: jax.Array, push: jax.Array, inertia: np.float32, drag: float) -> jax.Array:
    """Return `drag` · (`inertia` · `velocity` + `push`), float32; `inertia` is a power of 2.

    Velocities below 2^-126 have the float32 values of the original, too, which XLA would round to 0 on a CPU.
    """
    total = inertia * velocity + push
    with jax.enable_x64(True):
        rest = lax.mul(_double_or_tiny(velocity), jnp.broadcast_to(_double(inertia), velocity.shape))
        rest = _double_or_tiny(_single_or_tiny(rest))
        wide = lax.select(push == 0, rest, _double(total))
        return _single_or_tiny(lax.mul(wide, jnp.broadcast_to(_double(drag), wide.shape)))


def reflection_angle(share: jax.Array, pi: np.float32) -> jax.Array:
    """Return π · (1.25 + `share` / 2), computed with 64 bits and rounded to float32."""
    with jax.enable_x64(True):
        halves = lax.mul(_double(share), jnp.broadcast_to(_double(0.5), share.shape))
        turns = lax.add(halves, jnp.broadcast_to(_double(1.25), share.shape))
        return _single(lax.mul(turns, jnp.broadcast_to(_double(pi), share.shape)))


def velocity(angle: jax.Array, speed: float) -> tuple[jax.Array, jax.Array]:
    """Return `speed` · cos and `speed` · sin of a float32 angle, each rounded once to float32."""
    angle = kept(angle)
    with jax.enable_x64(True):
        wide = _double(angle)
        factor = jnp.broadcast_to(_double(speed), angle.shape)
        return _single(lax.mul(lax.cos(wide), factor)), _single(lax.mul(lax.sin(wide), factor))


def kept(value: jax.Array) -> jax.Array:
    """Return float32 numbers, none of which is NaN, with an operation on their bits that does not change them.

    A compiler does not move arithmetic across it. Otherwise, it may turn (a + 3) + 6 into a + 9, replace a product of
    64 bits by one of 32 bits and fuse it, or remove a conversion from 64 to 32 bits and back.
    """
    bits = lax.bitcast_convert_type(value, jnp.int32)
    return lax.bitcast_convert_type(lax.min(bits, jnp.full_like(bits, _INFINITY)), jnp.float32)


def share(word: jax.Array) -> jax.Array:
    """Return a 32-bit word divided by 2^32, float32; it can round up to 1."""
    return word.astype(jnp.float32) * jnp.float32(2.0**-32)


def _double(value: Any) -> jax.Array:
    return lax.convert_element_type(value, np.float64)


def _single(value: jax.Array) -> jax.Array:
    return lax.convert_element_type(value, np.float32)


def _double_or_tiny(value: jax.Array) -> jax.Array:
    """Return float32 numbers with 64 bits, also those below 2^-126."""
    bits = lax.bitcast_convert_type(value, jnp.int32)
    count = lax.bitwise_and(bits, jnp.full_like(bits, _MAGNITUDE))
    size = lax.mul(_double(count), jnp.broadcast_to(_double(_TINIEST), value.shape))
    tiny = lax.select(bits < np.int32(0), lax.neg(size), size)
    return lax.select(count < _SMALLEST_NORMAL, tiny, _double(value))


def _single_or_tiny(value: jax.Array) -> jax.Array:
    """Round 64-bit numbers to float32, also those below 2^-126."""
    count = lax.mul(lax.abs(value), jnp.broadcast_to(_double(1 / _TINIEST), value.shape))
    is_tiny = count < np.float64(_SMALLEST_NORMAL)
    whole = lax.round(lax.select(is_tiny, count, jnp.zeros_like(count)), lax.RoundingMethod.TO_NEAREST_EVEN)
    bits = lax.convert_element_type(whole, np.int32)
    sign = lax.select(value < np.float64(0), jnp.full_like(bits, _SIGN), jnp.zeros_like(bits))
    tiny = lax.bitcast_convert_type(lax.bitwise_or(bits, sign), jnp.float32)
    return lax.select(is_tiny, tiny, _single(value))
