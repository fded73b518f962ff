"""Base class of memory cells, the cell without memory, and the residual stack of several cells."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from baselines.config import Config
from baselines.errors import ConfigError

State = Any
Params = Mapping[str, Any]
Shape = tuple[int, ...]


class MemoryCell(nn.Module):
    """Base class of memory cells: flax modules that carry a recurrent state along time-major arrays.

    Networks, training and evaluation use a cell only through the methods below. Your own cell subclasses this class and
    defines `initial_state` and `__call__`; `from_config`, `preprocess` and `precompute` have defaults.

    Acting is `__call__` with T = 1, learning is `__call__` with T = the sequence length. There is no second code path.

    Attributes:
        stacked_layers: Number of layers of the gated residual stack that holds the cell if `memory_layers` is 0. With
            1, a single layer is used without a stack. 0 means that the cell is never stacked and reads `memory_layers`
            itself.
    """

    stacked_layers: ClassVar[int] = 1

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build one cell for the settings of a run.

        By default, the cell's fields `size`, `dtype`, `unroll` and `span` are set from the config.

        Args:
            config: settings of the run; `config.memory` is the name of the cell.
            frame: height, width and channels of the observation's frame; None if it has none.

        Raises:
            ConfigError: if a setting or the observation does not suit the cell.
        """
        settings = {"size": config.memory_size, "dtype": jnp.dtype(config.dtype), "unroll": config.unroll}
        settings["span"] = config.memory_span
        own = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in own})

    def initial_state(self, batch: int) -> State:
        """Return the recurrent state of `batch` environments at the start of an episode, leaves (batch, ...)."""
        raise NotImplementedError  # Every cell has its own.

    def __call__(self, state: State, inputs: jax.Array, starts: jax.Array) -> tuple[State, jax.Array]:
        """Return the state after the last step, and the outputs of every step.

        Args:
            state: before the first step, leaves (B, ...).
            inputs: features of each step, (T, B, D).
            starts: whether the step is the first of an episode, bool (T, B); there the state is reset.

        Returns:
            State with leaves (B, ...), and outputs (T, B, H).
        """
        raise NotImplementedError  # Every cell has its own.

    def preprocess(self, state: State, observation: Any, starts: jax.Array) -> tuple[State, Any]:
        """Return the state and the observations for the encoder; unchanged by default.

        A cell that changes the encoder's input (frame stacking, a clock) updates its state here.

        Args:
            state: before the first step, leaves (B, ...).
            observation: leaves (T, B, ...).
            starts: bool (T, B).
        """
        return state, observation

    def precompute(self, params: Params) -> Params:
        """Return the cell's parameters in a form that is faster for acting; unchanged by default.

        The caller runs it once before a loop of steps, because the compiler does not move such work out of a loop.
        `__call__` has to give the same results for both forms. Cast kernels, or add results under new names and read
        them by `self.get_variable("params", name)`.
        """
        return params


class MatmulCell(MemoryCell):
    """Base class of recurrent layers whose matrix products all use `matmul`.

    Attributes:
        size: units H.
        dtype: type of the operands of the matrix products; sums, gates and state are float32.
        span: time span in steps of the slowest units at the start of training; 0 for the cell's own.
    """

    size: int
    dtype: Any = jnp.float32
    span: int = 0

    def initial_state(self, batch: int) -> State:
        """Return zeros, float32 (batch, H)."""
        return jnp.zeros((batch, self.size), jnp.float32)

    def precompute(self, params: Params) -> Params:
        """Return the parameters with kernels in `dtype`."""
        return cast_kernels(params, self.dtype)


class MultiHeadCell(MatmulCell):
    """Base class of recurrent layers whose units divide into `--memory-heads` heads.

    Attributes:
        heads: number of heads h; 2 h divides the number of units H.
    """

    heads: int = 4

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build one cell for the settings of a run.

        Raises:
            ConfigError: if the units do not divide into heads of even width.
        """
        del frame
        size, heads = config.memory_size, config.memory_heads
        if size % (2 * heads):
            raise ConfigError(
                f"--memory-size: expected a multiple of {2 * heads}, twice --memory-heads, "
                f"for {config.memory!r}, got {size}"
            )
        return cls(size=size, dtype=jnp.dtype(config.dtype), span=config.memory_span, heads=heads)


class Stateless(MemoryCell):
    """Base class of memories without layers or parameters, which only change the encoder's input."""

    stacked_layers: ClassVar[int] = 0

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build the cell.

        Raises:
            ConfigError: if the settings give it layers.
        """
        if config.memory_layers:
            raise ConfigError(
                f"memory {config.memory!r}: expected no --memory-layers, got {config.memory_layers}. Leave it out."
            )
        return cls()

    def __call__(self, state: State, inputs: jax.Array, starts: jax.Array) -> tuple[State, jax.Array]:
        """Return state and inputs unchanged."""
        return state, inputs


class NoMemory(Stateless):
    """No memory: the agent gets the current observation only."""

    def initial_state(self, batch: int) -> tuple[()]:
        """Return the empty state."""
        return ()


class ResidualStack(MemoryCell):
    """Stack of cells. Each layer adds its output, times a gate computed from the current stream, to a residual stream.

    The gate lets the current step select from the memory, and the stream lets gradients pass all layers.

    Attributes:
        cells: the layers' cells, which have `size` outputs.
        size: width H of the stream.
        dtype: type of the operands of the matrix products; the stream is float32.
    """

    cells: tuple[Any, ...]
    size: int
    dtype: Any = jnp.float32

    def initial_state(self, batch: int) -> tuple[State, ...]:
        """Return the state of each layer."""
        return tuple(cell.initial_state(batch) for cell in self.cells)

    @nn.compact
    def __call__(
        self, state: tuple[State, ...], inputs: jax.Array, starts: jax.Array
    ) -> tuple[tuple[State, ...], jax.Array]:
        """Return the states after the last step, and the normalized stream (T, B, H), float32."""
        stream = inputs if inputs.shape[-1] == self.size else self._dense("enter", inputs)
        stream = stream.astype(jnp.float32)
        after = []
        for layer, cell in enumerate(self.cells):
            normed = nn.RMSNorm(name=f"norm{layer}")(stream)
            cell_state, remembered = cell(state[layer], normed, starts)
            gate = nn.silu(self._dense(f"gate{layer}", normed))
            stream = stream + self._dense(f"leave{layer}", remembered * gate)
            after.append(cell_state)
        return tuple(after), nn.RMSNorm(name="norm")(stream)

    def _dense(self, name: str, inputs: jax.Array) -> jax.Array:
        kernel = self.param(name, nn.initializers.lecun_normal(), (inputs.shape[-1], self.size))
        return matmul(inputs, kernel, self.dtype)

    def precompute(self, params: Params) -> Params:
        """Return the parameters of the layers, each precomputed, and the kernels in `dtype`."""
        names = {f"cells_{layer}": cell for layer, cell in enumerate(self.cells)}
        return {
            name: names[name].precompute(own) if name in names else cast_kernels(own, self.dtype)
            for name, own in params.items()
        }


def span_biases(span: int, size: int) -> np.ndarray:
    """Return biases of gates that keep the state, for time spans from 2 to `span` steps; zeros without a span.

    The chrono initialization of Tallec and Ollivier, 2018 (arXiv 1804.11188), with quantiles in place of random
    numbers. They are added to the parameters, because weight decay would shorten learned ones.

    Returns:
        float32 (size,).
    """
    return np.log(np.geomspace(2.0, span, size, dtype=np.float32) - 1) if span else np.zeros(size, np.float32)


def matmul(left: jax.Array, right: jax.Array, dtype: Any) -> jax.Array:
    """Return the product with operands in `dtype` and the sum in float32."""
    return jnp.matmul(left.astype(dtype), right.astype(dtype), preferred_element_type=jnp.float32)


def cast_kernels(params: Any, dtype: Any) -> Any:
    """Return the parameters with all matrices in `dtype`, the operands of `matmul`; vectors are unchanged."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if leaf.ndim > 1 else leaf, params)
