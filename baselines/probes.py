"""Linear probes: how well a linear function of the recurrent state predicts each hidden fact, over time."""

import dataclasses
import itertools

import numpy as np

RIDGE = 1.0
"""Weight of the penalty on the coefficients of standardized features."""

_LEAST_SCALE = 1e-6


@dataclasses.dataclass(frozen=True)
class Probed:
    """Accuracies of the probes of one fact in each span of steps; NaN without enough steps.

    Attributes:
        accuracy: share of correct predictions in episodes that the probe was not trained on, (S,).
        chance: the same for the most frequent value of the training episodes, (S,).
    """

    accuracy: list[float]
    chance: list[float]


def probe(states: np.ndarray, values: np.ndarray, is_used: np.ndarray, spans: np.ndarray) -> Probed:
    """Train a probe in each span of steps and test it on other episodes; a random half of them trains.

    Args:
        states: recurrent states, (T, B, D); D can be 0.
        values: values of the fact, integers (T, B, n); -1 for no value, which counts as a value.
        is_used: whether a step belongs to its episode, bool (T, B).
        spans: first steps of the spans, and the end of the last one, (S + 1,).
    """
    accuracy, chance = [], []
    order = np.random.default_rng(0).permutation(is_used.shape[1])
    trains = np.broadcast_to(order < len(order) // 2, is_used.shape)
    for first, last in itertools.pairwise(spans):
        inside = np.zeros_like(is_used)
        inside[first:last] = is_used[first:last]
        train, test = inside & trains, inside & ~trains
        if not (train.any() and test.any()):
            accuracy.append(float("nan"))
            chance.append(float("nan"))
            continue
        columns = [
            _accuracies(states[train], values[train][:, entry], states[test], values[test][:, entry])
            for entry in range(values.shape[2])
        ]
        linear, constant = np.mean(columns, axis=0)
        accuracy.append(float(linear))
        chance.append(float(constant))
    return Probed(accuracy, chance)


def _accuracies(
    states: np.ndarray, values: np.ndarray, test_states: np.ndarray, test_values: np.ndarray
) -> tuple[float, float]:
    """Return the accuracy of a linear classifier, and of the most frequent training value."""
    known, targets = np.unique(values, return_inverse=True)
    counts = np.bincount(targets)
    constant = np.mean(test_values == known[counts.argmax()])
    mean, scale = states.mean(axis=0), states.std(axis=0)
    scale = np.where(scale > _LEAST_SCALE, scale, np.inf)  # constant features have no effect
    one_hot = np.eye(len(known))[targets]
    features = (states - mean) / scale
    penalty = RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(features.T @ features + penalty, features.T @ (one_hot - one_hot.mean(axis=0)))
    scores = (test_states - mean) / scale @ weights + one_hot.mean(axis=0)
    return float(np.mean(known[scores.argmax(axis=1)] == test_values)), float(constant)
