"""No memory but a clock: the agent is told how many steps its episode has lasted."""

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
    """Shows the encoder the step of the episode as a vector of 16 sines and cosines, as published.

    It stands before the encoder, by `see`; behind the encoder it passes its inputs on. Steps from 511 on look alike.
    """

    def initial_state(self, batch: int) -> jax.Array:
        """The step that comes next, int32 (batch,)."""
        return jnp.zeros(batch, jnp.int32)

    def see(self, state: jax.Array, observation: Any, starts: jax.Array) -> tuple[jax.Array, Any]:
        """State after the last step, and the observation with a vector `clock`, float32 (T, B, 16), beside it."""
        _, step = positions_of(state, starts)
        leaves = observation if isinstance(observation, Mapping) else {"observation": observation}
        shown = sinusoid(jnp.minimum(step, np.int32(_STEPS - 1)), _SIZE)
        return step[-1] + 1, {**leaves, "clock": shown}
