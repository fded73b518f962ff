"""Traced settings: learning rate, entropy coefficient and clip range."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from baselines.config import Config
from baselines.losses import Schedule


class Rates(NamedTuple):
    """Traced settings: one compiled program trains with any values of them, and with several values in parallel.

    Leaves float32 (), or (S,) for S runs.
    """

    learning_rate: Schedule
    entropy_coef: Schedule
    clip: jax.Array | np.ndarray | np.float32


def rates_of(config: Config) -> Rates:
    """Return the traced settings of a config, float32 ()."""

    def schedule(start: float, end: float) -> Schedule:
        return Schedule(np.float32(start), np.float32(end - start))

    return Rates(
        learning_rate=schedule(config.learning_rate_start, config.learning_rate_end),
        entropy_coef=schedule(config.entropy_start, config.entropy_end),
        clip=np.float32(config.clip),
    )


def stack_rates(configs: Sequence[Config]) -> Rates:
    """Return the traced settings of S configs, float32 (S,), for a setup of S seeds."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(rates_of, configs))
