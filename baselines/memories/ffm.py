"""Fast and Forgetful Memory: decaying and rotating traces of the past. Morad et al., 2023 (arXiv 2310.04128)."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MultiHeadCell, Params, matmul
from baselines.memories.linear import as_complex, linear_scan
from baselines.memories.transformer import standardize

_HORIZON = 1024  # steps; the slowest trace then has a share of `_FORGOTTEN` left, and the slowest context one turn
_FORGOTTEN = 0.01
_FASTEST = math.log(2)  # decay rate of the fastest trace, which halves at each step


class FFM(MultiHeadCell):
    """Cell of Fast and Forgetful Memory, with its aggregator of traces.

    Each step adds m gated traces x to a complex matrix: S_t = γ S_{t-1} + x 1ᵀ, with γ = exp(-α) exp(-i ω)ᵀ. The m
    traces decay at learned rates α, and the c contexts rotate at learned frequencies ω. The output is the standardized
    linear map of all entries of S.

    `size` is the number of complex entries m c, and of outputs H. `heads` is the number of contexts c, 4 in the paper.

    The recurrent state has 2 H float32 numbers per environment: 4 KiB with H = 512.

    Difference from the paper: the gate and the residual of the stack replace the cell's output gate and its linear
    skip connection.
    """

    stacked_layers: ClassVar[int] = 2

    def initial_state(self, batch: int) -> jax.Array:
        """Return zeros, float32 (batch, 2 H): real parts, then imaginary parts."""
        return jnp.zeros((batch, 2 * self.size), jnp.float32)

    @nn.compact
    def __call__(self, state: jax.Array, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the state (B, 2 H) after the last step and outputs (T, B, H), float32."""
        traces = self.size // self.heads
        kernel_in = self.param("kernel_in", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * traces))
        bias_in = self.param("bias_in", nn.initializers.zeros, (2 * traces,))
        kernel_out = self.param("kernel_out", nn.initializers.lecun_normal(), (2 * self.size, self.size))
        bias_out = self.param("bias_out", nn.initializers.zeros, (self.size,))
        # Zero is the initial value, so weight decay pulls back to the initial dynamics.
        log_rate = self.param("log_rate", nn.initializers.zeros, (traces,))
        log_frequency = self.param("log_frequency", nn.initializers.zeros, (self.heads,))
        is_made = self.has_variable("params", "dynamics")
        factors = self.get_variable("params", "dynamics") if is_made else _dynamics(log_rate, log_frequency, self.span)
        projected = matmul(inputs, kernel_in, self.dtype) + bias_in[None, None]
        value, gate = jnp.split(projected, 2, axis=-1)
        added = jnp.repeat(value * nn.sigmoid(gate), self.heads, axis=-1)
        decay = jnp.where(starts[..., None], jnp.zeros((), factors.dtype), factors[None, None])
        states = linear_scan(decay, lax.complex(added, jnp.zeros_like(added)), as_complex(state))
        states = jnp.concatenate([states.real, states.imag], axis=-1)
        return states[-1], standardize(matmul(states, kernel_out, self.dtype) + bias_out[None, None])

    def precompute(self, params: Params) -> Params:
        """Return the parameters with kernels in `dtype` and with precomputed factors γ."""
        return {
            **super().precompute(params),
            "dynamics": _dynamics(params["log_rate"], params["log_frequency"], self.span),
        }


def _dynamics(log_rate: jax.Array, log_frequency: jax.Array, span: int) -> jax.Array:
    """Return the factors γ of all entries, complex64 (m c,), with the contexts of a trace side by side."""
    rates, frequencies = initial_dynamics(log_rate.shape[0], log_frequency.shape[0], span)
    rate = jnp.repeat(rates * jnp.exp(log_rate), frequencies.shape[0])
    frequency = jnp.tile(frequencies * jnp.exp(log_frequency), rates.shape[0])
    return jnp.exp(lax.complex(-rate, -frequency))


def initial_dynamics(traces: int, contexts: int, span: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return decay rates α (traces,) and frequencies ω (contexts,) in radians per step, float32.

    As in the authors' code, rates are evenly spaced, and so are the periods 2 π / ω. `span` is the slowest time span in
    steps, 0 for the default.
    """
    horizon = -math.log(_FORGOTTEN) * span if span else _HORIZON
    rates = np.linspace(_FASTEST, -math.log(_FORGOTTEN) / horizon, traces)
    frequencies = 2 * math.pi / np.linspace(1, horizon, contexts)
    return rates.astype(np.float32), frequencies.astype(np.float32)
