"""One style for all figures: colors that color-blind readers can tell apart, PNG and SVG, lines with 95 % intervals."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baselines.config import Config
from baselines.published import agent_of, published, published_beside, published_on, task_of
from baselines.statistics import Estimate, estimate

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito, without yellow
LINES = ("-", "-.", ":")  # for more curves than colors; dashed lines are published results
STEPS_LABEL, MINUTES_LABEL = "environment steps (millions)", "wall time (minutes)"
MILLION, MINUTE_S = 1e6, 60.0
_PUBLISHED_COLOR = "0.45"
_POINTS = 60  # of a curve in a report
_RUN_POINTS = 200  # of the curve of a run
_RESAMPLES = 2_000
_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "font.size": 8,
    "grid.alpha": 0.3,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "savefig.dpi": 200,
    "svg.hashsalt": "jaxgym",  # the same figure is written as the same file
}

Rows = Sequence[dict[str, Any]]


@contextlib.contextmanager
def drawing(path: Path, rows: int, columns: int, size: tuple[float, float], **shared: Any) -> Iterator[Any]:
    """Yield the axes of a figure, (rows, columns), and write it as PNG and SVG when the block ends.

    Args:
        path: path of the files without a suffix.
        rows: rows of axes.
        columns: columns of axes.
        size: width and height in inches.
        shared: `sharex` and `sharey` of the axes.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure.subplots(rows, columns, squeeze=False, **shared)
        for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            part = path.with_name(f"{path.name}.tmp")
            figure.savefig(part, format=kind, metadata=metadata)
            part.replace(path.with_name(f"{path.name}.{kind}"))


def draw_estimates(
    axis: Any, places: np.ndarray, values: Sequence[Estimate], color: str, label: str, line: str = "-"
) -> None:
    """Draw a line with its 95 % interval as a shaded band; a single run has no band."""
    axis.plot(places, [value.value for value in values], line, color=color, label=label)
    axis.fill_between(
        places, [value.low for value in values], [value.high for value in values], color=color, alpha=0.2, lw=0
    )


def draw_published(axis: Any, task: str, colors: dict[str, str], steps_m: float) -> None:
    """Draw the published curves beside ours, dashed, over millions of steps.

    Args:
        axis: axes of the figure.
        task: the paper's name of the game.
        colors: color by agent; another agent is gray.
        steps_m: length of our longest run in millions of steps; the published curves end after twice this length.
    """
    for agent in published_beside(task, list(colors)):
        steps, values = np.asarray(published()[task][agent])
        label = f"{agent}, published, {published_on(task, agent)}"
        shown = steps <= 2 * steps_m
        axis.plot(steps[shown], values[shown], "--", color=colors.get(agent, _PUBLISHED_COLOR), label=label)


def estimate_curve(
    logs: Sequence[Rows], name: str = "normalized_return", *, points: int = _POINTS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, list[Estimate]]:
    """Return steps, minutes and the estimate of a value over runs, each an array or list of at most `points`.

    Args:
        logs: rows of each run; at least one has ended an episode.
        name: value of a row.
        points: maximum number of points.
        seed: seed of the bootstrap over runs.
    """
    last = min(rows[-1]["steps"] for rows in logs)
    borders = np.linspace(0, last, min(points, len(logs[0])) + 1)
    middle = (borders[1:] + borders[:-1]) / 2
    values = np.stack([binned([row for row in rows if row["steps"] <= last], name, borders) for rows in logs])
    seconds = [np.interp(middle, [row["steps"] for row in rows], [row["seconds"] for row in rows]) for rows in logs]
    found = [estimate(column, resamples=_RESAMPLES, seed=seed) for column in values.T]
    return middle, np.mean(seconds, axis=0) / MINUTE_S, found


def binned(rows: Rows, name: str, borders: np.ndarray) -> np.ndarray:
    """Return the mean of a value over the episodes that ended between borders of steps; gaps are interpolated."""
    used = [row for row in rows if row["episodes"] and row[name] is not None]
    place = np.searchsorted(borders, [row["steps"] for row in used]) - 1
    weight = np.bincount(place, [row["episodes"] for row in used], len(borders) - 1)
    total = np.bincount(place, [row[name] * row["episodes"] for row in used], len(borders) - 1)
    middle = (borders[1:] + borders[:-1]) / 2
    return np.interp(middle, middle[weight > 0], total[weight > 0] / weight[weight > 0])


def draw_run(path: Path, config: Config, rows: Rows) -> None:
    """Draw normalized return and return of a run over environment steps, with the published curve of its task.

    Several seeds are one line, their interquartile mean with its 95 % interval. Dots are results on held-out levels.
    """
    agent, label = agent_of(config), "training levels"
    logs = [[row for row in rows if row["seed"] == seed] for seed in sorted({row["seed"] for row in rows})]
    logs = [log for log in logs if any(row["episodes"] for row in log)]
    label = label if len(logs) == 1 else f"{label}, {len(logs)} seeds"
    with drawing(path, 2, 1, (5, 5), sharex=True) as ((above,), (below,)):
        for axis, name in ((above, "normalized_return"), (below, "return")):
            if logs:
                steps, _, values = estimate_curve(logs, name, points=_RUN_POINTS)
                draw_estimates(axis, steps / MILLION, values, COLORS[0], label)
            held_out: dict[int, list[float]] = {}
            for row in rows:
                if row.get(f"held_out_{name}") is not None:
                    held_out.setdefault(row["steps"], []).append(row[f"held_out_{name}"])
            if held_out:
                values = [estimate(np.asarray(of_seeds)).value for of_seeds in held_out.values()]
                places = np.asarray(list(held_out)) / MILLION
                axis.plot(places, values, "o:", color=COLORS[1], label="held-out levels")
            axis.set_ylabel(name.replace("_", " "))
        draw_published(above, task_of(config), {agent: COLORS[0]}, config.total_steps / MILLION)
        above.set_title(f"{config.env}, {agent}")
        below.set_xlabel(STEPS_LABEL)
        if above.lines:
            above.legend()
