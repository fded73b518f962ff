"""Report of an evaluation: success with intervals, memory span, area under the curve, and costs.

records  ->  card: the results of each difficulty and of each task  ->  Markdown tables, plot
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from jaxgym.serve.evaluation.suite import TASKS, difficulties_of
from jaxgym.serve.rollout.runs import Record

PASSED = 0.5
"""Smallest success of a difficulty that counts for the memory span."""

_CONFIDENCE = 0.95
_MILLION = 1_000_000

Card = dict[str, Any]


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a probability; (0, 1) without trials.

    >>> [round(end, 4) for end in wilson(9, 10)]
    [0.5958, 0.9821]
    """
    if not trials:
        return 0.0, 1.0
    z = statistics.NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    share, scale = successes / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def memory_span(curve: Sequence[tuple[int, float]]) -> int:
    """Return the largest n with a success of at least 0.5 at n and at every smaller n; 0 if there is none.

    Args:
        curve: n and success of each difficulty, with increasing n.

    >>> memory_span([(1, 1.0), (2, 0.5), (3, 0.4), (4, 0.9)])
    2
    """
    span = 0
    for number, success in curve:
        if not success >= PASSED:  # NaN as well
            break
        span = number
    return span


def area(curve: Sequence[tuple[int, float]]) -> float:
    """Return the area under a success curve: each success holds from the previous n, at first 0, to its own n.

    An agent that always has success up to n = k, and never beyond, has the area k.

    Args:
        curve: n and success of each difficulty, with increasing n.

    >>> area([(1, 1.0), (2, 0.5), (4, 0.25)])
    2.0
    """
    total, before = 0.0, 0
    for number, success in curve:
        total, before = total + success * (number - before), number
    return total


def card_of(records: Sequence[Record], about: Mapping[str, Any], prices: tuple[float, float] | None = None) -> Card:
    """Return the results of an evaluation, in JSON.

    Args:
        records: Records of the rollout.
        about: Versions, agent and settings.
        prices: US dollars for a million tokens of prompts, and of replies, if known.

    Returns:
        `about`, the models, text versions and errors of the records, and the results of each task. Means and shares are
        over the episodes without an error. A number is None if there is no such episode, or an endpoint does not
        report tokens.
    """
    tasks = dict[str, Any]()
    for name in TASKS:
        played = [record for record in records if record["columns"]["task"] == name]
        if played:
            tasks[name] = _task(name, played, prices)
    reasons = [record["error"] for record in records if record["error"] is not None]
    versions = {record["env"]: record["text_version"] for record in records if record["text_version"] is not None}
    return {
        **about,
        "models": sorted({record["model"] for record in records if record.get("model")}),
        "text_versions": versions,
        "prices_per_million_tokens": None if prices is None else list(prices),
        "errors": {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)},
        "tasks": tasks,
    }


def _task(name: str, records: Sequence[Record], prices: tuple[float, float] | None) -> dict[str, Any]:
    played = {record["columns"]["difficulty"] for record in records}
    points = list[dict[str, Any]]()
    for difficulty in difficulties_of(name, sorted(played)):
        own = [record for record in records if record["columns"]["difficulty"] == difficulty.number]
        successes = sum(difficulty.is_success(record) for record in own if record["error"] is None)
        points.append({"number": difficulty.number, "label": difficulty.label, **_results(own, successes, prices)})
    curve = [(point["number"], math.nan if point["success"] is None else point["success"]) for point in points]
    covered = area(curve)
    return {
        "axis": TASKS[name].axis,
        "memory_span": memory_span(curve),
        "area": None if math.isnan(covered) else covered,
        "largest": points[-1]["number"],
        **_results(records, sum(point["successes"] for point in points), prices),
        "difficulties": points,
    }


def _results(records: Sequence[Record], successes: int, prices: tuple[float, float] | None) -> dict[str, Any]:
    whole = [record for record in records if record["error"] is None]
    turns = sum(record["num_turns"] for record in whole)
    low, high = wilson(successes, len(whole))
    tokens = [_sum([record[f"{kind}_tokens"] for record in whole]) for kind in ("prompt", "completion")]
    cost = None
    if prices is not None and None not in tokens:
        cost = sum(price * (count or 0) for price, count in zip(prices, tokens, strict=True)) / _MILLION
    return {
        "episodes": len(records),
        "errors": len(records) - len(whole),
        "successes": successes,
        "success": successes / len(whole) if whole else None,
        "success_low": low,
        "success_high": high,
        "mean_return": _mean([record["total_reward"] for record in whole]),
        "turns": _mean([record["num_turns"] for record in whole]),
        "invalid_reply_rate": sum(record["num_invalid_replies"] for record in whole) / turns if turns else None,
        "shortened_rate": sum(record["num_shortened"] for record in whole) / turns if turns else None,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "cost": cost,
        "seconds": _mean([record["seconds"] for record in whole]),
    }


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


_COLUMNS = {
    "episodes": "{0[episodes]}",
    "errors": "{0[errors]}",
    "success": "{0[success]:.2f}",
    "95 % interval": "{0[success_low]:.2f} to {0[success_high]:.2f}",
    "mean return": "{0[mean_return]:.2f}",
    "turns": "{0[turns]:.1f}",
    "invalid replies": "{0[invalid_reply_rate]:.1%}",
    "shortened requests": "{0[shortened_rate]:.1%}",
    "prompt tokens": "{0[prompt_tokens]}",
    "reply tokens": "{0[completion_tokens]}",
    "cost in $": "{0[cost]:.2f}",
    "seconds per episode": "{0[seconds]:.1f}",
}
_OF_TASKS = {name: form for name, form in _COLUMNS.items() if name not in ("95 % interval", "mean return")}
SUMMARY = ("task", "memory span", "area", *_OF_TASKS)
"""Columns of the table of tasks."""


def summary_rows(card: Card) -> list[tuple[str, ...]]:
    """Return the cells of the table of tasks; "-" for a number that is not known."""
    return [
        (name, f"{task['memory_span']} of {task['largest']}", _cell("{0[area]:.2f}", task), *_cells(_OF_TASKS, task))
        for name, task in card["tasks"].items()
    ]


def _cells(columns: Mapping[str, str], results: Mapping[str, Any]) -> list[str]:
    return [_cell(form, results) for form in columns.values()]


def _cell(form: str, results: Mapping[str, Any]) -> str:
    names = [part.partition("]")[0] for part in form.split("[")[1:]]
    return "-" if any(results[name] is None for name in names) else form.format(results)


def markdown_of(card: Card) -> str:
    """Return the report of a card as Markdown."""
    agent = card["agent"]
    named = ", ".join(card["models"]) or agent["python"] or agent["folder"] or agent["model"] or "an agent in Python"
    versions = ", ".join(f"{env_id} {version}" for env_id, version in card["text_versions"].items())
    settings = {name: value for name, value in {**agent, **card}.items() if not isinstance(value, dict | list)}
    lines = [
        f"# Evaluation of {named}",
        "",
        f"Suite {card['suite_version']}, jaxgym {card['package_version']}. Text versions: {versions or 'none'}.",
        "",
        *_table(SUMMARY, summary_rows(card)),
    ]
    for name, task in card["tasks"].items():
        rows = [(point["label"], *_cells(_COLUMNS, point)) for point in task["difficulties"]]
        lines += ["", f"## {name}", "", *_table((task["axis"], *_COLUMNS), rows)]
    given = [(name, str(value)) for name, value in settings.items() if value is not None and value != ""]
    return "\n".join([*lines, "", "## Settings", "", *_table(("setting", "value"), given), ""])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def draw(path: Path, card: Card, drawing: Any, color: str) -> None:
    """Draw the success of each task over its difficulties, with the intervals.

    Args:
        path: Path of the files without a suffix.
        card: The card.
        drawing: Context manager `drawing(path, rows, columns, size)` that yields the axes of a figure and writes it.
        color: Color of the curves.
    """
    tasks = card["tasks"]
    figure: AbstractContextManager[Any] = drawing(path, len(tasks), 1, (5, 2.4 * len(tasks)))
    with figure as axes:
        for (axis,), (name, task) in zip(axes, tasks.items(), strict=True):
            points = [point for point in task["difficulties"] if point["success"] is not None]
            numbers, successes = ([point[key] for point in points] for key in ("number", "success"))
            ends = ([point[f"success_{end}"] for point in points] for end in ("low", "high"))
            axis.fill_between(numbers, *ends, color=color, alpha=0.2, lw=0)
            axis.plot(numbers, successes, "o-", color=color)
            axis.axhline(PASSED, color="0.45", linestyle="--")
            axis.set(xlabel=task["axis"], ylabel="success", ylim=(-0.03, 1.03))
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.set_title(f"{name}: memory span {task['memory_span']}, area {_cell('{0[area]:.2f}', task)}")
