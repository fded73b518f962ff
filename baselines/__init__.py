"""Training loop, networks and memory cells for jaxgym's environments; start one by `python -m baselines.train`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baselines.zoo import Agent


def load(env_id: str) -> "Agent":
    """The trained agent of an environment that comes with the package, see `baselines.zoo.load`."""
    from baselines import zoo  # starts a JAX backend, which a training command has to set flags for first

    return zoo.load(env_id)
