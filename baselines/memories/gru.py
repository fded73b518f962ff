"""The gated recurrent unit: Cho et al., 2014 (arXiv 1406.1078)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MatmulCell, matmul, span_biases


class GRU(MatmulCell):
    """Gated recurrent unit with the candidate's reset gate after the matrix product, as in cuDNN and PyTorch.

    Attributes:
        unroll: number of steps per loop iteration.
    """

    unroll: int = 1

    @nn.compact
    def __call__(self, state: jax.Array, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the state (B, H) after the last step and all states (T, B, H), float32."""
        # Stacked gates with gain √2, as published: each gate then has a gain of √(2/3).
        orthogonal = nn.initializers.orthogonal(2**0.5)
        kernel_in = self.param("kernel_in", orthogonal, (inputs.shape[-1], 3 * self.size))
        bias_in = self.param("bias_in", nn.initializers.zeros, (3 * self.size,))
        kernel = self.param("kernel", orthogonal, (self.size, 3 * self.size))
        bias = self.param("bias", nn.initializers.zeros, (self.size,))
        offset = np.zeros(3 * self.size, np.float32)
        offset[self.size : 2 * self.size] = span_biases(self.span, self.size)
        projected = matmul(inputs, kernel_in, self.dtype) + (bias_in + offset)[None, None]
        states = gru_scan(projected, kernel, bias, state, starts, self.dtype, self.unroll)
        return states[-1], states


def _gates(projected: jax.Array, recurrent: jax.Array, bias: jax.Array) -> tuple[jax.Array, ...]:
    """Return the reset gate, update gate, candidate, and recurrent part of the candidate, each (..., H)."""
    input_reset, input_update, input_candidate = jnp.split(projected, 3, axis=-1)
    state_reset, state_update, state_candidate = jnp.split(recurrent, 3, axis=-1)
    reset = nn.sigmoid(input_reset + state_reset)
    update = nn.sigmoid(input_update + state_update)
    state_candidate = state_candidate + jnp.expand_dims(bias, range(state_candidate.ndim - 1))
    candidate = jnp.tanh(input_candidate + reset * state_candidate)
    return reset, update, candidate, state_candidate


def _gru_forward(
    projected: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    state: jax.Array,
    starts: jax.Array,
    dtype: Any,
    unroll: int,
) -> jax.Array:
    """Compute the states h_t = (1 - z) n + z h of all steps, (T, B, H), from input projections (T, B, 3H)."""
    operand = kernel.astype(dtype)  # inside the loop, each step would cast it

    def step(hidden: jax.Array, at_step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        projection, start = at_step
        hidden = jnp.where(start[:, None], 0.0, hidden)
        _, update, candidate, _ = _gates(projection, matmul(hidden, operand, dtype), bias)
        hidden = candidate + update * (hidden - candidate)
        return hidden, hidden

    _, states = lax.scan(step, state, (projected, starts), unroll=unroll)
    return states


def _gru_residuals(*inputs: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    projected, kernel, bias, state, starts, dtype, unroll = inputs
    states = _gru_forward(projected, kernel, bias, state, starts, dtype, unroll)
    return states, (projected, kernel, bias, state, starts, states)


def _gru_backward(dtype: Any, unroll: int, residuals: tuple[jax.Array, ...], d_states: jax.Array) -> tuple[Any, ...]:
    """Compute the gradients with one matrix product per step; everything else is batched over the T steps.

    Differentiating the scan would store every gate, and add a (H, 3H) weight gradient in each of the T steps. Here the
    gates are recomputed from the states by one large product, and the weight gradient is another.
    """
    projected, kernel, bias, state, starts, states = residuals
    before = jnp.where(starts[..., None], 0.0, jnp.concatenate([state[None], states[:-1]]))
    reset, update, candidate, state_candidate = _gates(projected, matmul(before, kernel, dtype), bias)

    # Each line is the derivative of h_t with respect to a pre-activation; the loop multiplies it by the gradient of
    # h_t.
    by_candidate = (1 - update) * (1 - candidate**2)
    by_update = (before - candidate) * update * (1 - update)
    by_reset = by_candidate * state_candidate * reset * (1 - reset)
    by_recurrent = jnp.concatenate([by_reset, by_update, by_candidate * reset], axis=-1)

    operand = kernel.T.astype(dtype)

    def step(d_hidden: jax.Array, at_step: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        d_output, slopes, keep, start = at_step
        d_hidden = d_hidden + d_output
        d_recurrent = jnp.tile(d_hidden, (1, 3)) * slopes
        d_before = d_hidden * keep + matmul(d_recurrent, operand, dtype)
        return jnp.where(start[:, None], 0.0, d_before), d_hidden

    at_steps = (d_states, by_recurrent, update, starts)
    d_state, d_hidden = lax.scan(step, jnp.zeros_like(state), at_steps, reverse=True, unroll=unroll)
    d_recurrent = jnp.tile(d_hidden, (1, 1, 3)) * by_recurrent
    d_projected = jnp.tile(d_hidden, (1, 1, 3)) * jnp.concatenate([by_reset, by_update, by_candidate], axis=-1)
    flat_before = before.reshape(-1, before.shape[-1])
    d_kernel = matmul(flat_before.T, d_recurrent.reshape(-1, d_recurrent.shape[-1]), dtype)
    d_bias = (d_hidden * by_candidate * reset).sum(axis=(0, 1))
    return d_projected, d_kernel, d_bias, d_state, None


gru_scan = jax.custom_vjp(_gru_forward, nondiff_argnums=(5, 6))
gru_scan.defvjp(_gru_residuals, _gru_backward)
