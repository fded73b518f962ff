"""Pages of results: each value is that of a run's files in docs/results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines import report
from benchmarks import classics, corridors, memory_gap

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
ENTRIES = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in ("memory_gym", "minigrid")}
EVALUATED = [
    entry for name in ENTRIES for entry in ENTRIES[name] if "folder" in entry and entry["normalized_return"] is not None
]


def evaluation(folder: str, split: str) -> dict[str, Any]:
    name = "evaluation-paper.json" if split == "paper" else "evaluation.json"
    return json.loads((RESULTS / folder / name).read_text())[split]


def table(page: Path, first: str) -> list[dict[str, str]]:
    """Return the rows of the table whose first column has this heading."""
    lines = page.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in "\n".join(lines[start:]).partition("\n\n")[0].splitlines()
    ]
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("entry", EVALUATED, ids=lambda entry: entry["folder"])
def test_an_entry_has_the_results_in_its_folder(entry: dict[str, Any]) -> None:
    splits = {"": "paper" if "papers" in entry["levels"] else "held_out"}
    if "training_normalized_return is" not in entry["levels"]:  # otherwise, it is another measure
        splits["training_"] = "training"
    for prefix, split in splits.items():
        for name in ("normalized_return", "success"):
            if f"{prefix}{name}" in entry:
                found = evaluation(entry["folder"], split)[name]
                assert entry[f"{prefix}{name}"] == pytest.approx(found, abs=5.1e-4)


def test_the_table_of_babyai_and_minigrid_has_the_entries_of_the_file() -> None:
    for row, entry in zip(table(RESULTS / "minigrid.md", "id"), ENTRIES["minigrid"], strict=True):
        assert row["id"].partition(",")[0] == entry["env"]
        assert row["memory"].lower() == entry["memory"]
        assert row["held-out levels"].partition(",")[0] in entry["levels"] or "50 held-out seeds" in entry["levels"]
        assert row["success, held out"].strip("[").partition("]")[0] == f"{entry['success']:.3f}"
        assert row["success, training"] == f"{entry['training_success']:.3f}"
        assert row["steps"] == f"{entry['steps'] / 1e6:.0f} M"
        assert row["training time"] == f"{entry['seconds']} s"


def test_the_readme_has_results_of_babyai_and_minigrid_from_the_file() -> None:
    rows = [row for row in table(ROOT / "README.md", "task") if "minigrid.md" in row["normalized return"]]
    assert rows
    for row in rows:
        found = {
            (f"{entry['env'].removesuffix('-v0')}, symbolic observation", entry["memory"], entry["seconds"]): entry
            for entry in ENTRIES["minigrid"]
        }
        entry = found[row["task"], row["memory"].lower(), int(row["wall time"].partition(" s of training")[0])]
        assert row["normalized return"].startswith(f"[{entry['normalized_return']:.2f}]")
        assert row["env steps"] == f"{entry['steps'] / 1e6:.0f} M"


def test_the_table_of_trained_agents_has_the_results_of_their_runs() -> None:
    for row in table(ROOT / "docs/how_to/trained_agents.md", "environment"):
        folder = row["training run"].partition("]")[0].removeprefix("[")
        found = evaluation(folder, "held_out")["normalized_return"]
        assert row["normalized return on held-out levels"].startswith(f"{found:.2f}")


def test_the_table_of_memory_cells_has_the_results_of_its_runs() -> None:
    runs: dict[tuple[str, str], list[float]] = {}
    for folder in sorted((RESULTS / "memory_cells").glob("*/")):
        config = json.loads((folder / "config.json").read_text())
        found = evaluation(f"memory_cells/{folder.name}", "held_out")["normalized_return"]
        runs.setdefault((config["memory"], config["env"]), []).append(found)
    for row in table(RESULTS / "memory_cells.md", "memory"):
        memory = row.pop("memory").lower().replace(" ", "_")
        for column, cell in row.items():
            values = runs.pop((memory, column.partition(",")[0]))
            seeds = f" ({', '.join(f'{value:.3f}' for value in values)})" if len(values) > 1 else ""
            assert cell == f"{np.mean(values):.3f}{seeds}"
    assert not runs


def test_the_table_of_helm_has_the_results_of_its_runs() -> None:
    runs: dict[tuple[str, str], list[float]] = {}
    for folder in sorted((RESULTS / "helm").glob("*/")):
        config = json.loads((folder / "config.json").read_text())
        found = evaluation(f"helm/{folder.name}", "held_out")["normalized_return"]
        row = "GRU" if config["memory"] == "gru" else "HELM"
        if row == "HELM":
            row += " with words" if config.get("memory_input") == "text" else ""
            row += ", random weights" if config["memory_model"].startswith("random:") else ", SmolLM2-135M"
        runs.setdefault((row, config["env"]), []).append(found)
    for row in table(ROOT / "docs/how_to/helm.md", "memory"):
        memory = row.pop("memory")
        for env, cell in row.items():
            values = runs.pop((memory, env), [])
            seeds = f" ({', '.join(f'{value:.3f}' for value in values)})" if len(values) > 1 else ""
            assert cell == (f"{np.mean(values):.3f}{seeds}" if values else "not run")
    assert not runs


def test_the_memory_gap_table_has_the_results_of_its_runs() -> None:
    results = memory_gap.results_of(memory_gap.Arguments(out=RESULTS / "memory_gap"))
    rows = {row.pop("task").split()[0]: row for row in table(RESULTS / "memory_gap.md", "task")}
    assert rows.keys() == memory_gap.TASKS.keys()
    for task, row in rows.items():
        own = results.get(task, {})
        for agent in memory_gap.AGENTS:
            cell = row[agent].removesuffix(")").split(" (")
            assert cell == (
                [f"{own[agent][name]:.3f}" for name in ("normalized_return", "return")] if agent in own else ["not run"]
            )
        if row["gap"] != "not run":
            assert float(row["gap"]) == pytest.approx(own["full"]["return"] - own["none"]["return"], abs=6e-4)


def test_the_tables_of_the_classics_have_the_results_of_their_runs() -> None:
    page = (RESULTS / "classics.md").read_text()
    assert classics.table(classics.results_of(RESULTS / "classics")) in page
    arguments = corridors.CorridorArguments(out=RESULTS / "corridors")
    assert corridors.table(arguments, corridors.results_of(arguments)) in page


def test_the_table_of_boss_fight_has_the_last_returns_of_its_runs() -> None:
    for row in table(ROOT / "docs/environments/boss_fight.md", "memory"):
        for suffix, column in (("", "without spotlights"), ("-spotlights", "with spotlights")):
            lines = (RESULTS / f"boss_fight/{row['memory']}{suffix}.txt").read_text().splitlines()
            assert lines[-1].endswith(f" 11,534,336 steps: mean return {row[column]}")


@pytest.mark.parametrize(("page", "inside"), [("report.md", False), ("memory_cells/report.md", True)])
def test_a_report_is_that_of_its_runs(page: str, inside: bool) -> None:
    entries = [entry for entry in ENTRIES["memory_gym"] if "folder" in entry]
    devices = {Path(entry["folder"]).name: entry["device"] for entry in entries}
    folders = [RESULTS / entry["folder"] for entry in entries if ("/" in entry["folder"]) == inside]
    groups = [group for group in report.read_groups(folders) if any(run.rows or run.results for run in group.runs)]
    assert sorted(report.table(groups, 0, devices).splitlines()) == sorted(
        line for line in (RESULTS / page).read_text().splitlines() if line.startswith("|")
    )
