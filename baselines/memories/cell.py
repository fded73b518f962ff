"""What a memory cell is, the cell without memory, and the residual stack that makes one memory of several cells."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import linen as nn

State = Any


class MemoryCell(Protocol):
    """What the training loop asks of a cell."""

    def initial_state(self, batch: int) -> State:
        """The state of `batch` lanes at the start of an episode."""
        ...

    def __call__(self, state: State, inputs: jax.Array, starts: jax.Array) -> tuple[State, jax.Array]:
        """State after the last step, and the outputs of every step."""
        ...


class NoMemory(nn.Module):
    """Passes its inputs on: the agent knows the present observation only."""

    def initial_state(self, batch: int) -> tuple[()]:
        """No state."""
        del batch
        return ()

    def __call__(self, state: tuple[()], inputs: jax.Array, starts: jax.Array) -> tuple[tuple[()], jax.Array]:
        """The inputs unchanged."""
        del starts
        return state, inputs


class ResidualStack(nn.Module):
    """Cells one above the other; each adds to a stream what it remembers, times a gate made of the present.

    The gate lets the present ask for what it needs, and the stream lets gradients pass every layer.

    Attributes:
        cells: the layers' cells, which have `size` outputs.
        size: width H of the stream.
        dtype: type of the operands of the matrix products; the stream is float32.
    """

    cells: tuple[Any, ...]
    size: int
    dtype: Any = jnp.float32

    def initial_state(self, batch: int) -> tuple[State, ...]:
        """The state of each layer."""
        return tuple(cell.initial_state(batch) for cell in self.cells)

    @nn.compact
    def __call__(
        self, state: tuple[State, ...], inputs: jax.Array, starts: jax.Array
    ) -> tuple[tuple[State, ...], jax.Array]:
        """States after the last step, and the normed stream (T, B, H), float32."""
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


def matmul(left: jax.Array, right: jax.Array, dtype: Any) -> jax.Array:
    """The product with operands in `dtype` and the sum in float32."""
    return jnp.matmul(left.astype(dtype), right.astype(dtype), preferred_element_type=jnp.float32)
