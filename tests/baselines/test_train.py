"""Runs on disk: their files, resuming after a kill, and their errors."""

import contextlib
import csv
import dataclasses
import errno
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import jaxgym
from baselines import evaluate, hooks, train, zoo
from baselines.config import SCALES, Config, parse_options
from baselines.errors import ConfigError, RunError
from baselines.game import TrainingGame, make_game, make_paper_game
from baselines.grpo import command as grpo
from baselines.grpo.settings import Settings
from baselines.ppo import make_init, make_setup, seeds_of
from baselines.runs import RunFolder, pack_state, read_config, read_rows, unpack_state
from jaxgym import levels

CONFIG = dataclasses.replace(
    SCALES["cpu"],
    **dict(num_envs=8, num_steps=8, minibatches=2, memory_size=8, hidden_size=8),
    **dict(block_updates=2, checkpoint_updates=4, total_steps=768),
)


@pytest.fixture(scope="module", autouse=True)
def _recall(recall_game: Callable[..., TrainingGame]) -> Any:
    """Train every run on Recall, which is not registered and has no frames for a video."""
    game = recall_game()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "record_video", lambda *_, **__: [])
        patch.setattr(train, "make_game", lambda _: game)
        patch.setattr(evaluate, "make_game", lambda *_, **__: game)
        patch.setattr(zoo, "make_game", lambda _: game)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run of 12 updates without an interruption."""
    runs = tmp_path_factory.mktemp("runs")
    closing = train.train(CONFIG, train.RunFlags("whole", runs))
    assert closing.endswith(f"-> {runs / 'whole'}")
    return runs / "whole"


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row.keys() - {"seconds", "steps_per_second"}} for row in rows]


def last_state(path: Path) -> dict[str, np.ndarray]:
    with RunFolder(path, CONFIG) as folder:
        return dict(folder._manager.restore(folder.last_update, args=folder._ocp.args.StandardRestore()))


def test_a_run_leaves_its_files(whole: Path) -> None:
    assert read_config(whole) == CONFIG
    rows = read_rows(whole / "metrics.jsonl")
    assert [row["update"] for row in rows] == list(range(1, 13))
    assert rows[-1]["steps"] == 768
    assert (whole / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (whole / "curve.svg").read_text().startswith("<?xml")
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == ["12", "4", "8"]
    results = json.loads((whole / "evaluation.json").read_text())
    assert 0 <= results["held_out"]["normalized_return"] <= 1


def test_a_run_goes_on_after_a_kill_as_if_nothing_had_been(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = RunFolder.append

    def killed(folder: RunFolder, rows: list[Any]) -> None:
        append(folder, rows)
        if rows[-1]["update"] == 6:  # two updates after the checkpoint, in the middle of a line
            with (folder.path / "metrics.jsonl").open("a") as log:
                log.write('{"update": 7, "st')
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            train.train(CONFIG, train.RunFlags("cut", tmp_path))
    train.train(CONFIG, train.RunFlags("cut", tmp_path, resume=True))
    rows, expected = (without_times(read_rows(path / "metrics.jsonl")) for path in (tmp_path / "cut", whole))
    assert rows == expected
    chex.assert_trees_all_equal(last_state(tmp_path / "cut"), last_state(whole))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, float]], str, Any]:
    """Make the run of `whole` with held-out evaluations and a callback: folder, metrics, output and axes."""
    runs, metrics, output, figures = tmp_path_factory.mktemp("logged"), [], io.StringIO(), []
    config = dataclasses.replace(CONFIG, eval_every=3, eval_repeats=200)
    savefig = Figure.savefig

    def keep(figure: Figure, *given: Any, **named: Any) -> None:
        figures.append(figure)
        savefig(figure, *given, **named)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(Figure, "savefig", keep)
        train.train(config, train.RunFlags("logged", runs), on_block=metrics.append)
    return runs / "logged", metrics, output.getvalue(), figures[-1].axes


def test_on_block_gets_plain_numbers_of_each_block_and_changes_nothing(whole: Path, logged: Any) -> None:
    folder, metrics, *_ = logged
    rows = read_rows(folder / "metrics.jsonl")
    bare = [{name: row[name] for name in row if not name.startswith("held_out")} for row in rows]
    assert without_times(bare) == without_times(read_rows(whole / "metrics.jsonl"))
    assert [(block["update"], block["steps"]) for block in metrics] == [(2 * n, 128 * n) for n in range(1, 7)]
    assert all(type(name) is str and type(value) in (int, float) for block in metrics for name, value in block.items())
    for number, block in enumerate(metrics):
        first, last = rows[2 * number : 2 * number + 2]
        assert block["loss"] == pytest.approx((first["loss"] + last["loss"]) / 2)
        assert block["seconds"] == last["seconds"]
        assert block["episodes"] == first["episodes"] + last["episodes"] == 32
        # Every episode of Recall has four steps, so both updates end 16 of them.
        assert block["success"] == pytest.approx((first["success"] + last["success"]) / 2)
        assert {"return", "length", "steps_per_second", "policy_loss", "learning_rate"} < set(block)


def test_held_out_scores_are_in_the_log_the_console_the_curve_and_the_callback(logged: Any) -> None:
    folder, metrics, output, axes = logged
    rows = read_rows(folder / "metrics.jsonl")
    evaluated = {row["update"]: row for row in rows if "held_out_normalized_return" in row}
    assert list(evaluated) == [6, 12]
    assert [block["update"] for block in metrics if "held_out_normalized_return" in block] == [6, 12]
    assert metrics[2]["held_out_normalized_return"] == evaluated[6]["held_out_normalized_return"]
    assert evaluated[6]["held_out_length"] == 4.0
    assert (
        evaluated[12]["held_out_normalized_return"]
        == evaluated[12]["held_out_success"]
        == evaluated[12]["held_out_return"]
    )
    final = json.loads((folder / "evaluation.json").read_text())["held_out"]["normalized_return"]
    # 600 episodes each, so the standard error of the difference is 0.03 at most.
    assert evaluated[12]["held_out_normalized_return"] == pytest.approx(final, abs=0.15)
    assert f"update 6, held-out levels: normalized_return {evaluated[6]['held_out_normalized_return']:.3f}" in output
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes[0].lines}
    assert lines["held-out levels"] == [
        [64e-6 * update, evaluated[update]["held_out_normalized_return"]] for update in (6, 12)
    ]
    assert len(lines["training levels"]) == 12


@pytest.mark.parametrize("given", [3, "print", {}])
def test_what_is_no_callback_is_an_error_before_the_folder_is_made(given: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^on_block: expected a function of the metrics, or None, got "):
        train.train(CONFIG, train.RunFlags("none", tmp_path), on_block=given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "stop", [6, pytest.param(8, marks=pytest.mark.slow)], ids=["between checkpoints", "at a checkpoint"]
)
def test_an_exception_in_on_block_saves_the_checkpoint_and_ends_the_run(whole: Path, tmp_path: Path, stop: int) -> None:
    def full(metrics: dict[str, float]) -> None:
        if metrics["update"] == stop:
            raise ConnectionError("no route to the tracking server\nsecond line")

    wanted = f"expected on_block to return, got ConnectionError: no route to the tracking server at update {stop}. "
    with pytest.raises(RunError, match=f"^{wanted}.* fix on_block and resume the run") as raised:
        train.train(CONFIG, train.RunFlags("cut", tmp_path), on_block=full)
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert max(int(path.name) for path in (tmp_path / "cut" / "checkpoints").iterdir()) == stop
    train.train(CONFIG, train.RunFlags("cut", tmp_path, resume=True))
    rows, expected = (without_times(read_rows(path / "metrics.jsonl")) for path in (tmp_path / "cut", whole))
    assert rows == expected
    chex.assert_trees_all_equal(last_state(tmp_path / "cut"), last_state(whole))


@pytest.mark.slow
def test_each_of_several_seeds_is_evaluated_and_logged(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, num_seeds=2, seed=5, eval_every=1, eval_repeats=3, total_steps=128)
    metrics: list[dict[str, float]] = []
    train.train(config, train.RunFlags("two", tmp_path), on_block=metrics.append)
    rows = read_rows(tmp_path / "two" / "metrics.jsonl")[-2:]
    assert [row["seed"] for row in rows] == [5, 6]
    (block,) = metrics
    assert [block[f"seed_{row['seed']}/held_out_normalized_return"] for row in rows] == [
        row["held_out_normalized_return"] for row in rows
    ]
    assert block["held_out_normalized_return"] == pytest.approx(
        sum(row["held_out_normalized_return"] for row in rows) / 2
    )


def test_the_metrics_of_a_block_weigh_results_by_episodes_and_leave_out_what_is_not_known() -> None:
    row = {"seconds": 2.0, "steps_per_second": 64}
    first = row | {
        "update": 1,
        "steps": 64,
        "seed": 0,
        "loss": 1.0,
        "episodes": 1.0,
        "return": 3.0,
        "normalized_return": 0.0,
    }
    last = row | {
        "update": 2,
        "steps": 128,
        "seed": 0,
        "loss": 2.0,
        "episodes": 3.0,
        "return": 7.0,
        "normalized_return": 1.0,
    }
    position = {"update": 2, "steps": 128, "seconds": 2.0, "steps_per_second": 64}
    assert hooks.block_metrics([first, last]) == position | {
        "episodes": 4,
        "loss": 1.5,
        "return": 6.0,
        "normalized_return": 0.75,
    }
    none = {"episodes": 0.0, "return": None, "normalized_return": None}
    assert hooks.block_metrics([first | none, last | none]) == position | {"episodes": 0, "loss": 1.5}


def test_one_row_is_written_for_each_level_and_episode(whole: Path, tmp_path: Path) -> None:
    names = [
        "split",
        "run_seed",
        "level_seed",
        "episode",
        "return",
        "normalized_return",
        "success",
        "length",
        "truncated",
    ]
    results = evaluate.evaluate_run(evaluate.EvaluateFlags(whole, levels=3, repeats=4, per_level=tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == names
    assert [(int(row["level_seed"]), int(row["episode"])) for row in rows] == [
        (2**31 + level, episode) for level in range(3) for episode in range(4)
    ]
    assert {(row["split"], row["run_seed"], row["length"], row["truncated"]) for row in rows} == {
        ("held_out", "0", "4", "0")
    }
    for name in ("return", "normalized_return", "success"):
        assert np.mean([float(row[name]) for row in rows]) == pytest.approx(results["held_out"][name])
    evaluate.evaluate_run(evaluate.EvaluateFlags(whole, levels=3, repeats=4, per_level=tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [{name: type(rows[0][name])(value) for name, value in line.items()} for line in lines] == rows


def test_the_rows_of_the_papers_levels_have_their_seeds(
    whole: Path, tmp_path: Path, recall_game: Callable[..., TrainingGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    game = recall_game()._replace(training_levels=None, held_out_levels=jnp.arange(50, dtype=jnp.int32) % 3)
    monkeypatch.setattr(evaluate, "make_paper_game", lambda _: game)
    shutil.copytree(whole, tmp_path / "run")
    evaluate.evaluate_run(evaluate.EvaluateFlags(tmp_path / "run", levels="paper", per_level=tmp_path / "paper.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "paper.jsonl").read_text().splitlines()]
    assert [row["level_seed"] for row in rows] == list(range(200_000, 200_050))
    assert {row["split"] for row in rows} == {"paper"}


def test_rows_have_the_episodes_of_each_agent_in_the_order_of_the_levels() -> None:
    def episodes(first: float) -> evaluate.Episodes:
        numbers = np.arange(first, first + 4)
        is_whole = np.array([True, False, True, True])
        return evaluate.Episodes(numbers, numbers.astype(int), numbers / 10, numbers / 100, numbers, is_whole)

    rows = evaluate.level_rows("held_out", [7, 9], 2, 3, [episodes(1.0), episodes(5.0)])
    assert [(row["run_seed"], row["level_seed"], row["episode"], row["return"]) for row in rows] == [
        *((3, 7, 0, 1.0), (3, 7, 1, 2.0), (3, 9, 0, 3.0), (3, 9, 1, 4.0)),
        *((4, 7, 0, 5.0), (4, 7, 1, 6.0), (4, 9, 0, 7.0), (4, 9, 1, 8.0)),
    ]
    assert rows[1]["truncated"] == 1
    assert (rows[0]["length"], rows[0]["success"], rows[0]["normalized_return"]) == (1, 0.1, 0.01)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.txt", "expected --per-level to name a .csv or .jsonl file, got "),
        ("no/out.csv", "in an existing directory"),
    ],
)
def test_a_file_for_rows_that_cannot_be_is_an_error_before_anything_is_played(
    whole: Path, tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "make_player", pytest.fail)
    with pytest.raises(ConfigError, match=message):
        evaluate.evaluate_run(evaluate.EvaluateFlags(whole, per_level=tmp_path / name))


def test_scores_are_shown_and_kept_when_rows_cannot_be_written(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.csv").mkdir()
    shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("evaluation*.json"))
    with pytest.raises(RunError, match=r"^cannot write .*out\.csv \(Is a directory\)\. Choose another --per-level"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(tmp_path / "run", levels=3, per_level=tmp_path / "out.csv"))
    assert "held-out levels (" in capsys.readouterr().out
    assert (tmp_path / "run" / "evaluation.json").exists()


def test_a_run_can_be_scored_later(whole: Path) -> None:
    results = evaluate.evaluate_run(evaluate.EvaluateFlags(whole, repeats=5, checkpoint=8))
    assert results["update"] == 8
    assert results["held_out"]["episodes_per_level"] == 5
    assert "held-out levels (3): normalized return" in evaluate.describe(results)
    assert ", 0% truncated at --max-steps" in evaluate.describe(results)
    with pytest.raises(RunError, match=r"expected a checkpoint among \[4, 8, 12\], got 5"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(whole, checkpoint=5))


def test_greedy_actions_do_not_depend_on_the_seed_and_are_reported_in_their_own_file(whole: Path) -> None:
    before = (whole / "evaluation.json").read_bytes()
    first, second = (
        evaluate.evaluate_run(evaluate.EvaluateFlags(whole, repeats=20, actions="greedy", seed=seed)) for seed in (0, 1)
    )
    assert first == second != evaluate.evaluate_run(evaluate.EvaluateFlags(whole, repeats=20, seed=1))
    assert json.loads((whole / "evaluation-greedy.json").read_text()) == first
    (whole / "evaluation.json").write_bytes(before)


def test_a_run_can_be_scored_on_the_levels_of_the_papers(
    whole: Path, recall_game: Callable[..., TrainingGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    game = recall_game()._replace(training_levels=None)
    monkeypatch.setattr(evaluate, "make_paper_game", lambda _: game)
    results = evaluate.evaluate_run(evaluate.EvaluateFlags(whole, levels="paper", repeats=2))
    assert set(results) == {"update", "paper"}
    assert json.loads((whole / "evaluation-paper.json").read_text()) == results
    assert evaluate.describe(results).startswith("paper levels (3): normalized return")


@pytest.mark.slow
def test_a_run_can_be_scored_on_levels_that_list_more_than_those_it_was_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "make_game", make_game)
    names = dict(env="Endless-MortarMayhem-v0", options=("observation=symbolic",))
    config = dataclasses.replace(CONFIG, **names, train_levels=4, held_out_levels=2)
    game = make_game(config)
    setup = make_setup(config, game)
    with RunFolder.create(tmp_path / "run", config) as folder:
        folder.save(make_init(setup)(seeds_of(setup), game.params), 4)
    results = evaluate.evaluate_run(evaluate.EvaluateFlags(tmp_path / "run", levels="paper", repeats=1, max_steps=4))
    assert (results["update"], results["paper"]["levels"], results["paper"]["length"]) == (4, 50, 4.0)
    assert results["paper"]["metric_name"] == "commands_completed"


@pytest.mark.parametrize("env_id", ["MortarMayhem-Grid-v0", "SearingSpotlights-v0"])
def test_the_levels_of_the_papers_are_the_originals_of_seeds_200_000_to_200_049(env_id: str) -> None:
    game = make_paper_game(dataclasses.replace(CONFIG, env=env_id, options=("observation=symbolic",)))
    wanted = levels.original(env_id, range(200_000, 200_050), observation="symbolic")
    assert levels.num_levels(game.held_out_levels) == 50
    chex.assert_trees_all_equal(game.held_out_levels, wanted)
    jax.eval_shape(jax.vmap(game.env.reset_to_level, (None, 0, None)), jax.random.key(0), wanted, game.params)
    assert game.training_levels is None


def test_an_id_without_levels_of_the_papers_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"^Unknown environment id 'Nothing-v0'"):
        make_paper_game(dataclasses.replace(CONFIG, env="Nothing-v0"))


@pytest.mark.parametrize("env_id", ["MiniGrid-MemoryS7-v0", "FrozenLake-v0", "Sudoku-v0"])
def test_an_environment_that_is_not_in_the_papers_has_no_paper_levels(env_id: str) -> None:
    with pytest.raises(ConfigError, match=f"^--levels paper: expected a Memory Gym environment, got {env_id}, .* 50.$"):
        make_paper_game(dataclasses.replace(CONFIG, env=env_id))


@pytest.mark.parametrize("change", [{"max_steps": 0}, {"max_steps": 2**31}, {"seed": -1}, {"seed": 2**31}])
def test_scoring_without_steps_or_with_a_seed_out_of_range_is_rejected(whole: Path, change: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"^(--max-steps|seed): expected a number from "):
        evaluate.evaluate_run(evaluate.EvaluateFlags(whole, **change))


@pytest.mark.parametrize("change", [{"levels": 0}, {"repeats": -1}], ids=str)
def test_scoring_on_nothing_is_rejected_by_the_name_of_the_flag(whole: Path, change: dict[str, int]) -> None:
    ((name, number),) = change.items()
    with pytest.raises(ConfigError, match=rf"^--{name}: expected at least 1, got {number}$"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(whole, **change))


def test_scores_that_cannot_be_kept_are_shown_all_the_same(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("evaluation*.json"))
    (tmp_path / "run" / "evaluation.json").mkdir()
    with pytest.raises(RunError, match=r"^cannot write .*evaluation\.json \(Is a directory\)\. Free disk space"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(tmp_path / "run"))
    assert "held-out levels (" in capsys.readouterr().out


def test_a_run_is_not_overwritten(whole: Path) -> None:
    with pytest.raises(RunError, match=r"with a run\. Add --resume"):
        train.train(CONFIG, train.RunFlags("whole", whole.parent))


def test_a_run_is_not_resumed_with_other_settings(whole: Path) -> None:
    other = dataclasses.replace(CONFIG, gamma=0.9, seed=1)
    with pytest.raises(RunError, match=r"got other values of gamma, seed"):
        train.train(other, train.RunFlags("whole", whole.parent, resume=True))


def test_other_total_steps_are_rejected_where_they_change_the_rates_and_what_keeps_them_is_told(whole: Path) -> None:
    longer = dataclasses.replace(CONFIG, total_steps=2 * CONFIG.total_steps, decay_steps=0)
    with pytest.raises(RunError, match=f"Add --decay-steps {CONFIG.total_steps} to keep the rates"):
        train.train(longer, train.RunFlags("whole", whole.parent, resume=True))


def test_64_bits_are_rejected_before_there_is_a_folder(tmp_path: Path) -> None:
    with jax.enable_x64(True), pytest.raises(ConfigError, match=r"got jax_enable_x64. Unset JAX_ENABLE_X64"):
        train.train(CONFIG, train.RunFlags("wide", tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_shape_is_rejected() -> None:
    with pytest.raises(RunError, match="expected a checkpoint with weight"):
        unpack_state({"weight": np.zeros(3)}, pack_state({"weight": np.zeros(2)}))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    with pytest.raises(RunError, match=r"cannot write .*runs/name \(.*\)\. Free disk space or choose another folder"):
        train.train(CONFIG, train.RunFlags("name", tmp_path / "runs"))


def test_a_full_disk_leaves_the_last_checkpoint_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        folder.save({"weight": np.ones(2, np.float32)}, 4)

        def save(*_: Any, **__: Any) -> None:
            logging.getLogger("absl").error("what the library says of it")
            raise OSError(errno.ENOSPC, "No space left on device")

        caplog.clear()
        monkeypatch.setattr(folder._manager, "save", save)
        with pytest.raises(RunError, match=r"update 8 .*No space left on device.*; the one of update 4 is kept"):
            folder.save({"weight": np.zeros(2)}, 8)
        assert not caplog.records
        np.testing.assert_array_equal(folder.restore({"weight": np.zeros(2)})["weight"], [1, 1])


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = dict.fromkeys(
        ("loss", "grad_norm", "episodes", "return", "length", "success", "normalized_return"), np.ones(2)
    )
    bad = metrics | {"loss": np.asarray([1.0, np.nan])}
    monkeypatch.setattr(train, "make_train_block", lambda *_: lambda state, _: (state, bad))
    with pytest.raises(RunError, match="for seed 0 at update 2; there is no checkpoint"):
        train.train(CONFIG, train.RunFlags("name", tmp_path))


def test_a_loss_that_is_no_number_leaves_the_checkpoint_before_it(
    tmp_path: Path, recall_game: Callable[..., TrainingGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("loss", "grad_norm", "episodes", "return", "length", "success", "normalized_return")
    good = dict.fromkeys(names, np.ones(2))
    blocks = iter([good, good, good, good | {"grad_norm": np.asarray([np.inf, 1.0])}])
    monkeypatch.setattr(train, "make_train_block", lambda *_: lambda state, _: (state, next(blocks)))
    message = "for seed 0 at update 7; the checkpoint of update 4 is kept"
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        with pytest.raises(RunError, match=message):
            train.run_blocks(CONFIG, recall_game(), folder)
        assert folder.last_update == 4
        assert [row["update"] for row in read_rows(folder.log)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_a_run_killed_while_it_saves_goes_on_from_the_checkpoint_before(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.baselines.killed_while_saving", str(whole), str(tmp_path / "cut")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=280, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-1000:]
    left = [path.name for path in (tmp_path / "cut" / "checkpoints").iterdir()]
    assert [name for name in left if name.isdigit()] == ["4"]
    assert len(left) == 2  # and the one that was cut off
    train.train(CONFIG, train.RunFlags("cut", tmp_path, resume=True))
    rows, expected = (without_times(read_rows(path / "metrics.jsonl")) for path in (tmp_path / "cut", whole))
    assert rows == expected
    chex.assert_trees_all_equal(last_state(tmp_path / "cut"), last_state(whole))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
def test_host_memory_stays_flat_over_a_thousand_blocks(
    tmp_path: Path, recall_game: Callable[..., TrainingGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dict(num_envs=2, num_steps=2, minibatches=1, epochs=1, block_updates=1)
    config = dataclasses.replace(CONFIG, **small, checkpoint_updates=100, total_steps=4 * 1000)
    append, seen = RunFolder.append, dict[int, int]()

    def watched(folder: RunFolder, rows: list[Any]) -> None:
        append(folder, rows)
        seen[rows[-1]["update"]] = resident_bytes()

    monkeypatch.setattr(RunFolder, "append", watched)
    with RunFolder.create(tmp_path / "run", config) as folder:
        train.run_blocks(config, recall_game(), folder)
    assert len(seen) == 1000
    assert seen[1000] - seen[201] < 16e6  # after two checkpoints and curves everything has been imported


def test_a_run_tells_what_its_total_steps_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(train.tqdm, "write", written.append)

    def stopped(*_: Any) -> Any:
        raise RunError("enough")

    monkeypatch.setattr(train, "run_blocks", stopped)
    for steps, name in ((700, "odd"), (768, "even")):
        with pytest.raises(RunError, match="enough"):
            train.train(dataclasses.replace(CONFIG, total_steps=steps), train.RunFlags(name, tmp_path))
    assert [line for line in written if "becomes" in line] == [
        "--total-steps 700 becomes 768: whole blocks of 128 steps"
    ]


def test_flags_override_the_scale(tmp_path: Path) -> None:
    argv = "--scale paper --gamma 0.9 --env Some-v0 --options command_count=[3] observation=symbolic --name x"
    arguments = train.parse([*argv.split(), "--runs-dir", str(tmp_path)])
    assert arguments.run_flags == train.TrainFlags("x", tmp_path)
    expected = {"gamma": 0.9, "env": "Some-v0", "options": ("command_count=[3]", "observation=symbolic")}
    assert arguments.config == dataclasses.replace(SCALES["paper"], **expected)
    assert arguments.config.env_options == {"command_count": [3], "observation": "symbolic"}


def test_a_cpu_gets_the_small_scale_by_default() -> None:
    assert train.parse([]).config == SCALES["cpu"]


def test_a_resumed_run_brings_its_settings(whole: Path) -> None:
    arguments = train.parse(["--resume", "--runs-dir", str(whole.parent)])
    assert arguments.run_flags.name == "whole"
    assert arguments.config == CONFIG


def test_the_newest_run_to_resume_is_one_of_the_same_command(tmp_path: Path) -> None:
    settings = {"train": dataclasses.asdict(CONFIG), "grpo": dataclasses.asdict(Settings())}
    for name, kept in settings.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(kept))
    argv = ["--resume", "--runs-dir", str(tmp_path)]
    assert train.parse(argv).run_flags.name == "train"
    assert grpo.parse(argv).run_flags.name == "grpo"
    with pytest.raises(RunError, match=r"expected a run of baselines\.train, got one of baselines\.grpo"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(tmp_path / "grpo"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--scale", "papre"],
            r"^scale: expected one of cpu, paper, throughput, got 'papre' \(did you mean 'paper'?\)$",
        ),
        (["--options", "3"], "expected NAME=VALUE"),
        (["--options", "size=8", "--options=p=0.9"], "^expected --options once, got it twice"),
        (
            ["--options", "levels=3"],
            "^expected no option 'levels', got one. Use train_levels and held_out_levels instead.$",
        ),
        (["--minibatches", "5"], "a number of environments that divides into 5 minibatches, got 64"),
        (["--bptt", "48"], "num_steps: expected a multiple of bptt 48, got 64"),
        (
            ["--bptt", "32", "--minibatches", "5"],
            "a number of sequences of steps that divides into 5 minibatches, got 128",
        ),
        (["--num-steps", "0"], "num_steps: expected at least 1, got 0"),
        (["--seed", "-1"], "^seed: expected a number from 0 to 2147483647, got -1$"),
        (["--seed", "2147483648"], "^seed: expected a number from 0 to 2147483647, got 2147483648$"),
        (
            ["--seed", "2147483647", "--num-seeds", "2"],
            "seed: expected a number from 0 to 2147483646 with 2 seeds, got 2147483647",
        ),
        (["--gamma", "1.01"], "gamma: expected a number from 0 to 1, got 1.01"),
        (["--gae-lambda", "1.01"], "gae_lambda: expected a number from 0 to 1, got 1.01"),
    ],
)
def test_a_wrong_flag_is_explained(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        train.parse(argv)


@pytest.mark.parametrize(
    "name",
    ["train", "grpo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("evaluate", "report", "transfer"))],
)
def test_an_unknown_flag_is_told_with_a_command_that_helps_and_before_environments_are_imported(name: str) -> None:
    program = (
        "import atexit, runpy, sys; atexit.register(lambda: print('gymnax' in sys.modules)); "
        f"sys.argv = ['x', '--nonsense', '3']; runpy.run_module('baselines.{name}', run_name='__main__')"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert f"run python -m baselines.{name} --help " in finished.stderr
    assert finished.stdout == "False\n"


@pytest.mark.parametrize("argv", [["--num-processes", "2"], ["--process-id", "1"]])
def test_processes_that_do_not_know_where_to_meet_are_rejected(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        train.parse(argv)
    assert "Add --coordinator" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["nohost", ":80", "host:", "host:port"])
def test_a_coordinator_is_a_host_and_a_port(given: str) -> None:
    with pytest.raises(ConfigError, match=rf"^coordinator: expected HOST:PORT of the first process, got '{given}'$"):
        train.parse(["--coordinator", given])


def test_who_reads_a_run_leaves_alone_what_is_being_written(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "read"
    shutil.copytree(whole, path)
    part = path / "checkpoints" / "16.orbax-checkpoint-tmp"
    part.mkdir()
    assert last_state(path)
    assert part.exists()
    with RunFolder.reopen(path, CONFIG) as folder:
        folder.save({"weight": jax.numpy.ones(1)}, 16)  # by then it is cleared away
        assert not part.exists()


def test_a_run_without_a_checkpoint_cannot_be_scored(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "young"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(RunError, match=r"expected a checkpoint in .*young, got none\. Continue the run with --resume"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(path))


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_a_run_starts_from_the_parameters_of_another_one(whole: Path, tmp_path: Path, num_seeds: int) -> None:
    still = {"learning_rate_start": 0.0, "learning_rate_end": 0.0, "total_steps": 128, "num_seeds": num_seeds}
    config = dataclasses.replace(CONFIG, start_from=str(whole), **still)
    train.train(config, train.RunFlags("second", tmp_path))
    found = zoo.read(tmp_path / "second").params
    chex.assert_trees_all_equal(found, zoo.read(whole).params)
    assert (read_config(tmp_path / "second").start_from, read_config(whole).start_from) == (str(whole), "")


def test_a_run_does_not_start_from_another_network(whole: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, start_from=str(whole), memory_size=16)
    with pytest.raises(ConfigError, match=r"^--start-from .*whole: expected an agent with the same network"):
        train.train(config, train.RunFlags("second", tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": "stack4"}, "memory 'stack4': expected an observation with a frame"),
        ({"memory": "trxl", "memory_heads": 3}, "--memory-size: expected a multiple of 6"),
        ({"reconstruction": 0.1}, "reconstruction: expected an observation with a frame"),
    ],
)
def test_a_network_that_does_not_fit_leaves_no_folder(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train.train(dataclasses.replace(CONFIG, **changes), train.RunFlags("unfit", tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a/"])
def test_a_name_that_is_no_folder_of_its_own_is_rejected(name: str) -> None:
    for place in (train.RunFlags, grpo.RunFlags):
        with pytest.raises(ConfigError, match=rf"^--name: expected the name of one folder, got '{name}'"):
            place(name)


FLOATS = [field.name for field in dataclasses.fields(Config) if isinstance(field.default, float)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-0.1"])
@pytest.mark.parametrize("name", FLOATS)
def test_a_setting_that_is_not_finite_or_negative_is_rejected(name: str, value: str) -> None:
    argv = ["--" + name.replace("_", "-"), value]
    with pytest.raises(ConfigError, match=rf"^{name}: expected (a finite number|at least 0), got {value}$"):
        train.parse(argv)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "null",
        "5",
        '{"gamma": 0.9}',
        '{"env": 5}',
        '{"env": "Some-v0", "gamma": "a"}',
        '{"env": "Some-v0", "gamma": NaN}',
        '{"env": "Some-v0", "num_envs": 64.5}',
        '{"env": "Some-v0", "num_envs": true}',
        '{"env": "Some-v0", "options": "command_count=[3]"}',
        '{"env": "Some-v0", "options": [3]}',
        '{"env": "Some-v0", "embed": null}',
        '{"env": "Some-v0", "dtype": "float16"}',
        '{"env": "So',
        "\x00",
        "",
    ],
)
def test_a_config_that_is_none_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"cannot use .*config\.json"):
        read_config(tmp_path)


def test_a_config_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(RunError, match=r"cannot use .*config\.json"):
        read_config(tmp_path)


def test_what_a_kill_left_half_written_goes_when_the_run_goes_on(whole: Path) -> None:
    for name in ("curve.tmp", "metrics.jsonl.tmp"):
        (whole / name).write_text("half")
    with RunFolder.reopen(whole, CONFIG):
        assert not list(whole.glob("*.tmp"))


@pytest.mark.parametrize("name", ["num_envs", "num_steps", "memory_size", "memory_window", "memory_layers"])
def test_a_size_that_no_program_can_count_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: expected a number below 2147483648, got {2**40}$"):
        dataclasses.replace(CONFIG, **{name: 2**40})
    assert dataclasses.replace(CONFIG, total_steps=2**40).total_steps == 2**40


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match="got 'a' twice"):
        parse_options(["a=1", "a=2"])


def test_options_are_read_as_those_of_the_command_line() -> None:
    argv = ("use_exit=True", "show_goal=False", "agent_scale=0.5", "max_coins=None", "observation=symbolic", "a=b=c")
    read = {"use_exit": True, "show_goal": False, "agent_scale": 0.5, "max_coins": None}
    read |= {"observation": "symbolic", "a": "b=c"}
    assert parse_options(argv) == jaxgym.parse_options(argv) == read
    config = dataclasses.replace(CONFIG, env="SearingSpotlights-v0", options=("use_exit=False", "observation=symbolic"))
    assert not jaxgym.make(config.env, **config.env_options)[1].use_exit
    for word in ("=3", "3", ""):
        with pytest.raises(ConfigError, match=r"expected NAME=VALUE"):
            parse_options([word])


def test_settings_of_a_longer_run_may_change_and_are_kept_for_the_next_resume(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    longer = dataclasses.replace(CONFIG, total_steps=1024, decay_steps=CONFIG.total_steps)
    with RunFolder.reopen(tmp_path / "run", longer) as folder:
        assert folder.last_update == 12
    assert read_config(tmp_path / "run") == longer


def test_a_run_has_one_process_that_writes_it_at_a_time(whole: Path, tmp_path: Path) -> None:
    said = r"^expected a folder that no other process writes, got .* Wait, or choose another --name\.$"
    with RunFolder.create(tmp_path / "run", CONFIG) as folder:
        with pytest.raises(RunError, match=said):
            RunFolder.reopen(folder.path, CONFIG)
        (folder.path / "config.json").unlink()
        with pytest.raises(RunError, match=said):
            RunFolder.create(folder.path, CONFIG)
    with RunFolder.create(tmp_path / "run", CONFIG), RunFolder.reopen(whole, CONFIG):
        assert last_state(whole)  # while it goes on
    with RunFolder.reopen(whole, CONFIG):
        pass


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew_in_its_place(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("checkpoints", "evaluation*.json"))
    said = r"run: expected a checkpoint of the 12 updates in the log, got none\. Restore the checkpoints, or start"
    with pytest.raises(RunError, match=said):
        RunFolder.reopen(path, CONFIG)
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (path / "metrics.jsonl").write_text("".join(lines[:4]))  # killed before it had saved for the first time
    with RunFolder.reopen(path, CONFIG) as folder:
        assert folder.last_update is None


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"seconds": 1.0}', b'{"update": 2, "seconds": "1"}', b"\xff", b""], ids=str
)
def test_a_line_of_the_log_that_is_no_row_is_told_by_its_number_and_loses_no_other(tmp_path: Path, line: bytes) -> None:
    log = tmp_path / "metrics.jsonl"
    row = b'{"update": 1, "seconds": 1.0}\n'
    log.write_bytes(row + line + b"\n" + row)
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2: expected a JSON row\. Repair or remove the line\.$"):
        read_rows(log)


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^cannot read .* \(Is a directory\)\. Repair or remove it\.$"):
        read_rows(tmp_path)


def test_a_checkpoint_that_cannot_be_read_is_told_with_the_one_before(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    for update, do in (
        (12, r"remove .*12 and resume from update 8\.$"),
        (4, r"start a new run with another --name\.$"),
    ):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / str(update) / "default")
        with RunFolder(tmp_path / "run", CONFIG) as folder, pytest.raises(RunError, match=do):
            folder.restore(None, update)


def test_a_config_of_another_version_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"env": "Some-v0", "gamma": 0.9, "flavor": 1}')
    with pytest.raises(RunError, match="settings that this version does not support: flavor"):
        read_config(tmp_path)
    assert dataclasses.replace(Config(), gamma=0.9) != Config()
