"""Long short-term memory: Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MatmulCell, matmul, span_biases


class LSTM(MatmulCell):
    """The cell of cuDNN and PyTorch, with forget gates that start open.

    Attributes:
        unroll: number of steps per loop iteration.
    """

    unroll: int = 1

    def initial_state(self, batch: int) -> tuple[jax.Array, jax.Array]:
        """Return zeros for outputs and cells, float32 (batch, H) each."""
        return jnp.zeros((batch, self.size), jnp.float32), jnp.zeros((batch, self.size), jnp.float32)

    @nn.compact
    def __call__(
        self, state: tuple[jax.Array, jax.Array], inputs: jax.Array, starts: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        """Return the output and cells (B, H) after the last step, and all outputs (T, B, H), float32."""
        orthogonal = nn.initializers.orthogonal(2**0.5)
        kernel_in = self.param("kernel_in", orthogonal, (inputs.shape[-1], 4 * self.size))
        kernel = self.param("kernel", orthogonal, (self.size, 4 * self.size))
        bias = self.param("bias", _open_forget_gates, (4 * self.size,))
        keep = span_biases(self.span, self.size)
        offset = np.concatenate([-keep, keep, np.zeros(2 * self.size, np.float32)])
        projected = matmul(inputs, kernel_in, self.dtype) + (bias + offset)[None, None]
        outputs, cells = lstm_scan(projected, kernel, *state, starts, self.dtype, self.unroll)
        return (outputs[-1], cells[-1]), outputs


def _open_forget_gates(key: jax.Array, shape: tuple[int], dtype: Any = jnp.float32) -> jax.Array:
    """Return ones for the forget gates, the second of four, and zeros elsewhere."""
    del key
    size = shape[0] // 4
    return jnp.zeros(shape, dtype).at[size : 2 * size].set(1.0)


def _gates(pre: jax.Array) -> tuple[jax.Array, ...]:
    """Return the input gate, forget gate, candidate and output gate, each (..., H)."""
    input_gate, forget, candidate, output_gate = jnp.split(pre, 4, axis=-1)
    return nn.sigmoid(input_gate), nn.sigmoid(forget), jnp.tanh(candidate), nn.sigmoid(output_gate)


def _lstm_forward(
    projected: jax.Array,
    kernel: jax.Array,
    output: jax.Array,
    cell: jax.Array,
    starts: jax.Array,
    dtype: Any,
    unroll: int,
) -> tuple[jax.Array, jax.Array]:
    """Compute the outputs and cells of all steps, (T, B, H) each, from input projections (T, B, 4H)."""
    operand = kernel.astype(dtype)  # inside the loop, each step would cast it

    def step(
        state: tuple[jax.Array, jax.Array], at_step: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        projection, start = at_step
        output, cell = (jnp.where(start[:, None], 0.0, part) for part in state)
        input_gate, forget, candidate, output_gate = _gates(projection + matmul(output, operand, dtype))
        cell = forget * cell + input_gate * candidate
        output = output_gate * jnp.tanh(cell)
        return (output, cell), (output, cell)

    return lax.scan(step, (output, cell), (projected, starts), unroll=unroll)[1]


def _lstm_residuals(*inputs: Any) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    projected, kernel, output, cell, starts, dtype, unroll = inputs
    outputs, cells = _lstm_forward(projected, kernel, output, cell, starts, dtype, unroll)
    return (outputs, cells), (projected, kernel, output, cell, starts, outputs, cells)


def _lstm_backward(
    dtype: Any, unroll: int, residuals: tuple[jax.Array, ...], d_states: tuple[jax.Array, jax.Array]
) -> tuple[Any, ...]:
    """Compute the gradients with one matrix product per step, as for the GRU."""
    projected, kernel, output, cell, starts, outputs, cells = residuals
    start = starts[..., None]
    before = jnp.where(start, 0.0, jnp.concatenate([output[None], outputs[:-1]]))
    cell_before = jnp.where(start, 0.0, jnp.concatenate([cell[None], cells[:-1]]))
    input_gate, forget, candidate, output_gate = _gates(projected + matmul(before, kernel, dtype))
    squashed = jnp.tanh(cells)

    # Derivatives of c_t with respect to the first three pre-activations, of h_t to the fourth, and of h_t to c_t.
    by_input = candidate * input_gate * (1 - input_gate)
    by_forget = cell_before * forget * (1 - forget)
    by_candidate = input_gate * (1 - candidate**2)
    slopes = jnp.concatenate([by_input, by_forget, by_candidate], axis=-1)
    by_output = squashed * output_gate * (1 - output_gate)
    by_cell = output_gate * (1 - squashed**2)
    operand = kernel.T.astype(dtype)

    def step(
        d_state: tuple[jax.Array, jax.Array], at_step: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        d_output, d_cell, slopes, by_output, by_cell, keep, start = at_step
        d_output = d_state[0] + d_output
        d_cell = d_state[1] + d_cell + d_output * by_cell
        d_pre = jnp.concatenate([jnp.tile(d_cell, (1, 3)) * slopes, d_output * by_output], axis=-1)
        d_before = matmul(d_pre, operand, dtype), d_cell * keep
        d_output, d_cell = (jnp.where(start[:, None], 0.0, part) for part in d_before)
        return (d_output, d_cell), d_pre

    at_steps = (*d_states, slopes, by_output, by_cell, forget, starts)
    zeros = jnp.zeros_like(output), jnp.zeros_like(cell)
    (d_output, d_cell), d_projected = lax.scan(step, zeros, at_steps, reverse=True, unroll=unroll)
    flat_before = before.reshape(-1, before.shape[-1])
    d_kernel = matmul(flat_before.T, d_projected.reshape(-1, d_projected.shape[-1]), dtype)
    return d_projected, d_kernel, d_output, d_cell, None


lstm_scan = jax.custom_vjp(_lstm_forward, nondiff_argnums=(5, 6))
lstm_scan.defvjp(_lstm_residuals, _lstm_backward)
