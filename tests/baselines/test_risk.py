"""Success on the worst levels: chosen by some episodes, scored by others."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import evaluate, risk
from baselines.errors import ConfigError
from baselines.evaluate import Episodes, EvaluateFlags, evaluate_run
from baselines.runs import RunFlags
from baselines.train import train
from tests.baselines.test_curriculum import CONFIG


class Player:
    """Player whose episodes on level n succeed if `is_solved(agent, n, number of the call)`."""

    def __init__(self, is_solved: Any) -> None:
        self.is_solved, self.played = is_solved, list[list[int]]()
        self.is_whole = True

    def __call__(self, agent: Any, levels: Any, env_params: Any, key: Any) -> Episodes:
        del env_params, key
        self.played.append(levels.tolist())
        success = jnp.asarray([float(self.is_solved(agent, level, len(self.played))) for level in levels.tolist()])
        ones, is_whole = jnp.ones(len(levels)), jnp.full(len(levels), self.is_whole)
        return Episodes(ones, ones.astype(jnp.int32), success, ones, ones, is_whole)


def worst(player: Player, count: int = 20, agents: Any = (0,), repeats: int = 2) -> dict[str, Any]:
    return risk.worst_levels(player, agents, jnp.arange(count), None, repeats=repeats, seed=0)


def test_the_tenth_of_the_levels_with_the_least_success_is_played_again() -> None:
    player = Player(lambda _, level, call: level not in (4, 9) or (level == 9 and call % 2 == 0))
    result = worst(player)
    assert [sorted(levels) for levels in player.played] == [list(range(20))] * 2 + [[4, 9]] * 2
    assert result["success"] == pytest.approx((18 + 0.5) / 20)
    assert result["cvar_success"] == pytest.approx(0.25)
    assert (result["levels"], result["worst_levels"], result["episodes_per_level"]) == (20, 2, 2)


def test_the_episodes_that_choose_levels_do_not_score_them() -> None:
    # All levels fail in the first two calls and succeed later: bad luck does not lower the score.
    assert worst(Player(lambda *played: played[-1] > 2))["cvar_success"] == 1


def test_the_number_of_worst_levels_is_rounded_up() -> None:
    assert worst(Player(lambda *_: True), count=21)["worst_levels"] == 3
    assert worst(Player(lambda *_: True), count=1)["worst_levels"] == 1


def test_each_agent_has_worst_levels_of_its_own() -> None:
    player = Player(lambda agent, level, _: level % 10 != agent)
    result = worst(player, agents=(3, 5), repeats=1)
    assert player.played[1::2] == [[3, 13], [5, 15]]
    assert result["cvar_success_by_seed"] == [0.0, 0.0]
    assert result["success_by_seed"] == pytest.approx([0.9, 0.9])


def test_an_episode_that_did_not_end_is_no_success() -> None:
    player = Player(lambda *_: True)
    player.is_whole = False
    assert worst(player)["success"] == 0


def test_each_round_of_episodes_has_its_own_key() -> None:
    keys: list[Any] = []

    def player(agent: Any, levels: Any, env_params: Any, key: jax.Array) -> Episodes:
        keys.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
        return Player(lambda *_: True)(agent, levels, env_params, key)

    risk.worst_levels(player, (0, 1), jnp.arange(10), None, repeats=3, seed=0)
    assert len(set(keys)) == len(keys) == 12


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"levels": "paper"}, "--cvar: expected no --levels paper, got both. Leave one of them out."),
        ({"per_level": Path("rows.csv")}, "--cvar: expected no --per-level, got both. Leave one of them out."),
    ],
)
def test_flags_that_do_not_go_together_are_rejected(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate_run(EvaluateFlags(Path("runs/none"), cvar=True, **flags))


@pytest.mark.slow
def test_a_run_is_evaluated_on_its_worst_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(CONFIG, RunFlags(name="run", runs_dir=tmp_path))
    assert risk.LEVELS == 10_000
    monkeypatch.setattr(risk, "LEVELS", 60)
    results = evaluate_run(EvaluateFlags(tmp_path / "run", cvar=True, repeats=3))
    found = json.loads((tmp_path / "run/evaluation-cvar.json").read_text())["cvar"]
    assert found == results["cvar"]
    assert 0 <= found["cvar_success"] <= found["success"] <= 1
    assert found["episodes_per_level"] == 3
    # Held-out levels that equal a training level are left out.
    assert 10 < found["levels"] <= 60
    assert evaluate.describe(results).startswith(f"held-out levels ({found['levels']}): success ")
    assert "held_out" not in results
    assert "held_out" in json.loads((tmp_path / "run/evaluation.json").read_text())
