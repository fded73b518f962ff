"""Trees of arrays as rows of bytes, so that one array is transferred between host and device for any game."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_ALIGNMENT = 4  # bytes, the largest item size of JAX without x64


@dataclasses.dataclass(frozen=True)
class _Leaf:
    """Layout of one array of a tree, from byte `start` to `stop`; `key` is the implementation of a PRNG key."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    stop: int
    key: Any


class Rows:
    """Layout of a tree of arrays in a row of bytes, like the fields of a C struct.

    Attributes:
        width: Number of bytes of a row.
        dtype: NumPy structured dtype of a row; its fields are the leaves, named by their index in the tree.
    """

    def __init__(self, tree: Any):
        """Compute the layout.

        Args:
            tree: Arrays or `jax.ShapeDtypeStruct`s, including typed PRNG keys.
        """
        leaves, self._shape = jax.tree.flatten(tree)
        stored = [_stored(leaf) for leaf in leaves]
        # Wide dtypes come first, so that every leaf starts at a multiple of its item size.
        order = sorted(range(len(leaves)), key=lambda place: -stored[place].dtype.itemsize)
        places: dict[int, _Leaf] = {}
        stop = 0
        for place in order:
            shape, dtype = stored[place].shape, np.dtype(stored[place].dtype)
            start, stop = stop, stop + math.prod(shape) * dtype.itemsize
            places[place] = _Leaf(shape, dtype, start, stop, _key_kind(leaves[place]))
        self._order = order
        self._leaves = [places[place] for place in range(len(leaves))]
        self.width = max(-(-stop // _ALIGNMENT) * _ALIGNMENT, _ALIGNMENT)
        self.dtype = np.dtype(
            {
                "names": [str(place) for place in range(len(leaves))],
                "formats": [(leaf.dtype, leaf.shape) for leaf in self._leaves],
                "offsets": [leaf.start for leaf in self._leaves],
                "itemsize": self.width,
            }
        )

    def pack(self, tree: Any) -> jax.Array:
        """Return B trees, stacked along a leading axis, as uint8 (B, width); runs inside jit."""
        leaves = jax.tree.leaves(tree)
        columns = [_to_bytes(leaves[place]) for place in self._order]
        size = len(leaves[0])
        filled = sum(column.shape[1] for column in columns)
        return jnp.concatenate([*columns, jnp.zeros((size, self.width - filled), jnp.uint8)], axis=1)

    def unpack(self, rows: jax.Array) -> Any:
        """Return the B trees of uint8 (B, width); runs inside jit."""
        return self._shape.unflatten([_from_bytes(rows[:, leaf.start : leaf.stop], leaf) for leaf in self._leaves])

    def view(self, rows: np.ndarray) -> Any:
        """Return the B trees of a host array uint8 (B, width), as views of it."""
        records = rows.view(self.dtype)[:, 0]
        return self._shape.unflatten([records[name] for name in self.dtype.names or ()])


def _key_kind(leaf: Any) -> Any:
    """Return the implementation of a PRNG key, or None for any other array."""
    kinds: list[Any] = []
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        jax.eval_shape(lambda key: kinds.append(jax.random.key_impl(key)), leaf)
    return kinds[0] if kinds else None


def _stored(leaf: Any) -> Any:
    """Return the shape and dtype in which a leaf is stored."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf


def _to_bytes(leaf: jax.Array) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.uint8)
    return lax.bitcast_convert_type(leaf, jnp.uint8).reshape(len(leaf), -1)


def _from_bytes(rows: jax.Array, leaf: _Leaf) -> jax.Array:
    shape = (len(rows), *leaf.shape)
    if leaf.dtype == np.bool_:
        return rows.reshape(shape) != 0
    items = rows.reshape(*shape, leaf.dtype.itemsize) if leaf.dtype.itemsize > 1 else rows.reshape(shape)
    numbers = lax.bitcast_convert_type(items, leaf.dtype)
    return numbers if leaf.key is None else jax.random.wrap_key_data(numbers, impl=leaf.key)
