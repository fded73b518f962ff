"""The package's trained agents load in one line and reach their stored results."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import baselines
from baselines import ppo, zoo
from baselines.config import SCALES
from baselines.errors import ConfigError, RunError
from baselines.evaluate import EvaluateFlags, evaluate_run
from baselines.game import make_game
from baselines.zoo import __main__ as command


def test_an_unknown_agent_is_rejected_with_the_known_ones() -> None:
    message = r"^agent: expected one of BabyAI-.*, got 'MysteryPath-v9' \(did you mean 'MysteryPath-Grid-v0'\?\)$"
    with pytest.raises(ConfigError, match=message):
        baselines.load("MysteryPath-v9")


def test_an_agent_has_no_checkpoints_to_choose_from() -> None:
    with pytest.raises(ConfigError, match=r"^--checkpoint: expected a run folder, got zoo:MysteryPath-Grid-v0"):
        evaluate_run(EvaluateFlags(Path("zoo:MysteryPath-Grid-v0"), checkpoint=5))


@pytest.mark.slow
def test_an_agent_acts_on_a_batch(get_key: Callable[[], jax.Array]) -> None:
    agent = baselines.load("MortarMayhem-Grid-v0")
    env, params = agent.game.env, agent.game.params
    observation, _ = jax.vmap(env.reset, (0, None))(jax.random.split(get_key(), 2), params)
    state, action = agent.act(get_key(), agent.initial_recurrent_state(2), observation, jnp.ones(2, bool))
    chex.assert_shape(action, (2,))
    chex.assert_type(action, jnp.int32)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, agent.initial_recurrent_state(2))


@pytest.fixture(scope="module")
def small() -> zoo.TrainedAgent:
    config = dataclasses.replace(
        SCALES["cpu"],
        options=("observation=symbolic",),
        memory_size=8,
        hidden_size=8,
        held_out_levels=2,
        train_levels=4,
    )
    game = make_game(config)
    setup = ppo.make_setup(config, game)
    return zoo.TrainedAgent(game, setup, ppo.make_init(setup)(ppo.seeds_of(setup), game.params).params)


def test_an_agent_acts_alike_in_a_program_and_outside(
    small: zoo.TrainedAgent, get_key: Callable[[], jax.Array]
) -> None:
    shape = small.game.env.observation_space(small.game.params).shape
    observation, start = jax.random.uniform(get_key(), (3, *shape)), jnp.asarray([True, False, True])
    key = get_key()
    given = small.initial_recurrent_state(3), observation, start
    expected = jax.jit(small.act)(key, *given)
    found = small.act(jax.random.clone(key), *given)
    chex.assert_trees_all_close(found, expected, atol=1e-6)


def test_a_step_returns_action_logits_value_and_recurrent_state(
    small: zoo.TrainedAgent, get_key: Callable[[], jax.Array]
) -> None:
    shape = small.game.env.observation_space(small.game.params).shape
    given = (
        small.initial_recurrent_state(3),
        jax.random.uniform(get_key(), (3, *shape)),
        jnp.asarray([True, False, True]),
    )
    key = get_key()
    taken = small.step(key, *given)
    hidden, observation, start = given
    state, output = small.setup.network.apply(small.params, hidden, observation[None], start[None])
    np.testing.assert_allclose(taken.logits, output.logits[0], atol=1e-5)
    np.testing.assert_allclose(taken.value, output.value[0], atol=1e-5)
    np.testing.assert_allclose(taken.recurrent_state, state, atol=1e-5)
    assert taken.logits.shape == (3, small.game.env.num_actions)
    assert taken.action.shape == taken.value.shape == (3,)
    # Logits of which one is far above the others are sampled as that action.
    sure = jax.tree.map(lambda leaf: 1e4 * leaf, small.params)
    sure_step = zoo.TrainedAgent(small.game, small.setup, sure).step(get_key(), *given)
    assert (sure_step.action == sure_step.logits.argmax(axis=-1)).all()


def test_what_is_kept_is_what_is_loaded(
    small: zoo.TrainedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.keep(small, {"held_out": {"normalized_return": 0.5}}, tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    assert zoo.agents() == ("MortarMayhem-Grid-v0",)
    assert zoo.results("MortarMayhem-Grid-v0") == {"held_out": {"normalized_return": 0.5}}
    for folder in (None, tmp_path / "weights"):
        loaded = zoo.load("MortarMayhem-Grid-v0", folder).params
        for old, new in zip(jax.tree.leaves(small.params), jax.tree.leaves(loaded), strict=True):
            np.testing.assert_allclose(new, old, rtol=0, atol=np.abs(old).max() / 125)
            assert new.dtype == jnp.float32


def test_a_replaced_agent_leaves_no_weights(small: zoo.TrainedAgent, tmp_path: Path) -> None:
    zoo.keep(small, {}, tmp_path)
    (old,) = (tmp_path / "weights").iterdir()
    zoo.keep(dataclasses.replace(small, params=jax.tree.map(lambda leaf: 2 * leaf, small.params)), {}, tmp_path)
    (new,) = (tmp_path / "weights").iterdir()
    assert old != new


def test_an_agent_is_replaced_on_demand_and_by_a_scored_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    monkeypatch.setattr(command, "read", lambda _: SimpleNamespace(config=SCALES["cpu"]))
    monkeypatch.setattr(command, "keep", lambda _, evaluation: kept.append(evaluation) or tmp_path)
    for text in (None, "{", "[]", '{"paper": {"normalized_return": 0.5}}'):
        if text is not None:
            (tmp_path / "evaluation.json").write_text(text)
        with pytest.raises(
            RunError,
            match=r"expected a held-out normalized return in .*evaluation\.json, got none\. Run baselines\.evaluate",
        ):
            command.put(command.ZooFlags(tmp_path))
    (tmp_path / "evaluation.json").write_text('{"held_out": {"normalized_return": 0.25}}')
    said = r"got MortarMayhem-Grid-v0: the held-out normalized return of its agent is 1\.00, that of this one 0\.25\."
    with pytest.raises(RunError, match=said):
        command.put(command.ZooFlags(tmp_path))
    command.put(command.ZooFlags(tmp_path, replace=True))
    assert kept == [{"held_out": {"normalized_return": 0.25}}]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", zoo.agents())
def test_an_agent_scores_on_held_out_levels_what_its_run_did(env_id: str) -> None:
    results = evaluate_run(EvaluateFlags(Path(f"zoo:{env_id}")))
    assert results["held_out"]["normalized_return"] >= zoo.results(env_id)["held_out"]["normalized_return"] - 0.05


@pytest.mark.slow
def test_the_command_scores_an_agent_on_the_levels_of_the_papers() -> None:
    argv = ["zoo:MysteryPath-Grid-v0", "--levels", "paper", "--repeats", "1", "--max-steps", "2"]
    command = [sys.executable, "-m", "baselines.evaluate", *argv]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("paper levels (50): normalized return 0.000")
