"""Memory cells by name; `baselines.memories.cell` defines their contract."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp

from baselines.config import Config, from_name
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, NoMemory, ResidualStack, Shape
from baselines.memories.checks import build, check_shapes, check_values
from baselines.memories.clock import Clock
from baselines.memories.deltanet import GatedDeltaNet
from baselines.memories.ffm import FFM
from baselines.memories.gru import GRU
from baselines.memories.helm import Helm
from baselines.memories.linear import LRU, MinGRU
from baselines.memories.lstm import LSTM
from baselines.memories.mlstm import MLSTM
from baselines.memories.s5 import S5
from baselines.memories.stack import FrameStack
from baselines.memories.transformer import TransformerXL
from jaxgym.errors import ContractError

_CELLS: dict[str, type[MemoryCell]] = {
    "clock": Clock,
    "ffm": FFM,
    "gated_deltanet": GatedDeltaNet,
    "gru": GRU,
    "gtrxl": TransformerXL,
    "helm": Helm,
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
    except (Exception, SystemExit) as error:
        cause = (
            str(error)
            if isinstance(error, ImportError | AttributeError | ValueError)
            else f"{type(error).__name__}: {error}"
        )
        raise ConfigError(
            f"expected memory to name a class as module:MyCell, got {name!r} ({cause}). "
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

    The shapes of a cell that is not built in are checked.

    Raises:
        ConfigError: if no memory has that name, or another setting or the observation does not suit it.
        ContractError: if the methods of a cell of your own return other shapes than `MemoryCell` documents.
    """
    cell = cell_of(config.memory)
    layers = config.memory_layers or cell.stacked_layers
    is_bare = layers == cell.stacked_layers == 1
    if config.residual and not is_bare:
        raise ConfigError(
            f"--residual: expected one layer of gru, lstm or your own cell, got memory {config.memory!r} with "
            f"{config.memory_layers or 'its'} layers. Leave the flag out."
        )
    made = build(config.memory, cell, config, frame)
    if not cell.__module__.startswith("baselines."):
        outputs = check_shapes(config.memory, made, _inputs(config))
        if not is_bare and cell.stacked_layers and outputs.shape[-1] != config.memory_size:
            raise ContractError(
                f"memory {config.memory!r}: expected outputs of size {config.memory_size} (--memory-size) in a stack, "
                f"got {outputs.shape[-1]}. Use --memory-layers 1, or change the size of the outputs."
            )
    if is_bare or not cell.stacked_layers:
        return made
    cells = (made, *(cell.from_config(config, frame) for _ in range(layers - 1)))
    return ResidualStack(cells, config.memory_size, jnp.dtype(config.dtype))


def check_memory(name: str, config: Config | None = None, *, seed: int = 0) -> None:
    """Check a memory cell by its name, see `baselines.check_memory`."""
    config = Config(memory_size=8, dtype="float32") if config is None else config
    config = dataclasses.replace(config, memory=name)
    cell, inputs = make_memory(config), _inputs(config)
    check_shapes(name, cell, inputs)
    check_values(name, cell, inputs, jax.random.key(seed))


def _inputs(config: Config) -> jax.ShapeDtypeStruct:
    """Return inputs of a cell for checks, (T, B, D)."""
    return jax.ShapeDtypeStruct((6, 3, config.memory_size), jnp.dtype(config.dtype))
