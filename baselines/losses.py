"""Formulas of proximal policy optimization, independent of networks and environments.

Actions have branches: int32 (..., K) with one choice per branch; a discrete action has K = 1. The logits of all
branches are concatenated, (..., n_1 + ... + n_K), and `sizes` = (n_1, ..., n_K).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Sizes = tuple[int, ...]


def log_softmax_branches(logits: jax.Array, sizes: Sizes) -> list[jax.Array]:
    """Return the log-probabilities of each branch's choices, K arrays float32 (..., n_k)."""
    borders = np.cumsum(sizes)[:-1].tolist()
    return [jax.nn.log_softmax(branch) for branch in jnp.split(logits.astype(jnp.float32), borders, axis=-1)]


def sample_action(key: jax.Array, logits: jax.Array, sizes: Sizes) -> jax.Array:
    """Sample one choice per branch independently, int32 (..., K)."""
    keys = jax.random.split(key, len(sizes))
    # Without the barrier, jax 0.11.2 on a CPU sampled wrong actions for an agent in a batch of 600, not in one of 512.
    branches = log_softmax_branches(lax.optimization_barrier(logits), sizes)
    return jnp.stack([jax.random.categorical(*draw) for draw in zip(keys, branches, strict=True)], -1).astype(jnp.int32)


def likeliest_action(logits: jax.Array, sizes: Sizes) -> jax.Array:
    """Return the choice with the highest logit of each branch, int32 (..., K)."""
    branches = log_softmax_branches(lax.optimization_barrier(logits), sizes)
    return jnp.stack([branch.argmax(-1) for branch in branches], -1).astype(jnp.int32)


def log_prob(logits: jax.Array, action: jax.Array, sizes: Sizes) -> jax.Array:
    """Return the log-probability of the chosen action in each branch, float32 (..., K)."""
    branches = log_softmax_branches(logits, sizes)
    chosen = [jnp.take_along_axis(p, action[..., k : k + 1], axis=-1) for k, p in enumerate(branches)]
    return jnp.concatenate(chosen, axis=-1)


def entropy(logits: jax.Array, sizes: Sizes) -> jax.Array:
    """Return the entropy in nats, summed over the branches, float32 (...)."""
    branches = log_softmax_branches(logits, sizes)
    return -sum(((jnp.exp(p) * p).sum(axis=-1) for p in branches), start=jnp.zeros(logits.shape[:-1], jnp.float32))


def gae(
    reward: jax.Array, value: jax.Array, next_value: jax.Array, ended: jax.Array, *, gamma: float, gae_lambda: float
) -> jax.Array:
    """Compute generalized advantage estimates, A_t = δ_t + γ λ (1 - ended_t) A_{t+1} with δ_t = r_t + γ v'_t - v_t.

    Schulman et al., 2016 (arXiv 1506.02438).

    Args:
        reward: r_t, float32 (T, B).
        value: v_t, value of the observation before step t, float32 (T, B).
        next_value: v'_t, value of the observation after step t, float32 (T, B); 0 where the episode terminated, and the
            value of the final observation where it was truncated.
        ended: whether step t was the last of its episode, terminated or truncated, bool (T, B).
        gamma: discount γ.
        gae_lambda: λ.

    Returns:
        float32 (T, B).
    """
    delta = reward + gamma * next_value - value
    decay = jnp.where(ended, 0.0, gamma * gae_lambda)

    def step(advantage: jax.Array, at_step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        advantage = at_step[0] + at_step[1] * advantage
        return advantage, advantage

    return lax.scan(step, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


class PolicyLoss(NamedTuple):
    """Parts of the policy objective, float32 scalars."""

    loss: jax.Array
    approx_kl: jax.Array
    clip_fraction: jax.Array


def policy_loss(
    new_log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, *, clip: Any, joint: bool
) -> PolicyLoss:
    """Compute the clipped surrogate, -mean min(r A, clip(r, 1 ± c) A), Schulman et al., 2017 (arXiv 1707.06347).

    Args:
        new_log_prob: log-probabilities of the actions under the current parameters, (..., K).
        old_log_prob: log-probabilities of the same actions when they were sampled, (..., K).
        advantage: (...).
        clip: c, a float or float32 ().
        joint: True for one ratio r of the whole action, False for the mean over one ratio per branch.
    """
    log_ratio = new_log_prob - old_log_prob
    if joint:
        log_ratio = log_ratio.sum(axis=-1, keepdims=True)
    ratio = jnp.exp(log_ratio)
    advantage = advantage[..., None]
    surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
    return PolicyLoss(
        loss=-surrogate.mean(),
        approx_kl=(ratio - 1 - log_ratio).mean(),
        clip_fraction=(jnp.abs(ratio - 1) > clip).astype(jnp.float32).mean(),
    )


def value_loss(new_value: jax.Array, old_value: jax.Array, target: jax.Array, *, clip: Any) -> jax.Array:
    """Return the mean of the larger squared error, with and without clipping the change of the value to ± clip."""
    clipped = old_value + jnp.clip(new_value - old_value, -clip, clip)
    return jnp.maximum((new_value - target) ** 2, (clipped - target) ** 2).mean()


def normalize(advantage: jax.Array, mean: Callable[[jax.Array], jax.Array] = jnp.mean) -> jax.Array:
    """Return advantages with mean 0 and standard deviation 1; `mean` averages over all values to normalize."""
    centered = advantage - mean(advantage)
    return centered / (jnp.sqrt(mean(centered**2)) + 1e-8)


class Schedule(NamedTuple):
    """Linear schedule of floats, or of float32 arrays of one shape.

    Attributes:
        start: value at fraction 0.
        change: change from fraction 0 to fraction 1.
    """

    start: Any
    change: Any

    def at(self, fraction: jax.Array) -> jax.Array:
        """Return the value at a fraction; it is constant from 1 on."""
        return self.start + self.change * jnp.minimum(fraction, 1.0)
