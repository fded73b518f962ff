"""Draw the figures of the README and the docs from committed measurements: `python -m docs.figures`.

Numbers are read from the tables of `docs/benchmarks.md` and from the runs in `docs/results`.
"""

import re
from pathlib import Path

import numpy as np

from baselines import plots
from baselines.grpo.folder import draw_rows
from baselines.plots import COLORS, MILLION, STEPS_LABEL
from baselines.report import read_groups
from baselines.runs import read_rows

DOCS = Path(__file__).parent
RESULTS, IMAGES = DOCS / "results", DOCS / "images"
# Runs with a metrics log of each finite task in the report, of the published agent where we have one.
LEARNERS = {
    "MMActGrid": ("MortarMayhemB-Grid", ("mmbg-trxl-256x256-h200", "mmbg-trxl-256x256-seed*")),
    "MMGrid": ("MortarMayhem-Grid", ("mmg-trxl-256x256-h200",)),
    "MM": ("MortarMayhem", ("mm-trxl-rec-512x256-h200",)),
    "MPGrid on": ("MysteryPath-Grid,\norigin and goal shown", ("mpg-on-gru-*",)),
    "MPGrid off": ("MysteryPath-Grid,\norigin and goal hidden", ("mpg-off-mingru-*",)),
    "SS": ("SearingSpotlights", ("ss-gru-rec-*",)),
}


def table_after(heading: str, column: str) -> dict[str, float]:
    """Return a column of the first table below a line of `docs/benchmarks.md`, by the first column."""
    text = (DOCS / "benchmarks.md").read_text().partition(f"\n{heading}")[2]
    lines = re.search(r"(^\|.*\n)+", text, re.MULTILINE)
    if lines is None:
        raise ValueError(f"expected a table below {heading!r} in docs/benchmarks.md, got none")
    header, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in lines[0].splitlines()]
    place = header.index(column)
    return {row[0]: float(row[place].replace(" ", "")) for row in rows}


def compact(number: float) -> str:
    """Return a number with three digits, for example 27.0 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:#.3g}".rstrip(".") + f" {unit}"
    return f"{number:.0f}"


def draw_speed(path: Path) -> None:
    """Draw the environment steps per second of memory-gym and jaxgym."""
    compared = "## Compared with memory-gym"
    bars = {
        "memory-gym 1.0.2, one environment, two CPU cores": table_after(compared, "memory-gym, steps/s"),
        "jaxgym, batch of 1 024, the same two CPU cores": table_after(compared, "jaxgym, steps/s"),
        "jaxgym, batch of 65 536, one NVIDIA H200": table_after(
            "NVIDIA H200, Python 3.12.3, jax 0.11.2, best", "frames /s"
        ),
    }
    names = list(bars["memory-gym 1.0.2, one environment, two CPU cores"])
    with plots.drawing(path, 1, 1, (6, 2.6)) as ((axis,),):
        height = 0.26
        for number, (label, speeds) in enumerate(bars.items()):
            places = np.arange(len(names)) + (number - 1) * height
            drawn = axis.barh(places, [speeds[name] for name in names], height, color=COLORS[number], label=label)
            axis.bar_label(drawn, [compact(speeds[name]) for name in names], padding=2, fontsize=6)
        axis.set(xscale="log", xlim=(1e3, 1e8), xlabel="environment steps per second, every frame drawn (log scale)")
        axis.set_yticks(np.arange(len(names)), names)
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.figure.legend(loc="outside upper center", ncols=1)


def draw_learning(path: Path) -> None:
    """Draw our learning curves with the published ones of the same tasks, dashed."""
    with plots.drawing(path, 2, 3, (7, 5), sharey=True) as axes:
        for axis, (task, (title, patterns)) in zip(axes.flat, LEARNERS.items(), strict=True):
            (group,) = read_groups([path for pattern in patterns for path in RESULTS.glob(pattern)])
            steps, _, found = plots.estimate_curve([run.rows for run in group.logged])
            count = f"{len(group.logged)} run{'s' * (len(group.logged) > 1)}"
            plots.draw_estimates(axis, steps / MILLION, found, COLORS[0], f"{group.agent}, {count}")
            plots.draw_published(axis, task, {group.agent: COLORS[1]}, steps[-1] / MILLION)
            axis.set(title=title, xlabel=STEPS_LABEL, ylim=(0, 1.03))
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
        for axis in axes[:, 0]:
            axis.set_ylabel("normalized return (1 = best)")


def draw_grpo(path: Path) -> None:
    """Draw the learning curves of GRPO on Frozen Lake."""
    runs = {
        "one NVIDIA H200": "frozen-lake-grpo-h200",
        "two CPU cores": "frozen-lake-grpo-cpu",
        "SmolLM2-135M, one NVIDIA H200": "frozen-lake-grpo-smollm2-h200",
    }
    with plots.drawing(path, 2, 3, (9, 4), sharex="col", sharey="row") as axes:
        for (above, below), (title, name) in zip(axes.T, runs.items(), strict=True):
            draw_rows(above, below, read_rows(RESULTS / name / "metrics.jsonl"))
            above.set_title(title)
        for axis in axes[:, 1:].flat:
            axis.set_ylabel("")


def main() -> None:
    """Write the figures."""
    draw_speed(IMAGES / "speed")
    draw_learning(IMAGES / "learning")
    draw_grpo(IMAGES / "grpo_frozen_lake")


if __name__ == "__main__":
    main()
