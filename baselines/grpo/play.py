"""Text episodes: a session pool, and a writer of the replies."""

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baselines.errors import ConfigError
from baselines.grpo.model import Sizes, sample
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD, Tokenizer
from jaxgym.levels import held_out_seeds, train_seeds
from jaxgym.serve.pool import SessionPool

_KEPT = 8

Writer = Callable[[Sequence[str]], list[str]]
"""Function from the contexts of some turns to one reply each."""


@dataclasses.dataclass(frozen=True)
class TextEpisodes:
    """Results of E episodes, and their N turns in the order in which they were played.

    Attributes:
        returns: Discounted returns, float64 (E,).
        is_solved: bool (E,).
        lengths: Number of turns, int64 (E,).
        invalid_replies: Number of invalid replies, int64 (E,).
        episode: Episode of each turn, int64 (N,).
        followed: Discounted return from each turn on, float64 (N,).
        contexts, replies: N of each.
        last_texts: Text after the last turn of each episode.
    """

    returns: np.ndarray
    is_solved: np.ndarray
    lengths: np.ndarray
    invalid_replies: np.ndarray
    episode: np.ndarray
    followed: np.ndarray
    contexts: list[str]
    replies: list[str]
    last_texts: list[str]

    def transcript(self, episode: int) -> str:
        """Return the transcript of one episode; with context `chat`, each context repeats the earlier turns."""
        own = np.flatnonzero(self.episode == episode)
        turns = [f"{self.contexts[turn]}\n> {self.replies[turn]}\n\n" for turn in own]
        return f"{''.join(turns)}{self.last_texts[episode]}\n"


@dataclasses.dataclass(frozen=True)
class Chain:
    """A session pool and the settings of the run that plays in it."""

    pool: SessionPool
    settings: Settings
    system_prompt: str

    @classmethod
    def of(cls, settings: Settings) -> "Chain":
        """Build the chain of a run.

        Raises:
            ConfigError: if a reply of the settings is rejected.
            UnknownIdError, OptionError: see `jaxgym.serve.pool.SessionPool.prepare`.
        """
        pool = SessionPool(capacity=settings.sessions)
        chain = cls(pool, settings, pool.prepare(settings.env, settings.session_options))
        chain.check_form()
        return chain

    def check_form(self) -> None:
        """Check that the replies of the settings are valid actions.

        Raises:
            ConfigError: if a reply is invalid.
        """
        for reply in self.settings.replies:
            if self.play([0], lambda _, reply=reply: [reply]).invalid_replies.any():
                raise ConfigError(
                    f"--replies: expected valid actions, got {reply!r}. Use the format of the system prompt."
                )

    def openings(self, seeds: Sequence[int]) -> list[str]:
        """Return the first observation texts of levels."""
        texts = list[str]()
        for part in self._parts(seeds):
            opened = self._open(part)
            texts += [opening.text for opening in opened]
            self.pool.close([opening.id for opening in opened])
        return texts

    def _parts(self, seeds: Sequence[int]) -> list[Sequence[int]]:
        return [seeds[start : start + self.pool.capacity] for start in range(0, len(seeds), self.pool.capacity)]

    def _open(self, seeds: Sequence[int]) -> list[Any]:
        return self.pool.open_many(self.settings.env, [int(seed) for seed in seeds], self.settings.session_options)

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the training seeds, uint32 (n,), and the held-out seeds, uint32 (held_out_levels,).

        Raises:
            ConfigError: if too few levels are left for training or evaluation.
        """
        settings, count = self.settings, self.settings.held_out_levels
        training = train_seeds(settings.train_levels)
        if not settings.new_openings:
            return training, held_out_seeds(count)
        training = training[~self._kept_for_evaluation(training)]
        candidates = held_out_seeds(4 * _KEPT * count)
        evaluated = candidates[self._kept_for_evaluation(candidates)][:count]
        if len(evaluated) < count or not len(training):
            raise ConfigError(
                f"expected training levels and {count} held-out levels, got {len(training)} and {len(evaluated)}: one "
                f"first text in {_KEPT} is held out. Give more --train-levels, fewer --held-out-levels, or "
                "--no-new-openings, which separates levels by seed alone."
            )
        return training, evaluated

    def _kept_for_evaluation(self, seeds: np.ndarray) -> np.ndarray:
        """Return whether levels start with a text that is held out from training, bool (n,).

        The checksum of the text decides, so both kinds of levels have the same distribution.
        """
        return np.asarray([zlib.crc32(text.encode()) % _KEPT == 0 for text in self.openings(seeds.tolist())])

    def play_all(self, seeds: Sequence[int], write: Writer) -> list[TextEpisodes]:
        """Play one episode of each level, at most `pool.capacity` at a time."""
        return [self.play(part, write) for part in self._parts(seeds)]

    def play(self, seeds: Sequence[int], write: Writer) -> TextEpisodes:
        """Play one episode of each level to its end, at most `pool.capacity` of them."""
        opened = self._open(seeds)
        ids, texts = [opening.id for opening in opened], [opening.text for opening in opened]
        histories = [self.system_prompt] * len(ids)
        count = len(ids)
        is_solved = np.zeros(count, bool)
        lengths, invalid_replies = np.zeros(count, int), np.zeros(count, int)
        order, rewards, contexts, replies = list[int](), list[float](), list[str](), list[str]()
        playing = list(range(count))
        while playing:
            if self.settings.context == "chat":
                for episode in playing:
                    histories[episode] += f"\n\n{texts[episode]}"
                asked = [histories[episode] for episode in playing]
            else:
                asked = [texts[episode] for episode in playing]
            written = write(asked)
            results = self.pool.step([ids[episode] for episode in playing], written)
            order += playing
            contexts += asked
            replies += written
            rewards += [result.reward for result in results]
            for episode, reply, result in zip(playing, written, results, strict=True):
                texts[episode] = result.text
                histories[episode] += f"\n{reply}"
                lengths[episode] += 1
                invalid_replies[episode] += result.invalid_reply is not None
                is_solved[episode] = result.is_solved
            ended = [result.terminated or result.truncated for result in results]
            playing = [episode for episode, has_ended in zip(playing, ended, strict=True) if not has_ended]
        self.pool.close(ids)
        returns, followed = discounted(rewards, order, count, self.settings.gamma)
        return TextEpisodes(
            returns, is_solved, lengths, invalid_replies, np.asarray(order), followed, contexts, replies, texts
        )


def discounted(
    rewards: Sequence[float], order: Sequence[int], count: int, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Discount rewards per turn.

    Args:
        rewards: Rewards of N turns of several episodes, in the order in which they were played.
        order: Episode of each turn.
        count: Number of episodes.
        gamma: Discount per turn.

    Returns:
        Discounted return of each episode, float64 (count,), and from each turn on, float64 (N,).
    """
    returns, followed = np.zeros(count), np.zeros(len(rewards))
    for turn in reversed(range(len(rewards))):
        episode = order[turn]
        followed[turn] = returns[episode] = rewards[turn] + gamma * returns[episode]
    return returns, followed


class RandomWriter:
    """Writer that samples one of some valid replies at random."""

    def __init__(self, replies: Sequence[str], seed: int):
        self._replies, self._generator = replies, np.random.default_rng(seed)

    def __call__(self, contexts: Sequence[str]) -> list[str]:
        """Return a random reply to each context."""
        choices: list[int] = self._generator.integers(len(self._replies), size=len(contexts)).tolist()
        return [self._replies[choice] for choice in choices]


_sample = jax.jit(sample, static_argnums=0)


class ModelWriter:
    """Writer that samples from a model and keeps the tokens."""

    def __init__(
        self, sizes: Sizes, tokenizer: Tokenizer, params: Any, key: jax.Array, batch: int, temperature: float = 1.0
    ):
        self._sizes, self._tokenizer, self._params = sizes, tokenizer, params
        self._key, self._batch, self._temperature = key, batch, jnp.float32(temperature)
        self._kept = list[tuple[np.ndarray, ...]]()

    def __call__(self, contexts: Sequence[str]) -> list[str]:
        """Return a reply to each context; replies are sampled in batches of one size."""
        prompts = prompts_of(self._tokenizer, contexts, self._sizes.prompt)
        room = -len(prompts) % self._batch
        filled = np.concatenate([prompts, np.repeat(prompts[:1], room, axis=0)])
        sampled = list[tuple[jax.Array, jax.Array]]()
        for start in range(0, len(filled), self._batch):
            self._key, key = jax.random.split(self._key)
            chunk = filled[start : start + self._batch]
            sampled.append(_sample(self._sizes, self._params, chunk, key, self._temperature))
        tokens, log_probabilities = (
            np.concatenate([np.asarray(part) for part in column])[: len(prompts)]
            for column in zip(*sampled, strict=True)
        )
        self._kept.append((prompts, tokens, log_probabilities))
        return [self._tokenizer.decode(reply) for reply in tokens.tolist()]

    @property
    def tokens(self) -> tuple[np.ndarray, ...]:
        """Prompts, replies and log-probabilities of all turns so far, in order; see `learner.TurnBatch`."""
        return tuple(np.concatenate(column) for column in zip(*self._kept, strict=True))


def prompts_of(tokenizer: Tokenizer, contexts: Sequence[str], slots: int) -> np.ndarray:
    """Return contexts as prompts, int32 (N, slots), truncated or padded on the left."""
    prompts = np.full((len(contexts), slots), PAD, np.int32)
    for row, context in zip(prompts, contexts, strict=True):
        tokens = tokenizer.encode(context)[-slots:]
        if tokens:
            row[-len(tokens) :] = tokens
    return prompts
