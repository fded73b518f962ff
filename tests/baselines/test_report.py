"""Statistics over runs, and the report of runs on disk."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines import plots, published, report
from baselines.config import SCALES, Config
from baselines.errors import ConfigError, RunError
from baselines.presets import AGENTS, PRESETS, TASKS
from baselines.statistics import estimate, iqm, resampled


def test_the_interquartile_mean_drops_a_quarter_at_each_end() -> None:
    assert iqm(np.asarray([[0.0], [5.0], [1.0], [2.0], [100.0]])) == pytest.approx((1 + 2 + 5) / 3)
    assert iqm(np.asarray([[0.0, 1.0, 2.0], [3.0, 4.0, 90.0]])) == pytest.approx((1 + 2 + 3 + 4) / 4)
    assert iqm(np.asarray([[1.0], [2.0], [9.0]])) == pytest.approx(4)


def test_the_published_interval_of_mystery_path_with_hidden_goal_is_found_again() -> None:
    found = estimate(np.asarray([0.90, 0.63, 0.68, 0.66, 0.55]))
    assert found.value == pytest.approx(0.658, abs=0.003)
    assert (found.low, found.high) == pytest.approx((0.580, 0.827), abs=0.02)


def test_each_task_draws_runs_on_its_own_and_keeps_its_scores() -> None:
    returns = np.asarray([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    drawn = resampled(returns, 2_000, 0)
    assert drawn.shape == (2_000, 3, 2)
    assert set(drawn[..., 0].ravel()) == {1.0, 2.0, 3.0}
    assert set(drawn[..., 1].ravel()) == {10.0, 20.0, 30.0}
    pairs = {(a, b) for a, b in zip(drawn[:, 0, 0], drawn[:, 0, 1], strict=True)}
    assert len(pairs) == 9  # a run of one task goes with every run of the other


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    returns = np.random.default_rng(0).random((5, 2))
    first, again, other = (estimate(returns, resamples=200, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first[1:] != other[1:]


def test_a_single_run_has_no_interval() -> None:
    found = estimate(np.asarray([0.5]))
    assert found.value == 0.5
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize("returns", [[], [0.5, np.nan]])
def test_values_that_are_none_are_rejected(returns: list[float]) -> None:
    with pytest.raises(ValueError, match="expected finite values, got "):
        estimate(np.asarray(returns))


def test_a_published_curve_that_is_of_training_levels_is_not_called_held_out() -> None:
    curves = {(task, agent) for task, agents in published.published().items() for agent in agents}
    assert {curve for curve in curves if published.published_on(*curve) == "training"} == {("MM", "TrXL+rec")}
    assert published.published_on("MM", "GRU") == "held out"


def test_the_published_gru_is_drawn_beside_agents_without_a_published_curve() -> None:
    assert published.published_beside("EMM", ["minGRU", "TrXL"]) == ["TrXL"]
    assert published.published_beside("EMM", ["minGRU", "lru-512"]) == ["GRU"]
    assert published.published_beside("ESS", ["minGRU+rec"]) == []
    assert published.published_beside("no task", ["GRU"]) == []


def test_published_runs_are_known_by_their_settings() -> None:
    for name in ("jmlr/mm-trxl-rec", "jmlr/emm-gru-384", "jmlr/emm-trxl-gt", "jmlr/ss-gru-rec", "fast/mpg-on-clock"):
        task, agent = name.partition("/")[2].split("-", 1)
        task, agent = ("mpg-on", "clock") if task == "mpg" else (task, agent)
        config = PRESETS[name]
        assert published.task_of(config) == TASKS[task].title
        assert published.agent_of(config) == AGENTS[agent].title
    hidden = Config(env="MysteryPath-Grid-v0", options=("show_origin=false", "show_goal=false"))
    assert published.task_of(hidden) == "MPGrid off"
    symbolic = dataclasses.replace(hidden, options=("observation=symbolic",))
    assert published.task_of(symbolic) == "MysteryPath-Grid-v0 observation=symbolic"
    assert published.agent_of(Config(memory_size=64)) == "gru-64"
    assert published.agent_of(Config(memory="lru")) == "lru-512"


def write_run(folder: Path, config: Config, normalized_return: float, rows: list[dict[str, Any]]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = {
        "normalized_return": normalized_return,
        "success": normalized_return / 2,
        "metric": 2 * normalized_return,
        "metric_name": "tiles_visited",
        "share_truncated": 0.1,
    }
    update = rows[-1]["steps"] // config.batch_steps if rows else 10
    returns = {"update": update, "held_out": result, "training": {**result, "normalized_return": 1.0}}
    (folder / "evaluation.json").write_text(json.dumps(returns))


def test_a_report_has_a_line_for_runs_that_differ_in_the_seed_alone(tmp_path: Path) -> None:
    config = PRESETS["fast/mpg-off-gru"]
    for seed, normalized_return in enumerate((0.2, 0.4, 0.6)):
        rows = [
            {"update": 150 * step, "seed": seed, "steps": step * 150 * 65_536, "seconds": 30.0 * step}
            | {"episodes": step % 3, "normalized_return": normalized_return}
            for step in range(1, 11)
        ]
        write_run(tmp_path / f"run{seed}", dataclasses.replace(config, seed=seed), normalized_return, rows)
    write_run(tmp_path / "other", dataclasses.replace(SCALES["cpu"], options=("observation=symbolic",)), 0.9, [])
    (tmp_path / "no-run").mkdir()
    path = report.report(report.ReportFlags(tuple(tmp_path.iterdir()), tmp_path / "out"))
    lines = [line for line in path.read_text().splitlines() if line.startswith("| M")]
    assert len(lines) == 2
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    label = "MysteryPath-Grid-v0, origin and goal hidden"
    assert cells[:2] + cells[3:7] == [label, "GRU", "3", "98.3 M", "5.0", "–"]
    assert cells[2] == "512 × 128"
    assert cells[7] == "0.400 [0.200, 0.600]"
    assert cells[8:11] == ["1.000 [1.000, 1.000]", "–", "0.200 [0.100, 0.300]"]
    assert cells[11] == "0.800 [0.400, 1.200] tiles_visited"
    assert cells[12:] == ["10%", "0.41", "0.69"]
    assert lines[1].startswith(
        "| MortarMayhem-Grid-v0 observation=symbolic | gru-128 | 64 × 64 | 1 | 0.0 M | – | – | 0.900 |"
    )
    for name in ("curve-mpgrid-off", "curve-mortarmayhem-grid-v0-observation-symbolic"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "out" / f"{name}.svg").read_text().startswith("<?xml")
        assert f"({name}.svg)" in path.read_text()


def test_a_curve_is_the_mean_over_episodes_and_bridges_gaps() -> None:
    rows = [
        {"steps": 5, "episodes": 1, "normalized_return": 0.0},
        {"steps": 9, "episodes": 3, "normalized_return": 1.0},
        {"steps": 15, "episodes": 0, "normalized_return": None},
        {"steps": 25, "episodes": 2, "normalized_return": 0.25},
    ]
    np.testing.assert_allclose(plots.binned(rows, "normalized_return", np.asarray([0, 10, 20, 30])), [0.75, 0.5, 0.25])


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    (group,) = report.read_groups([tmp_path / "run", tmp_path / "run" / ".." / "run", tmp_path / "run"])
    assert len(group.runs) == 1


def test_a_negative_seed_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^seed: expected a number from 0 to 2147483647, got -1$"):
        report.report(report.ReportFlags((tmp_path,), tmp_path / "out", seed=-1))


def test_folders_without_a_run_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="expected at least one folder of a run"):
        report.report(report.ReportFlags((tmp_path,), tmp_path / "out"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evaluation.json", "[3]"),
        ("evaluation.json", '{"held_out": 3}'),
        ("evaluation.json", "{"),
        ("evaluation.json", '{"held_out": {"normalized_return": NaN}}'),
        ("evaluation.json", '{"held_out": {"normalized_return": 0.5, "normalized_return_by_seed": ["much"]}}'),
    ],
)
def test_a_run_with_a_damaged_file_is_rejected_with_its_name(tmp_path: Path, name: str, text: str) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(RunError, match=rf"cannot read .*run.*{name}.*\. Run baselines\.evaluate again"):
        report.read_groups([tmp_path / "run"])


def test_a_run_that_was_scored_on_training_levels_alone_has_a_line(tmp_path: Path) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    (tmp_path / "run" / "evaluation.json").write_text('{"training": {"normalized_return": 0.25}}')
    assert "| 0.250 |" in report.table(report.read_groups([tmp_path / "run"]), 0)


def test_scores_stand_beside_the_steps_after_which_they_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = SCALES["cpu"]
    rows = [
        {
            "update": step,
            "seed": 0,
            "steps": step * config.batch_steps,
            "seconds": 60.0 * step,
            "episodes": 1,
            "normalized_return": 0.5,
        }
        for step in range(1, 6)
    ]
    write_run(tmp_path / "run", config, 0.5, rows)
    for name, returns in (
        ("", {"update": 3, "held_out": {"normalized_return": 0.25}}),
        ("-paper", {"update": 5, "paper": {}}),
    ):
        (tmp_path / "run" / f"evaluation{name}.json").write_text(json.dumps(returns))
    (group,) = report.read_groups([tmp_path / "run"])
    assert (group.runs[0].steps, group.minutes) == (3 * config.batch_steps, 3.0)
    assert "paper" not in group.runs[0].results
    assert "on the papers' levels at update 5, because the others are from update 3" in capsys.readouterr().out


def test_a_report_is_written_in_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    write = Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda path, text, encoding="ascii": write(path, text, encoding=encoding))
    assert "64 × 64" in report.report(report.ReportFlags((tmp_path / "run",), tmp_path / "out")).read_bytes().decode()


def row_cells(groups: list[report.Group], devices: dict[str, str] | None = None) -> list[dict[str, str]]:
    header, _, *rows = report.table(groups, 0, devices).splitlines()
    return [dict(zip(header.split(" | "), row.split(" | "), strict=True)) for row in rows]


def test_a_row_has_the_devices_of_its_runs(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"run{seed}", dataclasses.replace(SCALES["cpu"], seed=seed), 0.5, [])
    listed = [{"folder": "run0", "device": "A"}, {"folder": "run2", "device": "B"}, {"device": "C"}]
    (tmp_path / "devices.json").write_text(json.dumps(listed))
    folders = tuple(tmp_path.iterdir())
    page = report.report(report.ReportFlags(folders, tmp_path / "out", devices=tmp_path / "devices.json")).read_text()
    assert "| A, B |" in page
    (tmp_path / "devices.json").write_text("3")
    with pytest.raises(RunError, match=r"^--devices: expected a JSON file with a list of objects"):
        report.report(report.ReportFlags(folders, tmp_path / "out", devices=tmp_path / "devices.json"))


def test_rows_with_the_same_label_name_the_settings_that_differ(tmp_path: Path) -> None:
    write_run(tmp_path / "a", PRESETS["fast/mm-gru"], 0.5, [])
    write_run(tmp_path / "b", dataclasses.replace(PRESETS["fast/mm-gru"], learning_rate_start=1e-4), 0.5, [])
    write_run(tmp_path / "c", PRESETS["fast/mm-trxl"], 0.5, [])
    agents = [row["agent"] for row in row_cells(report.read_groups(sorted(tmp_path.iterdir())))]
    assert agents == ["GRU, learning_rate_start=0.0005", "GRU, learning_rate_start=0.0001", "TrXL"]


def test_an_endless_environment_has_no_success_in_the_table(tmp_path: Path) -> None:
    write_run(tmp_path / "run", PRESETS["fast/emm-gru"], 0.5, [])
    (cells,) = row_cells(report.read_groups([tmp_path / "run"]))
    assert (cells["success"], cells["normalized return, held out"]) == ("–", "0.500")


def test_runs_without_results_are_marked_or_left_out(tmp_path: Path) -> None:
    row = {"update": 1, "seed": 0, "steps": 10, "seconds": 1.0, "episodes": 1, "normalized_return": 0.5}
    write_run(tmp_path / "logged", SCALES["cpu"], 0.5, [row])
    write_run(tmp_path / "empty", dataclasses.replace(SCALES["cpu"], gamma=0.9), 0.5, [])
    for name in ("logged", "empty"):
        (tmp_path / name / "evaluation.json").unlink()
    page = report.report(report.ReportFlags(tuple(tmp_path.iterdir()), tmp_path / "out")).read_text()
    lines = [line for line in page.splitlines() if line.startswith("| Mortar")]
    assert len(lines) == 1
    assert "| not evaluated |" in lines[0]


def test_a_value_that_few_runs_recorded_has_their_number(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"run{seed}", dataclasses.replace(SCALES["cpu"], seed=seed), 0.5, [])
    (tmp_path / "run0" / "evaluation.json").write_text('{"held_out": {"normalized_return": 0.5}}')
    (cells,) = row_cells(report.read_groups(sorted(tmp_path.iterdir())))
    assert cells["success"] == "0.250 [0.250, 0.250] (2 of 3 runs)"


def test_runs_of_grpo_are_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    (tmp_path / "grpo").mkdir()
    (tmp_path / "grpo" / "config.json").write_text('{"env": "FrozenLake-v0", "group_size": 16}')
    assert len(report.read_groups(sorted(tmp_path.iterdir()))) == 1


def test_how_often_a_run_was_saved_and_how_its_loop_was_unrolled_make_no_line_of_its_own(tmp_path: Path) -> None:
    config = SCALES["cpu"]
    write_run(tmp_path / "run0", config, 0.5, [])
    write_run(tmp_path / "run1", dataclasses.replace(config, seed=1, unroll=8, checkpoint_updates=7), 0.5, [])
    write_run(tmp_path / "other", dataclasses.replace(config, seed=2, num_steps=32), 0.5, [])
    assert sorted(len(group.runs) for group in report.read_groups(list(tmp_path.iterdir()))) == [1, 2]


def test_a_curve_is_of_the_runs_whose_log_was_kept(tmp_path: Path) -> None:
    row = {"update": 1, "seed": 1, "steps": 10, "seconds": 1.0, "episodes": 1, "normalized_return": 0.5}
    write_run(tmp_path / "without", SCALES["cpu"], 0.5, [])
    write_run(tmp_path / "with", dataclasses.replace(SCALES["cpu"], seed=1), 0.5, [row])
    (group,) = report.read_groups(list(tmp_path.iterdir()))
    assert [run.rows for run in group.logged] == [[row]]
    assert group.count == "2 runs, curve of 1"
    without_name = report.Run([], {"held_out": {"normalized_return": 0.5}}, 1)
    assert dataclasses.replace(group, runs=[without_name, *group.runs]).metric_name == "tiles_visited"


@pytest.mark.parametrize(
    ("num_logs", "label"),
    [(0, "3 runs, held out"), (1, "3 runs, curve of 1"), (2, "3 runs, curve of 2"), (3, "3 runs")],
)
def test_a_legend_counts_the_runs_as_the_table_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_logs: int, label: str
) -> None:
    from matplotlib.figure import Figure

    for seed in range(3):
        row = {"update": 1, "seed": seed, "steps": 10, "seconds": 1.0, "episodes": 1, "normalized_return": 0.5}
        config = dataclasses.replace(SCALES["cpu"], seed=seed)
        write_run(tmp_path / f"run{seed}", config, 0.5, [row] if seed < num_logs else [])
    (group,) = groups = report.read_groups(list(tmp_path.iterdir()))
    legends: list[str] = []

    def legend(_figure: Figure, _handles: object, labels: list[str], **_: object) -> None:
        legends.extend(labels)

    monkeypatch.setattr(Figure, "legend", legend)
    report.draw(tmp_path / "curve", group.task, groups, 0)
    line = report.table(groups, 0).splitlines()[-1]
    assert line.split(" | ")[3] == "3"
    assert legends[0] == f"{group.agent}, {group.shape}, {label}"


@pytest.mark.parametrize("num_runs", [1, 2, 3])
def test_of_fewer_than_four_runs_the_interquartile_mean_is_the_mean_and_the_page_says_so(
    tmp_path: Path, num_runs: int
) -> None:
    returns = np.asarray([0.1, 0.2, 0.9][:num_runs])
    assert estimate(returns).value == pytest.approx(returns.mean())
    for seed in range(num_runs):
        write_run(tmp_path / f"run{seed}", dataclasses.replace(SCALES["cpu"], seed=seed), returns[seed], [])
    page = report.report(report.ReportFlags(tuple(tmp_path.iterdir()), tmp_path / "out")).read_text()
    assert "with fewer than four runs, this is the mean" in page


def test_scores_on_the_levels_of_the_papers_have_a_column(tmp_path: Path) -> None:
    write_run(tmp_path / "run", SCALES["cpu"], 0.5, [])
    (tmp_path / "run" / "evaluation-paper.json").write_text(
        json.dumps({"update": 10, "paper": {"normalized_return": 0.25}})
    )
    (group,) = report.read_groups([tmp_path / "run"])
    assert group.results("paper", "normalized_return") == [0.25]
    header, _, line = report.table([group], seed=0).splitlines()
    cells = dict(zip(header.split(" | "), line.split(" | "), strict=True))
    assert (cells["normalized return, papers' levels"], cells["normalized return, held out"]) == ("0.250", "0.500")


def test_scores_come_in_the_shape_of_rliable(tmp_path: Path) -> None:
    returns = {
        ("mm", "gru"): (0.1, 0.2, 0.3),
        ("mm", "trxl-rec"): (0.4, 0.5),
        ("ss", "gru"): (0.6, 0.7, 0.8),
        ("ss", "trxl-rec"): (0.9, 1.0),
    }
    for (task, agent), values in returns.items():
        for seed, normalized_return in enumerate(values):
            config = dataclasses.replace(PRESETS[f"fast/{task}-{agent}"], seed=seed)
            write_run(tmp_path / f"{task}-{agent}-{seed}", config, normalized_return, [])
    groups = report.read_groups(list(tmp_path.iterdir()))
    found = report.return_matrices(groups, tasks=["SS", "MM"])
    assert {name: matrix.dtype for name, matrix in found.items()} == {"GRU": np.float64, "TrXL+rec": np.float64}
    assert found["GRU"].tolist() == [[0.6, 0.1], [0.7, 0.2], [0.8, 0.3]]
    assert found["TrXL+rec"].tolist() == [[0.9, 0.4], [1.0, 0.5]]
    by_default = report.return_matrices(groups, result="success", name_of=lambda group: group.config.memory)
    assert by_default["gru"].tolist() == [[0.05, 0.3], [0.1, 0.35], [0.15, 0.4]]  # Mortar Mayhem first, as in reports
    assert report.return_matrices(groups, tasks=["SS"], split="training")["GRU"].tolist() == [[1.0], [1.0], [1.0]]


def test_scores_that_make_no_rectangle_are_an_error(tmp_path: Path) -> None:
    for name, seed in (("fast/mm-gru", 0), ("fast/mm-gru", 1), ("fast/ss-gru", 0)):
        write_run(tmp_path / f"{name[5:]}-{seed}", dataclasses.replace(PRESETS[name], seed=seed), 0.5, [])
    groups = report.read_groups(list(tmp_path.iterdir()))
    with pytest.raises(RunError, match=r"^expected equally many runs of GRU .* got \{'MM': 2, 'SS': 1\}"):
        report.return_matrices(groups)
    with pytest.raises(RunError, match=r"got \{'MM': 2, 'MP': 0\}"):
        report.return_matrices(groups, tasks=["MM", "MP"])
    write_run(tmp_path / "lower", dataclasses.replace(PRESETS["fast/mm-gru"], gamma=0.9), 0.5, [])
    groups = report.read_groups(list(tmp_path.iterdir()))
    with pytest.raises(RunError, match=r"^expected one setting of GRU on MM, got several"):
        report.return_matrices(groups, tasks=["MM"])
    named = report.return_matrices(groups, tasks=["MM"], name_of=lambda group: f"gamma {group.config.gamma}")
    assert {name: matrix.shape for name, matrix in named.items()} == {"gamma 0.995": (2, 1), "gamma 0.9": (1, 1)}


def test_how_often_a_run_was_evaluated_makes_no_line_of_its_own(tmp_path: Path) -> None:
    for seed, every in enumerate((0, 5)):
        config = dataclasses.replace(PRESETS["fast/mm-gru"], seed=seed, eval_every=every)
        write_run(tmp_path / str(seed), config, 0.5, [])
    (group,) = report.read_groups(list(tmp_path.iterdir()))
    assert len(group.runs) == 2
