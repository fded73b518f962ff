"""Spaces of gymnax, `MultiDiscrete`, and the frames of observations."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces as gymnax_spaces

Box = gymnax_spaces.Box
Discrete = gymnax_spaces.Discrete


class Dict(gymnax_spaces.Dict):
    """Space of observations with several entries; gymnax's `Dict`, whose `contains` does not accept a dict."""

    def contains(self, x: Any) -> jax.Array:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return whether every entry of a dict, or attribute of a dataclass, is in its space, bool ()."""
        entries = x if isinstance(x, Mapping) else vars(x)
        return jnp.stack([space.contains(entries[name]) for name, space in self.spaces.items()]).all()


class MultiDiscrete(gymnax_spaces.Box):
    """Space of integer vectors whose entry i is in 0 … nvec[i] - 1.

    It is a subclass of gymnax's `Box` with the same bounds, so code for boxes accepts it.

    Attributes:
        nvec: Number of values of each entry, a tuple of int.
        shape: `(len(nvec),)`.
        dtype: int32.
    """

    def __init__(self, nvec: tuple[int, ...]):
        """Make the space.

        Args:
            nvec: Number of values of each entry, at least 1.

        Raises:
            ValueError: If `nvec` is empty or has an entry below 1.
        """
        if not nvec or min(nvec) < 1:
            raise ValueError(f"MultiDiscrete: nvec: expected integers of at least 1, got {nvec!r}.")
        self.nvec = tuple(int(n) for n in nvec)
        # Host arrays, so that a space can be made inside a trace; gymnax's annotation allows device arrays only.
        highest: Any = np.asarray(self.nvec, dtype=np.int32) - 1
        lowest: Any = np.zeros_like(highest)
        super().__init__(low=lowest, high=highest, shape=(len(self.nvec),), dtype=jnp.int32)

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"MultiDiscrete({list(self.nvec)})"

    def sample(self, key: jax.Array) -> jax.Array:
        """Sample uniformly, int32 (len(nvec),); consumes `key`."""
        return jax.random.randint(key, self.shape, 0, np.asarray(self.nvec, dtype=np.int32), dtype=jnp.int32)


def frames_or_symbols(env: Any, params: Any, low: float = 0.0, high: float = 1.0) -> Box:
    """Return the space of an environment's frames, uint8 (84, 84, 3), or symbols in a range, float32 (n,).

    The option `observation` of the environment decides.
    """
    if env.observation != "symbolic":
        return Box(low=0, high=255, shape=(84, 84, 3), dtype=jnp.uint8)
    params = env.default_params if params is None else params
    symbols, _ = jax.eval_shape(partial(env.reset_env, params=params), jax.random.key(0))
    return Box(low=low, high=high, shape=symbols.shape, dtype=jnp.float32)


def unbounded(leaf: jax.ShapeDtypeStruct) -> Box:
    """Return a box that holds every value of the array's dtype."""
    if leaf.dtype == jnp.bool_:
        return Box(low=0, high=1, shape=leaf.shape, dtype=leaf.dtype)
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        whole = jnp.iinfo(leaf.dtype)
        return Box(low=int(whole.min), high=int(whole.max), shape=leaf.shape, dtype=leaf.dtype)
    real = jnp.finfo(leaf.dtype)
    return Box(low=float(real.min), high=float(real.max), shape=leaf.shape, dtype=leaf.dtype)
