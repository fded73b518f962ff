"""Memory of a fixed span: the last frames side by side, as channels of one image."""

from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import lax

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories.cell import Shape, Stateless

_SHOWN = {"stack4": (4, False), "stack16": (16, True)}  # frames, and whether in grey
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


class FrameStack(Stateless):
    """Shows the encoder the present frame and those before it, black where the episode has none.

    It stands before the encoder, by `see`; behind the encoder it passes its inputs on.

    Attributes:
        frames: how many frames are seen.
        grey: whether a frame is seen as one channel of brightness.
        shape: height, width and channels of a frame.
    """

    frames: int
    grey: bool
    shape: tuple[int, ...]

    @classmethod
    def from_config(cls, config: Config, frame: Shape | None = None) -> Self:
        """Return the stack of a run's settings.

        Raises:
            ConfigError: when the observation has no frame, or the settings give the stack layers.
        """
        if config.memory_layers:
            raise ConfigError(f"memory {config.memory!r} has no layers: leave out --memory-layers")
        if frame is None:
            raise ConfigError(
                f"memory {config.memory!r} stacks frames, and this observation has none: choose another --memory"
            )
        return cls(*_SHOWN[config.memory], frame)

    def initial_state(self, batch: int) -> jax.Array:
        """Black, uint8 (batch, frames - 1, H, W, C), the newest first."""
        channels = 1 if self.grey else self.shape[-1]
        return jnp.zeros((batch, self.frames - 1, *self.shape[:-1], channels), jnp.uint8)

    def see(self, state: jax.Array, observation: Any, starts: jax.Array) -> tuple[jax.Array, Any]:
        """State after the last step, and the observation with its frame stacked, uint8 (T, B, H, W, frames C)."""
        leaves, structure = jax.tree.flatten(observation)
        place = [leaf.dtype == jnp.uint8 for leaf in leaves].index(True)
        frame = _brightness(leaves[place]) if self.grey else leaves[place]
        count = starts.shape[0]
        series = jnp.concatenate([state.swapaxes(0, 1)[::-1], frame])

        # Frames of earlier episodes are blackened, also in the state: what it has shown before is of this episode.
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
    """Bytes (..., H, W, 3) to bytes (..., H, W, 1)."""
    grey = jnp.matmul(frame.astype(jnp.float32), jnp.asarray(_LUMA, jnp.float32)[:, None])
    return jnp.round(grey).astype(jnp.uint8)
