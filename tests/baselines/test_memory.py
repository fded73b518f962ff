"""Memory cells: learning over a rollout equals acting step by step, and nothing passes an episode's start.

step    0  1  2  3  4  5
lane 0  .  .  S  .  .  S      S: first step of an episode
lane 1  S  .  .  .  S  S
lane 2  .  .  .  .  .  .
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memory import GRU, make_memory

STEPS, LANES, INPUTS, UNITS = 6, 3, 4, 5
STARTS = jnp.asarray([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 1, 0]], bool)


@pytest.fixture
def case(get_key: Callable[[], jax.Array]) -> dict[str, Any]:
    inputs = jax.random.normal(get_key(), (STEPS, LANES, INPUTS))
    state = jax.random.normal(get_key(), (LANES, UNITS))
    variables = GRU(UNITS).init(get_key(), state, inputs, STARTS)
    noise = jax.tree.map(lambda leaf: jax.random.normal(get_key(), leaf.shape), variables)
    return {"variables": jax.tree.map(jnp.add, variables, noise), "state": state, "inputs": inputs}


def step_by_step(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
    """The published equations, one lane's step at a time in plain terms."""
    weights = variables["params"]
    states = []
    for step in range(STEPS):
        state = jnp.where(STARTS[step][:, None], 0.0, state)
        from_input = jnp.split(inputs[step] @ weights["kernel_in"] + weights["bias_in"][None], 3, axis=-1)
        from_state = jnp.split(state @ weights["kernel"], 3, axis=-1)
        reset = jax.nn.sigmoid(from_input[0] + from_state[0])
        update = jax.nn.sigmoid(from_input[1] + from_state[1])
        candidate = jnp.tanh(from_input[2] + reset * (from_state[2] + weights["bias"][None]))
        state = (1 - update) * candidate + update * state
        states.append(state)
    return jnp.stack(states)


@pytest.mark.parametrize("unroll", [1, 4])
def test_a_rollout_equals_single_steps(case: dict[str, Any], unroll: int) -> None:
    cell = GRU(UNITS, unroll=unroll)
    last, states = cell.apply(case["variables"], case["state"], case["inputs"], STARTS)
    state, singles = case["state"], []
    for step in range(STEPS):
        state, outputs = cell.apply(case["variables"], state, case["inputs"][step : step + 1], STARTS[step : step + 1])
        singles.append(outputs[0])
    np.testing.assert_allclose(states, jnp.stack(singles), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, state, rtol=1e-5, atol=1e-6)


def test_values_and_gradients_are_those_of_the_equations(case: dict[str, Any]) -> None:
    weight = jnp.cos(jnp.arange(STEPS * LANES * UNITS, dtype=jnp.float32)).reshape(STEPS, LANES, UNITS)

    def ours(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
        return (GRU(UNITS).apply(variables, state, inputs, STARTS)[1] * weight).sum()

    def plain(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
        return (step_by_step(variables, state, inputs) * weight).sum()

    arguments = case["variables"], case["state"], case["inputs"]
    found = jax.jit(jax.value_and_grad(ours, argnums=(0, 1, 2)))(*arguments)
    expected = jax.jit(jax.value_and_grad(plain, argnums=(0, 1, 2)))(*arguments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)


def test_an_episode_does_not_see_what_was_before_it(case: dict[str, Any]) -> None:
    def states(state: jax.Array) -> jax.Array:
        return GRU(UNITS).apply(case["variables"], state, case["inputs"], STARTS)[1]

    here, there = states(case["state"]), states(case["state"] + 1)
    changed = (here != there).any(axis=-1)
    seen_since = jnp.cumsum(STARTS, axis=0) == 0
    np.testing.assert_array_equal(changed, seen_since)


def test_no_memory_passes_its_inputs_on(case: dict[str, Any]) -> None:
    cell = make_memory(Config(memory="none"))
    state, outputs = cell.apply({}, cell.initial_state(LANES), case["inputs"], STARTS)
    assert state == ()
    np.testing.assert_array_equal(outputs, case["inputs"])


def test_an_unknown_memory_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"memory 'gruu' is unknown, allowed are gru, none; did you mean 'gru'\?"):
        make_memory(Config(memory="gruu"))
