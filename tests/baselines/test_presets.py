"""Presets have the paper's games, memories and lengths; a flag overrides its value of a preset."""

import dataclasses
import json
from pathlib import Path

import pytest

import jaxgym
from baselines import train
from baselines.config import SCALES, differences, from_json
from baselines.errors import ConfigError
from baselines.presets import AGENTS, GRID_TASKS, PRESETS, TASKS, listed

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_a_preset_sets_game_and_settings_and_a_flag_beside_it_overrides_them(tmp_path: Path) -> None:
    argv = ["--preset", "jmlr/mm-trxl-rec", "--runs-dir", str(tmp_path)]
    config = train.parse(argv).config
    assert config == PRESETS["jmlr/mm-trxl-rec"]
    assert (config.env, config.options) == ("MortarMayhem-v0", ("preset=jmlr2025",))
    assert (config.memory, config.memory_size, config.memory_layers, config.memory_window) == ("trxl", 384, 3, 275)
    assert (config.reconstruction, config.total_steps, config.num_envs, config.num_steps) == (0.1, 491_520_000, 32, 512)
    assert train.parse([*argv, "--gamma", "0.9"]).config == dataclasses.replace(config, gamma=0.9)


def test_a_large_batch_preset_is_what_worked() -> None:
    config = PRESETS["fast/mmg-mingru"]
    shape = dict(num_envs=512, num_steps=128, memory="mingru", total_steps=131_000_000, eval_repeats=3)
    labels = dict(preset="fast/mmg-mingru", options=("preset=jmlr2025",))
    assert config == dataclasses.replace(SCALES["throughput"], env="MortarMayhem-Grid-v0", **shape, **labels)


@pytest.mark.parametrize(
    ("preset", "run", "changed"),
    [
        ("fast/mmg-trxl", "mmg-trxl-256x256-h200", set()),
        ("fast/mm-trxl-rec", "mm-trxl-rec-512x256-h200", {"devices"}),
        ("fast/mmbg-trxl", "mmbg-trxl-256x256-h200", set()),
    ],
)
def test_a_transformer_has_the_settings_of_its_recorded_run(preset: str, run: str, changed: set[str]) -> None:
    ran = from_json(json.loads((RESULTS / run / "config.json").read_text()))
    assert set(differences(PRESETS[preset], ran)) == changed
    assert ran.total_steps == PRESETS[preset].total_steps


@pytest.mark.parametrize(
    ("preset", "run", "steps"),
    [
        ("fast/gotolocal-gru", "gotolocal-gru-66m-h200", 66_000_000),
        ("fast/memory-s17r-mingru", "memory-s17r-mingru-16m-h200", 16_000_000),
    ],
)
def test_a_preset_of_symbols_has_the_settings_of_its_recorded_run(preset: str, run: str, steps: int) -> None:
    ran = from_json(json.loads((RESULTS / run / "config.json").read_text()))
    assert differences(PRESETS[preset], ran) == []
    assert PRESETS[preset].total_steps == ran.total_steps == steps


def test_a_large_batch_preset_of_an_endless_game_has_long_rollouts_and_the_published_decay() -> None:
    endless = [config for name, config in PRESETS.items() if name.startswith(("fast/emm", "fast/emp", "fast/ess"))]
    assert len(endless) == 17
    for config in endless:
        assert config.num_steps >= 256, config.preset
        assert config.decay_length == PRESETS["jmlr/emm-gru"].decay_length == 163_840_000, config.preset
        if config.memory in ("gru", "mingru"):
            assert config.batch_steps == 16_384, config.preset
            assert config.learning_rate_start == 2.75e-4, config.preset
    ran = from_json(json.loads((RESULTS / "emm-mingru-32x512-h200" / "config.json").read_text()))
    assert differences(PRESETS["fast/emm-mingru"], ran) == []


def test_mystery_path_on_a_grid_has_the_smaller_transformer_and_more_entropy() -> None:
    config = PRESETS["jmlr/mpg-off-trxl"]
    assert (config.memory_size, config.memory_layers, config.memory_positions) == (256, 2, False)
    assert config.entropy_start == 1e-3


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--preset", "jmlr/mm-trxl-rek"], r"got 'jmlr/mm-trxl-rek' \(did you mean 'jmlr/mm-trxl-rec'\?\)$"),
        (["--preset", "xyz"], r"^preset: expected a name that --list shows, got 'xyz'$"),
        (["--preset=fast/mm-gru", "--scale", "cpu"], "got both: --preset fast/mm-gru and --scale cpu"),
    ],
)
def test_a_preset_that_cannot_be_taken_is_explained(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train.parse(argv)


def test_of_a_flag_that_is_given_twice_the_last_counts_for_the_defaults_too() -> None:
    assert train.parse(["--preset", "jmlr/mm-gru", "--preset", "fast/mmg-gru"]).config == PRESETS["fast/mmg-gru"]
    assert train.parse(["--scale", "paper", "--scale=cpu"]).config == SCALES["cpu"]


@pytest.mark.parametrize("argv", [["--preset"], ["--preset", "--seed", "3"], ["--scale", "--preset"]])
def test_a_preset_or_scale_without_a_name_is_a_missing_value(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        train.parse(argv)
    assert f"Missing value for argument '{argv[0]}'" in capsys.readouterr().err


def test_every_preset_names_a_game_that_exists() -> None:
    for name, config in PRESETS.items():
        if name.removeprefix("fast/").startswith(tuple(GRID_TASKS)):
            assert config.env_options == {"observation": "symbolic"}
            assert config.env in jaxgym.registered_envs()
        else:
            assert config.env_options["preset"] in jaxgym.presets(config.env)


def test_every_preset_has_a_large_batch_beside_it() -> None:
    published = {name.removeprefix("jmlr/") for name in PRESETS if name.startswith("jmlr/")}
    assert published == {f"{task}-{agent}" for task in TASKS for agent in TASKS[task].agents}
    assert published <= {name.removeprefix("fast/") for name in PRESETS if name.startswith("fast/")}
    assert {agent for task in TASKS.values() for agent in task.agents} <= AGENTS.keys()


def test_the_list_has_a_line_for_each_preset(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["train", "--list"])
    train.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines == listed().splitlines()
    assert [line.split()[0] for line in lines] == ["preset", *PRESETS]
