"""Scores of several runs: the interquartile mean, and how sure it is by a stratified bootstrap over runs.

Agarwal et al., 2021 (arXiv 2108.13264). The unit is the run: episodes of one run are averaged first, since pooling them
over runs as if they were independent makes intervals too narrow. Tasks are the strata, and are never resampled.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95

Statistic = Callable[[np.ndarray], np.ndarray]


class Estimate(NamedTuple):
    """A statistic and its confidence interval; the interval is NaN with a single run."""

    value: float
    low: float
    high: float


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean: of n scores the lowest and the highest ⌊n / 4⌋ are dropped, and the rest is averaged.

    Args:
        scores: runs x tasks in the last two axes, (..., R, M).

    Returns:
        (...).
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    dropped = flat.shape[-1] // 4
    return flat[..., dropped : flat.shape[-1] - dropped].mean(axis=-1)


def resampled(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Run drawn with replacement, for each task on its own; (B, R, M) from scores (R, M)."""
    runs, tasks = scores.shape
    drawn = np.random.default_rng(seed).integers(0, runs, (resamples, runs, tasks))
    return scores[drawn, np.arange(tasks)[None, None]]


def estimate(scores: np.ndarray, *, statistic: Statistic = iqm, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """A statistic of scores with the 95 % percentile interval of the stratified bootstrap.

    Args:
        scores: a number for each run and task, (R, M), or (R,) for one task.
        statistic: of the last two axes.
        resamples: B.
        seed: of the generator that draws; the same seed gives the same interval.

    Raises:
        ValueError: when there is no score, or one is not finite.
    """
    scores = np.asarray(scores, np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if not scores.size or not np.isfinite(scores).all():
        raise ValueError(f"the scores {scores.tolist()} are empty or not finite: leave such runs out")
    value = float(statistic(scores))
    if len(scores) == 1:
        return Estimate(value, np.nan, np.nan)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(statistic(resampled(scores, resamples, seed)), (tail, 1 - tail))
    return Estimate(value, float(low), float(high))
