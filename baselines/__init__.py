"""Training loop, networks and memory cells for jaxgym's environments; start one by `python -m baselines.train`."""

import importlib.util
from typing import TYPE_CHECKING

from baselines.errors import EXTRA
from jaxgym import interrupts

if TYPE_CHECKING:
    from baselines.zoo import Agent

interrupts.start("baselines")

# Every command imports them before it can tell anything.
for _name in ("optax", "tqdm", "tyro"):
    if importlib.util.find_spec(_name) is None:
        raise ModuleNotFoundError(f"{_name} is not installed: {EXTRA}", name=_name)


def load(env_id: str) -> "Agent":
    """The trained agent of an environment that comes with the package, see `baselines.zoo.load`."""
    from baselines import zoo  # starts a JAX backend, which a training command has to set flags for first

    return zoo.load(env_id)
