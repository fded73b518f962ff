"""Training loop, networks and memory cells for jaxgym's environments; start one by `python -m baselines.train`."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from baselines.errors import EXTRA
from jaxgym import extras, interrupts

if TYPE_CHECKING:
    from baselines.config import Config
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


def load(env_id: str, folder: Path | None = None) -> "TrainedAgent":
    """Return the trained agent of an environment, see `baselines.zoo.load`; `folder` has its weights."""
    from baselines import zoo  # importing it starts a JAX backend, and a training command first sets flags

    return zoo.load(env_id, folder)


def register_memory(name: str, cell: "type[MemoryCell]") -> None:
    """Register a memory cell under a name for `memory=` and `--memory`; "my_package.module:MyCell" needs no name.

    Args:
        name: a name without a colon that no other cell has.
        cell: a subclass of `baselines.memories.cell.MemoryCell`.

    Raises:
        ConfigError: if another cell has the name, or `cell` is not such a class.
    """
    from baselines import memories

    memories.register_cell(name, cell)


def check_memory(name: str, config: "Config | None" = None, *, seed: int = 0) -> None:
    """Check a memory cell: shapes, equal outputs of single steps and sequences, episode starts, finite gradients.

    - `initial_state` and `__call__` return the documented shapes, and the state keeps its shapes and dtypes.
    - Calls with T = 1 and with a sequence give the same outputs and states.
    - An episode does not depend on the episode before it, or on other environments.
    - `precompute` does not change the outputs. Outputs and gradients are finite.

    Args:
        name: a registered name, or "my_package.module:MyCell".
        config: settings of a run; by default, `memory_size=8` and `dtype="float32"`.
        seed: seed of the parameters and inputs.

    Raises:
        ConfigError: if no cell has the name, or a setting does not suit it.
        jaxgym.errors.ContractError: if the cell violates the contract.
    """
    from baselines import memories

    memories.check_memory(name, config, seed=seed)
