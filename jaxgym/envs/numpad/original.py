"""Levels that the original makes from its seeds: legacy random numbers of NumPy.

The original ignores the seed of `reset`; the seed of its configuration counts, and each reset draws on.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import one_by_one
from jaxgym.envs.numpad.continuous import RollingLevel, RollingNumpad
from jaxgym.envs.numpad.discrete import Level, Numpad
from jaxgym.envs.numpad.pads import NO_PAD
from jaxgym.envs.numpad.picture import PadBoard
from jaxgym.spec import Original

_DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def sequence(generator: np.random.RandomState, size: int, length: int) -> np.ndarray:
    """Draw a sequence, int32 (length,)."""
    while True:
        pads = [int(generator.randint(0, size * size))]
        while len(pads) < length:
            row, column = divmod(pads[-1], size)
            cells = [(row + down, column + right) for down, right in _DIRECTIONS]
            free = [r * size + c for r, c in cells if 0 <= r < size and 0 <= c < size and r * size + c not in pads]
            if not free:
                break
            pads.append(free[generator.randint(0, len(free))])
        else:
            return np.asarray(pads, np.int32)


def level(generator: np.random.RandomState, size: int, length: int) -> Level:
    """Draw the level of the next reset; the constructor of the original has drawn one level before the first."""
    pads = sequence(generator, size, length)
    first = np.asarray(divmod(int(pads[0]), size))
    start = generator.randint(size, size=2)
    while (start != first).all():
        start = generator.randint(size, size=2)
    made = pads, start.astype(np.int32)
    return Level(*made)  # pyright: ignore[reportArgumentType] — host arrays


def levels(seed: int, size: int, length: int, count: int) -> Level:
    """Return the levels of the first resets of an original whose configuration has this seed, as a level buffer."""
    generator = np.random.RandomState(seed)
    level(generator, size, length)
    made = [level(generator, size, length) for _ in range(count)]
    sequences, starts = (np.stack([getattr(one, name) for one in made]) for name in ("sequence", "start"))
    return Level(sequences, starts)  # pyright: ignore[reportArgumentType] — host arrays


def rolling_level(
    generator: np.random.RandomState, board: PadBoard, length: int, threshold: float = 1.0
) -> RollingLevel:
    """Draw the level of the next reset of the Numpad with a ball that rolls; its constructor draws nothing."""
    pads = sequence(generator, board.size, length)
    start = generator.random_sample(2) * board.side
    while _pad_at(start, board) == pads[0]:
        start = generator.random_sample(2) * board.side
    # Without cues, the original draws no mask.
    is_cued = generator.random_sample(length) >= threshold if threshold < 1 else np.zeros(length, bool)
    return RollingLevel(pads, start, is_cued)  # pyright: ignore[reportArgumentType] — host arrays


def _pad_at(position: np.ndarray, board: PadBoard) -> int:
    place = position // board.cell
    is_inside = (np.abs(position - (place * board.cell + board.cell / 2)) < board.pad / 2).all()
    return int(place[0]) * board.size + int(place[1]) if is_inside else NO_PAD


def _first(env: Numpad, options: Mapping[str, Any], seed: int) -> Level:
    del options
    generator = np.random.RandomState(seed)
    level(generator, env.numpad_size, env.seq_len)  # the level of the constructor
    return level(generator, env.numpad_size, env.seq_len)


def _first_rolling(env: RollingNumpad, options: Mapping[str, Any], seed: int) -> RollingLevel:
    return rolling_level(np.random.RandomState(seed), env.board, env.seq_len, options["task_cue_threshold"])


ORIGINAL = Original(one_by_one(_first), sequence=None, package=None)
ROLLING_ORIGINAL = Original(one_by_one(_first_rolling), sequence=None, package=None)
