"""Parameters: options changed by `dataclasses.replace`, and parameters of several difficulties in one batch."""

import dataclasses
from typing import Any

import chex
import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.errors import LevelError
from jaxgym.options import Choices, Flag, IntegerList, Real, declared
from jaxgym.wrappers import FrameSkip
from tests.ids import CLASSICS, one_of_each_program

NUM_STEPS = 64

SIZES = {"max_coins": 2, "max_spotlights": 16, "max_given_spotlights": 9, "max_commands": 12}
"""Capacities for all values of the tests."""

SHOWN = {"show_stamina": True, "show_background": True}
"""Options without which others have no effect."""

# Each of these compiles for several seconds; a quick run has the games with tables in their parameters.
COSTLY = (
    "Endless-MysteryPath-v0",
    "MortarMayhemB-Grid-v0",
    "MysteryPath-Grid-v0",
    "SearingSpotlights-v0",
    "TextCraft-v0",
    "Sudoku-v0",
    "BabyAI-GoToLocalS5N2-v0",
    "MiniGrid-MemoryS7-v0",
    *CLASSICS,
)


def made(env_id: str, **options: Any) -> tuple[Any, Any]:
    """Return an environment with symbols, fresh levels and room for all values of the tests."""
    known = jaxgym.spec_of(env_id).options
    general = {name: value for name, value in {**SIZES, **SHOWN}.items() if name in known}
    return jaxgym.make(env_id, **{"observation": "symbolic", "levels": "fresh", **general, **options})


def another(option: Any, value: Any) -> Any:
    """Return another value of an option, with which float32 and float64 count the same hits and pixels."""
    if isinstance(option, Flag):
        return not value
    if isinstance(option, IntegerList):
        return [value[0] - 1 if option.accepts([value[0] - 1]) else value[0] + 1]
    candidates = [1.25 * value, value / 2, 0.5] if isinstance(option, Real) else [2 * value, value // 2, value - 1, 1]
    return next(new for new in candidates if option.accepts(new) and new != value)


def changes_of(env_id: str, params: Any) -> dict[str, Any]:
    """Return another value for each traced option of an environment."""
    known = jaxgym.spec_of(env_id).options
    return {
        name: another(known[name], SHOWN.get(name, known[name].default))
        for name in declared(type(params))
        if name in known
    }


def replaced(params: Any, name: str, value: Any) -> Any:
    """Return parameters with another value of an option, as a user changes them."""
    field = "max_steps_in_episode" if name == "max_steps" else name
    return dataclasses.replace(params, **{field: Choices.of(value) if isinstance(value, list) else value})


def rollout(env: Any, params: Any, count: int) -> Any:
    """Return what `count` environments return on random actions, with equal keys for all."""
    axes = levels.params_axes(params)
    step = jax.vmap(env.step, in_axes=(None, 0, None, axes))

    def advance(states: Any, key: jax.Array) -> tuple[Any, Any]:
        key_action, key_step = jax.random.split(key)
        observation, states, *results = step(key_step, states, env.action_space().sample(key_action), params)
        return states, (observation, results)

    _, states = jax.vmap(env.reset, in_axes=(None, axes), axis_size=count)(jax.random.key(0), params)
    return jax.lax.scan(advance, states, jax.random.split(jax.random.key(1), NUM_STEPS))[1]


@pytest.mark.parametrize("env_id", one_of_each_program(*COSTLY))
def test_an_option_replaced_in_the_parameters_acts_as_in_make(env_id: str) -> None:
    env, params = made(env_id)
    changes = {"max_steps": 20, **changes_of(env_id, params)}
    wanted = [made(env_id, **{name: value}) for name, value in changes.items()]
    assert all(other == env for other, _ in wanted)
    expected = levels.stack_params(params, *(given for _, given in wanted))
    given = levels.stack_params(params, *(replaced(params, name, value) for name, value in changes.items()))
    play = jax.jit(rollout, static_argnums=(0, 2))
    chex.assert_trees_all_equal(play(env, given, 1 + len(changes)), play(env, expected, 1 + len(changes)))


def test_stacked_parameters_share_their_level_buffer() -> None:
    _, params = made("MortarMayhem-Grid-v0", levels=3)
    stacked = levels.stack_params(params, dataclasses.replace(params, reward_command_success=1))
    assert stacked.levels is params.levels
    np.testing.assert_allclose(stacked.reward_command_success, [0.1, 1.0])
    assert levels.params_axes(stacked).levels is None


@pytest.mark.slow
def test_the_inner_parameters_of_a_wrapper_are_stacked() -> None:
    env = FrameSkip(made("Endless-MysteryPath-v0")[0], num_frames=None)
    params = env.default_params
    stacked = levels.stack_params(params, dataclasses.replace(params, num_frames=2))
    assert stacked.num_frames.tolist() == [1, 2]
    assert stacked.inner.stamina_level.shape == (2,)
    assert stacked.inner.segments is params.inner.segments
    reset = jax.vmap(env.reset, in_axes=(None, levels.params_axes(stacked)))
    jax.eval_shape(reset, jax.random.key(0), stacked)


def test_different_level_buffers_are_not_stacked() -> None:
    few, more = (made("MortarMayhem-Grid-v0", levels=count)[1] for count in (2, 3))
    with pytest.raises(LevelError, match=r"^stack_params: expected the same levels in all parameters, got different"):
        levels.stack_params(few, more)
    with pytest.raises(LevelError, match="expected the same levels"):
        levels.stack_params(few, dataclasses.replace(few, levels=None))
