"""Chunks of a rollout: a linear recurrence runs in parallel inside of them, and a loop carries its state across them.

Yang et al., 2023 (arXiv 2312.06635, section 2) describe this form for linear attention. Every array inside has the axes
chunk N, environment B, head h and step C of the chunk. A single step is a chunk of length 1.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from baselines.memories.linear import linear_scan

_LENGTH = 32  # steps per chunk; a product over the steps of a chunk then costs less than one with the state


def chunk_length(count: int) -> int:
    """Return the number of steps per chunk of a rollout of `count` steps."""
    return min(count, _LENGTH)


def into_chunks(steps: jax.Array) -> jax.Array:
    """Split (T, B, h, ...) into chunks (N, B, h, C, ...); zeros fill the last chunk."""
    length = chunk_length(steps.shape[0])
    missing = -steps.shape[0] % length
    padded = jnp.pad(steps, [(0, missing), *[(0, 0)] * (steps.ndim - 1)])
    return jnp.moveaxis(padded.reshape(-1, length, *steps.shape[1:]), 1, 3)


def from_chunks(chunks: jax.Array, count: int) -> jax.Array:
    """Join chunks (N, B, h, C, D) to the first `count` steps, (T, B, h, D)."""
    steps = jnp.moveaxis(chunks, 3, 1)
    return steps.reshape(-1, *steps.shape[2:])[:count]


def log_decays(log_keep: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the logarithms of what is kept between two steps of a chunk, and since the start of the chunk.

    Args:
        log_keep: logarithm of the share of the state that each step keeps, (N, B, h, C).
        starts: whether the step is the first of an episode, bool (N, B, 1, C).

    Returns:
        Array (N, B, h, C, C) whose entry [i, j] is for step i and the entry that step j wrote, and (N, B, h, C). Both
        are -inf across an episode's start, and the first one also if j is later than i.
    """
    # The sum restarts with each episode. Otherwise, the rounding error of a difference depends on earlier episodes.
    steps = jnp.moveaxis(log_keep, -1, 0)
    going_on = jnp.broadcast_to(jnp.moveaxis(~starts, -1, 0), steps.shape).astype(jnp.float32)
    total = jnp.moveaxis(linear_scan(going_on, steps, jnp.zeros_like(steps[0])), 0, -1)
    episode = jnp.cumsum(starts.astype(jnp.int32), axis=-1)
    is_seen = (episode[..., :, None] == episode[..., None, :]) & jnp.tri(starts.shape[-1], dtype=bool)[None, None, None]
    # The mask comes before the exponential, so that no gradient is infinite.
    between = jnp.where(is_seen, total[..., :, None] - total[..., None, :], -jnp.inf)
    return between, jnp.where(episode == 0, total, -jnp.inf)


def short_convolution(
    inputs: jax.Array, kernel: jax.Array, recent: jax.Array, starts: jax.Array, dtype: Any
) -> tuple[jax.Array, jax.Array]:
    """Convolve each channel with its own kernel over the last K steps of the episode.

    Args:
        inputs: (T, B, D), float32.
        kernel: (K, D); row k is the weight of the inputs k steps ago.
        recent: inputs of the K - 1 steps before the first, oldest first, (B, K - 1, D); zeros before the episode.
        starts: whether the step is the first of an episode, bool (T, B).
        dtype: type that the kernel is rounded to.

    Returns:
        The sums (T, B, D), and `recent` after the last step.
    """
    count, taps = inputs.shape[0], kernel.shape[0]
    step = jnp.arange(count, dtype=jnp.int32)[:, None]
    age = (step - lax.cummax(jnp.where(starts, step, -taps)))[..., None]
    series = jnp.concatenate([recent.swapaxes(0, 1), inputs])
    ago = [jnp.where(age >= back, series[taps - 1 - back :][:count], 0.0) for back in range(taps)]
    weights = kernel.astype(dtype).astype(jnp.float32)
    sums = sum((weights[back][None, None] * ago[back] for back in range(taps)), jnp.zeros_like(inputs))
    return sums, jnp.stack([ago[back][-1] for back in reversed(range(taps - 1))], axis=1)
