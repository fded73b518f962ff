"""The policy's side of HELM: the hidden state of the language model beside the features of the trainable encoder."""

from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from flax import linen as nn

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, Shape, State

LANGUAGE = "language"
"""Name of the hidden state in an observation, see `baselines.helm`."""


class Helm(MemoryCell):
    """Cell without a recurrent state: it reads the hidden state that the observation contains.

    Unlike in the published code, a layer norm with learned gain and offset scales the hidden state.

    Attributes:
        dtype: type of the outputs.
    """

    dtype: Any = jnp.float32
    stacked_layers: ClassVar[int] = 0

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build the cell.

        Raises:
            ConfigError: if the observation has no frame, or the settings give the cell layers.
        """
        if config.memory_layers:
            raise ConfigError("memory 'helm' has the layers of its language model. Leave out --memory-layers.")
        if frame is None:
            raise ConfigError("memory 'helm': expected an observation with a frame, got none. Choose another --memory.")
        return cls(jnp.dtype(config.dtype))

    def initial_state(self, batch: int) -> tuple[()]:
        """Return the empty state."""
        return ()

    def preprocess(self, state: State, observation: Any, starts: jax.Array) -> tuple[State, Any]:
        """Return the hidden states as state, (T, B, width), and the observation without them."""
        entries = dict(observation)
        return entries.pop(LANGUAGE), entries

    @nn.compact
    def __call__(self, state: State, inputs: jax.Array, starts: jax.Array) -> tuple[State, jax.Array]:
        """Return the empty state, and the hidden states of `preprocess` beside the inputs, (T, B, D + width)."""
        hidden = nn.LayerNorm(name="norm")(state.astype(jnp.float32))
        return (), jnp.concatenate([inputs.astype(self.dtype), hidden.astype(self.dtype)], axis=-1)
