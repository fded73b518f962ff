"""The scripts, the plugin and the datasets of examples/ms_swift, read by ms-swift itself; skipped where it is absent.

No model is loaded and nothing is trained: ms-swift's own parsers parse the arguments of the scripts.
"""

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jaxgym import text

FOLDER = Path(__file__).parents[2] / "examples/ms_swift"
COMMANDS = {"rlhf": "RLHFArguments", "rollout": "RolloutArguments"}
SCRIPTS = {"grpo_colocate.sh": "rlhf", "grpo_server.sh": "rlhf", "rollout_server.sh": "rollout"}
DATASETS = ("frozen_lake", "sudoku", "memory")

pytest.importorskip("swift")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def handed_over(script: str, folder: Path, **variables: str) -> list[str]:
    """Return the arguments that a script passes to `swift`."""
    stub = folder / "swift"
    stub.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n')
    stub.chmod(0o755)
    environment = {**os.environ, **variables, "PATH": f"{folder}:{os.environ['PATH']}"}
    ran = subprocess.run([FOLDER / script, "a/model"], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def parser_of(command: str) -> Any:
    utils = importlib.import_module("swift.utils.utils")
    arguments = getattr(importlib.import_module("swift.arguments"), COMMANDS[command])
    with utils._patch_get_type_hints():
        return utils.HfArgumentParser([arguments])


@pytest.mark.parametrize("script", SCRIPTS)
def test_ms_swift_knows_every_flag_of_a_script_and_takes_its_value(script: str, tmp_path: Path) -> None:
    command, *argv = handed_over(script, tmp_path)
    assert command == SCRIPTS[script]
    parser = parser_of(command)
    given, unknown = parser.parse_known_args(argv)
    assert unknown == []
    flags = [word for word in argv if word.startswith("--")]
    assert not [flag for flag in flags if flag not in parser._option_string_actions], "a flag is an abbreviation"
    assert given.model == "a/model"
    assert given.use_gym_env is True


@pytest.mark.parametrize("scheduler", ["gym_scheduler", "jaxgym_sudoku_scheduler", "jaxgym_openenv_scheduler"])
def test_the_plugin_of_a_script_registers_its_scheduler(scheduler: str, tmp_path: Path) -> None:
    command, *argv = handed_over("rollout_server.sh", tmp_path, SCHEDULER=scheduler)
    given, _ = parser_of(command).parse_known_args(argv)
    (plugin,) = given.external_plugins
    importlib.import_module("swift.utils").import_external_file(str(FOLDER / plugin))
    assert given.multi_turn_scheduler in importlib.import_module("swift.rollout.multi_turn").multi_turns
    assert set(text.text_envs()) < set(importlib.import_module("swift.rollout.gym_env").envs)


@pytest.mark.parametrize("name", DATASETS)
def test_ms_swift_loads_a_dataset_as_it_is_written(name: str, tmp_path: Path) -> None:
    command, *argv = handed_over("grpo_colocate.sh", tmp_path, GAME=name)
    given, _ = parser_of(command).parse_known_args(argv)
    (dataset,) = given.dataset
    rows = [json.loads(line) for line in (FOLDER / dataset).read_text().splitlines()]
    load = importlib.import_module("swift.dataset").load_dataset
    loaded, _ = load([str(FOLDER / dataset)], remove_unused_columns=False)
    assert len(loaded) == len(rows)
    for row, found in zip(rows, loaded, strict=True):
        assert [message["content"] for message in found["messages"]] == ["Play."]
        assert {key: value for key, value in found["env_config"].items() if value is not None} == row["env_config"]
