"""Transformer-XL as an agent's memory: each step attends to what the blocks saw in the last steps of its episode.

Dai et al., 2019 (arXiv 1901.02860), in the form of Pleines et al., JMLR 26(6), 2025 (arXiv 2309.17207): stored block
inputs as memory, absolute positions, one linear layer after attention; and the gates of Parisotto et al., 2019
(arXiv 1910.06764). Against the published code: a step also attends to itself, its query knows its position, and
scores are scaled by the width of a head.

An entry depends on its own step alone, so that it is projected to a key and a value once, not once for each step that
attends to it. While acting, keys and values wait in a ring buffer; `refresh` makes them anew when parameters changed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

_LONGEST_WAVE = 10_000.0  # steps


class Window(NamedTuple):
    """The last L steps of each lane as ring buffers, and where they stand."""

    entries: tuple[jax.Array, ...]  # each block's inputs, (B, L, D)
    keys: tuple[jax.Array, ...]  # (B, L, D)
    values: tuple[jax.Array, ...]  # (B, L, D)
    position: jax.Array  # step of the episode that each slot holds, -1 for none, int32 (B, L)
    slot: jax.Array  # the next to be written, int32 (B,)
    time: jax.Array  # step of the episode that comes next, int32 (B,)


class _Part(NamedTuple):
    """Some of what steps may attend to."""

    keys: jax.Array  # (B, N, D)
    values: jax.Array  # (B, N, D)
    allowed: jax.Array  # which of them each step may see, bool (B, T, N)


class Gate(nn.Module):
    """The gated recurrent unit in place of a residual sum.

    Attributes:
        bias: how far towards the identity the gate starts.
    """

    bias: float

    @nn.compact
    def __call__(self, stream: jax.Array, update: jax.Array) -> jax.Array:
        """(..., D) twice to (..., D)."""
        size = stream.shape[-1]

        def linear(name: str, inputs: jax.Array) -> jax.Array:
            return nn.Dense(size, use_bias=False, kernel_init=nn.initializers.xavier_uniform(), name=name)(inputs)

        reset = nn.sigmoid(linear("reset_update", update) + linear("reset_stream", stream))
        share = nn.sigmoid(linear("share_update", update) + linear("share_stream", stream) - self.bias)
        candidate = jnp.tanh(linear("candidate_update", update) + linear("candidate_stream", reset * stream))
        return stream + share * (candidate - stream)


class Block(nn.Module):
    """Attention and a linear layer, each normed before and added to the stream or gated into it.

    Attributes:
        size: width D of the stream.
        heads: attention heads, a divisor of D.
        gated: whether the stream goes through gates.
        gate_bias: how far towards the identity the gates start.
        positions: whether entries and queries know their step of the episode.
        dtype: type of the matrix products' operands; the stream is float32.
    """

    size: int
    heads: int
    gated: bool
    gate_bias: float = 2.0
    positions: bool = True
    dtype: Any = jnp.float32

    def setup(self) -> None:
        """Layers by name."""

        def linear(size: int, *, use_bias: bool = False) -> nn.Dense:
            xavier = nn.initializers.xavier_uniform()
            return nn.Dense(size, use_bias=use_bias, dtype=self.dtype, kernel_init=xavier)

        self.norm_query, self.norm_entry, self.norm_linear = nn.LayerNorm(), nn.LayerNorm(), nn.LayerNorm()
        self.query, self.key, self.value, self.leave = (linear(self.size) for _ in range(4))
        self.linear = linear(self.size, use_bias=True)
        if self.gated:
            self.gates = Gate(self.gate_bias), Gate(self.gate_bias)

    def project(self, entry: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys and values of entries, (..., D) each, from entries (..., D) at steps (...) of their episode."""
        entry = self.norm_entry(self._placed(entry.astype(jnp.float32), position))
        return self.key(entry), self.value(entry)

    def __call__(self, stream: jax.Array, position: jax.Array, parts: list[_Part]) -> jax.Array:
        """The stream (T, B, D) after this block, whose steps are at `position`, int32 (T, B), of their episodes."""
        query = self.query(self.norm_query(self._placed(stream, position)))
        update = self.leave(self._attend(query, parts)).astype(jnp.float32)
        stream = self.gates[0](stream, update) if self.gated else stream + update
        update = nn.relu(self.linear(self.norm_linear(stream))).astype(jnp.float32)
        return self.gates[1](stream, update) if self.gated else stream + update

    def _placed(self, rows: jax.Array, position: jax.Array) -> jax.Array:
        return rows + sinusoid(position, self.size) if self.positions else rows

    def _attend(self, query: jax.Array, parts: list[_Part]) -> jax.Array:
        """What queries (T, B, D) read from all parts together, (T, B, D)."""

        def split(rows: jax.Array) -> jax.Array:
            return rows.reshape(*rows.shape[:-1], self.heads, -1)

        def product(formula: str, left: jax.Array, right: jax.Array) -> jax.Array:
            return jnp.einsum(formula, left, split(right), preferred_element_type=jnp.float32)

        query = split(query)
        # Scores are joined, not keys: joining those would copy the window.
        scores = jnp.concatenate([product("tbhd,bnhd->bhtn", query, part.keys) for part in parts], axis=-1)
        allowed = jnp.concatenate([part.allowed for part in parts], axis=-1)[:, None]
        weights = nn.softmax(jnp.where(allowed, scores * query.shape[-1] ** -0.5, -jnp.inf)).astype(self.dtype)
        borders = np.cumsum([part.keys.shape[1] for part in parts])[:-1].tolist()
        shares = jnp.split(weights, borders, axis=-1)
        reads = [product("bhtn,bnhd->tbhd", share, part.values) for share, part in zip(shares, parts, strict=True)]
        return sum(reads[1:], start=reads[0]).reshape(*query.shape[:2], self.size)


class TransformerXL(nn.Module):
    """Blocks over the window of an episode's last steps.

    Attributes:
        size: width D of the stream.
        layers: blocks.
        heads: attention heads of each block.
        length: steps L that a step can attend to, itself among them.
        gated: GTrXL's gates.
        gate_bias: how far towards the identity they start.
        positions: whether the blocks know at which step of the episode something was.
        gradient: whether learning sends gradients into entries of the same rollout. Without, as published, nothing
            tells the encoder what will be needed later.
        dtype: type of the matrix products' operands and of what is kept; the stream is float32.
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

    def setup(self) -> None:
        """Layers by name."""
        self.enter = nn.Dense(self.size, dtype=self.dtype, kernel_init=nn.initializers.orthogonal(2**0.5))
        shape = (self.size, self.heads, self.gated, self.gate_bias, self.positions, self.dtype)
        self.blocks = [Block(*shape) for _ in range(self.layers)]
        self.norm = nn.LayerNorm()

    def initial_state(self, batch: int) -> Window:
        """Nothing in the window."""

        def empty() -> tuple[jax.Array, ...]:
            return tuple(jnp.zeros((batch, self.length, self.size), self.dtype) for _ in range(self.layers))

        zero = jnp.zeros(batch, jnp.int32)
        return Window(empty(), empty(), empty(), jnp.full((batch, self.length), -1, jnp.int32), zero, zero)

    def refresh(self, state: Window) -> Window:
        """The state with keys and values that fit the parameters."""
        pairs = [block.project(entry, state.position) for block, entry in zip(self.blocks, state.entries, strict=True)]
        keys, values = zip(*pairs, strict=True)
        return state._replace(keys=keys, values=values)

    def __call__(self, state: Window, inputs: jax.Array, starts: jax.Array) -> tuple[Window, jax.Array]:
        """Window after the last step, and the normed stream (T, B, D), float32.

        A single step takes keys and values from the state, which have to fit the parameters; several steps are for
        learning, and make them from the entries.
        """
        is_single = starts.shape[0] == 1
        if not is_single:
            state = self.refresh(state)
        stream = (inputs if inputs.shape[-1] == self.size else self.enter(inputs)).astype(jnp.float32)
        latest, position = positions_of(state.time, starts)
        write = _writer(state, starts.shape[0])
        held = write(jnp.where(latest[-1, :, None] < 0, state.position, -1), _kept_positions(latest, position))
        entries, keys, values = [], [], []
        for layer, block in enumerate(self.blocks):
            entry = stream if self.gradient else lax.stop_gradient(stream)
            new_keys, new_values = block.project(entry, position)
            entries.append(write(state.entries[layer], entry))
            keys.append(write(state.keys[layer], new_keys))
            values.append(write(state.values[layer], new_values))
            if is_single:
                # Read what was just written: of a buffer that is read first, a loop of steps would make copies.
                parts = [_Part(keys[layer], values[layer], (held >= 0)[:, None])]
            else:
                seen, seen_steps = _sight(state, latest, position)
                parts = [
                    _Part(state.keys[layer], state.values[layer], seen),
                    _Part(new_keys.swapaxes(0, 1), new_values.swapaxes(0, 1), seen_steps),
                ]
            stream = block(stream, position, parts)
        slot = (state.slot + starts.shape[0]) % self.length
        after = Window(tuple(entries), tuple(keys), tuple(values), held, slot, position[-1] + 1)
        return after, self.norm(stream)


def sinusoid(position: jax.Array, size: int) -> jax.Array:
    """Sines and cosines of positions (...), float32 (..., size)."""
    waves = _LONGEST_WAVE ** (-np.arange(0, size, 2, dtype=np.float32) / size)
    angle = position[..., None].astype(jnp.float32) * jnp.expand_dims(waves, range(position.ndim))
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)[..., :size]


def positions_of(time: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For each step the index of the latest start, -1 for none, and its step of the episode; int32 (T, B) each.

    Args:
        time: step of the episode that the first step is if nothing starts, int32 (B,).
        starts: whether the step is the first of an episode, bool (T, B).
    """
    step = jnp.arange(starts.shape[0], dtype=jnp.int32)[:, None]
    latest = lax.cummax(jnp.where(starts, step, -1))
    return latest, jnp.where(latest < 0, time[None] + step, step - latest)


def _sight(state: Window, latest: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which slots of the window, (B, T, L), and which of the steps, (B, T, T), each step may see."""
    length = state.position.shape[1]
    latest, position = latest.T[..., None], position.T[..., None]
    step = jnp.arange(latest.shape[1], dtype=jnp.int32)
    age = step[:, None] - step[None, :]
    held = state.position[:, None]
    window = (held >= 0) & (latest < 0) & (position - held < length)
    return window, ((age >= 0) & (age < length))[None] & (latest <= step[None, None])


def _kept_positions(latest: jax.Array, position: jax.Array) -> jax.Array:
    """Positions (T, B), and -1 for steps of episodes that have ended since."""
    step = jnp.arange(position.shape[0], dtype=jnp.int32)[:, None]
    return jnp.where(step >= latest[-1][None], position, -1)


def _writer(state: Window, count: int) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """A function that writes rows of `count` steps, (T, B, ...), into a ring buffer (B, L, ...)."""
    length = state.position.shape[1]
    first = max(0, count - length)  # older steps would be overwritten at once
    slots = (state.slot[:, None] + jnp.arange(first, count, dtype=jnp.int32)[None]) % length
    lanes = jnp.arange(slots.shape[0], dtype=jnp.int32)[:, None]

    def write(buffer: jax.Array, rows: jax.Array) -> jax.Array:
        rows = rows[first:].swapaxes(0, 1).astype(buffer.dtype)
        return buffer.at[lanes, slots].set(rows, unique_indices=True)

    return write
