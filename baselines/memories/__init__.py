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
from baselines.memories.clock import Clock
from baselines.memories.gru import GRU
from baselines.memories.linear import LRU, MinGRU
from baselines.memories.lstm import LSTM
from baselines.memories.stack import FrameStack
from baselines.memories.transformer import TransformerXL

Shape = tuple[int, ...]


class _Kind(NamedTuple):
    make: Callable[[Config], Any]  # one layer
    layers: int = 1  # where the config names no number


class _Stack(NamedTuple):
    frames: int
    grey: bool


LAYERED = {
    "gru": _Kind(lambda config: GRU(config.memory_size, jnp.dtype(config.dtype), config.unroll)),
    "lru": _Kind(lambda config: LRU(config.memory_size, jnp.dtype(config.dtype)), 2),
    "lstm": _Kind(lambda config: LSTM(config.memory_size, jnp.dtype(config.dtype), config.unroll)),
    "mingru": _Kind(lambda config: MinGRU(config.memory_size, jnp.dtype(config.dtype)), 2),
}
TRANSFORMERS = {"trxl": False, "gtrxl": True}  # whether it is gated
STACKS = {"stack4": _Stack(4, grey=False), "stack16": _Stack(16, grey=True)}
KINDS = {**LAYERED, **TRANSFORMERS, **STACKS, "clock": None, "none": None}
_TRANSFORMER_LAYERS = 3
_BARE = ("gru", "lstm")  # as published: one layer stands between encoder and body with nothing around it


def make_memory(config: Config, frame: Shape | None = None) -> MemoryCell:
    """The memory that the config names.

    Args:
        config: of the run.
        frame: height, width and channels of the observation's frame; None where it has none.

    Raises:
        ConfigError: when no memory has that name, or it does not fit another setting or the observation.
    """
    name = config.memory
    from_name("memory", name, KINDS)
    if config.residual and (name not in _BARE or config.memory_layers > 1):
        raise ConfigError(
            f"--residual is for one layer of {' or '.join(_BARE)}; memory {name!r} of {config.memory_layers or 'its'} "
            "layers has residuals of its own or nothing to go around: leave it out"
        )
    if name in LAYERED:
        return _layers(config)
    if name in TRANSFORMERS:
        return _transformer(config)
    if config.memory_layers:
        raise ConfigError(f"memory {name!r} has no layers: leave out --memory-layers")
    if name == "clock":
        return Clock()
    if name not in STACKS:
        return NoMemory()
    stack = STACKS[name]
    if frame is None:
        raise ConfigError(f"memory {name!r} stacks frames, and this observation has none: choose another --memory")
    return FrameStack(stack.frames, stack.grey, frame)


def _layers(config: Config) -> MemoryCell:
    kind = LAYERED[config.memory]
    layers = config.memory_layers or kind.layers
    if layers == 1 and config.memory in _BARE:
        return kind.make(config)
    cells = tuple(kind.make(config) for _ in range(layers))
    return ResidualStack(cells, config.memory_size, jnp.dtype(config.dtype))


def _transformer(config: Config) -> MemoryCell:
    name, size, heads = config.memory, config.memory_size, config.memory_heads
    if size % (2 * heads):
        raise ConfigError(
            f"memory {name!r} of size {size} does not divide into {heads} heads of an even width: "
            "choose --memory-size as a multiple of twice --memory-heads"
        )
    if config.sequence_steps == 1:
        raise ConfigError(
            f"memory {name!r} learns from several steps at once: choose --num-steps, and --bptt if given, of at least 2"
        )
    return TransformerXL(
        size=size,
        layers=config.memory_layers or _TRANSFORMER_LAYERS,
        heads=heads,
        length=config.memory_window,
        gated=TRANSFORMERS[name],
        gate_bias=config.memory_gate_bias,
        positions=config.memory_positions,
        gradient=config.memory_gradient,
        dtype=jnp.dtype(config.dtype),
    )
