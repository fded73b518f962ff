"""Write a table and learning curves of runs: `python -m baselines.report runs/*`.

The published results of the JMLR paper are beside ours if environment and agent are those of the paper.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
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
_INTRO = """
Runs that differ only in the training seed share a row. Each value is the interquartile mean over these runs with a 95 %
bootstrap interval; with fewer than four runs, this is the mean. The episodes of each run are averaged first. "–" means
that there is no value.

- **agent**: the memory, with the name that the JMLR paper uses. `PPO` has no memory, `+rec` adds frame reconstruction,
  and `lru-512` is the memory `lru` with 512 units. If several rows have the same environment, agent and shape, the
  settings that differ follow.
- **environments × steps**: number of parallel environments, and steps of each environment per update.
- **trained**: environment steps of the evaluated checkpoint; without an evaluation, steps of the whole run.
- **minutes**: mean training time up to these steps, without the evaluation after training. Only runs with a metrics log
  count.
- **device**: device of the runs, if it is known.
- **normalized return**: mean over held-out levels, training levels, or the 50 levels of the papers. In endless
  environments, it is the number of commands, coins or tiles.
- **success**, **metric**, **truncated at --max-steps**: on held-out levels. Endless environments have no success. The
  metric is the environment's own measure, and its name follows. Truncated is the share of episodes that did not end
  within the step limit of the evaluation.
- **published**: mean of five runs of the same environment and agent in the JMLR paper, after the same number of steps
  and at the end. The values are on held-out levels; those of `TrXL+rec` on `MortarMayhem-v0` are on training levels.
- **(n of m runs)**: only n of the m runs recorded the value.

The curves show episodes on training levels. They include only runs with a metrics log; the legend shows the number of
these runs. Runs without a metrics log and without results are left out.
"""
_SPLITS = ("held_out", "training", "paper")


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed of a run on disk.

    Attributes:
        rows: its rows of the metrics log; empty without a log.
        results: results by name for "held_out" and "training"; empty if the run was not evaluated.
        steps: environment steps at the evaluation, else at the end of the log; None if unknown.
        folder: name of its folder.
    """

    rows: list[Row]
    results: dict[str, dict[str, Any]]
    steps: int | None
    folder: str = ""


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
    def label(self) -> str:
        """Environment id and the options that matter."""
        return next((task.label for task in TASKS.values() if task.title == self.task), self.task)

    @property
    def is_endless(self) -> bool:
        """True if the environment is endless."""
        return any(task.is_endless for task in TASKS.values() if task.env == self.config.env)

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
        """Mean duration of the training up to the evaluation; None without logs."""
        logs = [[row for row in run.rows if run.steps is None or row["steps"] <= run.steps] for run in self.runs]
        ends = [rows[-1]["seconds"] for rows in logs if rows]
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

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")]
    """Run folders. Folders without config.json and folders of baselines.grpo are skipped."""
    out: Path = Path("runs/report")
    """Output folder of report.md and the curves."""
    seed: int = 0
    """Seed of the bootstrap."""
    devices: Path | None = None
    """JSON file with a list of objects that have `folder` (run folder, only its name counts) and `device`."""


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
            **dict(block_updates=1, checkpoint_updates=1, keep_checkpoints=1, unroll=1),
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
            runs.append(Run(own, results, made if evaluated is None else evaluated, folder.name))
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


def table(groups: Sequence[Group], seed: int, devices: Mapping[str, str] | None = None) -> str:
    """Return a Markdown table with a row for each group.

    Args:
        groups: groups of `read_groups`.
        seed: seed of the bootstrap.
        devices: device of a run by the name of its folder.
    """
    curves, known, rows = published(), devices or {}, list[dict[str, str]]()
    for group, settings in zip(groups, differing_settings(groups), strict=True):
        steps_m, minutes = group.steps_m, group.minutes
        truncated = group.results("held_out", "share_truncated")
        curve = curves.get(group.task, {}).get(group.agent)
        same_steps = _NONE
        if curve is not None and steps_m is not None and steps_m >= curve[0][0]:  # after the first published result
            same_steps = f"{np.interp(steps_m, *curve):.2f}"
        held_out = _cell(group, "held_out", "normalized_return", seed)
        row = {
            "environment": group.label,
            "agent": ", ".join((group.agent, *settings)),
            "environments × steps": group.shape,
            "runs": str(len(group.runs)),
            "trained": _NONE if steps_m is None else f"{steps_m:.1f} M",
            "minutes": _NONE if minutes is None else f"{minutes:.1f}",
            "device": ", ".join(dict.fromkeys(known[run.folder] for run in group.runs if run.folder in known)) or _NONE,
            "normalized return, held out": held_out if any(run.results for run in group.runs) else "not evaluated",
            "normalized return, training": _cell(group, "training", "normalized_return", seed),
            "normalized return, papers' levels": _cell(group, "paper", "normalized_return", seed),
            "success": _NONE if group.is_endless else _cell(group, "held_out", "success", seed),
            "metric": f"{_cell(group, 'held_out', 'metric', seed)} {group.metric_name}".strip(),
            "truncated at --max-steps": f"{np.mean(truncated):.0%}" if truncated else _NONE,
            "published, same steps": same_steps,
            "published, end": _NONE if curve is None else f"{curve[1][-1]:.2f}",
        }
        rows.append(row)
    if not rows:
        return ""
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def differing_settings(groups: Sequence[Group]) -> list[list[str]]:
    """Return the settings of each group that differ from groups with the same task, agent and shape.

    The number of steps is not among them, because tables and curves show it.
    """
    names = [field.name for field in dataclasses.fields(Config) if field.name not in ("scale", "total_steps")]

    def settings(group: Group) -> list[str]:
        key = (group.task, group.agent, group.shape)
        alike = [other.config for other in groups if (other.task, other.agent, other.shape) == key]
        differing = [name for name in names if len({str(getattr(config, name)) for config in alike}) > 1]
        return [f"{name}={getattr(group.config, name)}" for name in differing]

    return [settings(group) for group in groups]


def _cell(group: Group, split: str, name: str, seed: int) -> str:
    values = group.results(split, name)
    if not values:
        return _NONE
    found = estimate(np.asarray(values), seed=seed)
    partly = f" ({len(values)} of {len(group.runs)} runs)" if len(values) < len(group.runs) else ""
    interval = "" if np.isnan(found.low) else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"{found.value:.3f}{interval}{partly}"


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
    unit = metric.replace("_", " ") if any(group.is_endless for group in groups) else "1 = best possible"
    settings = differing_settings(groups)
    height = max(3.4, 2.4 + 0.17 * len(groups) / (1 + has_times))  # the legend is below the axes
    with plots.drawing(path, 1, 1 + has_times, (7 if has_times else 3.5, height), sharey=True) as (axes,):
        for number, group in enumerate(groups):
            color, line = COLORS[number % len(COLORS)], plots.LINES[number // len(COLORS) % len(plots.LINES)]
            label = ", ".join((group.agent, group.shape, *settings[number], group.count))
            ends = group.results("held_out", "normalized_return")
            if group.logged:
                steps, minutes, found = plots.estimate_curve([run.rows for run in group.logged], seed=seed)
                for axis, place in zip(axes, (steps / MILLION, minutes), strict=True):
                    plots.draw_estimates(axis, place, found, color, label, line)
            elif ends and group.steps_m is not None:
                axes[0].plot(group.steps_m, np.mean(ends), "o", color=color, label=f"{label}, held out")
        plots.draw_published(axes[0], task, colors, max([0.0, *(group.steps_m or 0.0 for group in groups)]))
        for axis, label in zip(axes, (STEPS_LABEL, MINUTES_LABEL), strict=False):
            axis.set_xlabel(label)
        axes[0].set(ylabel=f"normalized return ({unit})" if unit else "normalized return", title=groups[0].label)
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=1 + has_times)


def report(arguments: ReportFlags) -> Path:
    """Write report.md and a curve for each task; return the path of the table.

    Raises:
        RunError: if there is no run, or a file cannot be written.
        ConfigError: if the seed is out of range.
    """
    check_seed(arguments.seed)
    devices = {} if arguments.devices is None else _read_devices(arguments.devices)
    groups = [group for group in read_groups(arguments.folders) if any(run.rows or run.results for run in group.runs)]
    text = ["# Runs", _INTRO, table(groups, arguments.seed, devices)]
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for task in dict.fromkeys(group.task for group in groups):
            slug = "".join(letter if letter.isalnum() else "-" for letter in task.lower())[:60].strip("-")
            path = arguments.out / f"curve-{slug}"
            own = [group for group in groups if group.task == task]
            draw(path, task, own, arguments.seed)
            text.append(f"![Learning curves of {own[0].label}]({path.name}.svg)\n")
        (arguments.out / "report.md").write_text("\n".join(text), encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {arguments.out} ({error.strerror}). Choose another --out.") from error
    return arguments.out / "report.md"


def _read_devices(path: Path) -> dict[str, str]:
    try:
        return {Path(row["folder"]).name: row["device"] for row in json.loads(path.read_text()) if "folder" in row}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"--devices: expected a JSON file with a list of objects that have folder and device, got {path}."
        ) from error


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(str(report(tyro.cli(ReportFlags, prog="python -m baselines.report"))))


if __name__ == "__main__":
    main()
