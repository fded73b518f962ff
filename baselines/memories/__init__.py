"""Memory cells by name; `baselines.memories.cell` defines their contract."""

import importlib

import jax.numpy as jnp

from baselines.config import Config, from_name
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, NoMemory, ResidualStack, Shape
from baselines.memories.clock import Clock
from baselines.memories.deltanet import GatedDeltaNet
from baselines.memories.ffm import FFM
from baselines.memories.gru import GRU
from baselines.memories.linear import LRU, MinGRU
from baselines.memories.lstm import LSTM
from baselines.memories.mlstm import MLSTM
from baselines.memories.s5 import S5
from baselines.memories.stack import FrameStack
from baselines.memories.transformer import TransformerXL

_CELLS: dict[str, type[MemoryCell]] = {
    "clock": Clock,
    "ffm": FFM,
    "gated_deltanet": GatedDeltaNet,
    "gru": GRU,
    "gtrxl": TransformerXL,
    "lru": LRU,
    "lstm": LSTM,
    "mingru": MinGRU,
    "mlstm": MLSTM,
    "none": NoMemory,
    "s5": S5,
    "stack16": FrameStack,
    "stack4": FrameStack,
    "trxl": TransformerXL,
}


def cell_of(name: str) -> type[MemoryCell]:
    """Return the class of a built-in or registered memory cell, or "my_package.module:MyCell", which is imported.

    Raises:
        ConfigError: if no cell has that name.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        return from_name("memory", name, _CELLS)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"expected memory to name a class as module:MyCell, got {name!r} ({error}). "
            "Install the package, or set PYTHONPATH to its folder."
        ) from error
    return _checked(name, found)


def register_cell(name: str, cell: type[MemoryCell]) -> None:
    """Register a memory cell under a name, see `baselines.register_memory`."""
    if not name or ":" in name:
        raise ConfigError(f"expected a name without a colon, got {name!r}. Write module:MyCell without registering it.")
    if _CELLS.setdefault(name, _checked(name, cell)) is not cell:
        raise ConfigError(f"expected a new name, got {name!r}, the name of {_CELLS[name].__name__}. Choose another.")


def _checked(name: str, cell: object) -> type[MemoryCell]:
    if not (isinstance(cell, type) and issubclass(cell, MemoryCell)):
        raise ConfigError(
            f"expected memory {name!r} to be a class, got {cell!r}. Make it a subclass of "
            "baselines.memories.cell.MemoryCell."
        )
    return cell


def make_memory(config: Config, frame: Shape | None = None) -> MemoryCell:
    """Build the memory of a config; `frame` is height, width and channels of the observation's frame, if it has one.

    Raises:
        ConfigError: if no memory has that name, or another setting or the observation does not suit it.
    """
    cell = cell_of(config.memory)
    layers = config.memory_layers or cell.stacked_layers
    is_bare = layers == cell.stacked_layers == 1
    if config.residual and not is_bare:
        raise ConfigError(
            f"--residual: expected one layer of gru, lstm or your own cell, got memory {config.memory!r} with "
            f"{config.memory_layers or 'its'} layers. Leave the flag out."
        )
    made = cell.from_config(config, frame)
    if is_bare or not cell.stacked_layers:
        return made
    cells = (made, *(cell.from_config(config, frame) for _ in range(layers - 1)))
    return ResidualStack(cells, config.memory_size, jnp.dtype(config.dtype))
