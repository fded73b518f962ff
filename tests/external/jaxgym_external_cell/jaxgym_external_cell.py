"""A memory cell of moving averages."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from baselines.memories.cell import MemoryCell


class MovingAverages(MemoryCell):
    """Moving averages of linear features, each with a time span that is learned."""

    size: int  # set from --memory-size

    def initial_state(self, batch):
        """Return zeros, float32 (batch, size)."""
        return jnp.zeros((batch, self.size), jnp.float32)

    @nn.compact
    def __call__(self, state, inputs, starts):
        """Return the averages after the last step, (B, size), and those of every step, (T, B, size)."""
        features = nn.Dense(self.size, dtype=jnp.float32)(inputs)
        logits = self.param("logits", nn.initializers.uniform(4.0), (self.size,))
        keep = nn.sigmoid(logits)[None]

        def step(average, at_step):
            feature, start = at_step
            average = jnp.where(start[:, None], 0.0, average)  # reset at the start of an episode
            average = keep * average + (1 - keep) * feature
            return average, average

        return jax.lax.scan(step, state, (features, starts))
