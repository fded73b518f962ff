"""What follows from parameters alone is computed once, before a loop, and changes nothing."""

from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config
from baselines.memories import make_memory
from baselines.networks import ActorCritic
from baselines.prepared import prepare

STEPS, LANES, PIXELS = 1, 3, 36


def names_of(function: Any, *arguments: Any) -> list[str]:
    return [equation.primitive.name for equation in jax.make_jaxpr(function)(*arguments).jaxpr.eqns]


def dense(kernel: jax.Array, rows: jax.Array) -> jax.Array:
    return rows @ kernel.T.astype(jnp.bfloat16)


KERNEL, ROWS = jnp.ones((4, 5)), jnp.ones((2, 5), jnp.bfloat16)


def test_what_follows_from_the_fixed_argument_alone_is_not_computed_again() -> None:
    assert set(names_of(partial(dense, KERNEL), ROWS)) > {"convert_element_type", "transpose"}
    assert names_of(prepare(dense, KERNEL, ROWS), ROWS)[-1:] == ["dot_general"]
    assert not {"convert_element_type", "transpose"} & set(names_of(prepare(dense, KERNEL, ROWS), ROWS))


def test_what_follows_from_numbers_is_computed_at_once_even_while_a_function_is_traced() -> None:
    names = names_of(lambda rows: prepare(dense, KERNEL, rows)(rows), ROWS)
    assert names[-1] == "dot_general"
    assert not {"convert_element_type", "transpose"} & set(names)


def test_what_is_many_times_larger_than_what_it_is_made_of_is_made_where_it_is_used() -> None:
    def add(bias: jax.Array, rows: jax.Array) -> jax.Array:
        return rows + jnp.broadcast_to(2 * bias, rows.shape)

    bias, rows = jnp.ones(5), jnp.ones((9, 5))
    assert "mul" not in names_of(prepare(add, bias, rows), rows)
    assert "broadcast_in_dim" in names_of(prepare(add, bias, rows), rows)
    np.testing.assert_array_equal(prepare(add, bias, rows)(7 * rows), add(bias, 7 * rows))


def test_a_product_of_kernels_is_not_made_again_though_it_is_larger_than_they_are() -> None:
    def low_rank(kernel: jax.Array, rows: jax.Array) -> jax.Array:
        return rows @ jnp.einsum("ij,kj->ik", kernel, kernel)

    kernel, rows = jnp.ones((6, 2)), jnp.ones((4, 6))
    assert len(names_of(partial(low_rank, kernel), rows)) == 2
    prepared = prepare(low_rank, kernel, rows)
    assert names_of(prepared, rows) == ["dot_general"]
    np.testing.assert_array_equal(prepared(rows), low_rank(kernel, rows))


def test_results_that_follow_from_the_fixed_argument_and_those_that_pass_through_are_returned() -> None:
    def both(fixed: jax.Array, other: jax.Array) -> dict[str, Any]:
        return {"fixed": fixed + 1, "same": fixed, "other": other, "constant": jnp.arange(3), "number": 2.0}

    expected = both(KERNEL, ROWS)
    found = prepare(both, KERNEL, ROWS)(ROWS)
    chex.assert_trees_all_equal(found, expected)
    assert found.keys() == expected.keys()


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("gtrxl", "lru", "lstm", "mingru", "none", "stack4")]


@pytest.mark.parametrize("memory", ["gru", "trxl", *SLOW])
def test_a_network_that_was_prepared_says_the_same_bit_for_bit(memory: str) -> None:
    config = Config(memory=memory, memory_size=16, memory_window=5, hidden_size=16)
    frame = (PIXELS, PIXELS, 3)
    network = ActorCritic(make_memory(config, frame), (3, 2), 16, dtype=jnp.bfloat16)
    draws = np.random.default_rng(0)
    frames = jnp.asarray(draws.integers(0, 256, (4, STEPS, LANES, *frame), np.uint8))
    starts = jnp.asarray(draws.random((4, STEPS, LANES)) < 0.3)
    state = network.memory.initial_state(LANES)
    params = jax.jit(network.init)(jax.random.key(0), state, frames[0], starts[0])

    def outputs(apply: Any) -> Any:
        _, outputs = jax.lax.scan(lambda state, at_step: apply(state, *at_step), state, (frames, starts))
        return outputs

    found = jax.jit(lambda params: outputs(prepare(network.apply, params, state, frames[0], starts[0])))(params)
    expected = jax.jit(lambda params: outputs(partial(network.apply, params)))(params)
    chex.assert_trees_all_equal(found, expected)
