"""Memory cells: learning over a rollout equals acting step by step, and nothing passes an episode's start.

step    0  1  2  3  4  5
environment 0  .  .  S  .  .  S      S: first step of an episode
environment 1  S  .  .  .  S  S
environment 2  .  .  .  .  .  .
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories import make_memory
from baselines.memories.gru import GRU
from baselines.memories.linear import LRU, MinGRU, linear_scan, rates_and_phases
from baselines.memories.lstm import LSTM
from baselines.memories.s5 import hippo_frequencies, initial_dynamics
from baselines.memories.stack import FrameStack

STEPS, NUM_ENVS, INPUTS, UNITS = 6, 3, 4, 6
STARTS = jnp.asarray([[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 1, 0]], bool)
MEMORIES = {
    "gru": {},
    "gru of two layers": {"memory": "gru", "memory_layers": 2},
    "gru unrolled": {"memory": "gru", "unroll": 4},
    "lru": {},
    "lstm": {},
    "lstm of two layers": {"memory": "lstm", "memory_layers": 2},
    "gtrxl": {"memory_layers": 2, "memory_heads": 1},
    "trxl": {"memory_layers": 2, "memory_heads": 3},
    "trxl that looks back over rollouts": {"memory": "trxl", "memory_layers": 1, "memory_window": 9},
    "mingru": {},
    "mingru of one layer": {"memory": "mingru", "memory_layers": 1},
    "ffm": {"memory_heads": 3},
    "gated_deltanet": {},
    "mlstm": {},
    "s5": {},
    "s5 of three blocks": {"memory": "s5", "memory_heads": 3, "memory_layers": 1},
}


class Case(NamedTuple):
    """A recurrent state in the middle of an episode, and inputs."""

    cell: Any
    call: Callable[..., Any]
    variables: Any
    state: Any
    inputs: jax.Array


def make_case(settings: dict[str, Any]) -> Case:
    settings = {"memory_size": UNITS, "dtype": "float32", "memory_heads": 1, "memory_window": 4, **settings}
    cell = make_memory(Config(**settings))
    draw = np.random.default_rng(0).standard_normal
    inputs, before = jnp.asarray(draw((2, STEPS, NUM_ENVS, INPUTS), np.float32))
    call = jax.jit(lambda variables, *arguments: cell.apply(variables, *arguments))
    variables = jax.jit(cell.init)(jax.random.key(0), cell.initial_state(NUM_ENVS), inputs, STARTS)
    variables = jax.tree.map(lambda leaf: leaf + 0.5 * draw(leaf.shape, np.float32), variables)
    state, _ = call(variables, cell.initial_state(NUM_ENVS), before, STARTS)  # one that the memory can have
    return Case(cell, call, variables, state, inputs)


@pytest.fixture(scope="module", params=MEMORIES.items(), ids=MEMORIES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    name, settings = request.param
    return make_case({"memory": name, **settings})


def test_a_rollout_equals_single_steps(case: Case) -> None:
    last, outputs = case.call(case.variables, case.state, case.inputs, STARTS)
    state, singles = case.state, []
    for step in range(STEPS):
        state, output = case.call(case.variables, state, case.inputs[step : step + 1], STARTS[step : step + 1])
        singles.append(output[0])
    np.testing.assert_allclose(outputs, jnp.stack(singles), rtol=1e-4, atol=1e-5)
    # States are compared by what they lead to, because a part that nothing reads may differ.
    _, after_rollout = case.call(case.variables, last, case.inputs[::-1], jnp.zeros_like(STARTS))
    _, after_singles = case.call(case.variables, state, case.inputs[::-1], jnp.zeros_like(STARTS))
    np.testing.assert_allclose(after_rollout, after_singles, rtol=1e-4, atol=1e-5)


def test_an_episode_does_not_see_what_was_before_it(case: Case) -> None:
    _, here = case.call(case.variables, case.state, case.inputs, STARTS)
    _, there = case.call(case.variables, case.cell.initial_state(NUM_ENVS), case.inputs, STARTS)
    seen_since = jnp.cumsum(STARTS, axis=0) == 0
    np.testing.assert_array_equal((here != there).any(axis=-1), seen_since)


def test_an_episode_starts_from_the_initial_state(case: Case) -> None:
    _, outputs = case.call(case.variables, case.state, case.inputs, STARTS)
    _, fresh = case.call(case.variables, case.cell.initial_state(NUM_ENVS), case.inputs[2:], jnp.zeros_like(STARTS[2:]))
    np.testing.assert_allclose(outputs[2:5, 0], fresh[:3, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", ["ffm", "gated_deltanet", "gru", "lru", "lstm", "mingru", "mlstm", "s5"])
def test_states_and_outputs_are_float32_whatever_the_operands(memory: str) -> None:
    cell = make_memory(Config(memory=memory, memory_size=UNITS, memory_heads=1, dtype="bfloat16"))
    inputs, key = jnp.zeros((STEPS, NUM_ENVS, INPUTS), jnp.bfloat16), jax.random.key(0)

    def call() -> Any:
        return cell.init_with_output(key, cell.initial_state(NUM_ENVS), inputs, STARTS)

    assert {leaf.dtype for leaf in jax.tree.leaves(jax.eval_shape(call))} == {jnp.dtype("float32")}


def gru_step_by_step(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
    """Compute the published equations, one step of one environment at a time."""
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


def lstm_step_by_step(variables: Any, state: tuple[jax.Array, jax.Array], inputs: jax.Array) -> jax.Array:
    """Compute the published equations."""
    weights = variables["params"]
    outputs = []
    output, cell = state
    for step in range(STEPS):
        output, cell = (jnp.where(STARTS[step][:, None], 0.0, part) for part in (output, cell))
        pre = inputs[step] @ weights["kernel_in"] + output @ weights["kernel"] + weights["bias"][None]
        into, forget, candidate, out = jnp.split(pre, 4, axis=-1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
        output = jax.nn.sigmoid(out) * jnp.tanh(cell)
        outputs.append(output)
    return jnp.stack(outputs)


def mingru_step_by_step(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
    """Compute one step at a time, with the initial time spans of the units."""
    weights = variables["params"]
    spans = jnp.asarray(np.geomspace(2, 256, UNITS), jnp.float32)
    states = []
    for step in range(STEPS):
        state = jnp.where(STARTS[step][:, None], 0.0, state)
        gate, candidate = jnp.split(inputs[step] @ weights["kernel"] + weights["bias"][None], 2, axis=-1)
        update = jax.nn.sigmoid(gate - jnp.log(spans - 1)[None])
        state = (1 - update) * state + update * candidate
        states.append(state)
    return jnp.stack(states)


def lru_step_by_step(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
    """Compute one step at a time, as rotations of real pairs."""
    weights = variables["params"]
    rates, phases = rates_and_phases(UNITS)
    rate, phase = rates * jnp.exp(weights["log_rate"]), phases * jnp.exp(weights["log_phase"])
    scale = jnp.sqrt(1 - jnp.exp(-rate) ** 2)
    real, imaginary = jnp.split(state, 2, axis=-1)
    outputs = []
    for step in range(STEPS):
        keep = jnp.where(STARTS[step][:, None], 0.0, jnp.exp(-rate)[None])
        cosine, sine = jnp.cos(phase)[None], jnp.sin(phase)[None]
        drive = jnp.split(inputs[step] @ weights["kernel_in"], 2, axis=-1)
        turned = cosine * real - sine * imaginary, sine * real + cosine * imaginary
        real, imaginary = (keep * part + scale[None] * into for part, into in zip(turned, drive, strict=True))
        outputs.append(jnp.concatenate([real, imaginary], axis=-1) @ weights["kernel_out"])
    return jnp.stack(outputs)


LOOPS = {
    "gru": (GRU, gru_step_by_step),
    "lru": (LRU, lru_step_by_step),
    "lstm": (LSTM, lstm_step_by_step),
    "mingru": (MinGRU, mingru_step_by_step),
}


@pytest.mark.parametrize(("kind", "step_by_step"), LOOPS.values(), ids=LOOPS.keys())
def test_values_and_gradients_are_those_of_the_equations(kind: Any, step_by_step: Callable[..., jax.Array]) -> None:
    cell = kind(UNITS)
    weight = jnp.cos(jnp.arange(STEPS * NUM_ENVS * UNITS, dtype=jnp.float32)).reshape(STEPS, NUM_ENVS, UNITS)
    draw = np.random.default_rng(0).standard_normal
    inputs = jnp.asarray(draw((STEPS, NUM_ENVS, INPUTS), np.float32))
    zeros = cell.initial_state(NUM_ENVS)
    variables = jax.jit(cell.init)(jax.random.key(0), zeros, inputs, STARTS)
    variables = jax.tree.map(lambda leaf: leaf + draw(leaf.shape, np.float32), variables)
    state = jax.tree.map(lambda leaf: jnp.asarray(draw(leaf.shape, np.float32)), zeros)

    def ours(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
        return (cell.apply(variables, state, inputs, STARTS)[1] * weight).sum()

    def plain(variables: Any, state: jax.Array, inputs: jax.Array) -> jax.Array:
        return (step_by_step(variables, state, inputs) * weight).sum()

    arguments = variables, state, inputs
    found = jax.jit(jax.value_and_grad(ours, argnums=(0, 1, 2)))(*arguments)
    expected = jax.jit(jax.value_and_grad(plain, argnums=(0, 1, 2)))(*arguments)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_scan_over_a_long_rollout_equals_its_loop() -> None:
    generator = np.random.default_rng(0)
    decay, inputs = generator.uniform(size=(2, 300, 2, 3)).astype(np.float32)
    decay[170] = 0.0
    state = generator.standard_normal((2, 3), np.float32)
    expected, hidden = [], state
    for step in range(300):
        hidden = decay[step] * hidden + inputs[step]
        expected.append(hidden)
    np.testing.assert_allclose(jax.jit(linear_scan)(decay, inputs, state), np.stack(expected), rtol=1e-4, atol=1e-5)


def test_the_eigenvalues_start_on_the_ring() -> None:
    rates, phases = rates_and_phases(512)
    radii = np.exp(-rates)
    assert 0.9 <= radii.min() < 0.901
    assert 0.998 < radii.max() <= 0.999
    assert 0 <= phases.min() < 0.01
    assert 0.3 < phases.max() <= np.pi / 10
    share_outer = (radii > np.sqrt((0.9**2 + 0.999**2) / 2)).mean()
    np.testing.assert_allclose(share_outer, 0.5, atol=0.01)  # even over the area


def test_the_frequencies_of_s5_start_as_those_of_the_hippo_matrix() -> None:
    size = 16
    order = np.arange(size)
    root = np.sqrt(2 * order + 1)
    legs = -np.tril(np.outer(root, root), -1) - np.diag(order + 1.0)
    normal = legs + np.outer(root, root) / 2
    eigenvalues = np.linalg.eigvals(normal)
    np.testing.assert_allclose(eigenvalues.real, -0.5, rtol=1e-6)
    np.testing.assert_allclose(hippo_frequencies(size), np.sort(eigenvalues.imag)[size // 2 :], rtol=1e-6)
    frequencies, steps = initial_dynamics(512, 4)
    np.testing.assert_array_equal(frequencies[:64], frequencies[-64:])
    assert 0.001 <= steps.min() < 0.0011
    assert 0.09 < steps.max() <= 0.1


def test_no_memory_passes_its_inputs_on() -> None:
    cell = make_memory(Config(memory="none"))
    inputs = jnp.ones((STEPS, NUM_ENVS, INPUTS))
    state, outputs = cell.apply({}, cell.initial_state(NUM_ENVS), inputs, STARTS)
    assert state == ()
    np.testing.assert_array_equal(outputs, inputs)


def test_an_unknown_memory_is_rejected_with_the_nearest_name() -> None:
    allowed = "clock, ffm, gated_deltanet, gru, gtrxl, helm, lru, lstm, mingru, mlstm, none, s5, stack16, stack4, trxl"
    with pytest.raises(ConfigError, match=rf"^memory: expected one of {allowed}, got 'gruu' \(did you mean 'gru'\?\)$"):
        make_memory(Config(memory="gruu"))


@pytest.mark.parametrize(("gray", "channels"), [(False, 3), (True, 1)], ids=["color", "gray"])
def test_a_frame_stack_shows_the_last_frames_of_the_episode(gray: bool, channels: int) -> None:
    stack = FrameStack(3, gray, (2, 2, 3))
    frames = np.random.default_rng(0).integers(0, 256, (STEPS, NUM_ENVS, 2, 2, 3)).astype(np.uint8)
    earlier = np.random.default_rng(1).integers(0, 256, (1, NUM_ENVS, 2, 2, 3)).astype(np.uint8)
    state, _ = stack.preprocess(stack.initial_state(NUM_ENVS), jnp.asarray(earlier), jnp.ones((1, NUM_ENVS), bool))
    last, seen = stack.preprocess(
        state, {"frame": jnp.asarray(frames), "vector": jnp.zeros((STEPS, NUM_ENVS, 5))}, STARTS
    )

    def brightness(frame: np.ndarray) -> np.ndarray:
        return np.round(frame.astype(np.float32) @ np.float32([0.299, 0.587, 0.114]))[..., None] if gray else frame

    for env_index in range(NUM_ENVS):
        episode = [earlier[0, env_index]]
        for step in range(STEPS):
            episode = [*([] if STARTS[step, env_index] else episode), frames[step, env_index]]
            newest_first = [*reversed(episode), np.zeros((2, 2, 3)), np.zeros((2, 2, 3))]
            expected = np.concatenate([brightness(frame) for frame in newest_first[:3]], axis=-1)
            np.testing.assert_array_equal(seen["frame"][step, env_index], expected)
        np.testing.assert_array_equal(np.concatenate([*last[env_index]], axis=-1), expected[..., : 2 * channels])
    assert seen["vector"].shape == (STEPS, NUM_ENVS, 5)
    assert seen["frame"].dtype == last.dtype == jnp.uint8


def test_a_frame_stack_step_by_step_equals_a_rollout() -> None:
    stack = FrameStack(4, False, (2, 2, 3))
    frames = jnp.asarray(np.random.default_rng(0).integers(0, 256, (STEPS, NUM_ENVS, 2, 2, 3)).astype(np.uint8))
    last, seen = stack.preprocess(stack.initial_state(NUM_ENVS), frames, STARTS)
    state = stack.initial_state(NUM_ENVS)
    for step in range(STEPS):
        state, single = stack.preprocess(state, frames[step : step + 1], STARTS[step : step + 1])
        np.testing.assert_array_equal(seen[step], single[0])
    np.testing.assert_array_equal(last, state)


def test_a_frame_stack_without_frames_is_rejected() -> None:
    with pytest.raises(
        ConfigError, match=r"memory 'stack4': expected an observation with a frame, got none\. Choose anoth"
    ):
        make_memory(Config(memory="stack4"))


def test_layers_of_no_memory_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"memory 'none': expected no --memory-layers, got \d+\. Leave it out\."):
        make_memory(Config(memory="none", memory_layers=2))
