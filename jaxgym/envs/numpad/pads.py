"""Rules that both forms of the Numpad share: the hidden sequence of pads, and the lights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts

SMALLEST, LARGEST = 2, 4
"""Rows and columns of pads."""

NO_PAD = -1
_NEIGHBORS = np.asarray([[0, 1], [0, -1], [1, 0], [-1, 0]], np.int32)
"""Rows and columns of the next pad, relative to the last one."""


@struct.dataclass
class SequenceProgress:
    """Progress through the sequence.

    Attributes:
        lights: Whether each pad is lit, bool (k²,).
        count: Number of pads of the sequence that were pressed in order, int32 ().
        best: Largest index in the sequence for which a reward was given since its last completion, int32 (); -1 before.
        has_completed: Whether the last step completed the sequence, bool (). All its lights are shown then.
    """

    lights: jax.Array
    count: jax.Array
    best: jax.Array
    has_completed: jax.Array

    @classmethod
    def at_start(cls, num_pads: int) -> "SequenceProgress":
        """Return the progress before the first step."""
        return cls(jnp.zeros(num_pads, bool), jnp.int32(0), jnp.int32(-1), jnp.zeros((), bool))


def press(progress: SequenceProgress, pad: jax.Array) -> tuple[SequenceProgress, jax.Array]:
    """Press the next pad of the sequence; return the progress and whether it is rewarded, bool ().

    Args:
        progress: The progress before.
        pad: The pad, int32 ().
    """
    is_rewarded = progress.count > progress.best
    best = jnp.maximum(progress.best, progress.count)
    count = progress.count + 1
    lights = progress.lights | (np.arange(len(progress.lights), dtype=np.int32) == pad)
    return SequenceProgress(lights, count, best, jnp.zeros((), bool)), is_rewarded


def complete(progress: SequenceProgress, is_complete: jax.Array) -> SequenceProgress:
    """Return the progress after a step that may have completed the sequence: then it starts again without lights."""
    return SequenceProgress(
        lights=progress.lights & ~is_complete,
        count=jnp.where(is_complete, 0, progress.count),
        best=jnp.where(is_complete, -1, progress.best),
        has_completed=is_complete,
    )


def sequence_lights(sequence: jax.Array, num_pads: int) -> jax.Array:
    """Return the pads of a sequence, bool (k²,)."""
    return (np.arange(num_pads, dtype=np.int32)[:, None] == sequence[None]).any(axis=1)


def hidden(sequence: jax.Array, count: jax.Array, size: int) -> facts.Facts:
    """Return the hidden facts: the sequence, and its next pad after `count` pads."""
    return {
        "sequence": facts.Fact(sequence, size * size, first=1),
        "next_pad": facts.Fact(sequence[count], size * size, first=1),
    }


def sample_sequence(key: jax.Array, size: int, length: int) -> jax.Array:
    """Sample a sequence of different pads, each next to the one before, int32 (length,); consumes `key`.

    Each pad is uniform among the free neighbors of the last one. A sequence that gets stuck is sampled again.
    """

    def attempt(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_first, key_noise = jax.random.split(key)
        first = jax.random.randint(key_first, (), 0, size * size, jnp.int32)
        noises = jax.random.uniform(key_noise, (length - 1, len(_NEIGHBORS)), jnp.float32)
        is_used = np.arange(size * size, dtype=np.int32) == first

        def step(carry: tuple[jax.Array, jax.Array, jax.Array], noise: jax.Array) -> Any:
            last, is_used, is_stuck = carry
            cells = jnp.stack([last // size, last % size])[None] + _NEIGHBORS
            is_inside = ((cells >= 0) & (cells < size)).all(axis=1)
            pads = jnp.where(is_inside, cells[:, 0] * size + cells[:, 1], 0)
            is_free = is_inside & ~is_used[pads]
            pad = pads[jnp.argmax(jnp.where(is_free, noise, -1.0))]
            is_used = is_used | (np.arange(size * size, dtype=np.int32) == pad)
            return (pad, is_used, is_stuck | ~is_free.any()), pad

        (_, _, is_stuck), rest = jax.lax.scan(step, (first, is_used, jnp.zeros((), bool)), noises)
        return jnp.concatenate([first[None], rest]), is_stuck

    def again(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        key, key_attempt = jax.random.split(carry[0])
        return key, *attempt(key_attempt)

    start = again((key, jnp.zeros(length, jnp.int32), jnp.ones((), bool)))
    return jax.lax.while_loop(lambda carry: carry[2], again, start)[1]


def is_sequence(sequences: np.ndarray, size: int) -> np.ndarray:
    """Return which sequences have different pads, each next to the one before; (n, L) to bool (n,)."""
    is_inside = ((sequences >= 0) & (sequences < size * size)).all(axis=1)
    rows, columns = sequences // size, sequences % size
    distance = np.abs(np.diff(rows, axis=1)) + np.abs(np.diff(columns, axis=1))
    ordered = np.sort(sequences, axis=1)
    return is_inside & (distance == 1).all(axis=1) & (np.diff(ordered, axis=1) > 0).all(axis=1)
