"""Random numbers of `numpy.random.default_rng(seed)`, for many seeds in parallel.

The raw words come from NumPy's bit generator PCG64, whose stream never changes. Words are converted to integers and
reals as in NumPy 2.x's `Generator`, but for a thousand seeds at a time.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

_HALF_BITS = np.uint64(32)
_LOWER_HALF = np.uint64(0xFFFFFFFF)
_REAL_SHIFT = np.uint64(11)
_REAL_UNIT = 2.0**-53
_NO_WORD = -1
_BATCH = 1024
"""Number of seeds in a batch, so that one screen for each fits a processor's cache."""

Places = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass
class Draws:
    """Streams of n seeds, each at its own place.

    A real number takes a whole word. An integer takes half a word, the lower half first; the upper half is used by the
    next integer, also after reals in between.

    Attributes:
        seeds: uint32 (n,).
        generators: Generators of the words of each seed.
        words: Fetched words, uint64 (w, n).
        following: Index of the next whole word, int64 (n,).
        waiting: Index of the word whose upper half is unused, int64 (n,); -1 for none.
        start_of_play: Place of the streams after the draws of the reset, if more was drawn after them.
    """

    seeds: np.ndarray
    generators: list[np.random.PCG64]
    words: np.ndarray
    following: np.ndarray
    waiting: np.ndarray
    start_of_play: Places | None = None

    @classmethod
    def of(cls, seeds: Sequence[int] | np.ndarray, num_words: int = 64) -> "Draws":
        """Return the streams of seeds, with `num_words` words fetched in advance; more are fetched on demand."""
        generators = [np.random.PCG64(int(seed)) for seed in seeds]
        start = np.zeros(len(generators), dtype=np.int64)
        draws = cls(
            np.asarray(seeds, dtype=np.uint32),
            generators,
            np.zeros((0, len(generators)), dtype=np.uint64),
            start,
            start + _NO_WORD,
        )
        draws.fetch(num_words)
        return draws

    def __len__(self) -> int:
        return len(self.generators)

    def fetch(self, count: int) -> None:
        """Fetch the next words of all seeds."""
        more = np.empty((count, len(self)), dtype=np.uint64)
        for column, generator in enumerate(self.generators):
            more[:, column] = generator.random_raw(count)
        self.words = np.concatenate([self.words, more])

    def _word(self, number: np.ndarray) -> np.ndarray:
        missing = int(number.max()) + 1 - len(self.words)
        if missing > 0:
            self.fetch(max(missing, len(self.words)))
        return self.words[number, np.arange(len(self))]

    @property
    def places(self) -> Places:
        """Current places of the streams, for `go_to`."""
        return self.following.copy(), self.waiting.copy()

    def go_to(self, places: Places) -> None:
        """Move the streams to other places."""
        self.following, self.waiting = (place.copy() for place in places)

    def _halves(self, taking: np.ndarray) -> np.ndarray:
        is_waiting = self.waiting != _NO_WORD
        word = self._word(np.where(is_waiting, self.waiting, self.following))
        half = np.where(is_waiting, word >> _HALF_BITS, word & _LOWER_HALF)
        left = np.where(is_waiting, _NO_WORD, self.following)
        self.following = self.following + (taking & ~is_waiting)
        self.waiting = np.where(taking, left, self.waiting)
        return half

    def integers(self, low: int, high: np.ndarray | int, where: np.ndarray | bool = True) -> np.ndarray:
        """Draw an integer from `low` to `high` - 1 for each seed, int64 (n,), as `Generator.integers` does.

        Args:
            low: Smallest value.
            high: Largest value plus 1, which may differ between seeds.
            where: Seeds that draw; the others get `low` and do not advance.
        """
        size = np.broadcast_to(np.asarray(high, dtype=np.int64) - low, len(self)).astype(np.uint64)
        # NumPy draws nothing if there is only one value.
        taking = np.broadcast_to(where, len(self)) & (size > 1)
        size = np.maximum(size, np.uint64(1))
        rejected = (_LOWER_HALF + np.uint64(1) - size) % size
        drawn = np.zeros(len(self), dtype=np.int64)
        while taking.any():
            product = self._halves(taking) * size
            fits = taking & ((product & _LOWER_HALF) >= rejected)
            drawn = np.where(fits, (product >> _HALF_BITS).astype(np.int64), drawn)
            taking = taking & ~fits
        return low + drawn

    def uniform(self, low: float, high: float, where: np.ndarray | bool = True) -> np.ndarray:
        """Draw a real number for each seed, float64 (n,), as `Generator.uniform` does; see `integers`."""
        taking = np.broadcast_to(where, len(self))
        share = (self._word(self.following) >> _REAL_SHIFT).astype(np.float64) * _REAL_UNIT
        self.following = self.following + taking
        return low + (high - low) * share

    def choice(self, values: Sequence[int], where: np.ndarray | bool = True) -> np.ndarray:
        """Draw one of some integers for each seed, int64 (n,), as `Generator.choice` does; see `integers`."""
        return np.asarray(values, dtype=np.int64)[self.integers(0, len(values), where)]


class Stream:
    """Stream of one seed, for levels whose number of draws depends on earlier draws.

    It starts at the place of this seed's stream in a `Draws`, and `stop` moves that stream to where it has arrived.
    """

    def __init__(self, draws: Draws, column: int) -> None:
        """Start at the place of the stream of one seed, given by its column."""
        self._draws, self._column = draws, column
        self._words: list[int] = draws.words[:, column].tolist()
        self._following, self._waiting = int(draws.following[column]), int(draws.waiting[column])

    def _word(self, number: int) -> int:
        while number >= len(self._words):
            self._draws.fetch(len(self._words))
            self._words = self._draws.words[:, self._column].tolist()
        return self._words[number]

    def _half(self) -> int:
        if self._waiting != _NO_WORD:
            half = self._word(self._waiting) >> 32
            self._waiting = _NO_WORD
            return half
        half = self._word(self._following) & 0xFFFFFFFF
        self._waiting = self._following
        self._following += 1
        return half

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high` - 1, as `Generator.integers` does."""
        size = high - low
        if size == 1:  # NumPy draws nothing if there is only one value.
            return low
        rejected = ((1 << 32) - size) % size
        product = self._half() * size
        while product & 0xFFFFFFFF < rejected:
            product = self._half() * size
        return low + (product >> 32)

    def share(self) -> float:
        """Draw a real number from 0 to 1, as `Generator.uniform` does."""
        word = self._word(self._following)
        self._following += 1
        return (word >> 11) * _REAL_UNIT

    def stop(self) -> None:
        """Move the stream of this seed in the `Draws` to here."""
        self._draws.following[self._column], self._draws.waiting[self._column] = self._following, self._waiting


def whole(values: np.ndarray, dtype: type[np.integer[Any]] = np.int32) -> Any:
    """Cast whole numbers to the dtype of a level's fields; the result stays on the host."""
    return values.astype(dtype)


def one_by_one(level: Callable[[Any, Mapping[str, Any], int], Any]) -> Callable[..., Any]:
    """Return a function of environment, options and seeds, uint32 (n,), to n levels; `level` draws that of one seed."""

    def levels_of(env: Any, options: Mapping[str, Any], seeds: np.ndarray) -> Any:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(level(env, options, int(seed)) for seed in seeds))

    return levels_of


def by_seed(levels: Callable[[Any, Mapping[str, Any], Draws], Any], num_words: int) -> Callable[..., Any]:
    """Return a function of environment, options and seeds, uint32 (n,), to n levels, which runs in batches.

    `levels` is the same function for the streams of a batch; a level typically takes `num_words` words.
    """

    def levels_of(env: Any, options: Mapping[str, Any], seeds: np.ndarray) -> Any:
        batches = np.array_split(seeds, -(-len(seeds) // _BATCH))
        parts = [levels(env, options, Draws.of(batch, num_words)) for batch in batches]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    return levels_of
