"""Held-out levels of games with few levels: the advice of the error message works."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines import evaluate
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import held_out_seeds, make_game, without_trained_levels
from jaxgym import levels


@pytest.fixture(autouse=True)
def num_existing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace level generation: level buffers have numbers below the entry of this list, and nothing is compiled."""
    most = [12]

    def make_level_buffer(env: Any, params: Any, seeds: np.ndarray) -> np.ndarray:
        del env, params
        return np.asarray([np.random.default_rng(int(seed)).integers(most[0]) for seed in seeds])

    monkeypatch.setattr(levels, "make_level_buffer", make_level_buffer)
    return most


def config(**changes: Any) -> Config:
    given = {"env": "FrozenLake-v0", "options": ("observation=symbolic",), "train_levels": 300, "held_out_levels": 90}
    return Config(**{**given, **changes})


def trained_on(**changes: Any) -> int | None:
    """Return the number of different training levels; None if the config is rejected."""
    try:
        buffer = make_game(config(**changes)).params.levels
    except ConfigError:
        return None
    return levels.num_distinct(buffer)


def test_holding_out_all_levels_is_rejected_with_advice_that_helps() -> None:
    with pytest.raises(ConfigError) as caught:
        make_game(config())
    message = str(caught.value)
    assert message.startswith("expected at least 2 different training levels, got 0: ")
    (most,) = re.findall(r"hold out (\d+) or fewer with --held-out-levels", message)
    assert "--train-levels 0" in message
    for count in range(1, int(most) + 1):
        assert trained_on(held_out_levels=count) not in (None, 1)
    assert make_game(config(train_levels=0)).params.levels is None


def test_no_number_of_held_out_levels_leaves_one_training_level() -> None:
    left = {trained_on(held_out_levels=count) for count in range(1, 90)}
    assert {None, 2, 3, 11} <= left
    assert not {0, 1} & left


def test_a_game_of_one_level_can_only_be_trained_on_fresh_ones(num_existing: list[int]) -> None:
    num_existing[0] = 1
    with pytest.raises(
        ConfigError, match=r"To fix this, sample fresh training levels with --train-levels 0, which may include"
    ):
        make_game(config())


def test_one_training_seed_is_trained_on_alone() -> None:
    assert trained_on(train_levels=1, held_out_levels=1) == 1


def test_scoring_names_its_own_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "read_config", lambda _: config(held_out_levels=2))
    with pytest.raises(ConfigError, match=r"hold out 6 or fewer with --levels\.$"):
        evaluate.evaluate_run(evaluate.EvaluateFlags(Path("runs/none"), levels=90))


def test_levels_that_a_run_trained_on_are_left_out_of_more_held_out_levels() -> None:
    run, more = config(held_out_levels=2), config(held_out_levels=6)
    game, seeds = without_trained_levels(run, make_game(more), held_out_seeds(more))
    trained = make_game(run).params.levels
    assert 2 <= levels.num_levels(game.held_out_levels) == len(seeds) < 6
    assert not levels.contained(game.held_out_levels, trained).any()
    assert levels.contained(make_game(more).held_out_levels, trained).sum() == 6 - len(seeds)
    own = without_trained_levels(run, make_game(run), held_out_seeds(run))[1]
    assert len(own) == 2, "those of the run are never trained on"
