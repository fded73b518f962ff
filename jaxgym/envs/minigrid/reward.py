"""Reward of MiniGrid: 1 for success, less the share of the time limit that was used."""

import jax
import jax.numpy as jnp
import numpy as np


def reward_at(time: jax.Array, limit: jax.Array | np.ndarray | int) -> jax.Array:
    """Return the reward of success after `time` steps: 1 - 0.9 · time / limit, or 1 without a limit; float32 ().

    It is the exact value, rounded once: numerator and denominator are whole numbers.
    """
    most = 10.0 * jnp.asarray(limit).astype(jnp.float32)
    lost = 9.0 * time.astype(jnp.float32)
    left = most - lost
    # `left + lost` is `most`. XLA would replace a division by `most`, which a batch shares, by a product.
    return jnp.where(most > 0, left / jnp.where(most > 0, left + lost, 1.0), 1.0)
