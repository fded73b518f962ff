"""Spaces beside those of gymnax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces as gymnax_spaces

Box = gymnax_spaces.Box
Dict = gymnax_spaces.Dict
Discrete = gymnax_spaces.Discrete


class MultiDiscrete(gymnax_spaces.Box):
    """Several independent choices: entry i is an integer in 0 … nvec[i] - 1.

    It is a `Box` of integers, so whatever handles gymnax's boxes handles it, with bounds that say the same.

    Attributes:
        nvec: The number of values of each entry, a tuple of int.
        shape: `(len(nvec),)`.
        dtype: int32.
    """

    def __init__(self, nvec: tuple[int, ...]):
        """Makes the space.

        Args:
            nvec: The number of values of each entry, each at least 1.

        Raises:
            ValueError: If `nvec` is empty or has an entry below 1.
        """
        if not nvec or min(nvec) < 1:
            raise ValueError(
                f"MultiDiscrete was given nvec={nvec!r}; give at least one entry, each an integer from 1 up."
            )
        self.nvec = tuple(int(n) for n in nvec)
        # Host arrays, so that a space can be made inside a trace; gymnax's annotation knows device arrays only.
        highest: Any = np.asarray(self.nvec, dtype=np.int32) - 1
        lowest: Any = np.zeros_like(highest)
        super().__init__(low=lowest, high=highest, shape=(len(self.nvec),), dtype=jnp.int32)

    def __repr__(self) -> str:
        """Shows the number of values of each entry."""
        return f"MultiDiscrete({list(self.nvec)})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Returns an int32 array of shape `(len(nvec),)`, uniform over all actions; consumes `key`."""
        return jax.random.randint(key, self.shape, 0, np.asarray(self.nvec, dtype=np.int32), dtype=jnp.int32)


def unbounded(leaf: jax.ShapeDtypeStruct) -> Box:
    """Return a box that holds every value of the array's dtype."""
    if leaf.dtype == jnp.bool_:
        return Box(low=0, high=1, shape=leaf.shape, dtype=leaf.dtype)
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        whole = jnp.iinfo(leaf.dtype)
        return Box(low=int(whole.min), high=int(whole.max), shape=leaf.shape, dtype=leaf.dtype)
    real = jnp.finfo(leaf.dtype)
    return Box(low=float(real.min), high=float(real.max), shape=leaf.shape, dtype=leaf.dtype)
