"""Curricula: how often each training level is drawn, inside the jitted program.

The weights of the training levels are part of the train state, so that checkpoints contain them, and each seed of a run
has its own.

- `plr`: Prioritized Level Replay (Jiang et al., 2021, arXiv 2010.03934). The score of a level is the mean absolute
  advantage over its steps in the newest rollout that contains it. Levels are replayed by the rank of their scores, and
  by how long ago they were played. In the paper, a probability is proportional to rank^-10; here it is rank^-1, because
  hundreds of environments draw with the same weights.
- `sfl`: Sampling for Learnability (Rutherford et al., 2024, arXiv 2408.15099). `baselines.learnability` plays some
  levels and chooses those that the agent solves in about half of the episodes.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from baselines.errors import ConfigError

CurriculumName = Literal["none", "plr", "sfl"]

SHARE = 0.5
"""Share of the draws that the chosen levels get; the others are drawn from unseen levels (plr) or all levels (sfl)."""
_STALE_SHARE = 0.1
"""Share of replayed levels that are drawn by the time since they were played, as in the paper."""


class LevelScores(NamedTuple):
    """State of a curriculum for N training levels.

    Attributes:
        weights: Relative probability of each level in draws, float32 (N,).
        score: Newest score of each level, float32 (N,); 0 if it was never played.
        update: Number of the newest update whose rollout contains the level, int32 (N,); -1 if there is none.
    """

    weights: jax.Array
    score: jax.Array
    update: jax.Array


def check_curriculum(config: Any) -> None:
    """Check the settings of a run with a curriculum.

    Raises:
        ConfigError: if its levels have no weights.
    """
    if config.curriculum == "none":
        return
    flag = f"--curriculum {config.curriculum}"
    if config.train_levels < 2:  # noqa: PLR2004 — one level leaves no choice
        raise ConfigError(
            f"{flag}: expected at least 2 training levels, got --train-levels {config.train_levels}. Use "
            "--train-levels 10000."
        )
    if config.memory == "helm":
        raise ConfigError(f"{flag}: expected another memory than helm. Choose another --memory or --curriculum none.")
    if config.curriculum == "sfl" and config.devices > 1:
        raise ConfigError(f"{flag}: expected one device, got {config.devices}. Use --devices 1 or --curriculum plr.")


def initial_scores(count: int) -> LevelScores:
    """Return the state before the first update: all levels have the same weight."""
    return LevelScores(jnp.ones(count, jnp.float32), jnp.zeros(count, jnp.float32), jnp.full(count, -1, jnp.int32))


def with_weights(env_params: Any, scores: LevelScores | tuple[()]) -> Any:
    """Return environment parameters whose resets draw with the weights of a curriculum; () changes nothing."""
    return dataclasses.replace(env_params, level_weights=scores.weights) if scores else env_params


def replayed(
    scores: LevelScores, level: jax.Array, advantage: jax.Array, update: jax.Array, axis: str | None = None
) -> LevelScores:
    """Return the state of `plr` after a rollout.

    Args:
        scores: State before.
        level: Index of each step's level, int32 (T, B); negative if it is not from the level buffer.
        advantage: Advantage of each step, float32 (T, B).
        update: Number of the update, int32 ().
        axis: Axis of devices, each of which has some of the environments; None for one device.
    """
    count = scores.weights.shape[0]
    index = jnp.where(level < 0, count, level)
    sums, steps = (
        jnp.zeros(count, jnp.float32).at[index].add(values, mode="drop")
        for values in (jnp.abs(advantage), jnp.ones_like(advantage))
    )
    if axis is not None:
        sums, steps = lax.psum((sums, steps), axis)
    is_new = steps > 0
    score = jnp.where(is_new, sums / jnp.maximum(steps, 1), scores.score)
    newest = jnp.where(is_new, update, scores.update)
    return LevelScores(replay_weights(score, newest, update), score, newest)


def replay_weights(score: jax.Array, newest: jax.Array, update: jax.Array) -> jax.Array:
    """Return the probability of each level in `plr`, float32 (N,), which sum to 1.

    Args:
        score: Score of each level, float32 (N,).
        newest: Update in which each level was played last, int32 (N,); -1 if it never was.
        update: Number of the newest update, int32 ().
    """
    is_seen = newest >= 0
    order = jnp.argsort(jnp.where(is_seen, -score, jnp.inf))
    place = jnp.arange(1, len(score) + 1, dtype=jnp.float32)
    by_rank = jnp.zeros_like(score).at[order].set(1 / place)
    by_age = (update - newest).astype(jnp.float32)
    replay = (1 - _STALE_SHARE) * _shares(by_rank, is_seen) + _STALE_SHARE * _shares(by_age, is_seen)
    replay = _shares(replay, is_seen)
    share = jnp.where(is_seen.all(), 1.0, jnp.where(is_seen.any(), SHARE, 0.0))
    return share * replay + (1 - share) * _shares(jnp.ones_like(score), ~is_seen)


def _shares(values: jax.Array, is_kept: jax.Array) -> jax.Array:
    """Return the values of some entries, divided by their sum; 0 for the others, or for all if the sum is 0."""
    kept = jnp.where(is_kept, values, 0.0)
    total = kept.sum()
    return jnp.where(total > 0, kept / jnp.maximum(total, jnp.finfo(jnp.float32).tiny), 0.0)


def learnable_weights(count: int, candidates: jax.Array, success: jax.Array, kept: int) -> jax.Array:
    """Return the probability of each level in `sfl`, float32 (N,), which sum to 1.

    Args:
        count: Number of levels, N.
        candidates: Index of each level that was played, int32 (M,), all different.
        success: Share of the episodes of each candidate that succeeded, float32 (M,).
        kept: Number of candidates to choose: those with the largest p (1 - p), where p is the share.
    """
    learnability = success * (1 - success)
    _, best = lax.top_k(learnability, kept)
    chosen = jnp.where(learnability[best] > 0, 1.0, 0.0)
    share = jnp.where(chosen.any(), SHARE, 0.0)
    uniform = jnp.full(count, (1 - share) / count, jnp.float32)
    return uniform.at[candidates[best]].add(share * chosen / jnp.maximum(chosen.sum(), 1))


def effective_levels(weights: jax.Array) -> jax.Array:
    """Return the number of equally likely levels with the same entropy as the draws, float32 ()."""
    share = weights / weights.sum()
    return jnp.exp(-jnp.sum(jax.scipy.special.xlogy(share, share)))
