"""FFM, S5, Gated DeltaNet and mLSTM over rollouts of several chunks, with resets at random steps."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories import cell_of, make_memory
from baselines.memories.deltanet import delta_rule
from baselines.memories.s5 import initial_dynamics

STEPS, NUM_ENVS, INPUTS, UNITS, HEADS = 70, 3, 5, 8, 2  # two whole chunks, and a part of one
NAMES = ("ffm", "gated_deltanet", "mlstm", "s5")
STATE_BYTES = {
    "ffm": 4 * 2 * 512,
    "gated_deltanet": 4 * (4 * 64 * 128 + 3 * 1024),
    "mlstm": 4 * 4 * (64 * 128 + 64 + 1),
    "s5": 4 * 512,
}


class Case(NamedTuple):
    """A cell of one layer without its stack, a state in the middle of an episode, inputs and starts."""

    name: str
    apply: Callable[..., Any]
    variables: Any
    state: Any
    inputs: np.ndarray
    starts: np.ndarray


def cell_of_size(name: str, size: int, heads: int, dtype: str = "float32") -> Any:
    return cell_of(name).from_config(Config(memory=name, memory_size=size, memory_heads=heads, dtype=dtype))


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> Case:
    cell = cell_of_size(request.param, UNITS, HEADS)
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((STEPS, NUM_ENVS, INPUTS), np.float32)
    starts = generator.random((STEPS, NUM_ENVS)) < 0.07
    empty = cell.initial_state(NUM_ENVS)
    variables = jax.jit(cell.init)(jax.random.key(0), empty, inputs[:1], starts[:1])
    noise = partial(generator.standard_normal, dtype=np.float32)
    variables = jax.tree.map(lambda leaf: leaf + 0.5 * noise(leaf.shape), variables)
    apply = jax.jit(cell.apply)
    state, _ = apply(variables, empty, inputs[::-1], starts[::-1])
    return Case(request.param, apply, variables, state, inputs, starts)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def heads_of(rows: np.ndarray) -> list[np.ndarray]:
    """Split rows (B, 2 H) into queries, keys and values of each head, (B, h, ...)."""
    return [part.reshape(NUM_ENVS, HEADS, -1) for part in np.split(rows, [UNITS // 2, UNITS], axis=-1)]


def outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left[..., :, None] * right[..., None, :]


def read_by(queries: np.ndarray, memory: np.ndarray) -> np.ndarray:
    return (queries[..., None, :] @ memory)[..., 0, :]


def root_mean_square(rows: np.ndarray) -> np.ndarray:
    return np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-6)


def centered(rows: np.ndarray) -> np.ndarray:
    return rows - rows.mean(axis=-1, keepdims=True)


def ffm_step(weights: Any, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    traces = UNITS // HEADS
    rate = np.linspace(math.log(2), math.log(100) / 1024, traces) * np.exp(weights["log_rate"])
    frequency = 2 * np.pi / np.linspace(1, 1024, HEADS) * np.exp(weights["log_frequency"])
    value, gate = np.split(inputs @ weights["kernel_in"] + weights["bias_in"], 2, axis=-1)
    memory = (state[:, :UNITS] + 1j * state[:, UNITS:]).reshape(NUM_ENVS, traces, HEADS)
    memory = np.exp(-rate[:, None] - 1j * frequency) * memory + (value * sigmoid(gate))[..., None]
    memory = memory.reshape(NUM_ENVS, UNITS)
    state = np.concatenate([memory.real, memory.imag], axis=-1)
    rows = centered(state @ weights["kernel_out"] + weights["bias_out"])
    return state, rows / root_mean_square(rows)


def delta_step(weights: Any, state: Any, inputs: np.ndarray) -> tuple[Any, np.ndarray]:
    memory, recent = state
    recent = np.concatenate([recent, (inputs @ weights["kernel"])[:, None]], axis=1)
    mixed = (recent[:, ::-1] * weights["convolution"]).sum(axis=1)
    queries, keys, values = heads_of(mixed * sigmoid(mixed))
    queries, keys = (part / np.sqrt((part**2).sum(axis=-1, keepdims=True) + 1e-6) for part in (queries, keys))
    pace, strength = np.split(inputs @ weights["kernel_gates"] + weights["bias_gates"], 2, axis=-1)
    pace = np.log1p(np.exp(pace + np.log(np.expm1(1 / np.geomspace(16, 1024, HEADS)))))
    kept = np.exp(-np.exp(weights["log_rate"]) * pace)[..., None, None]
    strength = sigmoid(strength)[..., None, None]
    erase = np.eye(keys.shape[-1]) - strength * outer(keys, keys)
    memory = kept * erase @ memory + strength * outer(keys, values)
    read = read_by(queries, memory)
    return (memory, recent[:, 1:]), (read / root_mean_square(read) * weights["norm"]["scale"]).reshape(NUM_ENVS, UNITS)


def mlstm_step(weights: Any, state: Any, inputs: np.ndarray) -> tuple[Any, np.ndarray]:
    """Compute one step without scales: they are zero before and after."""
    memory, norm, scale = state
    memory, norm = memory * np.exp(scale)[..., None, None], norm * np.exp(scale)[..., None]
    queries, keys, values = heads_of(inputs @ weights["kernel"])
    keys = keys / np.sqrt(keys.shape[-1])
    gates = inputs @ weights["kernel_gates"] + weights["bias_gates"]
    write, keep = np.split(15 * np.tanh((gates + np.array([0, 0, 3, 6])) / 15), 2, axis=-1)
    write, keep = np.exp(write)[..., None], sigmoid(keep)[..., None]
    memory = keep[..., None] * memory + write[..., None] * outer(keys, values)
    norm = keep * norm + write * keys
    read = read_by(queries, memory) / np.maximum(np.abs((norm * queries).sum(axis=-1, keepdims=True)), 1)
    rows = centered(read) / root_mean_square(centered(read)) * weights["norm"]["scale"]
    return (memory, norm, np.zeros_like(scale)), rows.reshape(NUM_ENVS, UNITS)


def s5_step(weights: Any, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    frequencies, steps = initial_dynamics(UNITS, HEADS)
    eigenvalue = -0.5 * np.exp(weights["log_rate"]) + 1j * (frequencies + weights["frequency"])
    keep = np.exp(eigenvalue * steps * np.exp(weights["log_step"]))
    (real, imaginary), drive = (np.split(part, 2, axis=-1) for part in (state, inputs @ weights["kernel_in"]))
    memory = keep * (real + 1j * imaginary) + (keep - 1) / eigenvalue * (drive[0] + 1j * drive[1])
    state = np.concatenate([memory.real, memory.imag], axis=-1)
    return state, state @ weights["kernel_out"]


EQUATIONS: dict[str, Callable[..., Any]] = {
    "ffm": ffm_step,
    "gated_deltanet": delta_step,
    "mlstm": mlstm_step,
    "s5": s5_step,
}


def test_outputs_are_those_of_the_equations(case: Case) -> None:
    _, found = case.apply(case.variables, case.state, case.inputs, case.starts)
    weights = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), case.variables["params"])
    state = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), case.state)
    expected = []
    for step in range(STEPS):
        going_on = ~case.starts[step]
        state = jax.tree.map(lambda leaf: leaf * np.expand_dims(going_on, tuple(range(1, leaf.ndim))), state)  # noqa: B023
        state, output = EQUATIONS[case.name](weights, state, case.inputs[step])
        expected.append(output)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-4, atol=1e-4)


def test_a_rollout_and_single_steps_have_the_same_outputs_and_gradients(case: Case) -> None:
    weight = np.cos(np.arange(STEPS * NUM_ENVS * UNITS, dtype=np.float32)).reshape(STEPS, NUM_ENVS, UNITS)

    def at_once(variables: Any, state: Any, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, outputs = case.apply(variables, state, inputs, case.starts)
        return (outputs * weight).sum(), outputs

    def in_steps(variables: Any, state: Any, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state: Any, at_step: Any) -> Any:
            state, output = case.apply(variables, state, *(part[None] for part in at_step))
            return state, output[0]

        _, outputs = lax.scan(step, state, (inputs, case.starts))
        return (outputs * weight).sum(), outputs

    arguments = case.variables, case.state, case.inputs
    found, expected = (
        jax.jit(jax.value_and_grad(one, argnums=(0, 1, 2), has_aux=True))(*arguments) for one in (at_once, in_steps)
    )
    np.testing.assert_allclose(found[0][1], expected[0][1], rtol=1e-4, atol=3e-5)
    chex.assert_trees_all_close(found[1], expected[1], rtol=1e-3, atol=1e-3)


def test_gradients_reach_the_first_step_of_the_episode_and_none_before_it(case: Case) -> None:
    starts = np.zeros((STEPS, NUM_ENVS), bool)
    starts[20, 0] = True

    def last(state: Any, inputs: jax.Array) -> jax.Array:
        return case.apply(case.variables, state, inputs, starts)[1][-1, :, 0].sum()

    by_state, by_inputs = jax.jit(jax.grad(last, argnums=(0, 1)))(case.state, case.inputs)
    slopes = np.abs(by_inputs).max(axis=-1)
    assert (slopes[:20, 0] == 0).all()
    assert slopes[20, 0] > 0
    assert (slopes[:, 1:] > 0).all()
    assert all((leaf[0] == 0).all() for leaf in jax.tree.leaves(by_state))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((by_state, by_inputs)))


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_float32_and_small(name: str) -> None:
    cell = cell_of_size(name, 512, 4, "bfloat16")
    inputs, starts = jnp.zeros((64, 2, 512), jnp.bfloat16), jnp.zeros((64, 2), bool)
    empty = jax.eval_shape(lambda: cell.initial_state(2))
    (after, outputs), _ = jax.eval_shape(
        lambda: cell.init_with_output(jax.random.key(0), cell.initial_state(2), inputs, starts)
    )
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), (empty, empty)) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), (after, empty)
    )
    assert {leaf.dtype for leaf in jax.tree.leaves((after, outputs))} == {jnp.dtype("float32")}
    assert sum(leaf.size * 4 // 2 for leaf in jax.tree.leaves(empty)) == STATE_BYTES[name]


@pytest.mark.parametrize("memory", ["ffm", "gated_deltanet", "gru", "lru", "lstm", "mingru", "mlstm", "s5"])
def test_a_longer_span_remembers_the_first_input_for_longer(memory: str) -> None:
    count, size = 6000, 16
    starts = np.zeros((count, 2), bool)
    inputs = np.zeros((count, 2, INPUTS), np.float32)
    inputs[0, 0] = 1.0  # the second environment has no such input

    def difference(span: int) -> float:
        config = Config(memory=memory, memory_size=size, memory_heads=2, memory_span=span, dtype="float32")
        cell = cell_of(memory).from_config(config)
        variables = jax.jit(cell.init)(jax.random.key(0), cell.initial_state(2), inputs[:1], starts[:1])
        state, _ = jax.jit(cell.apply)(variables, cell.initial_state(2), inputs, starts)
        return max(float(np.abs(leaf[0] - leaf[1]).max()) for leaf in jax.tree.leaves(state))

    assert difference(20_000) > 3 * difference(0)


@pytest.mark.parametrize("name", NAMES)
def test_units_that_do_not_divide_into_heads_are_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"expected a multiple of 8, twice --memory-heads, for '{name}', got 12"):
        make_memory(Config(memory=name, memory_size=12))


def test_the_delta_rule_replaces_the_value_of_a_key() -> None:
    """With α = β = 1 and one key, the memory holds the last value, however often the key is written."""
    count, width = 100, 4
    key = np.full((count, 1, 1, width), width**-0.5, np.float32)
    values = np.random.default_rng(0).standard_normal((count, 1, 1, 3)).astype(np.float32)
    ones, zeros = np.ones((count, 1, 1), np.float32), np.zeros((count, 1, 1), np.float32)
    memory = jnp.ones((1, 1, width, 3))
    _, read = jax.jit(delta_rule)(memory, key, key, values, zeros, ones, np.zeros((count, 1), bool))
    np.testing.assert_allclose(read, values, atol=1e-5)


def test_mlstm_is_finite_at_the_bounds_of_its_gates() -> None:
    cell = cell_of_size("mlstm", UNITS, HEADS)
    inputs, starts = np.ones((STEPS, 1, INPUTS), np.float32), np.zeros((STEPS, 1), bool)
    empty = cell.initial_state(1)
    variables = jax.jit(cell.init)(jax.random.key(0), empty, inputs[:1], starts[:1])
    slope = jax.jit(jax.value_and_grad(lambda *some: cell.apply(*some, starts)[1].sum(), argnums=(0, 1, 2)))
    for write in (-100.0, 100.0):
        for keep in (-100.0, 100.0):
            variables["params"]["bias_gates"] = jnp.repeat(jnp.asarray([write, keep]), HEADS)
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope(variables, empty, inputs)))
