"""Numbers with about 46 significant bits, each the sum of two float32.

Rounding errors decide where a number is truncated to a whole pixel or compared with a distance. The original computes
in float64, which JAX does not use by default.

The products below are split so that each partial product is exact. The result then does not depend on whether a
compiler fuses them with the following additions.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

_UPPER_HALF = np.uint32(0xFFFFF000)
"""Mask of 12 of a float32's 24 significant bits."""


@struct.dataclass
class DoubleFloat:
    """A number `high` + `low`, where `high` is the nearest float32.

    Attributes:
        high: float32, any shape.
        low: float32, the same shape.
    """

    high: jax.Array
    low: jax.Array

    @classmethod
    def of(cls, value: float | np.ndarray) -> "DoubleFloat":
        """Split float64 numbers, on the host."""
        high = np.asarray(value, dtype=np.float32)
        return cls(high=high, low=np.asarray(value - high.astype(np.float64), dtype=np.float32))  # pyright: ignore[reportArgumentType] — host arrays enter traces like device arrays.

    def __getitem__(self, index: object) -> "DoubleFloat":
        return jax.tree.map(lambda part: jnp.asarray(part)[index], self)


def whole(number: jax.Array) -> DoubleFloat:
    """Return integers below 2^24 as pairs."""
    high = number.astype(jnp.float32)
    return DoubleFloat(high, jnp.zeros_like(high))


def add(a: DoubleFloat, b: DoubleFloat) -> DoubleFloat:
    """Return a + b."""
    total, rest = _two_sum(a.high, b.high)
    return _normal(total, rest + (a.low + b.low))


def subtract(a: DoubleFloat, b: DoubleFloat) -> DoubleFloat:
    """Return a - b."""
    return add(a, DoubleFloat(-b.high, -b.low))


def multiply(a: DoubleFloat, b: DoubleFloat) -> DoubleFloat:
    """Return a · b."""
    a_upper, b_upper = _upper(a.high), _upper(b.high)
    a_lower, b_lower = a.high - a_upper, b.high - b_upper
    total, rest = _two_sum(a_upper * b_upper, a_upper * b_lower + a_lower * b_upper)
    return _normal(total, rest + (a_lower * b_lower + (a.high * b.low + a.low * b.high)))


def truncate(a: DoubleFloat) -> jax.Array:
    """Truncate towards zero, int32."""
    cut = jnp.trunc(a.high)
    is_whole = cut == a.high
    below = is_whole & (cut > 0) & (a.low < 0)
    above = is_whole & (cut < 0) & (a.low > 0)
    return cut.astype(jnp.int32) - below.astype(jnp.int32) + above.astype(jnp.int32)


def is_at_most_zero(a: DoubleFloat) -> jax.Array:
    """Return whether the number is 0 or less."""
    return (a.high < 0) | ((a.high == 0) & (a.low <= 0))


def _upper(a: jax.Array) -> jax.Array:
    bits = lax.bitcast_convert_type(a, jnp.uint32) & _UPPER_HALF
    return lax.bitcast_convert_type(bits, jnp.float32)


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return a + b rounded, and the rounding error."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def _normal(total: jax.Array, rest: jax.Array) -> DoubleFloat:
    high = total + rest
    return DoubleFloat(high, rest - (high - total))
