"""Memory cells: flax modules that carry a state along time-major arrays and forget it where an episode starts.

A cell has `initial_state(batch) -> state`, arrays with leading axis `batch`, and
`__call__(state, inputs, starts) -> (state, outputs)` with inputs (T, B, D), starts (T, B) bool and outputs (T, B, H).
Where `starts[t, b]` holds, step t of lane b sees the initial state. The returned state is the one after the last step.
Acting is the call with T = 1, learning the call with T = the rollout; there is no second code path that could differ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from baselines.config import Config, from_name
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, NoMemory, ResidualStack
from baselines.memories.gru import GRU
from baselines.memories.linear import LRU, MinGRU


class _Kind(NamedTuple):
    make: Callable[[Config], Any]  # one layer
    layers: int  # where the config names no number; 0 for a kind that has no layers


KINDS = {
    "gru": _Kind(lambda config: GRU(config.memory_size, jnp.dtype(config.dtype), config.unroll), 1),
    "lru": _Kind(lambda config: LRU(config.memory_size, jnp.dtype(config.dtype)), 2),
    "mingru": _Kind(lambda config: MinGRU(config.memory_size, jnp.dtype(config.dtype)), 2),
    "none": _Kind(lambda _: NoMemory(), 0),
}
_BARE = ("gru",)  # as published: one layer of it stands between encoder and body with nothing around it


def make_memory(config: Config) -> MemoryCell:
    """The memory that the config names.

    Raises:
        ConfigError: when no memory has that name, or it has no layers to choose the number of.
    """
    kind = from_name("memory", config.memory, KINDS)
    if not kind.layers:
        if config.memory_layers:
            raise ConfigError(f"memory {config.memory!r} has no layers: leave out --memory-layers")
        return kind.make(config)
    layers = config.memory_layers or kind.layers
    if layers == 1 and config.memory in _BARE:
        return kind.make(config)
    cells = tuple(kind.make(config) for _ in range(layers))
    return ResidualStack(cells, config.memory_size, jnp.dtype(config.dtype))
