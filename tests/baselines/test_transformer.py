"""Transformer-XL: the steps that a step attends to, and the equality of acting and learning.

With one block and a window of 3 steps, an input is seen at its own step and the two after it:

step     0  1  2  3  4  5  6  7
environment 0   .  .  .  .  S  .  .  .      S: first step of an episode
environment 1   .  .  .  .  .  .  .  .
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories import make_memory
from baselines.memories.transformer import TransformerXL, sinusoid

STEPS, NUM_ENVS, SIZE, LENGTH = 8, 2, 8, 3
STARTS = jnp.zeros((STEPS, NUM_ENVS), bool).at[4, 0].set(True)
CELL = TransformerXL(SIZE, layers=1, heads=2, length=LENGTH)
APPLY = jax.jit(CELL.apply)


def draw(seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal((STEPS, NUM_ENVS, SIZE), np.float32))


def moved(variables: Any) -> Any:
    """Return parameters with gains and offsets other than the initial ones and zeros, which could hide an error."""
    return jax.tree.map(lambda leaf: leaf + 0.1 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), variables)


@pytest.fixture(scope="module")
def variables() -> Any:
    return jax.jit(CELL.init)(jax.random.key(0), CELL.initial_state(NUM_ENVS), draw(0), STARTS)


@pytest.fixture(scope="module")
def slopes(variables: Any) -> Any:
    """Return a function of a cell: gradients of outputs by inputs, (environment, output step, input step)."""

    def of(cell: TransformerXL) -> np.ndarray:
        def outputs(inputs: jax.Array) -> jax.Array:
            weight = jnp.arange(SIZE, dtype=jnp.float32)[None, None]
            return (cell.apply(variables, cell.initial_state(NUM_ENVS), inputs, STARTS)[1] * weight).sum(axis=-1)

        full = jax.jit(jax.jacrev(outputs))(draw(0))
        return np.abs(np.asarray(full)[:, range(NUM_ENVS), :, range(NUM_ENVS)]).sum(axis=-1)

    return of


def test_a_step_sees_the_last_steps_of_its_episode_and_itself(slopes: Any) -> None:
    age = np.arange(STEPS)[:, None] - np.arange(STEPS)[None]
    window = (age >= 0) & (age < LENGTH)
    episode = np.cumsum(STARTS[:, 0])
    found = slopes(CELL) > 1e-7
    np.testing.assert_array_equal(found[1], window)
    np.testing.assert_array_equal(found[0], window & (episode[:, None] == episode[None]))


def test_without_its_gradient_no_step_learns_from_later_ones(slopes: Any) -> None:
    found = slopes(CELL.clone(gradient=False)) > 1e-7
    np.testing.assert_array_equal(found, np.broadcast_to(np.eye(STEPS, dtype=bool), found.shape))


def test_acting_reads_from_a_window_what_learning_does_whatever_the_parameters(variables: Any) -> None:
    state, _ = APPLY(variables, CELL.initial_state(NUM_ENVS), draw(0), STARTS)
    other = moved(variables)
    _, learned = APPLY(other, state, draw(1), STARTS)
    _, acted = APPLY(other, state, draw(1)[:1], STARTS[:1])
    np.testing.assert_allclose(acted[0], learned[0], rtol=1e-4, atol=1e-5)


def test_a_step_attends_as_the_equations_say(variables: Any) -> None:
    parameters = moved(variables)
    _, outputs = APPLY(parameters, CELL.initial_state(NUM_ENVS), draw(0), STARTS)
    weights = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters["params"])
    block = weights["blocks_0"]

    def norm(rows: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
        centered = rows - rows.mean(axis=-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-6) * scale + bias

    def normed(rows: np.ndarray, layer: str) -> np.ndarray:
        return norm(rows, block[layer]["scale"], block[layer]["offset"])

    inputs, here = np.asarray(draw(0), np.float64)[3:6, 1], 5  # environment 1 at step 5 sees steps 3 to 5
    waves = np.asarray(sinusoid(jnp.arange(3, 6), SIZE), np.float64)
    entries = normed(inputs + waves, "entry")
    query = normed(inputs[-1] + waves[-1], "query") @ block["query"]["query"]
    keys, values = entries @ block["entry"]["key"], entries @ block["entry"]["value"]
    read = []
    for head in np.split(np.arange(SIZE), 2):
        score = np.exp(keys[:, head] @ query[head] / np.sqrt(SIZE / 2))
        read.append(score / score.sum() @ values[:, head])
    stream = inputs[-1] + np.concatenate(read) @ block["leave"]
    hidden = normed(stream, "linear") @ block["linear"]["linear"] + block["linear"]["bias"]
    expected = norm(stream + np.maximum(hidden, 0), **weights["norm"])
    np.testing.assert_allclose(outputs[here, 1], expected, rtol=1e-3, atol=1e-4)


def test_heads_that_do_not_divide_the_width_are_rejected() -> None:
    with pytest.raises(ConfigError, match="expected a multiple of 8, twice --memory-heads, for 'trxl', got 6"):
        make_memory(Config(memory="trxl", memory_size=6))


def test_learning_from_single_steps_is_rejected() -> None:
    with pytest.raises(
        ConfigError, match=r"expected sequences of at least 2 steps for memory 'gtrxl', got 1\. Increase --num-steps"
    ):
        make_memory(Config(memory="gtrxl", num_steps=1))
