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

from baselines import exits
from baselines.config import Config, check_seed
from baselines.errors import RunError
from baselines.presets import AGENTS, TASKS
from baselines.runs import Row, is_of_grpo, read_config, read_rows
from baselines.statistics import Estimate, estimate

_PUBLISHED = Path(__file__).parent / "published.json"
_NONE = "–"
_POINTS = 60  # points of a curve
_CURVE_RESAMPLES = 2_000
_MILLION, _MINUTE_S = 1e6, 60.0
_HEADER = (
    *("task", "agent", "environments × steps", "runs", "trained", "minutes"),
    *(
        "normalized return, held out",
        "normalized return, training",
        "normalized return, papers' levels",
        "success",
        "metric",
        "truncated",
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
        return float(np.mean(ends)) / _MINUTE_S if ends else None

    @property
    def shape(self) -> str:
        """Number of environments, and steps of each per update."""
        return f"{self.config.num_envs} × {self.config.num_steps}"

    @property
    def steps_m(self) -> float | None:
        """Environment steps of the longest run in millions; None if unknown."""
        known = [run.steps for run in self.runs if run.steps is not None]
        return max(known) / _MILLION if known else None

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


def published() -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """Return steps (in millions) and values of the published curves, by task and agent."""
    curves = json.loads(_PUBLISHED.read_text())["curves"]
    return {
        task: {agent: (curve["steps_millions"][: len(values)], values) for agent, values in curve["agents"].items()}
        for task, curve in curves.items()
    }


def published_on(task: str, agent: str) -> str:
    """Return the split of a published curve."""
    return "training" if agent in json.loads(_PUBLISHED.read_text())["on_training_levels"].get(task, ()) else "held out"


def published_beside(task: str, agents: Sequence[str]) -> list[str]:
    """Return the agents whose published curves are drawn beside ours: the same agents, else GRU."""
    curves = published().get(task, {})
    return [agent for agent in agents if agent in curves] or [agent for agent in ("GRU",) if agent in curves]


def task_of(config: Config) -> str:
    """Return the paper's name of the game with these options, else id and options."""
    mine = _resolved(config.env, config.env_options)
    for task in TASKS.values():
        names = (task.game_preset, f"{task.game_preset}-transformer")[: 1 + task.is_endless]
        if task.env == config.env and any(mine == _resolved(task.env, {"preset": name}) for name in names):
            return task.title
    return " ".join((config.env, *config.options))


def _resolved(env_id: str, options: dict[str, Any]) -> dict[str, Any]:
    import jaxgym  # importing it starts a JAX backend, which a table does not need

    if env_id not in jaxgym.registered_envs():
        return options
    given = dict(options)
    preset = given.pop("preset", None)
    presets = jaxgym.presets(env_id)
    values = {name: option.default for name, option in jaxgym.spec_of(env_id).all_options.items()}
    values |= dict(presets[preset].options) if preset in presets else {}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (values | given).items()}


def agent_of(config: Config) -> str:
    """Return the paper's name of the agent, else its memory and size."""
    fitting = [
        agent
        for agent in AGENTS.values()
        if all(getattr(config, name) == value for name, value in {**_PLAIN, **agent.changes}.items())
    ]
    sized = config.memory in ("gru", "lstm", "mingru") and config.memory_size != Config.memory_size
    exact = [agent for agent in fitting if not sized or "memory_size" in agent.changes]
    if exact:
        return max(exact, key=lambda agent: len(agent.changes)).title
    return f"{config.memory}-{config.memory_size}"


_PLAIN = {"reconstruction": 0.0, "ground_truth_head": 0.0, "residual": False, "encoder": "nature"}


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


def binned(rows: list[Row], name: str, borders: np.ndarray) -> np.ndarray:
    """Return the mean of a value over the episodes that ended between borders of steps; gaps are interpolated."""
    used = [row for row in rows if row["episodes"] and row[name] is not None]
    place = np.searchsorted(borders, [row["steps"] for row in used]) - 1
    weight = np.bincount(place, [row["episodes"] for row in used], len(borders) - 1)
    total = np.bincount(place, [row[name] * row["episodes"] for row in used], len(borders) - 1)
    middle = (borders[1:] + borders[:-1]) / 2
    return np.interp(middle, middle[weight > 0], total[weight > 0] / weight[weight > 0])


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


def curve_of(group: Group, seed: int) -> tuple[np.ndarray, np.ndarray, list[Estimate]] | None:
    """Return steps, minutes and the normalized return in training of the runs with logs; None without any."""
    logged = group.logged
    if not logged:
        return None
    last = min(run.rows[-1]["steps"] for run in logged)
    borders = np.linspace(0, last, min(_POINTS, len(logged[0].rows)) + 1)
    middle = (borders[1:] + borders[:-1]) / 2
    results = np.stack(
        [binned([row for row in run.rows if row["steps"] <= last], "normalized_return", borders) for run in logged]
    )
    seconds = [np.interp(middle, [r["steps"] for r in run.rows], [r["seconds"] for r in run.rows]) for run in logged]
    found = [estimate(column, resamples=_CURVE_RESAMPLES, seed=seed) for column in results.T]
    return middle, np.mean(seconds, axis=0) / _MINUTE_S, found


def draw(path: Path, task: str, groups: Sequence[Group], seed: int) -> None:
    """Draw the normalized return in training over steps and wall time; published curves are dashed."""
    from matplotlib.figure import Figure

    curves, ours = published().get(task, {}), [curve_of(group, seed) for group in groups]
    has_times = any(curve is not None for curve in ours)
    figure = Figure(figsize=(9 if has_times else 5, 3.4), layout="constrained")
    axes = figure.subplots(1, 1 + has_times, sharey=True, squeeze=False)[0]
    colors = {group.agent: f"C{number % 10}" for number, group in reversed(list(enumerate(groups)))}
    for number, (group, curve) in enumerate(zip(groups, ours, strict=True)):
        color, label = f"C{number % 10}", f"{group.agent}, {group.shape}, {group.count}"
        ends = group.results("held_out", "normalized_return")
        if curve is not None:
            steps, minutes, found = curve
            for axis, place in zip(axes, (steps / _MILLION, minutes), strict=True):
                axis.plot(place, [point.value for point in found], color=color, label=label)
                axis.fill_between(place, [p.low for p in found], [p.high for p in found], color=color, alpha=0.2, lw=0)
        elif ends and group.steps_m is not None:
            axes[0].plot(group.steps_m, np.mean(ends), "o", color=color, label=f"{label}, held out")
    for agent in published_beside(task, list(colors)):
        label = f"{agent}, published, {published_on(task, agent)}"
        axes[0].plot(*curves[agent], "--", color=colors.get(agent, "0.5"), linewidth=1, label=label)
    for axis, label in zip(axes, ("million environment steps", "minutes"), strict=False):
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("normalized return")
    axes[0].set_title(task, fontsize="medium")
    axes[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=90)


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
            path = arguments.out / f"curve-{slug}.png"
            draw(path, task, [group for group in groups if group.task == task], arguments.seed)
            text.append(f"![{task}]({path.name})\n")
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
