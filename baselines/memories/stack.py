"""Frame stacking: the last frames as channels of one image."""

from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import lax

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories.cell import Shape, Stateless

_SHOWN = {"stack4": (4, False), "stack16": (16, True)}  # number of frames, and whether they are gray
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


class FrameStack(Stateless):
    """Cell that stacks the current frame and earlier frames of the episode; missing ones are black.

    `preprocess` stacks the frames before the encoder; `__call__` returns its inputs.

    Attributes:
        frames: number of stacked frames.
        gray: whether a frame is reduced to one channel of brightness.
        shape: height, width and channels of a frame.
    """

    frames: int
    gray: bool
    shape: tuple[int, ...]

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Build the stack for the settings of a run.

        Raises:
            ConfigError: if the observation has no frame, or the settings give the stack layers.
        """
        if config.memory_layers:
            raise ConfigError(
                f"memory {config.memory!r}: expected no --memory-layers, got {config.memory_layers}. Leave it out."
            )
        if frame is None:
            raise ConfigError(
                f"memory {config.memory!r}: expected an observation with a frame, got none. Choose another --memory."
            )
        return cls(*_SHOWN[config.memory], frame)

    def initial_state(self, batch: int) -> jax.Array:
        """Return black frames, uint8 (batch, frames - 1, H, W, C), the newest first."""
        channels = 1 if self.gray else self.shape[-1]
        return jnp.zeros((batch, self.frames - 1, *self.shape[:-1], channels), jnp.uint8)

    def preprocess(self, state: jax.Array, observation: Any, starts: jax.Array) -> tuple[jax.Array, Any]:
        """Return the state after the last step and the observation with its stack, uint8 (T, B, H, W, frames C)."""
        leaves, structure = jax.tree.flatten(observation)
        place = [leaf.dtype == jnp.uint8 and leaf.shape[2:] == self.shape for leaf in leaves].index(True)
        frame = _brightness(leaves[place]) if self.gray else leaves[place]
        count = starts.shape[0]
        series = jnp.concatenate([state.swapaxes(0, 1)[::-1], frame])

        # Frames of earlier episodes are set to black, also in the state, so that the state holds frames of one episode
        # only.
        step = jnp.arange(count, dtype=jnp.int32)[:, None]
        age = step - lax.cummax(jnp.where(starts, step, -self.frames))

        def back(steps: int) -> jax.Array:
            first = self.frames - 1 - steps
            return jnp.where(age[..., None, None, None] >= steps, series[first : first + count], jnp.uint8(0))

        stacked = [back(steps) for steps in range(self.frames)]
        leaves[place] = jnp.concatenate(stacked, axis=-1)
        state = jnp.stack([kept[-1] for kept in stacked[:-1]], axis=1)
        return state, jax.tree.unflatten(structure, leaves)


def _brightness(frame: jax.Array) -> jax.Array:
    """Map colors (..., H, W, 3) to brightness (..., H, W, 1), uint8."""
    gray = jnp.matmul(frame.astype(jnp.float32), jnp.asarray(_LUMA, jnp.float32)[:, None])
    return jnp.round(gray).astype(jnp.uint8)
