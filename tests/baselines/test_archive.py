"""Run folders of docs/results: small copies that keep what reports read."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines import report
from baselines.archive import MAX_BYTES, MAX_ROWS, ArchiveFlags, archive, thinned
from baselines.config import SCALES
from baselines.errors import RunError

RESULTS = Path(__file__).parents[2] / "docs/results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("**/config.json"))


def log_of(updates: int, seeds: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    generator = np.random.default_rng(0)
    return [
        {"update": update, "steps": 64 * update, "seed": seed, "seconds": 0.5 * update}
        | {"episodes": int(generator.integers(5)), "normalized_return": float(generator.random()), "loss": None}
        | ({"held_out_return": update / 100} if update % 10 == 0 else {})
        for update in range(1, updates + 1)
        for seed in seeds
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_of_docs_results_is_small(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MAX_BYTES
    assert not {path.suffix for path in folder.iterdir()} & {".gif", ".npz"}


@pytest.mark.parametrize(("updates", "rows"), [(0, 0), (7, 7), (60, 60), (61, 31), (587, 59)])
def test_at_most_60_rows_remain(updates: int, rows: int) -> None:
    assert len(thinned(log_of(updates))) == rows <= MAX_ROWS


def test_a_short_log_keeps_its_values() -> None:
    short = thinned(log_of(20))
    for row, old in zip(short, log_of(20), strict=True):
        assert row.keys() == old.keys()
        np.testing.assert_allclose(row["normalized_return"], old["normalized_return"], rtol=1e-4)
        assert {name: row[name] for name in ("update", "steps", "seconds")} == {
            name: old[name] for name in ("update", "steps", "seconds")
        }


def test_merged_rows_keep_episodes_and_the_mean_over_episodes() -> None:
    rows, short = log_of(587), thinned(log_of(587))
    for log in (rows, short):
        assert log[-1]["update"] == 587
        assert log[-1]["seconds"] == 587 / 2
    assert sum(row["episodes"] for row in short) == sum(row["episodes"] for row in rows)
    means = [
        np.average([r["normalized_return"] for r in log], weights=[r["episodes"] for r in log]) for log in (rows, short)
    ]
    assert means[1] == pytest.approx(means[0], rel=1e-4)
    assert short[0]["held_out_return"] == 0.1  # of update 10, the last one of the first ten
    assert short[0]["loss"] is None


def test_each_seed_has_rows_of_its_own() -> None:
    short = thinned(log_of(100, seeds=(3, 4, 5)))
    assert [sum(row["seed"] == seed for row in short) for seed in (3, 4, 5)] == [20, 20, 20]
    assert [row["seed"] for row in short[:3]] == [3, 4, 5]


def test_a_copy_has_no_pictures_and_makes_the_same_report(tmp_path: Path) -> None:
    run, config = tmp_path / "run", SCALES["cpu"]
    run.mkdir()
    (run / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    rows = [{**row, "steps": row["update"] * config.batch_steps} for row in log_of(200)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "evaluation.json").write_text('{"update": 200, "held_out": {"normalized_return": 0.5}}')
    for name in ("curve.png", "video.gif"):
        (run / name).write_bytes(bytes(100_000))
    copy = archive(ArchiveFlags(run, tmp_path / "results" / "run"))
    assert sorted(path.name for path in copy.iterdir()) == ["config.json", "evaluation.json", "metrics.jsonl"]
    assert report.table(report.read_groups([copy]), 0) == report.table(report.read_groups([run]), 0)


def test_a_copy_replaces_nothing_and_needs_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(RunError, match=r"^expected the folder of a run, got .*run without config\.json"):
        archive(ArchiveFlags(run, tmp_path / "out"))
    for wrong in (b"[1]", b"{", b"\xff"):
        (run / "config.json").write_bytes(wrong)
        with pytest.raises(RunError, match=r"config\.json: expected a JSON object of settings, got '"):
            archive(ArchiveFlags(run, tmp_path / "out"))
    (run / "config.json").write_text("{}")
    archive(ArchiveFlags(run, tmp_path / "out"))
    with pytest.raises(RunError, match=r"^cannot copy .* \(File exists\)\. Name a new folder\."):
        archive(ArchiveFlags(run, tmp_path / "out"))
    (run / "evaluation.json").write_text("x" * MAX_BYTES)
    with pytest.raises(RunError, match=r"^expected at most 30000 bytes in .*new, got 30002\."):
        archive(ArchiveFlags(run, tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_run_of_more_seeds_than_rows_keeps_one_row_of_each() -> None:
    rows = [{"update": update, "seed": seed, "steps": update, "episodes": 1} for update in (1, 2) for seed in range(3)]
    short = thinned(rows, most=2)
    assert [(row["seed"], row["update"], row["episodes"]) for row in short] == [(0, 2, 2), (1, 2, 2), (2, 2, 2)]


@pytest.mark.parametrize(
    ("setting", "path", "name"),
    [
        ("model", "../runs/model", "model"),
        ("memory_model", "/models/tiny.gguf", "tiny.gguf"),
        ("memory_model", "random:models/tiny", "random:tiny"),
        ("memory_model", "", ""),
        ("start_from", "runs/first", "first"),
        ("start_from", "zoo:MysteryPath-Grid-v0", "zoo:MysteryPath-Grid-v0"),
    ],
)
def test_a_copy_has_no_path_of_other_files(tmp_path: Path, setting: str, path: str, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    config = {**dataclasses.asdict(SCALES["cpu"]), setting: path}
    (run / "config.json").write_text(json.dumps(config))
    copy = archive(ArchiveFlags(run, tmp_path / "copy"))
    assert json.loads((copy / "config.json").read_text()) == json.loads(json.dumps({**config, setting: name}))
