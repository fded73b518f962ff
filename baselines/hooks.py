"""Callback after each block of the training, for TensorBoard, Weights & Biases, MLflow and other loggers."""

from collections.abc import Callable, Sequence

import jax

from baselines import devices
from baselines.errors import RunError
from baselines.runs import Row

Metrics = dict[str, float]
OnBlock = Callable[[Metrics], object]

EPISODE_MEANS = ("return", "length", "success", "normalized_return")
"""Columns of the metrics log that are means over the episodes of an update."""

_POSITION = ("update", "steps", "seconds", "steps_per_second")


def block_metrics(rows: Sequence[Row]) -> Metrics:
    """Return the metrics of one block as plain numbers.

    Losses and rates are means over the updates of the block, episode results are means over its episodes. Results
    without an episode, and held-out results without an evaluation, are left out. With several seeds, the plain names
    are means over seeds, and `seed_N/NAME` has the value of each seed.
    """
    seeds = dict.fromkeys(row["seed"] for row in rows)
    metrics = {name: rows[-1][name] for name in _POSITION} | _means(rows)
    if len(seeds) > 1:
        for seed in seeds:
            own = _means([row for row in rows if row["seed"] == seed])
            metrics |= {f"seed_{seed}/{name}": value for name, value in own.items()}
    return metrics


def _means(rows: Sequence[Row]) -> Metrics:
    means: Metrics = {"episodes": int(sum(row["episodes"] for row in rows))}
    for name in dict.fromkeys(name for row in rows for name in row):
        if name in means or name in (*_POSITION, "seed"):
            continue
        known = [row for row in rows if row.get(name) is not None]
        weights = [row["episodes"] if name in EPISODE_MEANS else 1 for row in known]
        if known:
            means[name] = float(sum(row[name] * weight for row, weight in zip(known, weights, strict=True)))
            means[name] /= sum(weights)
    return means


def call(on_block: OnBlock | None, rows: Sequence[Row], save: Callable[[], None]) -> None:
    """Call `on_block` with the metrics of a block, in process 0 only.

    Args:
        on_block: the callback; None calls nothing.
        rows: rows of the block in the metrics log.
        save: saves the checkpoint of the block if it is not saved yet; called in all processes after an exception.

    Raises:
        RunError: after an exception in the callback; the checkpoint is saved first.
    """
    if on_block is None:
        return
    update, error = rows[-1]["update"], None
    if jax.process_index() == 0:
        try:
            on_block(block_metrics(rows))
        except Exception as caught:
            error = caught
    if devices.agreed_update(None if error is None else update) is None:
        return
    save()
    reason = f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ") if error else "an exception"
    raise RunError(
        f"expected on_block to return, got {reason} at update {update}. The checkpoint of that update is saved: "
        "fix on_block and resume the run."
    ) from error
