"""Write a table and learning curves of runs: `python -m baselines.report runs/*`.

Runs that differ only in the seed share a line. Each seed is a run; its episodes are averaged first. A line has the
interquartile mean over runs with its 95 % interval, see `baselines.statistics`; with fewer than four runs it equals the
mean. Published results are shown beside ours if game and agent are those of the paper. A curve covers the runs with a
metrics log; its legend has their number.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from tqdm import tqdm

from baselines import exits, plots
from baselines.config import Config, check_seed
from baselines.errors import RunError
from baselines.plots import COLORS, MILLION, MINUTE_S, MINUTES_LABEL, STEPS_LABEL
from baselines.presets import TASKS
from baselines.published import agent_of, published, task_of
from baselines.runs import Row, is_of_grpo, read_config, read_rows
from baselines.statistics import estimate

_NONE = "–"
_HEADER = (
    *("task", "agent", "environments × steps", "runs", "trained", "minutes"),
    *(
        "normalized return, held out",
        "normalized return, training",
        "normalized return, papers' levels",
        "success",
        "metric",
        "truncated at --max-steps",
    ),
    *("published, same steps", "published, end"),
)
_SPLITS = ("held_out", "training", "paper")


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed of a run on disk.

    Attributes:
        rows: its rows of the metrics log; empty without a log.
        results: results by name for "held_out" and "training"; empty if the run was not evaluated.
        steps: environment steps at the evaluation, else at the end of the log; None if unknown.
    """

    rows: list[Row]
    results: dict[str, dict[str, Any]]
    steps: int | None

    @property
    def until_evaluated(self) -> list[Row]:
        """Rows of the log up to the evaluation."""
        return [row for row in self.rows if self.steps is None or row["steps"] <= self.steps]


@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed.

    Attributes:
        config: config of the first run.
        task: the paper's name of the game with these options, else id and options.
        agent: the paper's name of the agent, else its memory.
        runs: one run per seed.
    """

    config: Config
    task: str
    agent: str
    runs: list[Run]

    def results(self, split: str, name: str) -> list[float]:
        """Return a result of each run that was evaluated on a split."""
        return [run.results[split][name] for run in self.runs if name in run.results.get(split, {})]

    @property
    def logged(self) -> list[Run]:
        """Runs with a metrics log."""
        return [run for run in self.runs if any(row["episodes"] for row in run.rows)]

    @property
    def count(self) -> str:
        """Number of runs; if logs are missing, also the number of runs in the curve."""
        runs, logs = len(self.runs), len(self.logged)
        partly = f", curve of {logs}" if 0 < logs < runs else ""
        return f"{runs} {'run' if runs == 1 else 'runs'}{partly}"

    @property
    def minutes(self) -> float | None:
        """Mean duration of the training; None without logs."""
        ends = [rows[-1]["seconds"] for rows in (run.until_evaluated for run in self.runs) if rows]
        return float(np.mean(ends)) / MINUTE_S if ends else None

    @property
    def shape(self) -> str:
        """Number of environments, and steps of each per update."""
        return f"{self.config.num_envs} × {self.config.num_steps}"

    @property
    def steps_m(self) -> float | None:
        """Environment steps of the longest run in millions; None if unknown."""
        known = [run.steps for run in self.runs if run.steps is not None]
        return max(known) / MILLION if known else None

    @property
    def metric_name(self) -> str:
        """Name of the game's own metric; empty if the runs were evaluated without it."""
        names = dict.fromkeys(run.results.get("held_out", {}).get("metric_name", "") for run in self.runs)
        return " ".join(name for name in names if name)


@dataclasses.dataclass(frozen=True)
class ReportFlags:
    """Write a Markdown table and learning curves of finished or stopped runs."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders. Folders without config.json and folders of baselines.grpo are skipped."""
    out: Path = Path("runs/report")
    """Output folder of report.md and the curves."""
    seed: int = 0
    """Seed of the bootstrap."""


def read_groups(folders: Sequence[Path]) -> list[Group]:
    """Read runs and group those that differ only in the seed.

    Raises:
        RunError: if no folder holds a run, or a run cannot be read.
    """
    groups: dict[Config, list[Run]] = {}
    # Resolved paths: globs overlap, and a run that counts twice would narrow the intervals.
    places = {folder.resolve(): folder for folder in folders if (folder / "config.json").exists()}
    for folder in sorted(places.values()):
        if is_of_grpo(folder):  # GRPO runs have tables of their own
            continue
        config = read_config(folder)
        alike = dataclasses.replace(
            config,
            **dict(seed=0, num_seeds=1, preset="", eval_repeats=1, eval_every=0),
            **dict(checkpoint_updates=1, keep_checkpoints=1, unroll=1),
        )
        groups.setdefault(alike, []).extend(_read_runs(folder, config))
    if not groups:
        raise RunError(
            "expected at least one folder of a run of baselines.train (with config.json), got none. "
            "Name folders such as runs/*."
        )
    made = [Group(config, task_of(config), agent_of(config), runs) for config, runs in groups.items()]
    order = [task.title for task in TASKS.values()]
    return sorted(made, key=lambda group: (order.index(group.task) if group.task in order else len(order), group.task))


def return_matrices(
    groups: Sequence[Group],
    *,
    split: str = "held_out",
    result: str = "normalized_return",
    tasks: Sequence[str] | None = None,
    name_of: Callable[[Group], str] = lambda group: group.agent,
) -> dict[str, np.ndarray]:
    """Return the results of runs in the shape that rliable expects: by algorithm, float64 (num_runs, num_tasks).

    Args:
        groups: groups of `read_groups`.
        split: "held_out", "training" or "paper".
        result: "normalized_return", "return", "success", "length" or "metric".
        tasks: tasks in the order of the columns; by default all tasks, in the order of the groups.
        name_of: function that returns the algorithm of a group; the agent by default.

    Raises:
        RunError: if an algorithm has no evaluated run of a task, more runs of one task than of another, or two groups
            of runs with different settings for one task.
    """
    columns = list(dict.fromkeys(group.task for group in groups)) if tasks is None else list(tasks)
    found: dict[str, dict[str, list[float]]] = {}
    for group in groups:
        if group.task not in columns:
            continue
        results = found.setdefault(name_of(group), {})
        if group.task in results:
            raise RunError(
                f"expected one setting of {name_of(group)} on {group.task}, got several. "
                "Leave the folders of the others out, or give them names by name_of."
            )
        results[group.task] = group.results(split, result)
    for name, results in found.items():
        counts = {task: len(results.get(task, ())) for task in columns}
        if 0 in counts.values() or len(set(counts.values())) > 1:
            raise RunError(
                f"expected equally many runs of {name} with {split} results on each task, got {counts}. "
                "Evaluate the missing runs, or choose the tasks by tasks=."
            )
    return {name: np.array([results[task] for task in columns], np.float64).T for name, results in found.items()}


def _read_runs(folder: Path, config: Config) -> list[Run]:
    rows = read_rows(folder / "metrics.jsonl")
    runs: list[Run] = []
    try:
        evaluation = _read_evaluation(folder)
        evaluated = evaluation["update"] * config.batch_steps if "update" in evaluation else None
        for index in range(config.num_seeds):
            own = [row for row in rows if row["seed"] == config.seed + index]
            results = {split: _of_seed(evaluation[split], index) for split in _SPLITS if split in evaluation}
            made = own[-1]["steps"] if own else None
            runs.append(Run(own, results, made if evaluated is None else evaluated))
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise RunError(
            f"cannot read {folder / 'evaluation.json'} or metrics.jsonl beside it. Run baselines.evaluate again, "
            "or leave the folder out."
        ) from error
    return runs


def _read_evaluation(folder: Path) -> dict[str, Any]:
    """Return the results of a run on all splits, at one update."""
    ours, papers = (
        json.loads(path.read_text()) if path.exists() else {}
        for path in (folder / "evaluation.json", folder / "evaluation-paper.json")
    )
    if ours and papers and papers.get("update") != ours.get("update"):
        tqdm.write(
            f"{folder}: ignoring the results on the papers' levels at update {papers.get('update')}, because the "
            f"others are from update {ours.get('update')}. Run baselines.evaluate again with --levels paper."
        )
        return ours
    return papers | ours


def _of_seed(result: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the results of one seed; a result that was not kept by seed is the mean of all seeds."""
    names = [name for name in result if not name.endswith("_by_seed")]
    found = {name: result[f"{name}_by_seed"][index] if f"{name}_by_seed" in result else result[name] for name in names}
    if not all(np.isfinite(value) for name, value in found.items() if name != "metric_name"):
        raise ValueError("expected finite results")
    return found


def table(groups: Sequence[Group], seed: int) -> str:
    """Return a Markdown table with a line per group and the published result after the same number of steps."""
    curves = published()
    lines = ["| " + " | ".join(_HEADER) + " |", "|" + " --- |" * len(_HEADER)]
    for group in groups:
        steps_m, minutes = group.steps_m, group.minutes
        cells = [group.task, group.agent, group.shape, str(len(group.runs))]
        cells.append(_NONE if steps_m is None else f"{steps_m:.1f} M")
        cells.append(_NONE if minutes is None else f"{minutes:.1f}")
        for split, name in (
            ("held_out", "normalized_return"),
            ("training", "normalized_return"),
            ("paper", "normalized_return"),
            ("held_out", "success"),
        ):
            cells.append(_cell(group.results(split, name), seed))
        cells.append(f"{_cell(group.results('held_out', 'metric'), seed)} {group.metric_name}".strip())
        truncated = group.results("held_out", "share_truncated")
        cells.append(f"{np.mean(truncated):.0%}" if truncated else _NONE)
        curve = curves.get(group.task, {}).get(group.agent)
        if curve is None or steps_m is None or steps_m < curve[0][0]:  # before the first published result
            cells.append(_NONE)
        else:
            cells.append(f"{np.interp(steps_m, *curve):.2f}")
        cells.append(_NONE if curve is None else f"{curve[1][-1]:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: list[float], seed: int) -> str:
    if not values:
        return _NONE
    found = estimate(np.asarray(values), seed=seed)
    return f"{found.value:.3f}" if np.isnan(found.low) else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def draw(path: Path, task: str, groups: Sequence[Group], seed: int) -> None:
    """Draw the normalized return in training over steps and wall time; published curves are dashed.

    Args:
        path: path of the files without a suffix.
        task: name of the task.
        groups: its runs.
        seed: seed of the bootstrap.
    """
    has_times = any(group.logged for group in groups)
    colors = {group.agent: COLORS[number % len(COLORS)] for number, group in reversed(list(enumerate(groups)))}
    metric = next((group.metric_name for group in groups if group.metric_name), "")
    is_endless = any(known.title == task and known.is_endless for known in TASKS.values())
    unit = metric.replace("_", " ") if is_endless else "1 = best possible"
    with plots.drawing(path, 1, 1 + has_times, (7 if has_times else 3.5, 3.4), sharey=True) as (axes,):
        for number, group in enumerate(groups):
            color, label = COLORS[number % len(COLORS)], f"{group.agent}, {group.shape}, {group.count}"
            ends = group.results("held_out", "normalized_return")
            if group.logged:
                steps, minutes, found = plots.estimate_curve([run.rows for run in group.logged], seed=seed)
                for axis, place in zip(axes, (steps / MILLION, minutes), strict=True):
                    plots.draw_estimates(axis, place, found, color, label)
            elif ends and group.steps_m is not None:
                axes[0].plot(group.steps_m, np.mean(ends), "o", color=color, label=f"{label}, held out")
        plots.draw_published(axes[0], task, colors, max([0.0, *(group.steps_m or 0.0 for group in groups)]))
        for axis, label in zip(axes, (STEPS_LABEL, MINUTES_LABEL), strict=False):
            axis.set_xlabel(label)
        axes[0].set(ylabel=f"normalized return ({unit})" if unit else "normalized return", title=task)
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=1 + has_times)


def report(arguments: ReportFlags) -> Path:
    """Write report.md and a curve for each task; return the path of the table.

    Raises:
        RunError: if there is no run, or a file cannot be written.
        ConfigError: if the seed is out of range.
    """
    check_seed(arguments.seed)
    groups = read_groups(arguments.folders)
    text = ["# Runs", "", " ".join((__doc__ or "").split("\n\n")[1].split()), "", table(groups, arguments.seed)]
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for task in dict.fromkeys(group.task for group in groups):
            slug = "".join(letter if letter.isalnum() else "-" for letter in task.lower())[:60].strip("-")
            path = arguments.out / f"curve-{slug}"
            draw(path, task, [group for group in groups if group.task == task], arguments.seed)
            text.append(f"![{task}]({path.name}.svg)\n")
        (arguments.out / "report.md").write_text("\n".join(text), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {arguments.out} ({error.strerror}). Choose another --out.") from error
    return arguments.out / "report.md"


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(str(report(tyro.cli(ReportFlags, prog="python -m baselines.report"))))


if __name__ == "__main__":
    main()
