"""`SampledOptions`: each level has option values of its own, from a range."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, testing
from jaxgym.errors import WrapperError
from jaxgym.wrappers import SampledOptions

LOW, HIGH = 4, 40


@pytest.fixture(scope="module")
def corridors() -> tuple[SampledOptions, Any]:
    return SampledOptions.of(*jaxgym.make("T-Maze-v0", observation="symbolic"), corridor_length=(LOW, HIGH))


def test_the_contract_holds(corridors: tuple[SampledOptions, Any]) -> None:
    testing.check_env(*corridors)


def test_values_are_log_uniform_and_include_both_ends(corridors: tuple[SampledOptions, Any]) -> None:
    env, params = corridors
    values = levels.make_level_buffer(env, params, levels.train_seeds(3000)).values["corridor_length"]
    assert (values.min(), values.max(), values.dtype) == (LOW, HIGH, np.int32)
    share = np.log(13 / LOW) / np.log((HIGH + 1) / LOW)
    assert np.mean(values < 13) == pytest.approx(share, abs=0.03)


def test_an_episode_has_the_rules_of_its_own_value(corridors: tuple[SampledOptions, Any]) -> None:
    """An episode on the shortest way has as many steps as its corridor demands; the value in the params is ignored."""
    env, params = corridors
    plain, _ = jaxgym.make("T-Maze-v0", observation="symbolic")
    buffer = levels.make_level_buffer(env, params, levels.train_seeds(4))
    for number in range(4):
        level = jax.tree.map(lambda leaf, number=number: leaf[number], buffer)
        length = int(level.values["corridor_length"])
        own = dataclasses.replace(params, corridor_length=jnp.int32(length))
        observation, state = env.reset_to_level(jax.random.key(0), level, params)
        other = plain.reset_to_level(jax.random.key(0), level.inner, own)
        assert np.array_equal(observation, other[0])
        is_over = False
        for step in range(length + 1):
            action = jnp.int32(0 if step < length else 1)
            taken = env.step(jax.random.key(step), state, action, params)
            other = plain.step(jax.random.key(step), other[1], action, own)
            assert np.array_equal(taken[5]["final_observation"], other[5]["final_observation"])
            assert (taken[2], taken[3], taken[4]) == (other[2], other[3], other[4])
            state, is_over = taken[1], taken[3]
        assert is_over


def test_levels_at_the_params_have_the_values_of_the_params(corridors: tuple[SampledOptions, Any]) -> None:
    env, params = corridors
    params = dataclasses.replace(params, corridor_length=jnp.int32(7))
    inner = levels.make_level_buffer(env.env, params, levels.held_out_seeds(5))
    found = env.at_params(inner, params)
    assert found.values["corridor_length"].tolist() == [7] * 5
    assert np.array_equal(found.inner.goal_y, inner.goal_y)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"corridor": (4, 8)}, "expected one of the options corridor_length, .* got 'corridor'"),
        ({"is_dense": (1, 1)}, "Only traced numbers can be sampled"),
        ({"corridor_length": (8, 4)}, "expected two values above 0 in ascending order, .* got 8 and 4"),
        ({"corridor_length": (0, 4)}, "expected two values above 0"),
        ({"corridor_length": (4, 10**7)}, "an integer from 1 to 1000000, got 4 and 10000000"),
        ({"penalty": (-1.0, 1.0)}, "expected two values above 0"),
    ],
)
def test_a_range_that_cannot_be_sampled_is_rejected(ranges: dict[str, Any], message: str) -> None:
    with pytest.raises(WrapperError, match=message):
        SampledOptions.of(*jaxgym.make("T-Maze-v0"), **ranges)


def test_a_level_buffer_is_rejected() -> None:
    env, params = jaxgym.make("T-Maze-v0")
    buffer = levels.make_level_buffer(env, params, levels.train_seeds(2))
    with pytest.raises(WrapperError, match=r"^SampledOptions: expected params without a level buffer, got one"):
        SampledOptions.of(env, dataclasses.replace(params, levels=buffer), corridor_length=(4, 8))
