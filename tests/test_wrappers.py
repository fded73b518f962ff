"""Wrappers: each satisfies the contract, makes its documented change, and changes nothing else."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import chex
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, testing
from jaxgym.errors import WrapperError
from jaxgym.wrappers import FrameSkip, FromGymnax, LastActionReward, PositionObservation
from tests.ids import CLASSICS, families
from tests.test_contract import Walk, WalkState

GAME = "SearingSpotlights-v0"
made = partial(jaxgym.make, observation="symbolic")

WITHOUT_AN_AGENT = {"Sudoku-v0", "TextCraft-v0", *CLASSICS}
WITHOUT_AN_AGENT |= {env_id for env_id in families() if env_id.startswith(("MiniGrid-", "BabyAI-"))}
"""Games that have no agent on a screen."""


def roll(env: Any, params: Any, actions: list[Any], level: Any) -> list[Any]:
    """Return the results of reset and of each step."""
    results = [env.reset_to_level(jax.random.key(0), level, params)]
    for number, action in enumerate(actions):
        results.append(env.step(jax.random.key(number), results[-1][1], jnp.asarray(action, jnp.int32), params))
    return results


# The contract.


class Ruler(Walk):
    """The smallest environment, with an agent on a screen."""

    def scene(self, state: WalkState, params: Any) -> Any:
        return Mark(super().scene(state, params), jnp.stack([state.place, state.place]) % 84)

    def observe_scene(self, scene: Any) -> jax.Array:
        return super().observe_scene(scene.place)


class Mark(NamedTuple):
    place: jax.Array
    agent_position_px: jax.Array


@pytest.fixture(scope="module")
def ruler() -> tuple[Any, Any]:
    """Return a walk that ends below 0, or at the time limit of 7, with a reward of 1 per step."""
    params = jaxgym.EnvParams(max_steps_in_episode=np.int32(7))
    return Ruler("Ruler-v0", params), params


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(partial(FrameSkip, num_frames=None), marks=pytest.mark.slow),
        pytest.param(lambda env: PositionObservation(LastActionReward(FrameSkip(env))), marks=pytest.mark.slow),
    ],
    ids=["traced frame skip", "all three"],
)
def test_a_wrapped_environment_keeps_the_contract(wrap: Any) -> None:
    testing.check_env(wrap(Ruler("Ruler-v0", jaxgym.EnvParams())))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", families())
def test_every_id_keeps_the_contract_in_all_wrappers(env_id: str) -> None:
    env, _ = jaxgym.make(env_id)
    wrapped = LastActionReward(FrameSkip(env, 3))
    testing.check_env(wrapped if env_id in WITHOUT_AN_AGENT else PositionObservation(wrapped))


@pytest.mark.parametrize("wrap", [FrameSkip, LastActionReward, PositionObservation])
def test_what_is_no_environment_of_ours_is_rejected(wrap: Any) -> None:
    with pytest.raises(WrapperError, match=rf"^{wrap.__name__}: expected an environment of jaxgym\.make .*, got "):
        wrap(gymnax.make("CartPole-v1")[0])


def test_a_wrapper_has_the_id_the_parameters_and_the_actions_of_what_is_inside() -> None:
    env, params = made(GAME, max_steps=9)
    wrapped = LastActionReward(env)
    assert wrapped.name == wrapped.env_id == GAME
    assert wrapped.default_params is params
    assert repr(wrapped.action_space()) == repr(env.action_space())
    assert wrapped == LastActionReward(env)
    assert wrapped != PositionObservation(env)


def test_a_level_buffer_of_an_environment_is_a_level_buffer_of_the_wrapped_one() -> None:
    env, params = made("MortarMayhemB-Grid-v0", levels=3)
    wrapped = LastActionReward(env)
    seeds = levels.train_seeds(3)
    chex.assert_trees_all_equal(
        levels.make_level_buffer(wrapped, params, seeds), levels.make_level_buffer(env, params, seeds)
    )
    _, state = wrapped.reset(jax.random.key(7), params)
    _, expected = env.reset(jax.random.key(7), params)
    chex.assert_trees_all_equal(state.level, expected.level)


def test_what_every_state_holds_is_kept_once(ruler: tuple[Any, Any]) -> None:
    env, params = ruler
    _, state = PositionObservation(LastActionReward(env)).reset(jax.random.key(7), params)
    _, plain = env.reset(jax.random.key(7), params)
    assert len(jax.tree.leaves(state)) == len(jax.tree.leaves(plain)) + 1  # the last action and reward


# Frame skipping.


@pytest.mark.parametrize("traced", [False, True])
def test_an_action_is_repeated_until_the_time_limit(ruler: tuple[Any, Any], traced: bool) -> None:
    env, params = ruler
    skip = FrameSkip(env, None if traced else 3)
    outer = dataclasses.replace(skip.default_params, num_frames=np.int32(3)) if traced else params
    level = jnp.int32(500)
    each = roll(env, params, [2, 2, 2, 0, 0, 0, 2], level)
    skipped = roll(skip, outer, [2, 0, 2], level)
    for number, frames in enumerate((3, 6, 7), start=1):
        _, state, reward, terminated, truncated, info = skipped[number]
        expected = each[frames]
        assert reward == (1 if frames == 7 else 3)
        assert float(info["episode_return"]) == float(expected[5]["episode_return"]) == frames
        chex.assert_trees_all_equal(info["final_observation"], expected[5]["final_observation"])
        assert info["episode_length"] == expected[5]["episode_length"] == frames
        assert not terminated
        assert bool(truncated) == bool(expected[4]) == (frames == 7)
        assert int(state.time) == frames % 7
        assert info.keys() == expected[5].keys()
        if frames < 7:
            chex.assert_trees_all_equal(skip.inner_state(state), expected[1])
            chex.assert_trees_all_equal(skipped[number][0], expected[0])
    # What follows is the first observation of the next level.
    observation, state = skipped[3][:2]
    chex.assert_trees_all_equal(observation, env.reset_to_level(jax.random.key(7), state.level, params)[0])


def test_an_action_is_not_repeated_after_an_ending(ruler: tuple[Any, Any]) -> None:
    env, params = ruler
    _, state, reward, terminated, truncated, info = roll(FrameSkip(env, 6), params, [0], jnp.int32(1))[1]
    expected = roll(env, params, [0, 0], jnp.int32(1))[2]
    assert terminated
    assert expected[3]
    assert not truncated
    assert float(reward) == float(info["episode_return"]) == int(info["episode_length"]) == 2
    assert state.time == 0
    chex.assert_trees_all_equal(info["final_observation"], expected[5]["final_observation"])


def test_wrappers_around_a_frame_skip_count_its_steps(ruler: tuple[Any, Any]) -> None:
    env, params = ruler
    results = roll(LastActionReward(FrameSkip(env, 3)), params, [2, 2, 2], jnp.int32(500))
    assert [int(result[5]["episode_length"]) for result in results[1:]] == [3, 6, 7]
    assert [bool(result[4]) for result in results[1:]] == [False, False, True]
    np.testing.assert_array_equal(results[1][0]["last_action_reward"], [0, 0, 1, 3])


def test_the_number_of_frames_can_differ_from_environment_to_environment(ruler: tuple[Any, Any]) -> None:
    skip = FrameSkip(ruler[0], None)
    params = dataclasses.replace(skip.default_params, num_frames=jnp.asarray([0, 1, 2, 5]))
    axes = dataclasses.replace(jax.tree.map(lambda _: None, params), num_frames=0)
    _, state = skip.reset_to_level(jax.random.key(7), jnp.int32(500), skip.default_params)
    step = jax.vmap(skip.step, in_axes=(None, None, None, axes))
    *_, info = step(jax.random.key(0), state, jnp.asarray(1), params)
    np.testing.assert_array_equal(info["episode_length"], [1, 1, 2, 5])


@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_a_number_of_frames_that_is_none_is_rejected(number: Any) -> None:
    env, _ = made(GAME)
    with pytest.raises(
        WrapperError, match=rf"^FrameSkip: num_frames: expected an integer of at least 1, or None, got {number}"
    ):
        FrameSkip(env, number)


# The position.


@pytest.mark.parametrize("env_id", [env_id for env_id in families() if env_id not in WITHOUT_AN_AGENT])
def test_every_game_shows_its_agents_position(env_id: str) -> None:
    env, params = made(env_id, levels="fresh")
    wrapped = PositionObservation(env)
    observation, _ = jax.eval_shape(wrapped.reset, jax.random.key(7), params)
    space = wrapped.observation_space(params)
    assert set(observation) == set(space.spaces) == {"observation", "position"}
    assert observation["position"].shape == (2,)


def test_the_position_is_that_of_the_agent_over_the_screen(ruler: tuple[Any, Any]) -> None:
    env, params = ruler
    results = roll(PositionObservation(env), params, [2, 2, 0], jnp.int32(40))
    for result, place in zip(results, (40, 41, 42, 41), strict=True):
        np.testing.assert_allclose(result[0]["position"], [place / 84] * 2, rtol=1e-6)
        assert result[0]["observation"][place] == 1


def test_the_position_stands_beside_the_entries_of_a_dict() -> None:
    env, params = jaxgym.make("MortarMayhemB-v0")
    space = PositionObservation(env).observation_space(params)
    assert set(space.spaces) == {"visual_observation", "vector_observation", "position"}


def test_a_game_without_an_agent_on_a_screen_is_rejected() -> None:
    env = FromGymnax(gymnax.make("CartPole-v1")[0])
    with jax.numpy_dtype_promotion("standard"), pytest.raises(WrapperError) as raised:
        PositionObservation(env)
    assert str(raised.value) == (
        "PositionObservation: expected an environment whose scene has agent_position_px or agent_px, got CartPole-v1. "
        "The Memory Gym environments have one."
    )


@pytest.mark.parametrize("wrap", [PositionObservation, LastActionReward])
def test_an_entry_that_an_observation_has_already_is_rejected(wrap: Any) -> None:
    once = wrap(made(GAME)[0])
    with pytest.raises(
        WrapperError, match=r"^expected an observation without an entry '(position|last_action_reward)', got one\."
    ):
        wrap(once)


# The last action and reward.


def test_the_last_action_and_its_reward_stand_beside_the_observation(ruler: tuple[Any, Any]) -> None:
    env, params = ruler
    results = roll(LastActionReward(env), params, [2, 1, 0, 0, 0], jnp.int32(1))
    shown = [result[0]["last_action_reward"] for result in results]
    last = [0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]
    np.testing.assert_array_equal(shown, [[0] * 4, *last, [0] * 4])
    assert results[-1][3]
    np.testing.assert_array_equal(results[-1][5]["final_observation"]["last_action_reward"], [1, 0, 0, 1])
    assert results[0][0]["observation"][1] == 1


@pytest.mark.slow
def test_every_branch_of_an_action_has_a_part() -> None:
    env, params = made("MortarMayhemB-v0")
    wrapped = LastActionReward(env)
    _, state = wrapped.reset(jax.random.key(7), params)
    observation, *_ = wrapped.step(jax.random.key(0), state, jnp.asarray([2, 1]), params)
    np.testing.assert_array_equal(observation["last_action_reward"], [0, 0, 1, 0, 1, 0, 0])
    assert wrapped.observation_space(params).spaces["last_action_reward"].shape == (7,)


def test_actions_that_are_no_choices_are_rejected() -> None:
    with pytest.raises(WrapperError, match=r"^LastActionReward: expected .*, got .*Box.* of Pendulum-v1"):
        LastActionReward(FromGymnax(gymnax.make("Pendulum-v1")[0]))


# Environments of gymnax.


def test_an_environment_of_jaxgym_needs_no_bridge() -> None:
    with pytest.raises(WrapperError, match="Environments of jaxgym need no wrapper"):
        FromGymnax(jaxgym.make(GAME)[0])


@pytest.mark.standard_promotion
class TestFromGymnax:
    def test_an_episode_is_that_of_gymnax(self) -> None:
        cart, cart_params = gymnax.make("CartPole-v1")
        env = FromGymnax(cart, initial_params=dataclasses.replace(cart_params, max_steps_in_episode=3))
        params = env.default_params
        assert params.max_steps_in_episode == 3
        level = jnp.asarray([1, 2], jnp.uint32)
        results = roll(env, params, [1, 0, 1], level)
        key = jax.random.fold_in(jax.random.wrap_key_data(level, impl="threefry2x32"), 0)
        observation, state = cart.reset_env(key, cart_params)
        np.testing.assert_allclose(results[0][0], observation, rtol=1e-6)
        for number, action in enumerate([1, 0, 1], start=1):
            observation, state, reward, *_ = cart.step_env(jax.random.key(number), state, action, cart_params)
            np.testing.assert_allclose(results[number][5]["final_observation"], observation, rtol=1e-5)
            assert results[number][2] == reward
        assert [bool(result[4]) for result in results[1:]] == [False, False, True]

    def test_it_has_levels_and_wrappers(self) -> None:
        env = FromGymnax(gymnax.make("CartPole-v1")[0])
        buffer = levels.make_level_buffer(env, env.default_params, levels.held_out_seeds(2))
        params = dataclasses.replace(env.default_params, levels=buffer)
        wrapped = LastActionReward(FrameSkip(env, 2))
        observation, state = wrapped.reset(jax.random.key(7), params)
        assert any(np.array_equal(state.level, level) for level in buffer)
        observation, *_, info = wrapped.step(jax.random.key(0), state, 1, params)
        np.testing.assert_array_equal(observation["last_action_reward"], [0, 1, 2])
        assert info["episode_length"] == 2
