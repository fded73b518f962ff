"""Training loop, networks and memory cells for jaxgym's environments; start one by `python -m baselines.train`."""

import importlib.util
import sys
from typing import TYPE_CHECKING

from baselines.errors import EXTRA
from jaxgym import extras, interrupts

if TYPE_CHECKING:
    from baselines.memories.cell import MemoryCell
    from baselines.zoo import TrainedAgent

interrupts.start("baselines")

# Every command imports them before it can print anything.
for _name in ("optax", "tqdm", "tyro"):
    if importlib.util.find_spec(_name) is None:
        _message = extras.missing(EXTRA, _name)
        if sys.argv[:1] == ["-m"]:  # as Python has it while it locates the module of `python -m baselines.train`
            sys.exit(f"error: {_message}")
        raise ModuleNotFoundError(_message, name=_name)


def load(env_id: str) -> "TrainedAgent":
    """The trained agent of an environment that comes with the package, see `baselines.zoo.load`."""
    from baselines import zoo  # starts a JAX backend, which a training command has to set flags for first

    return zoo.load(env_id)


def register_memory(name: str, cell: "type[MemoryCell]") -> None:
    """Give a memory cell a name for `memory=` and `--memory`; "my_package.module:MyCell" needs none.

    Args:
        name: without a colon, and not that of another cell.
        cell: a subclass of `baselines.memories.cell.MemoryCell`.

    Raises:
        ConfigError: when the name names another cell, or the cell is no such class.
    """
    from baselines import memories

    memories.register_cell(name, cell)
