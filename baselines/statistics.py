"""Statistics of several runs: the interquartile mean, with intervals from a stratified bootstrap over runs.

Agarwal et al., 2021 (arXiv 2108.13264). The unit is the run: its episodes are averaged first, since treating them as
independent samples makes the intervals too narrow. Tasks are the strata, and are not resampled.
"""

from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """An interquartile mean and its confidence interval; the interval is NaN for a single run."""

    value: float
    low: float
    high: float


def iqm(values: np.ndarray) -> np.ndarray:
    """Return the interquartile mean (...) of runs x tasks (..., R, M).

    The lowest and the highest ⌊n / 4⌋ of n values are dropped, and the rest are averaged.
    """
    flat = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)
    dropped = flat.shape[-1] // 4
    return flat[..., dropped : flat.shape[-1] - dropped].mean(axis=-1)


def resampled(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Resample runs with replacement, separately for each task; (B, R, M) from values (R, M)."""
    runs, tasks = values.shape
    drawn = np.random.default_rng(seed).integers(0, runs, (resamples, runs, tasks))
    return values[drawn, np.arange(tasks)[None, None]]


def estimate(values: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Return the interquartile mean of values with the 95 % percentile interval of the stratified bootstrap.

    Args:
        values: one number per run and task, (R, M), or (R,) for one task.
        resamples: number of resamples B.
        seed: seed of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: if there is no value, or one is not finite.
    """
    values = np.asarray(values, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if not values.size or not np.isfinite(values).all():
        raise ValueError(f"expected finite values, got {values.tolist()}. Leave such runs out.")
    value = float(iqm(values))
    if len(values) == 1:
        return Estimate(value, np.nan, np.nan)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(iqm(resampled(values, resamples, seed)), (tail, 1 - tail))
    return Estimate(value, float(low), float(high))
