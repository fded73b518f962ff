"""Clock in place of a memory: the agent observes the step of the episode."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baselines.memories.cell import Stateless
from baselines.memories.transformer import positions_of, sinusoid

_SIZE = 16
_STEPS = 512


class Clock(Stateless):
    """Cell that adds the step of the episode to the observation, as a vector of 16 sines and cosines, as published.

    `preprocess` adds it before the encoder; `__call__` returns its inputs. Steps from 511 on have the same vector.
    """

    def initial_state(self, batch: int) -> jax.Array:
        """Return the next step, int32 (batch,)."""
        return jnp.zeros(batch, jnp.int32)

    def preprocess(self, state: jax.Array, observation: Any, starts: jax.Array) -> tuple[jax.Array, Any]:
        """Return the state after the last step, and the observation with a vector `clock`, float32 (T, B, 16)."""
        _, step = positions_of(state, starts)
        leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
        shown = sinusoid(jnp.minimum(step, np.int32(_STEPS - 1)), _SIZE)
        return step[-1] + 1, {**leaves, "clock": shown}
