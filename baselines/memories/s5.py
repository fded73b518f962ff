"""S5: a diagonal state space model with many inputs and outputs, initialized from the HiPPO matrix.

Smith et al., 2023 (arXiv 2208.04933). Lu et al., 2023 (arXiv 2303.03982) reset its state at the start of an
episode inside the parallel scan. Here, the decay at a start is zero, which gives the same states.
"""

from functools import cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MultiHeadCell, Params, matmul
from baselines.memories.linear import as_complex, linear_scan

_RATE = 0.5  # -Re λ of each eigenvalue of the HiPPO matrix's normal part
_STEPS = (1e-3, 1e-1)  # range of initial step sizes: memories of 2000 to 20 steps
_GOLDEN = (5**0.5 - 1) / 2


class S5(MultiHeadCell):
    """State space model x' = Λ x + B u, y = 2 Re(C x), with diagonal Λ and zero-order hold (section 3 of the paper).

    `size` is the number of states P, and of outputs H. States come in conjugate pairs; the cell computes one state of
    each pair. `heads` is the number of blocks of the initial HiPPO matrix (appendix B.1).

    The recurrent state has H float32 numbers per environment: 2 KiB with H = 512.

    Differences from the paper: the initial step sizes are quantiles and not random. The residual stack replaces the
    feedthrough D u, the activation and the gate.
    """

    stacked_layers: ClassVar[int] = 2

    @nn.compact
    def __call__(self, state: jax.Array, inputs: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the state (B, H), real parts before imaginary parts, and outputs (T, B, H), float32."""
        # The eigenvectors are unitary, so a random real B or C in their basis is a random complex matrix.
        kernel_in = self.param("kernel_in", _normal(0.5), (inputs.shape[-1], self.size))
        kernel_out = self.param("kernel_out", _normal(2.0), (self.size, self.size))
        # Zero is the initial value, so weight decay pulls back to the initial dynamics.
        shape = (self.size // 2,)
        log_rate = self.param("log_rate", nn.initializers.zeros, shape)
        frequency = self.param("frequency", nn.initializers.zeros, shape)
        log_step = self.param("log_step", nn.initializers.zeros, shape)
        if self.has_variable("params", "dynamics"):
            eigenvalue, scale = self.get_variable("params", "dynamics")
        else:
            eigenvalue, scale = _dynamics(log_rate, frequency, log_step, self.heads, self.span)
        driven = as_complex(matmul(inputs, kernel_in, self.dtype)) * scale[None, None]
        decay = jnp.where(starts[..., None], jnp.zeros((), eigenvalue.dtype), eigenvalue[None, None])
        states = linear_scan(decay, driven, as_complex(state))
        states = jnp.concatenate([states.real, states.imag], axis=-1)
        return states[-1], matmul(states, kernel_out, self.dtype)

    def precompute(self, params: Params) -> Params:
        """Return the parameters with kernels in `dtype` and with the discretized dynamics."""
        log_rate, frequency, log_step = (params[name] for name in ("log_rate", "frequency", "log_step"))
        dynamics = _dynamics(log_rate, frequency, log_step, self.heads, self.span)
        return {**super().precompute(params), "dynamics": dynamics}


def _normal(scale: float) -> nn.initializers.Initializer:
    """Return an initializer with variance scale / inputs.

    Real and imaginary part share the variance of B's entries, 1 / inputs. The factor 2 of y = 2 Re(C x) is part of the
    output kernel, whose H inputs are H / 2 real and H / 2 imaginary parts.
    """
    return nn.initializers.variance_scaling(scale, "fan_in", "truncated_normal")


def _dynamics(
    log_rate: jax.Array, frequency: jax.Array, log_step: jax.Array, blocks: int, span: int
) -> tuple[jax.Array, jax.Array]:
    """Return exp(Λ Δ) and the scale of the input, Λ⁻¹ (exp(Λ Δ) - 1), complex64 (P / 2,) each."""
    frequencies, steps = initial_dynamics(2 * log_rate.shape[0], blocks, span)
    rate, turn, step = _RATE * jnp.exp(log_rate), frequencies + frequency, steps * jnp.exp(log_step)
    discrete = jnp.exp(lax.complex(-rate * step, turn * step))
    return discrete, (discrete - 1) / lax.complex(-rate, turn)


@cache
def initial_dynamics(size: int, blocks: int, span: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the initial frequencies Im λ > 0 of `blocks` HiPPO matrices, and step sizes; float32 (size / 2,) each.

    `span` is the slowest time span in steps, 0 for that of the default step sizes.
    """
    frequencies = np.tile(hippo_frequencies(size // blocks), blocks)
    # Multiples of the golden ratio spread step sizes evenly over the frequencies of a block.
    quantiles = np.modf((np.arange(size // 2) + 1) * _GOLDEN)[0]
    low, high = np.log([1 / (_RATE * span) if span else _STEPS[0], _STEPS[1]])
    return frequencies.astype(np.float32), np.exp(low + quantiles * (high - low)).astype(np.float32)


def hippo_frequencies(size: int) -> np.ndarray:
    """Return the positive imaginary parts of the eigenvalues of HiPPO-N, float64 (size / 2,).

    HiPPO-N is the normal part of HiPPO-LegS. It is -1/2 on the diagonal, plus a skew-symmetric matrix
    with entries -√((n + 1/2) (k + 1/2)) below the diagonal.
    """
    root = np.sqrt(np.arange(size) + 0.5)
    below = np.tril(np.outer(root, root), -1)
    return np.linalg.eigvalsh(1j * (below - below.T))[size // 2 :]
