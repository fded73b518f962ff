"""Gated DeltaNet: an associative memory that decays and corrects its entries. Yang et al., 2024 (arXiv 2412.06464)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.memories.cell import MultiHeadCell, matmul
from baselines.memories.chunks import from_chunks, into_chunks, log_decays, short_convolution

_SPANS = (16.0, 1024.0)  # steps after which the heads keep a share 1 / e at the start of training
_TAPS = 4  # steps that the short convolution reads
_EPSILON = 1e-6  # added to squared norms

State = tuple[jax.Array, jax.Array]


class GatedDeltaNet(MultiHeadCell):
    """Gated delta rule S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read as S_tᵀ q_t (section 3.1).

    Each step computes the decay α, the writing strength β, the query q, the key k and the value v from the input.
    Queries and keys have length 1. Queries, keys and values pass a short convolution and SiLU (section 3.4). The
    outputs of each head are divided by their root mean square. The gate of the residual stack is the paper's output
    gate.

    Learning uses the chunkwise form of section 3.3: a triangular system gives the corrected values of all steps of a
    chunk at once.

    With H = `size` and h = `heads`, a value has H / h numbers and a key half as many. The recurrent state has, per
    environment, H² / (2 h) numbers for S and 6 H for the convolution: 128 KiB and 12 KiB with H = 512 and h = 4.

    Difference from the paper: the initial decays are evenly spaced, not random.
    """

    stacked_layers: ClassVar[int] = 2

    def initial_state(self, batch: int) -> State:
        """Return zeros for S, float32 (batch, h, H / 2h, H / h), and for the last three inputs of the convolution."""
        value = self.size // self.heads
        memory = jnp.zeros((batch, self.heads, value // 2, value), jnp.float32)
        return memory, jnp.zeros((batch, _TAPS - 1, 2 * self.size), jnp.float32)

    @nn.compact
    def __call__(self, state: State, inputs: jax.Array, starts: jax.Array) -> tuple[State, jax.Array]:
        """Return the state after the last step and outputs (T, B, H), float32."""
        memory, recent = state
        size, heads = self.size, self.heads
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * size))
        kernel_gates = self.param("kernel_gates", nn.initializers.lecun_normal(), (inputs.shape[-1], 2 * heads))
        bias_gates = self.param("bias_gates", nn.initializers.zeros, (2 * heads,))
        uniform = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
        convolution = self.param("convolution", uniform, (_TAPS, 2 * size))
        log_rate = self.param("log_rate", nn.initializers.zeros, (heads,))

        projected = matmul(inputs, kernel, self.dtype)
        mixed, recent = short_convolution(projected, convolution, recent, starts, self.dtype)
        parts = jnp.split(nn.silu(mixed), [size // 2, size], axis=-1)
        queries, keys, values = (part.reshape(*part.shape[:2], heads, -1) for part in parts)
        gates = matmul(inputs, kernel_gates, self.dtype) + bias_gates[None, None]
        # The spans are not parameters, because weight decay would shorten all of them.
        spans = np.geomspace(_SPANS[0], self.span or _SPANS[1], heads, dtype=np.float32)
        pace = nn.softplus(gates[..., :heads] + np.log(np.expm1(1 / spans))[None, None])
        log_keep = -jnp.exp(log_rate)[None, None] * pace
        strength = nn.sigmoid(gates[..., heads:])
        memory, read = delta_rule(memory, _unit(queries), _unit(keys), values, log_keep, strength, starts)
        read = nn.RMSNorm(name="norm")(read)
        return (memory, recent), read.reshape(*read.shape[:2], size)


def _unit(rows: jax.Array) -> jax.Array:
    """Divide rows (..., D) by their length."""
    return rows * lax.rsqrt((rows**2).sum(axis=-1, keepdims=True) + _EPSILON)


def delta_rule(
    memory: jax.Array,
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    log_keep: jax.Array,
    strength: jax.Array,
    starts: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Run the gated delta rule over all steps, in chunks.

    With u_t = β_t (v_t - α_t S_{t-1}ᵀ k_t), the rule is S_t = α_t S_{t-1} + k_t u_tᵀ. In a chunk that starts from S,
    the rows u solve a lower triangular system whose right-hand side is linear in S.

    Args:
        memory: S before the first step, (B, h, K, V).
        queries: (T, B, h, K).
        keys: (T, B, h, K), of length at most 1.
        values: (T, B, h, V).
        log_keep: log α, (T, B, h).
        strength: β, 0 to 1, (T, B, h).
        starts: whether the step is the first of an episode, bool (T, B).

    Returns:
        S after the last step, and Sᵀ q of every step, (T, B, h, V).
    """
    count = starts.shape[0]
    queries, keys, values, log_keep, strength = map(into_chunks, (queries, keys, values, log_keep, strength))
    between, since = log_decays(log_keep, into_chunks(starts[..., None]))
    kept, kept_since = jnp.exp(between), jnp.exp(since)[..., None]

    overlap = jnp.tril(kept * jnp.einsum("nbhik,nbhjk->nbhij", keys, keys) * strength[..., None], -1)
    targets = jnp.concatenate([values, kept_since * keys], axis=-1) * strength[..., None]
    if overlap.shape[-1] > 1:
        targets = lax.linalg.triangular_solve(overlap, targets, left_side=True, lower=True, unit_diagonal=True)
    written, erased = jnp.split(targets, [values.shape[-1]], axis=-1)
    keys_after = kept[..., -1, :, None] * keys

    def advance(memory: jax.Array, chunk: tuple[jax.Array, ...]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        written, erased, keys_after, kept_after = chunk
        updates = written - erased @ memory
        after = kept_after[..., None] * memory + jnp.einsum("bhck,bhcv->bhkv", keys_after, updates)
        return after, (memory, updates)

    last, (memories, updates) = lax.scan(advance, memory, (written, erased, keys_after, kept_since[..., -1, :]))
    scores = kept * jnp.einsum("nbhik,nbhjk->nbhij", queries, keys)
    read = (kept_since * queries) @ memories + scores @ updates
    return last, from_chunks(read, count)
