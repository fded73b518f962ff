"""Collect, estimate and update on Recall (see conftest.py), whose episodes end inside and across rollouts."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import ppo
from baselines.config import SCALES, Config
from baselines.game import TrainingGame
from baselines.losses import log_prob

CONFIG = dataclasses.replace(
    SCALES["cpu"], num_envs=8, num_steps=10, minibatches=2, memory_size=16, hidden_size=16, block_updates=3
)


class Collected(NamedTuple):
    setup: ppo.Setup
    before: ppo.TrainState
    after: ppo.TrainState
    batch: ppo.Batch


def start(config: Config, game: TrainingGame) -> tuple[ppo.Setup, ppo.TrainState]:
    setup = ppo.make_setup(config, game)
    return setup, ppo.make_init(setup)(ppo.seeds_of(setup), game.params)


def collected(config: Config, game: TrainingGame) -> Collected:
    """Return the second rollout of a run, which starts inside episodes."""
    setup, before = start(config, game)

    @jax.jit
    def run(state: ppo.TrainState, env_params: Any) -> tuple[ppo.TrainState, ppo.TrainState, ppo.Batch]:
        state, _, _, _ = ppo.collect(setup, state, env_params)
        after, rollout, memory, _ = ppo.collect(setup, state, env_params)
        return state, after, ppo.estimate(setup, after, rollout, memory)

    return Collected(setup, *run(before, game.params))


@pytest.fixture(scope="module")
def endless(recall_game: Callable[..., TrainingGame]) -> Collected:
    return collected(CONFIG, recall_game())


@pytest.fixture(scope="module")
def timed(recall_game: Callable[..., TrainingGame]) -> Collected:
    return collected(CONFIG, recall_game(max_steps=3))


@pytest.fixture(scope="module")
def block(recall_game: Callable[..., TrainingGame]) -> Callable[[], tuple[ppo.TrainState, ppo.Metrics]]:
    """Return a function that makes the first block of a run; its program is compiled once."""
    game = recall_game()
    setup, _ = start(CONFIG, game)
    init, train = ppo.make_init(setup), ppo.make_train_block(setup)
    return lambda: train(init(ppo.seeds_of(setup), game.params), game.params)


@pytest.fixture(scope="module", params=["gru", "gru in sequences", "trxl", "stack4"])
def remembered(request: pytest.FixtureRequest, recall_game: Callable[..., TrainingGame]) -> Collected:
    if request.param == "gru":
        return request.getfixturevalue("endless")
    if request.param == "gru in sequences":
        return collected(dataclasses.replace(CONFIG, bptt=5), recall_game())
    config = dataclasses.replace(CONFIG, memory=request.param, memory_window=8)
    return collected(config, recall_game(frames=request.param == "stack4"))


def test_the_first_minibatch_has_ratio_1_everywhere(remembered: Collected) -> None:
    rollout = remembered.batch.rollout
    assert rollout.start[1:].any()  # otherwise resets are not tested
    assert not rollout.start[0].all()  # otherwise the carried memory is not

    @jax.jit
    def ratios(params: Any, batch: ppo.Batch) -> jax.Array:
        sequences = jnp.asarray([5, 0, remembered.setup.config.num_sequences - 1])
        minibatch = ppo.take_sequences(batch, sequences, remembered.setup.config.sequence_steps)
        arguments = minibatch.memory, minibatch.rollout.observation, minibatch.rollout.start
        _, output = remembered.setup.network.apply(params, *arguments)
        return jnp.exp(log_prob(output.logits, minibatch.rollout.action, (3,)) - minibatch.rollout.log_prob)

    np.testing.assert_allclose(ratios(remembered.before.params, remembered.batch), 1.0, atol=1e-5)


def test_an_episode_that_terminated_is_worth_nothing_more(endless: Collected) -> None:
    rollout, advantage = endless.batch.rollout, endless.batch.advantage
    expected = np.asarray(rollout.reward - rollout.value)
    assert rollout.terminated.any()
    np.testing.assert_allclose(advantage[rollout.terminated], expected[rollout.terminated], rtol=1e-5, atol=1e-6)


def test_a_time_limit_is_bootstrapped_from_the_last_observation(timed: Collected) -> None:
    rollout = timed.batch.rollout
    assert rollout.truncated.any()
    np.testing.assert_array_equal(rollout.final_value != 0, rollout.truncated)
    expected = rollout.reward + CONFIG.gamma * rollout.final_value - rollout.value
    advantage = timed.batch.advantage
    np.testing.assert_allclose(advantage[rollout.truncated], expected[rollout.truncated], rtol=1e-5, atol=1e-6)


def test_the_last_observation_is_valued_with_the_memory_of_its_episode(timed: Collected) -> None:
    # Environment 0, from the start of an episode on: cue, blank, blank, and after the cut "go", which is never acted
    # on.
    rollout = timed.batch.rollout
    first = int(jnp.argmax(rollout.start[:, 0]))
    episode = rollout.observation[first : first + 3, :1]
    go = jnp.asarray([[[0.0, 0.0, 0.0, 1.0]]])
    starts = jnp.asarray([[True], [False], [False], [False]])
    network = timed.setup.network
    _, output = network.apply(
        timed.before.params, network.memory.initial_state(1), jnp.concatenate([episode, go]), starts
    )
    np.testing.assert_allclose(rollout.final_value[first + 2, 0], output.value[3, 0], rtol=1e-4)


def test_a_time_limit_ends_the_task_where_it_is_not_bootstrapped(recall_game: Callable[..., TrainingGame]) -> None:
    assert not SCALES["paper"].bootstrap_time_limits
    config = dataclasses.replace(CONFIG, bootstrap_time_limits=False)
    rollout, _, advantage, _ = collected(config, recall_game(max_steps=3)).batch
    expected = rollout.reward - rollout.value
    np.testing.assert_allclose(advantage[rollout.truncated], expected[rollout.truncated], rtol=1e-5, atol=1e-6)


def test_one_seed_gives_one_result(block: Callable[[], tuple[ppo.TrainState, ppo.Metrics]]) -> None:
    (state, metrics), (again, metrics_again) = block(), block()
    chex.assert_trees_all_equal((state.params, metrics), (again.params, metrics_again))


@pytest.mark.slow
def test_each_of_several_seeds_learns_what_it_learns_alone(
    block: Callable[[], tuple[ppo.TrainState, ppo.Metrics]], recall_game: Callable[..., TrainingGame]
) -> None:
    game = recall_game()
    setup, state = start(dataclasses.replace(CONFIG, num_seeds=2), game)
    together, metrics = ppo.make_train_block(setup)(state, game.params)
    alone, metrics_alone = block()
    first = jax.tree.map(lambda leaf: leaf[0], together.params)
    chex.assert_trees_all_close(first, alone.params, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["entropy"][0], metrics_alone["entropy"], rtol=1e-4)
    assert (metrics["entropy"][0] != metrics["entropy"][1]).any()


def test_schedules_follow_the_environment_steps(block: Callable[[], tuple[ppo.TrainState, ppo.Metrics]]) -> None:
    _, metrics = block()
    fraction = np.arange(3) * CONFIG.batch_steps / CONFIG.total_steps
    expected = CONFIG.learning_rate_start + (CONFIG.learning_rate_end - CONFIG.learning_rate_start) * fraction
    np.testing.assert_allclose(metrics["learning_rate"], expected, rtol=1e-5)


def test_a_sequence_is_a_piece_of_its_environment(endless: Collected) -> None:
    batch = endless.batch._replace(memory=jnp.arange(16))  # environments 0 to 7, first halves before second ones
    taken = ppo.take_sequences(batch, jnp.asarray([3, 8 + 6]), 5)
    np.testing.assert_array_equal(taken.memory, [3, 14])
    expected = np.stack([batch.rollout.action[:5, 3], batch.rollout.action[5:, 6]], axis=1)
    np.testing.assert_array_equal(taken.rollout.action, expected)
