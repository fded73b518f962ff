"""Curricula: weights of training levels from advantages (plr) and from success rates (sfl)."""

import dataclasses
import types
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import curriculum, learnability
from baselines.config import SCALES, Config
from baselines.curriculum import LevelScores
from baselines.errors import ConfigError
from baselines.evaluate import Episodes
from baselines.game import make_game
from baselines.ppo import make_init, make_setup, make_train_block, seeds_of
from baselines.runs import RunFlags, read_rows
from baselines.train import train

CONFIG = dataclasses.replace(
    SCALES["cpu"],
    **dict(env="MortarMayhemB-Grid-v0", options=("command_count=[1]", "observation=symbolic"), memory="none"),
    **dict(num_envs=8, num_steps=8, minibatches=2, hidden_size=8, block_updates=2, total_steps=256),
    **dict(train_levels=30, held_out_levels=4, checkpoint_updates=2, curriculum="plr"),
)


# Prioritized Level Replay.


def test_the_score_is_the_mean_absolute_advantage_of_the_steps_of_a_level() -> None:
    scores = curriculum.initial_scores(4)._replace(score=jnp.asarray([9.0, 9.0, 9.0, 7.0]))
    level = jnp.asarray([[0, 2], [0, 2], [1, -1]])
    advantage = jnp.asarray([[1.0, -3.0], [-2.0, 5.0], [0.5, 100.0]])
    after = curriculum.replayed(scores, level, advantage, jnp.int32(6))
    np.testing.assert_allclose(after.score, [1.5, 0.5, 4.0, 7.0])
    assert after.update.tolist() == [6, 6, 6, -1]


def test_replay_draws_by_rank_and_unseen_levels_share_the_other_half() -> None:
    weights = curriculum.replay_weights(
        jnp.asarray([0.0, 1.0, 4.0, 0.0, 2.0]), jnp.asarray([-1, 3, 3, -1, 3]), jnp.int32(3)
    )
    by_rank = np.asarray([1 / 3, 1.0, 1 / 2]) / (1 / 3 + 1 + 1 / 2)
    np.testing.assert_allclose(weights, [0.25, *(0.5 * by_rank[:2]), 0.25, 0.5 * by_rank[2]], rtol=1e-5)


def test_a_tenth_of_replayed_levels_is_drawn_by_the_updates_since_they_were_played() -> None:
    weights = curriculum.replay_weights(jnp.asarray([3.0, 2.0]), jnp.asarray([10, 6]), jnp.int32(10))
    np.testing.assert_allclose(weights, [0.9 * 2 / 3, 0.9 / 3 + 0.1], rtol=1e-5)


def test_no_level_is_preferred_before_one_was_played() -> None:
    weights = curriculum.replay_weights(jnp.zeros(4), jnp.full(4, -1), jnp.int32(0))
    np.testing.assert_allclose(weights, np.full(4, 0.25))


def test_devices_add_their_steps() -> None:
    level, advantage = jnp.asarray([[[0]], [[0]]]), jnp.asarray([[[1.0]], [[3.0]]])
    scores = curriculum.initial_scores(2)
    split = jax.vmap(
        lambda level, advantage: curriculum.replayed(scores, level, advantage, jnp.int32(0), "devices"),
        axis_name="devices",
    )(level, advantage)
    np.testing.assert_allclose(split.score, [[2.0, 0.0]] * 2)


# Sampling for Learnability.


def test_levels_that_are_solved_in_half_of_the_episodes_get_half_of_the_draws() -> None:
    success = jnp.asarray([1.0, 0.5, 0.0, 0.25])
    weights = curriculum.learnable_weights(10, jnp.asarray([7, 2, 5, 3]), success, 2)
    expected = np.full(10, 0.05)
    expected[[2, 3]] += 0.25
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_a_single_level_does_not_get_the_share_of_all_chosen_levels() -> None:
    weights = curriculum.learnable_weights(10, jnp.arange(5), jnp.asarray([1.0, 0.5, 0.0, 0.0, 1.0]), 2)
    np.testing.assert_allclose(weights, [0.075, 0.325, *[0.075] * 8], rtol=1e-6)


def test_all_levels_are_equal_if_the_agent_solves_all_or_none() -> None:
    weights = curriculum.learnable_weights(6, jnp.arange(4), jnp.asarray([0.0, 1.0, 1.0, 0.0]), 2)
    np.testing.assert_allclose(weights, np.full(6, 1 / 6), rtol=1e-6)


def test_effective_levels_count_equally_likely_levels() -> None:
    assert curriculum.effective_levels(jnp.asarray([2.0, 0.0, 2.0, 2.0])) == pytest.approx(3)
    assert curriculum.effective_levels(jnp.asarray([0.0, 5.0])) == pytest.approx(1)


class Agents(NamedTuple):
    """Parts of a train state that choosing levels reads."""

    params: jax.Array
    update: jax.Array
    curriculum: LevelScores


class Levels(NamedTuple):
    levels: jax.Array


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_each_agent_plays_training_levels_and_gets_weights_of_its_own(
    monkeypatch: pytest.MonkeyPatch, num_seeds: int
) -> None:
    # The agent with parameter p solves level n in half of its episodes if n % 4 == p, else in none of them.
    rounds: list[int] = []

    def player(agent: Any, levels: Any, *_: object) -> Episodes:
        rounds.append(len(levels))
        solved = (levels % 4 == agent) & (len(rounds) % 2 == 0)
        ones = jnp.ones(len(levels))
        return Episodes(ones, 3 * ones.astype(jnp.int32), solved.astype(jnp.float32), ones, ones, ones > 0)

    monkeypatch.setattr(learnability, "make_player", lambda _: player)
    monkeypatch.setattr(learnability, "check_success", lambda *_: None)
    config = dataclasses.replace(CONFIG, num_envs=40, num_seeds=num_seeds, curriculum="sfl")
    setup: Any = types.SimpleNamespace(config=config, seed_axis="seeds" if num_seeds > 1 else None)
    game: Any = types.SimpleNamespace(env=None, params=Levels(jnp.arange(40)))
    state: Any = Agents(jnp.arange(num_seeds), jnp.full(num_seeds, 4), curriculum.initial_scores(40))
    if num_seeds == 1:
        state = state._replace(params=state.params[0], update=state.update[0])
    after, metrics = learnability.make_chooser(setup, game)(state, game.params)
    for agent, weights in enumerate(np.reshape(after.curriculum.weights, (num_seeds, 40))):
        is_chosen = weights > 1 / 40
        assert is_chosen.sum() == 8  # of the 10 levels that it solves in half of the episodes
        assert set(np.flatnonzero(is_chosen) % 4) == {agent}
    assert rounds == [40] * 4 * num_seeds
    assert metrics == {"curriculum_steps": 4 * 40 * 3 * num_seeds}


def test_endless_games_have_no_success_to_learn_from() -> None:
    config = dataclasses.replace(
        CONFIG, env="Endless-MortarMayhem-v0", options=("observation=symbolic",), curriculum="sfl"
    )
    game = make_game(config)
    with pytest.raises(ConfigError, match="--curriculum sfl: expected an environment with success in its info"):
        learnability.make_chooser(make_setup(config, game), game)


# Growing difficulty.


def test_an_environment_goes_to_the_next_stage_after_eight_episodes_with_four_fifths_of_success() -> None:
    growth = curriculum.Growth(
        stage=jnp.asarray([0, 1, 1, 2, 0]),
        episodes=jnp.asarray([10, 10, 7, 9, 10]),
        successes=jnp.asarray([8.0, 7.0, 7.0, 9.0, 10.0]),
    )
    after = curriculum.grown(growth, {"speed": np.arange(3)})
    assert after.stage.tolist() == [1, 1, 1, 2, 1]  # the last stage is 2
    assert after.episodes.tolist() == [0, 0, 7, 0, 0]
    assert after.successes.tolist() == [0, 0, 7, 0, 0]


def test_only_episodes_that_ended_are_counted() -> None:
    growth = curriculum.Growth(jnp.zeros(3, jnp.int32), jnp.asarray([1, 1, 1]), jnp.ones(3))
    after: Any = curriculum.counted(growth, jnp.asarray([True, False, True]), jnp.asarray([1.0, 1.0, 0.0]))
    assert after.episodes.tolist() == [2, 1, 2]
    assert after.successes.tolist() == [2, 1, 1]


def grow(*grown_options: str, **changes: Any) -> Config:
    return dataclasses.replace(CONFIG, curriculum="grow", train_levels=0, grown_options=grown_options, **changes)


def test_each_environment_has_the_options_of_its_stage() -> None:
    config = grow("command_count=[[1],[2],[4]]", options=("command_count=[4]", "observation=symbolic"))
    game = make_game(config)
    setup = make_setup(config, game)
    state = make_init(setup)(seeds_of(setup), game.params)
    assert (state.env_state.level.command_count == 1).all()
    assert game.params.command_count.values[0] == 4  # those of the held-out levels
    stage = jnp.asarray([0, 1, 2] * 2 + [0, 1], jnp.int32)
    params = curriculum.applied(game.params, state.curriculum._replace(stage=stage), setup.stages)
    keys = jax.random.split(jax.random.key(0), 8)
    _, env_state = jax.vmap(setup.env.reset, (0, setup.params_axes))(keys, params)
    assert env_state.level.command_count.tolist() == [1, 2, 4, 1, 2, 4, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "--grown-options: expected NAME=.* with at least 2 values, .*, got none"),
        ({"grown_options": ("command_count=[[1]]",)}, r"at least 2 values, .*, got command_count=\[\[1\]\]"),
        ({"grown_options": ("agent_speed=3.0",)}, "at least 2 values, .*, got agent_speed=3.0"),
        ({"grown_options": ("command_count=[[1],[2]]", "arena_size=[3,4,5]")}, "the same number for each option"),
        ({"grown_options": ("max_commands=[10,12]",)}, "expected options that are parameters, got max_commands"),
        ({"grown_options": ("command_count=[[1],[99]]",)}, "command_count"),
        ({"env": "Endless-MortarMayhem-v0", "options": ()}, "expected an environment with success in its info"),
    ],
)
def test_stages_that_can_not_be_played_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_game(dataclasses.replace(grow(), **changes))


# Runs.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_levels": 0}, "--curriculum plr: expected at least 2 training levels, got --train-levels 0"),
        ({"train_levels": 1}, "expected at least 2 training levels, got --train-levels 1"),
        ({"memory": "helm"}, "--curriculum plr: expected another memory than helm"),
        ({"curriculum": "sfl", "devices": 2}, "--curriculum sfl: expected one device, got 2"),
        ({"curriculum": "grow"}, "--curriculum grow: expected --train-levels 0, .*, got 30"),
        ({"grown_options": ("agent_speed=[1,2]",)}, "--grown-options: expected --curriculum grow, got plr"),
    ],
)
def test_a_run_that_has_no_use_for_weights_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **changes)


@pytest.mark.parametrize("num_seeds", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_weights_of_a_run_follow_from_the_levels_of_its_rollouts(num_seeds: int) -> None:
    config = dataclasses.replace(CONFIG, num_seeds=num_seeds)
    game = make_game(config)
    setup = make_setup(config, game)
    state, metrics = make_train_block(setup)(make_init(setup)(seeds_of(setup), game.params), game.params)
    scores: LevelScores = jax.tree.map(lambda leaf: np.reshape(leaf, (num_seeds, -1)), state.curriculum)
    for own in zip(*scores, strict=True):
        weights, score, update = own
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
        assert 8 <= (update >= 0).sum() < len(update)
        assert ((score > 0) <= (update >= 0)).all()
        # Of the levels that were played, the ones with the highest score are drawn most.
        assert weights[np.argmax(score)] == weights.max()
    assert (np.reshape(metrics["effective_levels"], (num_seeds, -1))[:, 1] < scores.weights.shape[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plr", "sfl", "grow"])
def test_a_resumed_run_is_equal_to_one_that_was_not_stopped(name: Any, tmp_path: Path) -> None:
    def rows_of(run: str) -> list[dict[str, Any]]:
        rows = read_rows(tmp_path / run / "metrics.jsonl")
        return [{key: row[key] for key in row if key not in ("seconds", "steps_per_second")} for row in rows]

    config = grow("command_count=[[1],[2]]") if name == "grow" else dataclasses.replace(CONFIG, curriculum=name)
    train(config, RunFlags(name="whole", runs_dir=tmp_path))
    half: Config = dataclasses.replace(config, total_steps=128, decay_steps=config.total_steps)
    train(half, RunFlags(name="resumed", runs_dir=tmp_path))
    whole = dataclasses.replace(config, decay_steps=config.total_steps)
    train(whole, RunFlags(name="resumed", runs_dir=tmp_path, resume=True))
    assert rows_of("resumed") == rows_of("whole")
    assert ("curriculum_steps" in rows_of("whole")[-1]) == (name == "sfl")
