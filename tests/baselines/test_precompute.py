"""Precomputed parameters: computed once before a loop of acting, with the same outputs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config
from baselines.memories import make_memory
from baselines.networks import ActorCritic

STEPS, NUM_ENVS, PIXELS = 1, 3, 36
NAMES = ("ffm", "gated_deltanet", "gru", "gtrxl", "lru", "lstm", "mingru", "mlstm", "none", "s5", "stack4", "trxl")
MEMORIES: dict[str, dict[str, Any]] = {name: {"memory": name} for name in NAMES}
MEMORIES["gru of two layers"] = {"memory": "gru", "memory_layers": 2}
MEMORIES["trxl of another width"] = {"memory": "trxl", "hidden_size": 24}


class Acting:
    """A network for frames and a vector, and its inputs for four steps."""

    def __init__(self, settings: dict[str, Any]) -> None:
        settings = {"memory_size": 16, "memory_window": 5, "hidden_size": 16, **settings}
        frame, hidden = (PIXELS, PIXELS, 3), settings["hidden_size"]
        memory = make_memory(Config(**settings), frame)
        self.network = ActorCritic(memory, (3, 2), hidden, ground_truth_size=2, dtype=jnp.bfloat16)
        draws = np.random.default_rng(0)
        frames = jnp.asarray(draws.integers(0, 256, (4, STEPS, NUM_ENVS, *frame), np.uint8))
        vectors = jnp.asarray(draws.standard_normal((4, STEPS, NUM_ENVS, 7)), jnp.float32)
        self.seen = {"a_conv0": vectors, "frame": frames}
        self.starts = jnp.asarray(draws.random((4, STEPS, NUM_ENVS)) < 0.3)
        self.state = self.network.memory.initial_state(NUM_ENVS)
        self.first = jax.tree.map(lambda leaf: leaf[0], (self.seen, self.starts))
        self.params = jax.jit(self.network.init)(jax.random.key(0), self.state, *self.first)

    def outputs(self, params: Any) -> Any:
        def step(state: Any, at_step: Any) -> Any:
            return self.network.apply(params, state, *at_step)

        return jax.lax.scan(step, self.state, (self.seen, self.starts))[1]


def equations(jaxpr: Any) -> Iterator[Any]:
    """Return the equations of a program and of its inner programs."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(equation.params, is_leaf=lambda value: hasattr(value, "jaxpr")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def cast_parameters(acting: Acting, params: Any) -> set[tuple[int, ...]]:
    """Return the shapes of the kernels outside of the encoder that a step of acting casts from float32."""
    own = acting.params["params"]
    shapes = {leaf.shape for name in own if name != "encoder" for leaf in jax.tree.leaves(own[name]) if leaf.ndim > 1}
    shapes -= {leaf.shape for leaf in jax.tree.leaves(own["encoder"])}
    program = jax.make_jaxpr(partial(acting.network.apply, params))(acting.state, *acting.first).jaxpr
    casts = [equation for equation in equations(program) if equation.primitive.name == "convert_element_type"]
    inputs = [equation.invars[0].aval for equation in casts]
    return {one.shape for one in inputs if one.dtype == jnp.float32 and one.shape in shapes}


FAST = ("gru", "trxl")


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in MEMORIES])
def test_a_network_gives_the_same_with_precomputed_parameters_bit_for_bit(name: str) -> None:
    acting = Acting(MEMORIES[name])
    found = jax.jit(lambda params: acting.outputs(acting.network.precompute(params)))(acting.params)
    expected = jax.jit(acting.outputs)(acting.params)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in MEMORIES])
def test_no_step_of_acting_casts_a_kernel_of_memory_or_heads(name: str) -> None:
    acting = Acting(MEMORIES[name])
    assert cast_parameters(acting, acting.params)
    assert cast_parameters(acting, jax.jit(acting.network.precompute)(acting.params)) == set()


def test_the_encoder_reads_its_own_parameters() -> None:
    acting = Acting(MEMORIES["gru"])
    ready = jax.jit(acting.network.precompute)(acting.params)
    jax.tree.map(np.testing.assert_array_equal, ready["params"]["encoder"], acting.params["params"]["encoder"])


def test_a_transformer_multiplies_its_kernels_once_before_it_acts() -> None:
    acting = Acting(MEMORIES["trxl"])
    ready = jax.jit(acting.network.precompute)(acting.params)

    def products(params: Any) -> int:
        program = jax.make_jaxpr(partial(acting.network.apply, params))(acting.state, *acting.first).jaxpr
        return sum(equation.primitive.name == "dot_general" for equation in equations(program))

    # Of each of the three blocks: Q Kᵀ, its bias, V L, and its bias.
    assert products(acting.params) - products(ready) == 3 * 4
