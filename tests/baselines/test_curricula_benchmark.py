"""The benchmark of curricula: its flags, the steps to a score, and its table."""

from typing import Any

import pytest

from baselines.config import Config
from baselines.game import make_game
from baselines.train import parse
from benchmarks import curricula
from benchmarks.curricula import CURRICULA, GAMES, CurriculaArguments, flags_of, steps_to, table


def config_of(game: str, curriculum: str) -> Config:
    return parse(flags_of(CurriculaArguments(flags="--num-envs 64"), game, curriculum, 2)).config


@pytest.mark.parametrize("game", GAMES)
def test_runs_of_a_game_differ_in_the_curriculum_alone(game: str) -> None:
    configs = {curriculum: config_of(game, curriculum) for curriculum in CURRICULA if curriculum != "grow"}
    assert {name: config.curriculum for name, config in configs.items()} == {name: name for name in configs}
    plain = vars(configs["none"])
    for config in configs.values():
        assert {name for name, value in vars(config).items() if value != plain[name]} <= {"curriculum"}
    assert plain["seed"] == 2
    assert plain["num_envs"] == 64


@pytest.mark.parametrize("game", [name for name, game in GAMES.items() if game.grown])
def test_the_last_stage_is_the_game_that_is_evaluated(game: str) -> None:
    made = make_game(config_of(game, "grow"))
    for name in {option.partition("=")[0] for option in GAMES[game].grown}:
        stages, last = getattr(made.stages, name).values, getattr(made.params, name).values
        assert (stages[-1] == last).all()
        assert (stages[0] != last).any()


def test_steps_to_a_score_count_the_episodes_that_choose_levels() -> None:
    rows: list[dict[str, Any]] = [
        {"steps": 10, "curriculum_steps": 3, "held_out_normalized_return": 0.5},
        {"steps": 20},
        {"steps": 30, "curriculum_steps": 4, "held_out_normalized_return": 0.9},
        {"steps": 40, "curriculum_steps": 5, "held_out_normalized_return": 1.0},
    ]
    assert steps_to(rows) == 37
    assert steps_to(rows[:2]) is None


def test_the_table_has_means_and_values_and_names_what_was_not_run() -> None:
    runs = {"0": {"steps": 2_500_000, "success": 0.9, "cvar_success": 0.25}}
    runs["1"] = {"steps": None, "success": 0.7, "cvar_success": 0.75}
    lines = table({"mystery-path-sfl": runs}).splitlines()
    assert "| MysteryPath-Grid-v0 | sfl | 2.5, – | 0.800 (0.900, 0.700) | 0.500 (0.250, 0.750) |" in lines
    assert "| MysteryPath-Grid-v0 | plr | not run | not run | not run |" in lines
    assert not any("MysteryPath-Grid-v0 | grow" in line for line in lines)
    assert curricula.REACHED == 0.9
