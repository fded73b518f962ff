"""Episodes in words: sessions of a pool on one side, whatever writes replies on the other."""

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from baselines.errors import ConfigError
from baselines.grpo.model import Sizes, sample
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD, Tokeniser
from jaxgym.levels import held_out_seeds, train_seeds
from jaxgym.serve.pool import SessionPool

_KEPT = 8

Writer = Callable[[Sequence[str]], list[str]]
"""Takes the contexts of some turns and returns a reply to each."""


@dataclasses.dataclass(frozen=True)
class TextEpisodes:
    """What E episodes came to, and their N turns in the order in which they were asked for.

    Attributes:
        returns: Rewards, discounted per turn, float64 (E,).
        is_solved: bool (E,).
        lengths: Turns, int64 (E,).
        refused: Replies that were no move, int64 (E,).
        episode: The episode of each turn, int64 (N,).
        followed: The reward of each turn and those after it in its episode, discounted per turn, float64 (N,).
        contexts, replies: N of each.
        last_texts: The text after the last turn of each episode.
    """

    returns: np.ndarray
    is_solved: np.ndarray
    lengths: np.ndarray
    refused: np.ndarray
    episode: np.ndarray
    followed: np.ndarray
    contexts: list[str]
    replies: list[str]
    last_texts: list[str]

    def transcript(self, episode: int) -> str:
        """Returns one episode in the words of both sides; contexts of `chat` repeat what came before."""
        own = np.flatnonzero(self.episode == episode)
        turns = [f"{self.contexts[turn]}\n> {self.replies[turn]}\n\n" for turn in own]
        return f"{''.join(turns)}{self.last_texts[episode]}\n"


class TurnTokens(NamedTuple):
    """Turns as a model sees them.

    Attributes:
        prompts: int32 (N, prompt), padded on the left.
        replies: int32 (N, reply), `PAD` after the end.
        log_probabilities: Of each token of the replies when they were written, float32 (N, reply).
    """

    prompts: np.ndarray
    replies: np.ndarray
    log_probabilities: np.ndarray


@dataclasses.dataclass(frozen=True)
class Chain:
    """A pool of sessions, and what is played in it."""

    pool: SessionPool
    settings: Settings
    instructions: str

    @classmethod
    def of(cls, settings: Settings) -> "Chain":
        """Returns the chain of a run.

        Raises:
            ConfigError: if a reply of the settings is refused.
            UnknownIdError, OptionError: see `jaxgym.serve.pool.SessionPool.prepare`.
        """
        pool = SessionPool(capacity=settings.sessions)
        chain = cls(pool, settings, pool.prepare(settings.env, settings.session_options))
        chain.check_form()
        return chain

    def check_form(self) -> None:
        """Checks that the replies of the settings are moves.

        Raises:
            ConfigError: if one is refused.
        """
        for reply in self.settings.replies:
            if self.play([0], lambda _, reply=reply: [reply]).refused.any():
                raise ConfigError(f"the game takes {reply!r} for no move: give --replies in the form it asks for")

    def openings(self, seeds: Sequence[int]) -> list[str]:
        """Returns the first texts of levels."""
        texts = list[str]()
        for start in range(0, len(seeds), self.pool.capacity):
            opened = self._open(seeds[start : start + self.pool.capacity])
            texts += [opening.text for opening in opened]
            self.pool.close([opening.id for opening in opened])
        return texts

    def _open(self, seeds: Sequence[int]) -> list[Any]:
        return self.pool.open_many(self.settings.env, [int(seed) for seed in seeds], self.settings.session_options)

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the seeds that are trained on, uint32 (n,), and those that are scored, uint32 (held_out_levels,).

        Raises:
            ConfigError: if too few levels have a first text that is kept for scoring, or none has another.
        """
        settings, count = self.settings, self.settings.held_out_levels
        training = train_seeds(settings.train_levels)
        if not settings.new_openings:
            return training, held_out_seeds(count)
        training = training[~self._kept_for_scoring(training)]
        candidates = held_out_seeds(4 * _KEPT * count)
        scored = candidates[self._kept_for_scoring(candidates)][:count]
        if len(scored) < count or not len(training):
            raise ConfigError(
                f"one first text in {_KEPT} is kept for scoring, which leaves {len(training)} training levels and "
                f"{len(scored)} of {count} to be scored: give more --train-levels or fewer --held-out-levels, or tell "
                "levels apart by seed alone with --no-new-openings"
            )
        return training, scored

    def _kept_for_scoring(self, seeds: np.ndarray) -> np.ndarray:
        """Returns whether levels begin with a text that is never trained on, bool (n,).

        Its checksum tells, so that levels of both kinds are alike.
        """
        return np.asarray([zlib.crc32(text.encode()) % _KEPT == 0 for text in self.openings(seeds.tolist())])

    def play(self, seeds: Sequence[int], write: Writer) -> TextEpisodes:
        """Plays one episode of each level to its end, at most `pool.capacity` of them."""
        opened = self._open(seeds)
        ids, texts = [opening.id for opening in opened], [opening.text for opening in opened]
        histories = [self.instructions] * len(ids)
        count = len(ids)
        is_solved = np.zeros(count, bool)
        lengths, refused = np.zeros(count, int), np.zeros(count, int)
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
            outcomes = self.pool.step([ids[episode] for episode in playing], written)
            order += playing
            contexts += asked
            replies += written
            rewards += [outcome.reward for outcome in outcomes]
            for episode, reply, outcome in zip(playing, written, outcomes, strict=True):
                texts[episode] = outcome.text
                histories[episode] += f"\n{reply}"
                lengths[episode] += 1
                refused[episode] += outcome.refusal is not None
                is_solved[episode] = outcome.is_solved
            ended = [outcome.terminated or outcome.truncated for outcome in outcomes]
            playing = [episode for episode, has_ended in zip(playing, ended, strict=True) if not has_ended]
        self.pool.close(ids)
        returns, followed = discounted(rewards, order, count, self.settings.gamma)
        return TextEpisodes(returns, is_solved, lengths, refused, np.asarray(order), followed, contexts, replies, texts)


def discounted(
    rewards: Sequence[float], order: Sequence[int], count: int, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Discounts rewards per turn.

    Args:
        rewards: Of N turns of several episodes, in the order in which they were made.
        order: The episode of each turn.
        count: Number of episodes.
        gamma: Discount.

    Returns:
        The discounted rewards of each episode, float64 (count,); and those of each turn and after it, float64 (N,).
    """
    returns, followed = np.zeros(count), np.zeros(len(rewards))
    for turn in reversed(range(len(rewards))):
        episode = order[turn]
        followed[turn] = returns[episode] = rewards[turn] + gamma * returns[episode]
    return returns, followed


class RandomWriter:
    """Writes one of some replies at random: it knows the form, and not the way."""

    def __init__(self, replies: Sequence[str], seed: int):
        self._replies, self._generator = replies, np.random.default_rng(seed)

    def __call__(self, contexts: Sequence[str]) -> list[str]:
        """Returns a reply to each context, whatever it says."""
        choices: list[int] = self._generator.integers(len(self._replies), size=len(contexts)).tolist()
        return [self._replies[choice] for choice in choices]


_sample = jax.jit(sample, static_argnums=0)


class ModelWriter:
    """Writes what a model samples, and keeps its tokens."""

    def __init__(
        self, sizes: Sizes, tokeniser: Tokeniser, params: Any, key: jax.Array, batch: int, temperature: float = 1.0
    ):
        self._sizes, self._tokeniser, self._params = sizes, tokeniser, params
        self._key, self._batch, self._temperature = key, batch, jnp.float32(temperature)
        self._kept = list[TurnTokens]()

    def __call__(self, contexts: Sequence[str]) -> list[str]:
        """Returns a reply to each context; replies are sampled in batches of one size."""
        prompts = prompts_of(self._tokeniser, contexts, self._sizes.prompt)
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
        self._kept.append(TurnTokens(prompts, tokens, log_probabilities))
        return [self._tokeniser.decode(reply) for reply in tokens.tolist()]

    @property
    def tokens(self) -> TurnTokens:
        """All turns so far, in order."""
        return TurnTokens(*(np.concatenate(column) for column in zip(*self._kept, strict=True)))


def prompts_of(tokeniser: Tokeniser, contexts: Sequence[str], slots: int) -> np.ndarray:
    """Returns contexts as prompts, int32 (N, slots): cut at the left where they are longer, padded there else."""
    prompts = np.full((len(contexts), slots), PAD, np.int32)
    for row, context in zip(prompts, contexts, strict=True):
        tokens = tokeniser.encode(context)[-slots:]
        if tokens:
            row[-len(tokens) :] = tokens
    return prompts
