"""Transformer-XL as an agent's memory: each step attends to the block inputs of the last steps of its episode.

Dai et al., 2019 (arXiv 1901.02860), in the form of Pleines et al., JMLR 26(6), 2025 (arXiv 2309.17207): stored block
inputs as memory, absolute positions, one linear layer after attention; and the gates of Parisotto et al., 2019 (arXiv
1910.06764). Differences from the published code: a step also attends to itself, its query has a position, and scores
are scaled by the width of a head.

The entry that a step stores for later steps depends on that step alone. Learning therefore projects each entry once to
a key and a value, and not once for each step that attends to it. While acting, entries are kept in a ring buffer and
are never projected: each environment has a single query, so the key projection is applied to the query and the value
projection to the attention output (`Block.read_once`). The buffer therefore stays valid when the parameters change.

Inside, the axis of environments comes before time: the steps of an environment, and the window before them, are
adjacent for the products of attention.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, Params, Shape

_LONGEST_WAVE = 10_000.0  # steps
_EPSILON = 1e-6  # added to variances
_LAYERS = 3  # if the settings do not give a number
_ALIGNMENT = 8  # rows come in multiples of this number, which suits matrix units


class Window(NamedTuple):
    """The last steps of each environment as ring buffers of S slots, at least as many as a step can attend to.

    The `time` newest slots belong to the current episode.
    """

    entries: tuple[jax.Array, ...]  # each block's inputs with their positions, standardized, (B, S, D)
    slot: jax.Array  # next slot to write, int32 (B,)
    time: jax.Array  # next step of the episode, int32 (B,)


class Gate(nn.Module):
    """Gated recurrent unit in place of a residual sum.

    Attributes:
        bias: initial bias of the gate towards the identity.
    """

    bias: float

    @nn.compact
    def __call__(self, stream: jax.Array, update: jax.Array) -> jax.Array:
        """Map stream and update, (..., D) each, to the new stream (..., D)."""
        size = stream.shape[-1]

        def linear(name: str, inputs: jax.Array) -> jax.Array:
            return nn.Dense(size, use_bias=False, kernel_init=nn.initializers.xavier_uniform(), name=name)(inputs)

        reset = nn.sigmoid(linear("reset_update", update) + linear("reset_stream", stream))
        share = nn.sigmoid(linear("share_update", update) + linear("share_stream", stream) - self.bias)
        candidate = jnp.tanh(linear("candidate_update", update) + linear("candidate_stream", reset * stream))
        return stream + share * (candidate - stream)


class Linear(nn.Module):
    """Linear layers side by side, with the gain and offset of the layer norm before them folded in.

    Rows then only need to be standardized, which is the same for every norm of these rows, and no gradient is summed
    over all rows for the norm alone.

    Attributes:
        names: names of the layers, each of which has as many outputs as inputs.
        dtype: type of the operands and of the result; parameters are float32.
        use_bias: whether the layers have a bias of their own.
    """

    names: tuple[str, ...]
    dtype: Any
    use_bias: bool = False

    @nn.compact
    def folded(self, size: int) -> tuple[jax.Array, jax.Array]:
        """Return kernel (D, n D) and bias (n D,) of n layers for standardized rows of width D = `size`, float32."""
        if self.has_variable("params", "folded"):
            return self.get_variable("params", "folded")
        scale = self.param("scale", nn.initializers.ones, (size,))
        offset = self.param("offset", nn.initializers.zeros, (size,))
        xavier = nn.initializers.xavier_uniform()
        kernel = jnp.concatenate([self.param(name, xavier, (size, size)) for name in self.names], axis=1)
        bias = (offset[:, None] * kernel).sum(axis=0)
        if self.use_bias:
            bias = bias + self.param("bias", nn.initializers.zeros, (kernel.shape[1],))
        return scale[:, None] * kernel, bias

    def __call__(self, rows: jax.Array) -> jax.Array:
        """Map standardized rows (..., D) to (..., n D) for n layers."""
        return _affine(rows, *self.folded(rows.shape[-1]), self.dtype)


class Block(nn.Module):
    """Attention and a linear layer, each with a layer norm before it, and added to the stream or gated into it.

    Attributes:
        size: width D of the stream.
        heads: attention heads, a divisor of D.
        gated: whether the stream goes through gates.
        gate_bias: initial bias of the gates towards the identity.
        dtype: type of the matrix products' operands; the stream is float32.
    """

    size: int
    heads: int
    gated: bool
    gate_bias: float = 2.0
    dtype: Any = jnp.float32

    def setup(self) -> None:
        """Create the layers."""
        self.query = Linear(("query",), self.dtype)
        self.entry = Linear(("key", "value"), self.dtype)
        self.leave = self.param("leave", nn.initializers.xavier_uniform(), (self.size, self.size))
        self.linear = Linear(("linear",), self.dtype, use_bias=True)
        if self.gated:
            self.gates = Gate(self.gate_bias), Gate(self.gate_bias)

    def __call__(self, stream: jax.Array, read: jax.Array) -> jax.Array:
        """Return the stream (B, T, D), float32, after this block from the stream before it and the attention output."""
        read = read.astype(jnp.float32)
        stream = self.gates[0](stream, read) if self.gated else stream + read
        update = nn.relu(self.linear(standardize(stream))).astype(jnp.float32)
        return self.gates[1](stream, update) if self.gated else stream + update

    def read(self, rows: jax.Array, entries: jax.Array, allowed: jax.Array) -> jax.Array:
        """Return the attention output of each step over N entries of its environment, (B, T, D).

        Args:
            rows: the stream with positions, standardized, (B, T, D).
            entries: (B, N, D).
            allowed: which entries each step attends to, bool (B, T, N).
        """
        projected = (self.query(rows), *jnp.split(self.entry(entries), 2, axis=-1))
        queries, keys, values = (part.reshape(*part.shape[:-1], self.heads, -1) for part in projected)
        scores = jnp.einsum("bthd,bnhd->bhtn", queries, keys, preferred_element_type=jnp.float32)
        scores = jnp.where(allowed[:, None], scores * (self.size // self.heads) ** -0.5, -jnp.inf)
        shares = nn.softmax(scores).astype(self.dtype)
        reads = jnp.einsum("bhtn,bnhd->bthd", shares, values, preferred_element_type=jnp.float32)
        return jnp.matmul(reads.reshape(rows.shape).astype(self.dtype), self.leave.astype(self.dtype))

    def read_once(self, rows: jax.Array, entries: jax.Array, newest: jax.Array, count: jax.Array) -> jax.Array:
        """Return the output of `read` for one step of each environment, (B, 1, D), without projecting the entries.

        A score is (query Q + q)ᵀ (entry K + k), and an output the weighted sum of (entry V + v) L. Q Kᵀ and V L are
        precomputed, k adds the same to all scores of a step, and the weights sum to one.

        Args:
            rows: the stream with positions, standardized, (B, 1, D).
            entries: ring buffers, (B, S, D).
            newest: slot of the step's own entry, int32 (B,).
            count: number of entries that the step attends to, its own and those before it, int32 (B,).
        """
        ask, ask_bias, answer, answer_bias = self.acting()
        asked = _affine(rows[:, 0], ask, ask_bias, self.dtype).reshape(-1, self.heads, self.size)
        reads = read_newest(asked, entries, newest, count)
        return _affine(reads.reshape(-1, answer.shape[0]), answer, answer_bias, self.dtype)[:, None]

    def acting(self) -> tuple[jax.Array, ...]:
        """Return Q Kᵀ and V L of `read_once` with their biases, in `dtype`."""
        if self.has_variable("params", "acting"):
            return self.get_variable("params", "acting")
        heads = self.heads, self.size // self.heads
        query, query_bias = (part * heads[1] ** -0.5 for part in self.query.folded(self.size))
        (key, value), (_, value_bias) = (jnp.split(part, 2, axis=-1) for part in self.entry.folded(self.size))
        keys, values = (part.reshape(self.size, *heads) for part in (key, value))
        ask = jnp.einsum("ihd,jhd->ihj", query.reshape(self.size, *heads), keys).reshape(self.size, -1)
        ask_bias = jnp.einsum("hd,jhd->hj", query_bias.reshape(heads), keys).reshape(-1)
        answer = jnp.einsum("jhd,hdi->hji", values, self.leave.reshape(*heads, self.size)).reshape(-1, self.size)
        return tuple(part.astype(self.dtype) for part in (ask, ask_bias, answer, value_bias @ self.leave))

    def precomputed(self) -> Params:
        """Return the precomputed parameters for acting, by name."""
        linear = tuple(part.astype(self.dtype) for part in self.linear.folded(self.size))
        return {"acting": self.acting(), "linear": {"folded": linear}}


class TransformerXL(MemoryCell):
    """Transformer-XL memory: blocks over a window of the episode's last steps.

    Attributes:
        size: width D of the stream.
        layers: number of blocks.
        heads: attention heads of each block.
        length: number of steps L that a step can attend to, including itself.
        gated: whether to use GTrXL's gates.
        gate_bias: initial bias of the gates towards the identity.
        positions: whether to add positional encodings of the episode step.
        gradient: whether gradients flow into entries of the same rollout. Without them, as published, the encoder is
            not trained for later needs.
        dtype: type of the matrix products' operands and of the entries; the stream is float32.
    """

    size: int
    layers: int
    heads: int
    length: int
    gated: bool = False
    gate_bias: float = 2.0
    positions: bool = True
    gradient: bool = True
    dtype: Any = jnp.float32
    stacked_layers: ClassVar[int] = 0

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build the memory for the settings of a run.

        Raises:
            ConfigError: if the width does not divide into heads, or a rollout has a single step.
        """
        name, size, heads = config.memory, config.memory_size, config.memory_heads
        if size % (2 * heads):
            raise ConfigError(
                f"--memory-size: expected a multiple of {2 * heads}, twice --memory-heads, for {name!r}, got {size}"
            )
        if config.sequence_steps == 1:
            raise ConfigError(
                f"expected sequences of at least 2 steps for memory {name!r}, got 1. "
                "Increase --num-steps, or --bptt if given."
            )
        return cls(
            size=size,
            layers=config.memory_layers or _LAYERS,
            heads=heads,
            length=config.memory_window,
            gated=name == "gtrxl",
            gate_bias=config.memory_gate_bias,
            positions=config.memory_positions,
            gradient=config.memory_gradient,
            dtype=jnp.dtype(config.dtype),
        )

    def setup(self) -> None:
        """Create the layers."""
        self.enter = nn.Dense(self.size, dtype=self.dtype, kernel_init=nn.initializers.orthogonal(2**0.5))
        self.blocks = [self._block() for _ in range(self.layers)]
        self.norm = nn.LayerNorm()

    def _block(self, **place: Any) -> Block:
        return Block(self.size, self.heads, self.gated, self.gate_bias, self.dtype, **place)

    def precompute(self, params: Params) -> Params:
        """Return the parameters with precomputed products of kernels for acting."""
        own = dict(params)
        if "enter" in own:
            own["enter"] = jax.tree.map(lambda leaf: leaf.astype(self.dtype), own["enter"])
        for layer in range(self.layers):
            before = own[f"blocks_{layer}"]
            made: Any = self._block(parent=None).apply({"params": before}, method="precomputed")
            own[f"blocks_{layer}"] = {**before, **made}
        return own

    def initial_state(self, batch: int) -> Window:
        """Return an empty window."""
        slots = -(-self.length // _ALIGNMENT) * _ALIGNMENT
        entries = tuple(jnp.zeros((batch, slots, self.size), self.dtype) for _ in range(self.layers))
        zero = jnp.zeros(batch, jnp.int32)
        return Window(entries, zero, zero)

    def __call__(self, state: Window, inputs: jax.Array, starts: jax.Array) -> tuple[Window, jax.Array]:
        """Return the window after the last step, and the normalized stream (T, B, D), float32."""
        count, slots = starts.shape[0], state.entries[0].shape[1]
        stream = inputs if inputs.shape[-1] == self.size else self.enter(inputs)
        stream = stream.swapaxes(0, 1).astype(jnp.float32)
        latest, position = (steps.T for steps in positions_of(state.time, starts))
        write = _writer(state.slot, count, slots)
        allowed = _sight(state, latest, position, self.length) if count > 1 else None
        place = sinusoid(position, self.size) if self.positions else 0.0
        entries = []
        for before, block in zip(state.entries, self.blocks, strict=True):
            rows = standardize(stream + place)
            entry = (rows if self.gradient else lax.stop_gradient(rows)).astype(self.dtype)
            entries.append(write(before, entry))
            if allowed is None:
                # Read after writing: reading the buffer first would make a loop of steps copy it.
                read = block.read_once(rows, entries[-1], state.slot, jnp.minimum(position[:, 0] + 1, self.length))
            else:
                read = block.read(rows, jnp.concatenate([before, entry], axis=1), allowed)
            stream = block(stream, read)
        after = Window(tuple(entries), (state.slot + count) % slots, position[:, -1] + 1)
        return after, self.norm(stream.swapaxes(0, 1))


def read_newest(queries: jax.Array, rows: jax.Array, newest: jax.Array, count: jax.Array) -> jax.Array:
    """Return sums of rows, weighted by the softmax of their products with queries, (B, H, D) in the rows' type.

    Args:
        queries: queries of H heads, (B, H, D).
        rows: ring buffers of S slots, (B, S, D).
        newest: slot of the newest row, int32 (B,).
        count: number of rows to attend to, the newest and those before it, 1 to S, int32 (B,).
    """
    scores = jnp.einsum("bhd,bnd->bhn", queries, rows, preferred_element_type=jnp.float32)
    counts = ages(newest, rows.shape[1]) < count[:, None]
    shares = nn.softmax(jnp.where(counts[:, None], scores, -jnp.inf)).astype(rows.dtype)
    return jnp.einsum("bhn,bnd->bhd", shares, rows, preferred_element_type=jnp.float32).astype(rows.dtype)


def ages(newest: jax.Array, slots: int) -> jax.Array:
    """Return the age of each slot in steps, int32 (B, S), given the newest slot, int32 (B,)."""
    return (newest[:, None] - jnp.arange(slots, dtype=jnp.int32)[None]) % slots


def _affine(rows: jax.Array, kernel: jax.Array, bias: jax.Array, dtype: Any) -> jax.Array:
    """Return rows (..., D) times kernel plus bias, all in `dtype`."""
    rows = jnp.matmul(rows.astype(dtype), kernel.astype(dtype))
    return rows + jnp.expand_dims(bias.astype(dtype), range(rows.ndim - 1))


def standardize(rows: jax.Array) -> jax.Array:
    """Subtract the mean of each row (..., D) and divide by its standard deviation; float32."""
    rows = rows - rows.mean(axis=-1, keepdims=True)
    return rows * lax.rsqrt((rows**2).mean(axis=-1, keepdims=True) + _EPSILON)


def sinusoid(position: jax.Array, size: int) -> jax.Array:
    """Return sines and cosines of positions (...), float32 (..., size)."""
    waves = _LONGEST_WAVE ** (-np.arange(0, size, 2, dtype=np.float32) / size)
    angle = position[..., None].astype(jnp.float32) * jnp.expand_dims(waves, range(position.ndim))
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)[..., :size]


def positions_of(time: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return each step's index of the latest start, -1 for none, and its step of the episode; int32 (T, B) each.

    Args:
        time: step of the episode at the first step, if no episode starts there, int32 (B,).
        starts: whether the step is the first of an episode, bool (T, B).
    """
    step = jnp.arange(starts.shape[0], dtype=jnp.int32)[:, None]
    latest = lax.cummax(jnp.where(starts, step, -1))
    return latest, jnp.where(latest < 0, time[None] + step, step - latest)


def _sight(state: Window, latest: jax.Array, position: jax.Array, length: int) -> jax.Array:
    """Return the slots of the window, then the steps, that each step may attend to, bool (B, T, slots + T)."""
    latest, position = latest[..., None], position[..., None]
    step = jnp.arange(latest.shape[1], dtype=jnp.int32)
    age = step[:, None] - step[None, :]
    held = state.time[:, None] - 1 - ages(state.slot - 1, state.entries[0].shape[1])  # negative: no step of the episode
    window = (held >= 0)[:, None] & (latest < 0) & (position - held[:, None] < length)
    steps = ((age >= 0) & (age < length))[None] & (latest <= step[None, None])
    return jnp.concatenate([window, steps], axis=-1)


def _writer(slot: jax.Array, count: int, size: int) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return a function that writes rows of several steps, (B, T, D), into a ring buffer (B, S, D) from `slot` on."""
    first = max(0, count - size)  # older rows would be overwritten at once
    slots = (slot[:, None] + jnp.arange(first, count, dtype=jnp.int32)[None]) % size
    indices = jnp.arange(slots.shape[0], dtype=jnp.int32)[:, None]

    def write(buffer: jax.Array, rows: jax.Array) -> jax.Array:
        return buffer.at[indices, slots].set(rows[:, first:].astype(buffer.dtype), unique_indices=True)

    return write
