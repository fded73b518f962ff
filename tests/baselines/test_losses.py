"""Formulas of PPO against explicit arithmetic."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.losses import (
    Schedule,
    entropy,
    gae,
    likeliest_action,
    log_prob,
    normalize,
    policy_loss,
    sample_action,
    value_loss,
)

GAMMA, LAMBDA = 0.9, 0.8


def test_advantages_equal_a_plain_loop() -> None:
    random = np.random.default_rng(0)
    reward, value, next_value = random.normal(size=(3, 9, 4)).astype(np.float32)
    ended = random.random((9, 4)) < 0.3
    ended[0, 0] = ended[-1, 1] = True
    expected = np.zeros((9, 4))
    for env_index in range(4):
        advantage = 0.0
        for step in reversed(range(9)):
            delta = reward[step, env_index] + GAMMA * next_value[step, env_index] - value[step, env_index]
            advantage = delta + (0.0 if ended[step, env_index] else GAMMA * LAMBDA * advantage)
            expected[step, env_index] = advantage
    found = gae(*map(jnp.asarray, (reward, value, next_value, ended)), gamma=GAMMA, gae_lambda=LAMBDA)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_probabilities_are_those_of_each_branch() -> None:
    # Branch one has 2 choices with odds 3 : 1, branch two 3 choices with odds 1 : 1 : 2.
    logits = jnp.log(jnp.asarray([3.0, 1.0, 1.0, 1.0, 2.0]))
    found = log_prob(logits, jnp.asarray([1, 2]), (2, 3))
    np.testing.assert_allclose(jnp.exp(found), [0.25, 0.5], rtol=1e-6)
    expected = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - (2 * 0.25 * np.log(0.25) + 0.5 * np.log(0.5))
    np.testing.assert_allclose(entropy(logits, (2, 3)), expected, rtol=1e-6)


def test_actions_come_with_their_probability(get_key: Callable[[], jax.Array]) -> None:
    logits = jnp.broadcast_to(jnp.log(jnp.asarray([3.0, 1.0, 1.0, 1.0, 2.0])), (20_000, 5))
    action = sample_action(get_key(), logits, (2, 3))
    chex.assert_shape(action, (20_000, 2))
    chex.assert_type(action, jnp.int32)
    assert abs((action[:, 0] == 1).mean() - 0.25) < 0.02
    assert abs((action[:, 1] == 2).mean() - 0.5) < 0.02


def test_a_greedy_action_has_the_most_probable_choice_of_each_branch() -> None:
    logits = jnp.asarray([[0.1, 0.2, 3.0, 1.0, 2.0], [5.0, 4.0, -1.0, -3.0, -0.5]])
    assert likeliest_action(logits, (2, 3)).tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize(
    ("joint", "expected"),
    [
        # Ratios 2 and 0.95, advantage 1, clip 0.1: the branches give min(2, 1.1) and 0.95.
        (False, -(1.1 + 0.95) / 2),
        # The whole action has ratio 1.9, clipped to 1.1.
        (True, -1.1),
    ],
)
def test_a_policy_gains_nothing_beyond_the_clip(joint: bool, expected: float) -> None:
    new, old = jnp.log(jnp.asarray([[0.4, 0.475]])), jnp.log(jnp.asarray([[0.2, 0.5]]))
    terms = policy_loss(new, old, jnp.ones(1), clip=0.1, joint=joint)
    np.testing.assert_allclose(terms.loss, expected, rtol=1e-5)
    np.testing.assert_allclose(terms.clip_fraction, 1.0 if joint else 0.5)


def test_a_value_that_moved_beyond_the_clip_keeps_the_larger_error() -> None:
    # From 0 to 1 with target 1: the error is 0, but clipped to 0.1 it is 0.81.
    found = value_loss(jnp.asarray([1.0]), jnp.asarray([0.0]), jnp.asarray([1.0]), clip=0.1)
    np.testing.assert_allclose(found, 0.81, rtol=1e-6)


def test_normalised_advantages_have_mean_0_and_deviation_1() -> None:
    found = normalize(jnp.asarray([[1.0, 2.0], [3.0, 6.0]]))
    np.testing.assert_allclose([found.mean(), found.std()], [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, 2.0), (0.25, 1.75), (1.0, 1.0), (3.0, 1.0)])
def test_a_schedule_falls_linearly_and_stays(fraction: float, expected: float) -> None:
    np.testing.assert_allclose(Schedule(2.0, -1.0).at(jnp.float32(fraction)), expected)
