"""Draws of a level's index in a level buffer, with equal or with given weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.errors import LevelError


def check(env_id: str, weights: Any, count: int) -> None:
    """Check the shape of level weights; `count` is the number of levels in the buffer, 0 without a buffer.

    Raises:
        LevelError: If there is not one weight for each level.
    """
    if weights is None or (count and np.shape(weights) == (count,)):
        return
    if not count:
        raise LevelError(
            f"{env_id}: expected params.levels with a level buffer for params.level_weights, got None. Set both, or "
            "set level_weights to None."
        )
    raise LevelError(
        f"{env_id}: expected params.level_weights of shape ({count},), one for each level, got {np.shape(weights)}. "
        "Set them together with params.levels."
    )


def random_index(env_id: str, key: jax.Array, weights: Any, count: int) -> jax.Array:
    """Return a random index of a level, int32 (); consumes `key`.

    Args:
        env_id: Id of the environment, for the error message.
        key: A PRNG key.
        weights: Relative probability of each level, (count,); None for equal probabilities.
        count: Number of levels.

    Raises:
        LevelError: If there is not one weight for each level.
    """
    check(env_id, weights, count)
    if weights is None:
        return jax.random.randint(key, (), 0, count)
    ends = jnp.cumsum(jnp.asarray(weights, jnp.float32))
    # The number drawn is below the last end, so a level with the weight 0 is never found.
    drawn = jax.random.uniform(key, dtype=jnp.float32) * ends[-1]
    return jnp.minimum(jnp.searchsorted(ends, drawn, side="right"), count - 1).astype(jnp.int32)
