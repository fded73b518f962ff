"""Hidden facts of a game: what a state determines and its observation hides, as small integers.

A game declares its facts once, in `Environment.hidden`. Environments of `make(..., observability="full")` add them to
the observation, and `baselines.inspect` trains probes to predict them.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.errors import ContractError, shown
from jaxgym.pytrees import frame_of
from jaxgym.spaces import Box, Dict

CELL_PX = 4
"""Width and height of a cell of the panel, which the strides of common convolutions divide."""

ENTRY = "hidden"
"""Name of the facts in an observation that is a dict."""

_PANEL_PX = 2 * CELL_PX  # the published convolutions drop rows of frames whose height is no multiple of this
_COLORS = np.asarray([[255, 255, 255], [255, 220, 70], [90, 210, 255], [130, 255, 130], [255, 150, 220]], np.uint8)
_DIMMED = 6


@struct.dataclass
class Fact:
    """A hidden fact.

    Attributes:
        values: Integers from 0 to `size` - 1, or -1 for no value, int32 of any shape.
        size: Number of different values. A fact of one value is a flag or a set: 0 for present, -1 for absent.
        names: A name for each value, or for each member of a set, for texts; numbers if empty.
        first: Number of value 0, or of the first member of a set, in texts. Use 1 for what readers count from 1.
    """

    values: jax.Array | np.ndarray
    size: int = struct.field(pytree_node=False)
    names: tuple[str, ...] = struct.field(pytree_node=False, default=())
    first: int = struct.field(pytree_node=False, default=0)


Facts = Mapping[str, Fact]
"""The hidden facts of a state by name; their order is that of the names."""


@struct.dataclass
class FullScene:
    """Scene with hidden facts; it also has the attributes of the scene.

    Attributes:
        inner: The scene.
        facts: The facts.
    """

    inner: Any
    facts: Any

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the scene."""
        if name.startswith("__") or name in ("inner", "facts"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def flags(is_present: Any, names: tuple[str, ...] = ()) -> Fact:
    """Return the fact of a flag, or of a set with one flag for each member, from bools of any shape."""
    return Fact(jnp.where(is_present, 0, -1).astype(jnp.int32), 1, names, first=1)


def tile(position: Any, columns: int, rows: int, name: str = "tile") -> dict[str, Fact]:
    """Return the facts of a tile, int32 (..., 2): column and row, each -1 outside of the grid, 1 to n in texts."""
    column, row = (jnp.asarray(position, jnp.int32)[..., axis] for axis in range(2))
    is_inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    return {
        f"{name}_column": Fact(jnp.where(is_inside, column, -1), columns, first=1),
        f"{name}_row": Fact(jnp.where(is_inside, row, -1), rows, first=1),
    }


def hidden(env: Any, state: Any, params: Any) -> Facts:
    """Return the hidden facts of a state.

    Raises:
        ContractError: If `env.hidden` does not return a dict of facts, a fact has values that are not integers, or
            another number of names than values.
    """
    facts, source = env.hidden(state, params), f"{env.env_id}: hidden"
    if not isinstance(facts, Mapping):
        raise ContractError(f"{source}: expected a dict of jaxgym.facts.Fact, got {shown(facts)}.")
    for name, fact in facts.items():
        if not isinstance(name, str) or not isinstance(fact, Fact):
            raise ContractError(f"{source}: expected names and jaxgym.facts.Fact, got {shown({name: fact})}.")
        if not jnp.issubdtype(getattr(fact.values, "dtype", np.object_), jnp.integer):
            raise ContractError(
                f"{source}: {name}: expected an array of integers, got {shown(fact.values)}. "
                "For bools, use jaxgym.facts.flags."
            )
        if fact.size < 1:
            raise ContractError(f"{source}: {name}: expected a size of at least 1, got {shown(fact.size)}.")
        count = fact.size if fact.size > 1 else math.prod(fact.values.shape)
        if len(fact.names) not in (0, count):
            raise ContractError(f"{source}: {name}: expected {count} names or none, got {shown(fact.names)}.")
    return facts


def vector(facts: Facts) -> jax.Array:
    """Return the facts one-hot, in the order of their names, float32 (n,); zeros for no value."""
    parts = [jax.nn.one_hot(fact.values, fact.size, dtype=jnp.float32).reshape(-1) for _, fact in sorted(facts.items())]
    return jnp.concatenate(parts)


def length(facts: Facts) -> int:
    """Return the length of `vector`; the values may have the type `jax.ShapeDtypeStruct`."""
    return sum(int(np.prod(fact.values.shape)) * fact.size for fact in facts.values())


def panel(facts: Facts, width: int) -> jax.Array:
    """Return `vector` as an image, uint8 (h, width, 3), with h a multiple of 8.

    A cell of 4 × 4 px is bright for 1 and dark for 0, row by row from the left. Each fact has a color; the colors
    repeat after five facts.
    """
    columns, count = max(width // CELL_PX, 1), length(facts)
    rows = panel_px(count, width) // CELL_PX
    sizes = [length({name: fact}) for name, fact in sorted(facts.items())]
    bright = _COLORS[np.repeat(np.arange(len(sizes)), sizes) % len(_COLORS)]
    cells = jnp.where(vector(facts)[:, None] > 0, bright, bright // _DIMMED)
    cells = jnp.pad(cells, [(0, rows * columns - count), (0, 0)]).reshape(rows, columns, 3)
    image = jnp.repeat(jnp.repeat(cells, CELL_PX, axis=0), CELL_PX, axis=1)[:, :width]
    return jnp.pad(image, [(0, 0), (0, width - image.shape[1]), (0, 0)])


def panel_px(count: int, width: int) -> int:
    """Return the height of the panel of `count` numbers in px."""
    rows = -(-count // max(width // CELL_PX, 1))
    return -(-rows * CELL_PX // _PANEL_PX) * _PANEL_PX


def added(env: Any, observation: Any, facts: Facts) -> Any:
    """Return an observation of an environment with the facts.

    A frame gets the panel below it. A float vector gets `vector` at its end. Any other observation becomes a dict, or
    stays one, with `vector` as the entry `hidden`.
    """
    frame = frame_of(env, observation)
    if frame is not None:
        below = jnp.concatenate([frame, panel(facts, frame.shape[1])])
        return jax.tree.map(lambda leaf: below if leaf is frame else leaf, observation)
    numbers = vector(facts)
    if not isinstance(observation, dict) and _is_vector(observation):
        return jnp.concatenate([observation, numbers.astype(observation.dtype)])
    leaves = observation if isinstance(observation, dict) else {"observation": observation}
    return {**leaves, ENTRY: numbers}


def enlarged(space: Box | Dict, observation: Any) -> Box | Dict:
    """Return the space of an observation with facts, given the space without them and the observation's shapes."""
    if isinstance(observation, dict):
        leaves: dict[str, Any] = dict(space.spaces) if isinstance(space, Dict) else {"observation": space}
        return Dict({name: _box(leaves.get(name), leaf) for name, leaf in observation.items()})
    return _box(space, observation)


def _box(space: Any, leaf: Any) -> Any:
    if space is not None and isinstance(space, Box) and np.ndim(space.low) == 0:
        is_frame = leaf.dtype == jnp.uint8
        low, high = (space.low, space.high) if is_frame else (min(space.low, 0.0), max(space.high, 1.0))
        return Box(low, high, leaf.shape, leaf.dtype)
    return Box(0.0, 1.0, leaf.shape, leaf.dtype) if space is None else space


def _is_vector(leaf: Any) -> bool:
    return len(leaf.shape) == 1 and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def text(facts: Facts) -> str:
    """Return the facts of one state as text, from host arrays."""
    told = (f"{name.replace('_', ' ')}: {_told(fact)}" for name, fact in sorted(facts.items()))
    return f"Hidden facts: {'; '.join(told)}."


def _told(fact: Fact) -> str:
    values = np.asarray(fact.values).reshape(-1).tolist()
    if fact.size == 1 and len(values) == 1:
        return "no" if values[0] < 0 else "yes"
    if fact.size == 1:
        values = [place for place, value in enumerate(values) if value >= 0]
    listed = [value for value in values if value >= 0]
    return " ".join(fact.names[value] if fact.names else str(value + fact.first) for value in listed) or "none"
