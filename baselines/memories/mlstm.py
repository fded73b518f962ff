"""mLSTM of xLSTM: a matrix memory with exponential input gates. Beck et al., 2024 (arXiv 2405.04517)."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MultiHeadCell, matmul
from baselines.memories.chunks import from_chunks, into_chunks, log_decays

_FORGET_BIASES = (3.0, 6.0)  # of the first and last head: memories of 20 to 400 steps
_GATE_CAP = 15.0  # bound of the gates before the exponential


class Matrix(NamedTuple):
    """Matrix memory of each environment and head, divided by exp(scale), float32."""

    memory: jax.Array  # C, (B, h, H / 2h, H / h)
    norm: jax.Array  # n, (B, h, H / 2h)
    scale: jax.Array  # m, (B, h)


class MLSTM(MultiHeadCell):
    """Matrix memory C_t = f_t C_{t-1} + i_t k_t v_tᵀ, n_t = f_t n_{t-1} + i_t k_t (section 2.3).

    The output is C_tᵀ q_t / max(|n_tᵀ q_t|, 1), with each head standardized. The gate of the residual stack replaces
    the output gate and the gate of the paper's block.

    The input gate i is an exponential, and the forget gate f a sigmoid. As in xLSTM 7B (arXiv 2503.13427),
    both are capped, keys are half as wide as values, and there is no convolution. The running maximum m of the gates'
    logarithms scales the state, so that no exponential overflows (appendix A of the first paper).

    Learning runs in chunks. With H = `size` and h = `heads`, the recurrent state has H² / (2 h) + H / 2 + h numbers per
    environment: 129 KiB with H = 512 and h = 4.
    """

    stacked_layers: ClassVar[int] = 2

    def initial_state(self, batch: int) -> Matrix:
        """Return zeros, float32."""
        value = self.size // self.heads
        shape = (batch, self.heads, value // 2)
        return Matrix(*(jnp.zeros(part, jnp.float32) for part in ((*shape, value), shape, shape[:2])))

    @nn.compact
    def __call__(self, state: Matrix, inputs: jax.Array, starts: jax.Array) -> tuple[Matrix, jax.Array]:
        """Return the state after the last step and outputs (T, B, H), float32."""
        size, heads = self.size, self.heads
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * size))
        # As in the authors' code, gates start independent of the input.
        kernel_gates = self.param("kernel_gates", nn.initializers.zeros, (inputs.shape[-1], 2 * heads))
        bias_gates = self.param("bias_gates", nn.initializers.zeros, (2 * heads,))

        parts = jnp.split(matmul(inputs, kernel, self.dtype), [size // 2, size], axis=-1)
        queries, keys, values = (part.reshape(*part.shape[:2], heads, -1) for part in parts)
        # Zero is the initial value of the biases, so weight decay pulls back to the initial forget gates.
        slowest = _GATE_CAP * np.arctanh(np.log(self.span) / _GATE_CAP) if self.span else _FORGET_BIASES[1]
        forget_biases = np.linspace(_FORGET_BIASES[0], slowest, heads)
        start = np.concatenate([np.zeros(heads), forget_biases]).astype(np.float32)
        gates = matmul(inputs, kernel_gates, self.dtype) + (bias_gates + start)[None, None]
        log_write, forget = jnp.split(_GATE_CAP * jnp.tanh(gates / _GATE_CAP), 2, axis=-1)
        keys = keys * (2 * heads / size) ** 0.5
        state, read = matrix_memory(state, queries, keys, values, nn.log_sigmoid(forget), log_write, starts)
        read = nn.LayerNorm(use_bias=False, name="norm")(read)
        return state, read.reshape(*read.shape[:2], size)


def matrix_memory(
    state: Matrix,
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    log_keep: jax.Array,
    log_write: jax.Array,
    starts: jax.Array,
) -> tuple[Matrix, jax.Array]:
    """Run the matrix memory over all steps, in chunks.

    The outputs do not depend on the scales m, which therefore have no gradient.

    Args:
        state: before the first step.
        queries: (T, B, h, K).
        keys: (T, B, h, K).
        values: (T, B, h, V).
        log_keep: log f, (T, B, h).
        log_write: log i, (T, B, h).
        starts: whether the step is the first of an episode, bool (T, B).

    Returns:
        State after the last step, and the outputs (T, B, h, V).
    """
    count = starts.shape[0]
    queries, keys, values, log_keep, log_write = map(into_chunks, (queries, keys, values, log_keep, log_write))
    between, since = log_decays(log_keep, into_chunks(starts[..., None]))
    weights = between + log_write[..., None, :]
    chunk_scale = lax.stop_gradient(weights.max(axis=-1))
    weights = jnp.exp(weights - chunk_scale[..., None])
    scores = weights * jnp.einsum("nbhik,nbhjk->nbhij", queries, keys)
    keys_after = weights[..., -1, :, None] * keys
    added = jnp.einsum("nbhck,nbhcv->nbhkv", keys_after, values), keys_after.sum(axis=-2)

    def advance(state: Matrix, chunk: tuple[jax.Array, ...]) -> tuple[Matrix, Matrix]:
        memory_added, norm_added, log_kept, scale_added = chunk
        scale = lax.stop_gradient(jnp.maximum(log_kept + state.scale, scale_added))
        kept, share = jnp.exp(log_kept + state.scale - scale), jnp.exp(scale_added - scale)
        memory = kept[..., None, None] * state.memory + share[..., None, None] * memory_added
        return Matrix(memory, kept[..., None] * state.norm + share[..., None] * norm_added, scale), state

    state, before = lax.scan(advance, state, (*added, since[..., -1], chunk_scale[..., -1]))
    log_kept = since + before.scale[..., None]
    scale = lax.stop_gradient(jnp.maximum(log_kept, chunk_scale))
    kept, share = jnp.exp(log_kept - scale)[..., None], jnp.exp(chunk_scale - scale)[..., None]
    total = share * (scores @ values) + kept * (queries @ before.memory)
    norm = share * scores.sum(axis=-1, keepdims=True) + kept * (queries @ before.norm[..., None])
    return state, from_chunks(total / jnp.maximum(jnp.abs(norm), jnp.exp(-scale)[..., None]), count)
