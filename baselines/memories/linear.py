"""Cells whose state is a weighted sum of the past, computed for all steps of a rollout at once.

The coefficients of the recurrence h_t = a_t h_{t-1} + b_t do not depend on h, so an associative scan of depth log2 T
replaces a loop of T steps. At an episode's start, a_t = 0.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MatmulCell, Params, matmul, span_biases

_SLOWEST = 256  # steps; a few rollouts, and the length of a typical episode
_RADII = (0.9, 0.999)  # memories of 10 to 1000 steps
_SHORTEST = 10.0  # steps; the shortest time span if the longest one is given
_LARGEST_PHASE = math.pi / 10  # radians per step; slow rotations suit long episodes
_GOLDEN = (5**0.5 - 1) / 2


class MinGRU(MatmulCell):
    """Minimal gated recurrent unit, h = (1 - z) h + z n, with gate z and candidate n computed from the input alone.

    Feng et al., 2024 (arXiv 2410.01201). The sum is in plain float32, since factors up to 1 cannot overflow.
    """

    stacked_layers: ClassVar[int] = 2

    @nn.compact
    def __call__(self, state: jax.Array, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the state (B, H) after the last step and all states (T, B, H), float32."""
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * self.size))
        bias = self.param("bias", nn.initializers.zeros, (2 * self.size,))
        projected = matmul(inputs, kernel, self.dtype) + bias[None, None]
        gate, candidate = jnp.split(projected, 2, axis=-1)
        # Units start with time spans from 2 steps to many. The spans are not parameters, because weight decay would
        # shorten all of them.
        update = nn.sigmoid(gate - span_biases(self.span or _SLOWEST, self.size)[None, None])
        decay = jnp.where(starts[..., None], 0.0, 1 - update)
        states = linear_scan(decay, update * candidate, state)
        return states[-1], states


class LRU(MatmulCell):
    """Linear recurrent unit: a diagonal complex recurrence with learned decays and rotations, the same at every step.

    Orvieto et al., 2023 (arXiv 2303.06349). Eigenvalues are initialized by quantiles over a ring instead of at random.
    The input is scaled so that the state's variance does not depend on them.

    `size` is the number of complex units, and of real outputs H.
    """

    stacked_layers: ClassVar[int] = 2

    def initial_state(self, batch: int) -> jax.Array:
        """Return zeros, float32 (batch, 2 H): real parts, then imaginary parts."""
        return jnp.zeros((batch, 2 * self.size), jnp.float32)

    @nn.compact
    def __call__(self, state: jax.Array, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the state (B, 2 H) after the last step and outputs (T, B, H), float32."""
        kernel_in = self.param("kernel_in", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * self.size))
        kernel_out = self.param("kernel_out", nn.initializers.lecun_normal(), (2 * self.size, self.size))
        # Zero is the initial value, so weight decay pulls back to the ring and not away from it.
        log_rate = self.param("log_rate", nn.initializers.zeros, (self.size,))
        log_phase = self.param("log_phase", nn.initializers.zeros, (self.size,))
        is_made = self.has_variable("params", "dynamics")
        eigenvalue, scale = (
            self.get_variable("params", "dynamics") if is_made else _dynamics(log_rate, log_phase, self.span)
        )
        projected = matmul(inputs, kernel_in, self.dtype) * jnp.tile(scale, 2)[None, None]
        decay = jnp.where(starts[..., None], jnp.zeros((), eigenvalue.dtype), eigenvalue[None, None])
        states = linear_scan(decay, as_complex(projected), as_complex(state))
        states = jnp.concatenate([states.real, states.imag], axis=-1)
        return states[-1], matmul(states, kernel_out, self.dtype)

    def precompute(self, params: Params) -> Params:
        """Return the parameters with kernels in `dtype` and with precomputed eigenvalues."""
        return {**super().precompute(params), "dynamics": _dynamics(params["log_rate"], params["log_phase"], self.span)}


def _dynamics(log_rate: jax.Array, log_phase: jax.Array, span: int) -> tuple[jax.Array, jax.Array]:
    """Return the eigenvalues λ, complex64 (H,), and the scale of the input, √(1 - |λ|²), float32 (H,)."""
    rates, phases = rates_and_phases(log_rate.shape[0], span)
    rate, phase = rates * jnp.exp(log_rate), phases * jnp.exp(log_phase)
    return jnp.exp(lax.complex(-rate, phase)), jnp.sqrt(-jnp.expm1(-2 * rate))


def rates_and_phases(size: int, span: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return initial rates -log |λ| and phases arg λ of the eigenvalues, float32 (size,) each.

    They are spread evenly over a slice of a ring. With `span`, the slowest time span in steps, few eigenvalues of the
    ring would be slow enough. Then the logarithms of the time spans are spread evenly, and slow units rotate slowly.
    """
    # Multiples of the golden ratio spread phases evenly over any range of radii.
    turns = np.modf((np.arange(size) + 1) * _GOLDEN)[0]
    if span:
        rates = 1 / np.geomspace(_SHORTEST, span, size)
        return rates.astype(np.float32), (math.pi * rates * turns).astype(np.float32)
    quantiles = (np.arange(size) + 0.5) / size
    low, high = np.square(_RADII)
    rates = -0.5 * np.log(low + quantiles * (high - low))
    return rates.astype(np.float32), (_LARGEST_PHASE * turns).astype(np.float32)


def as_complex(parts: jax.Array) -> jax.Array:
    """Map real parts, then imaginary parts, float32 (..., 2 n), to complex64 (..., n)."""
    return lax.complex(*jnp.split(parts, 2, axis=-1))


@jax.custom_vjp
def linear_scan(decay: jax.Array, inputs: jax.Array, state: jax.Array) -> jax.Array:
    """Compute the states h_t = decay_t h_{t-1} + inputs_t of all steps, in depth log2 T.

    Args:
        decay: (T, B, H), real or complex.
        inputs: (T, B, H).
        state: h before the first step, (B, H).

    Returns:
        (T, B, H).
    """
    return _scan(decay, inputs.at[0].add(decay[0] * state))


def _scan(decay: jax.Array, inputs: jax.Array, *, reverse: bool = False) -> jax.Array:
    def then(first: tuple[jax.Array, jax.Array], second: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(then, (decay, inputs), reverse=reverse)[1]


def _linear_scan_residuals(
    decay: jax.Array, inputs: jax.Array, state: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    states = linear_scan(decay, inputs, state)
    return states, (decay, state, states)


def _linear_scan_backward(residuals: tuple[jax.Array, ...], d_states: jax.Array) -> tuple[jax.Array, ...]:
    """Run one scan in reverse; differentiating the forward scan would store the results of each of its levels."""
    decay, state, states = residuals
    next_decay = jnp.concatenate([decay[1:], jnp.zeros_like(decay[:1])])
    d_inputs = _scan(next_decay, d_states, reverse=True)
    before = jnp.concatenate([state[None], states[:-1]])
    return d_inputs * before, d_inputs, d_inputs[0] * decay[0]


linear_scan.defvjp(_linear_scan_residuals, _linear_scan_backward)
