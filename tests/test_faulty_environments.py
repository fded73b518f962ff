"""Environments whose methods return other values than documented: one error in `step` and in `check_env`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import testing
from jaxgym.environment import INFO
from jaxgym.errors import ContractError
from tests.t_maze import TMaze


def changed(**methods: Any) -> Any:
    """Return a T-maze with changed methods."""
    return type("Changed", (TMaze,), methods)("Changed-v0", jaxgym.EnvParams())


def making(change: Callable[[jaxgym.Transition], Any]) -> Any:
    """Return a T-maze whose transitions pass through `change`."""
    return changed(transition=lambda *given: change(TMaze.transition(*given)))


def with_state(**fields: Any) -> Callable[[jaxgym.Transition], Any]:
    def change(made: jaxgym.Transition) -> jaxgym.Transition:
        return dataclasses.replace(made, state=dataclasses.replace(made.state, **fields))

    return change


def replacing(**fields: Any) -> Callable[[jaxgym.Transition], Any]:
    return lambda made: dataclasses.replace(made, **fields)


def merging(**metrics: Any) -> Callable[[jaxgym.Transition], Any]:
    return lambda made: dataclasses.replace(made, metrics={**made.metrics, **metrics})


TRANSITIONS = [
    (lambda _: None, r"transition: expected jaxgym\.environment\.Transition, got None"),
    (lambda made: (made.state, made.reward), r"transition: expected jaxgym\.environment\.Transition, got \("),
    (replacing(state={"time": 0}), r"transition: state: expected tests\.t_maze\.State, got {'time': 0}"),
    (replacing(state=None), r"transition: state: expected tests\.t_maze\.State, got None"),
    (with_state(place=jnp.zeros(3, jnp.int32)), r"transition: state\.place: expected int32 \(\), .*, got int32 \(3,\)"),
    (with_state(place=jnp.float32(0)), r"transition: state\.place: expected int32 \(\), .*, got float32 \(\)"),
    (replacing(reward=None), r"transition: reward: expected float32 \(\), got None"),
    (replacing(reward="1"), r"transition: reward: expected float32 \(\), got '1'"),
    (replacing(reward=jnp.int32(1)), r"transition: reward: expected float32 \(\), got int32 \(\)"),
    (replacing(reward=jnp.zeros(1)), r"transition: reward: expected float32 \(\), got float32 \(1,\)"),
    (replacing(terminated=jnp.int32(1)), r"transition: terminated: expected bool \(\), got int32 \(\)"),
    (replacing(terminated=None), r"transition: terminated: expected bool \(\), got None"),
    (replacing(metrics=None), r"transition: metrics: expected builtins\.dict, got None"),
    (merging(a="b"), "transition: metrics: a: expected an array, got 'b'"),
    (merging(a=None), "transition: metrics: a: expected an array, got None"),
    (merging(**{"1": 1}), None),
    *(
        (merging(**{name: jnp.float32(999)}), f"transition: metrics: expected other names than .*, got '{name}'")
        for name in INFO
    ),
]


@pytest.mark.parametrize(("change", "message"), TRANSITIONS)
def test_a_faulty_transition_is_one_error_in_every_step(change: Any, message: str | None) -> None:
    env = making(change)
    key, params = jax.random.key(0), env.default_params
    state = jax.eval_shape(env.reset, key, params)[1]
    for step in (env.step, env.step_env):
        if message is None:
            jax.eval_shape(step, key, state, jnp.int32(0), params)
            continue
        with pytest.raises(ContractError, match=f"^Changed-v0: {message}"):
            jax.eval_shape(step, key, state, jnp.int32(0), params)
    if message is not None:
        with pytest.raises(ContractError, match=f"^Changed-v0: {message}"):
            testing.check_env(env)


@pytest.mark.parametrize("value", [None, {"level": 1}, object()])
def test_a_first_state_of_another_class_is_an_error_of_reset(value: Any) -> None:
    env = changed(initial_state=lambda *_: value)
    message = r"^Changed-v0: initial_state: expected jaxgym\.environment\.EnvState, got "
    with pytest.raises(ContractError, match=message):
        env.reset(jax.random.key(0))
    with pytest.raises(ContractError, match=message):
        testing.check_env(env)


@pytest.mark.parametrize("space", [None, 4, gymnasium.spaces.Discrete(4)])
def test_an_action_space_of_another_kind_is_an_error(space: Any) -> None:
    env = changed(action_space=lambda *_: space)
    message = r"^Changed-v0: action_space: expected a Discrete or MultiDiscrete of jaxgym\.spaces, got "
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    with pytest.raises(ContractError, match=message):
        jax.eval_shape(env.step, jax.random.key(0), state, jnp.int32(0))
    with pytest.raises(ContractError, match=message):
        testing.check_env(env)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"sample_level": lambda *_: None}, "sample_level: expected a level with arrays, got None"),
        ({"sample_level": lambda *_: "abc"}, "sample_level: expected arrays, got TypeError: "),
        (
            {"initial_state": lambda *_: 1 / 0},
            "initial_state: expected arrays, got ZeroDivisionError: div",
        ),
        ({"scene": lambda *_: {}["x"]}, "scene, observe_scene: expected arrays, got KeyError: 'x'"),
        ({"observe_scene": lambda *_: "abc"}, "scene, observe_scene: expected arrays, got TypeError"),
        ({"transition": lambda *_: 1 / 0}, "transition: expected arrays, got ZeroDivisionError"),
        (
            {"observation_space": lambda _: None},
            "observation_space: expected a space of jaxgym.spaces, got .*posi",
        ),
    ],
)
def test_check_env_names_the_method_that_raises(methods: Any, message: str) -> None:
    with pytest.raises(ContractError, match=f"^Changed-v0: {message}"):
        testing.check_env(changed(**methods))


def test_check_env_names_the_field_that_differs_between_reset_and_step() -> None:
    def step(self: Any, *given: Any) -> Any:
        observation, state, *rest = TMaze.step(self, *given)
        return observation, dataclasses.replace(state, place=state.place.astype(jnp.float32)), *rest

    with pytest.raises(ContractError, match=r"^state\.place: expected equal .*, got int32 \(\) and float32 \(\)$"):
        testing.check_env(changed(step=step))


@pytest.mark.parametrize("number", [jnp.nan, jnp.inf])
def test_check_env_finds_a_reward_that_is_not_finite(number: float) -> None:
    env = making(lambda made: dataclasses.replace(made, reward=made.reward + number))
    with pytest.raises(ContractError, match=r"^reward: expected a finite number, got (nan|inf)"):
        testing.check_env(env)


def test_check_env_finds_a_transition_that_counts_time() -> None:
    env = making(lambda made: with_state(time=made.state.time + 1)(made))
    with pytest.raises(ContractError, match=r"^state\.time: expected 1 after a step, got 2\. In transition, do not"):
        testing.check_env(env)


@pytest.mark.slow
def test_check_env_accepts_metrics_that_are_not_a_number() -> None:
    testing.check_env(making(merging(share=jnp.float32(jnp.nan))))


def test_check_env_finds_levels_that_do_not_come_from_the_key() -> None:
    def sample_level(self: Any, key: jax.Array, params: Any) -> Any:
        drawn = np.random.default_rng(0).integers(0, 2)
        return dataclasses.replace(TMaze.sample_level(self, key, params), way=jnp.int32(drawn))

    with pytest.raises(ContractError, match=r"got one\. In sample_level, derive all random numbers from the key$"):
        testing.check_env(changed(sample_level=sample_level))
