"""Data rows for trainers: the command `jaxgym dataset`."""

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from jaxgym import cli
from jaxgym.errors import LevelError, OptionError, UnknownIdError
from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout.runs import read_rows
from jaxgym.serve.trainers import dataset

FORMATS = tuple(dataset.SUFFIXES)
WITH_ROWS = [name for name in FORMATS if dataset.SUFFIXES[name] == ".jsonl"]
GAMES = ("frozen_lake", "textcraft")


def rows_of(*argv: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli.run(["dataset", *argv]).splitlines()]


def env_config_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the `env_config` of a row, which slime reads from the metadata."""
    return row.get("metadata", row)["env_config"]


def test_rows_alternate_between_the_games_on_the_same_levels() -> None:
    rows = rows_of("--game", *GAMES, "max_turns=9", "--format", "areal", "--rows", "5", "--start", "7")
    assert rows == [
        {"env_config": {"name": GAMES[number % 2], "seed": 7 + number // 2, "max_turns": 9}} for number in range(5)
    ]


@pytest.mark.parametrize("form", WITH_ROWS)
def test_every_format_has_the_same_levels_and_options(form: str) -> None:
    argv = ("--game", "frozen_lake", "size=8", "--split", "heldout", "--rows", "3", "--format")
    expected = [{"name": "frozen_lake", "seed": SPLIT_SIZE + number, "size": 8} for number in range(3)]
    assert [env_config_of(row) for row in rows_of(*argv, form)] == expected


PROMPT = [{"role": "user", "content": "Play."}]
COLUMNS = {
    "verl": {
        "data_source": "frozen_lake",
        "agent_name": "jaxgym",
        "prompt": PROMPT,
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"index": 0},
    },
    "skyrl": {"prompt": PROMPT, "env_class": "jaxgym", "data_source": "frozen_lake"},
    "trl": {"prompt": [{"role": "user", "content": "Play this game.\n\n"}], "environment": "frozen_lake"},
    "swift": {"messages": PROMPT},
    "nemo": {"responses_create_params": {"input": PROMPT}},
    "slime": {"prompt": PROMPT},
    "areal": {},
}


@pytest.mark.parametrize("form", WITH_ROWS)
def test_the_columns_are_those_that_the_trainer_reads(form: str) -> None:
    (row,) = rows_of("--game", "frozen_lake", "--rows", "1", "--format", form)
    config = {"env_config": {"name": "frozen_lake", "seed": 0}}
    assert row == COLUMNS[form] | ({"metadata": config} if form == "slime" else config)


@pytest.mark.slow
def test_rows_of_nemo_gym_with_images_have_the_tools_and_the_first_image() -> None:
    (row,) = rows_of(
        "--game", "frozen_lake", "observation_mode=image", "--start", "3", "--rows", "1", "--format", "nemo"
    )
    pool = SessionPool(capacity=1)
    image = pool.open("frozen_lake", seed=3, options={"observation_mode": "image"}).image
    asked = row["responses_create_params"]
    assert [tool["name"] for tool in asked["tools"]] == ["move"]
    assert image is not None
    assert asked["input"][0]["content"][0]["image_url"].endswith(base64.b64encode(image).decode())
    assert row["env_config"] == {"name": "frozen_lake", "seed": 3, "observation_mode": "image"}


def test_vagen_gets_the_range_of_the_seeds_of_each_game() -> None:
    argv = ("--game", *GAMES, "max_turns=9", "--split", "heldout", "--rows", "7", "--format", "vagen")
    lake, craft = yaml.safe_load(cli.run(["dataset", *argv]))["envs"]
    assert lake == {
        "name": "Jaxgym",
        "data_source": "frozen_lake",
        "n_envs": 4,
        "seed": [SPLIT_SIZE, SPLIT_SIZE + 3, 1],
        "max_turns": 9,
        "config": {"name": "frozen_lake", "max_turns": 9},
    }
    assert (craft["config"]["name"], craft["n_envs"], craft["seed"]) == (
        "textcraft",
        3,
        [SPLIT_SIZE, SPLIT_SIZE + 2, 1],
    )


def test_verifiers_gets_the_configuration_of_its_taskset() -> None:
    argv = ("--game", "sudoku", "clues=[60]", "hints=True", "--rows", "5", "--start", "2", "--format", "verifiers")
    assert tomllib.loads(cli.run(["dataset", *argv]))["env"]["taskset"] == {
        "id": "jaxgym-games",
        "games": ["sudoku"],
        "num_rows": 5,
        "split": "train",
        "start": 2,
        "options": {"clues": [60], "hints": True},
    }


def test_a_file_of_rows_can_be_played_by_a_rollout(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    said = cli.run(["dataset", "--game", "frozen_lake", "--format", "verl", "--rows", "4", "--out", str(out)])
    assert said == f"{out}: 4 rows\n"
    assert [row["env_config"]["seed"] for row in read_rows(out)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("argv", "error", "says"),
    [
        (["--game", "frozen_lke"], UnknownIdError, "frozen_lke"),
        (["--game", "frozen_lake", "sizes=4"], OptionError, "did you mean 'size'"),
        (["--game", "frozen_lake", "size=one"], OptionError, "size"),
        (["--game", "frozen_lake", "max_turns=-1"], OptionError, "max_turns"),
        (["--game", "frozen_lake", "levels=fresh"], OptionError, "--split and --start select the levels"),
        (["--game", "size=4"], OptionError, "expected at least one game, got none"),
        (["--game", "frozen_lake", "--rows", "0"], OptionError, "expected at least one row for each game, got 0"),
        (["--game", "frozen_lake", "seed=3"], OptionError, "expected an option, got 'seed'"),
        (["--game", "frozen_lake", "name=sudoku"], OptionError, "expected an option, got 'name'"),
        (["--game", "frozen_lake", "parsing=lenient"], OptionError, "parsing: expected 'strict', got 'lenient'"),
        (["--game", *GAMES, "--rows", "1"], OptionError, "at least one row for each"),
        (["--game", "frozen_lake", "--start", str(SPLIT_SIZE)], LevelError, "training seeds"),
        (["--game", "frozen_lake", "--split", "train", "size=8"], OptionError, "directly after --game ID"),
        (["--game", "frozen_lake", "--out", "rows.txt"], OptionError, "ends in .jsonl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_an_error(argv: list[str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        cli.run(["dataset", "--format", "swift", *argv])
