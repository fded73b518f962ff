"""Parts of an agent by flags: encoder, residual, clock, ground-truth head; and combinations that are rejected."""

import dataclasses
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import spaces

from baselines import ppo
from baselines.config import SCALES, Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame, ground_truth_of, make_game
from baselines.memories import make_memory
from baselines.memories.clock import Clock
from baselines.memories.transformer import Gate, TransformerXL
from baselines.networks import make_network

SMALL = dataclasses.replace(
    SCALES["cpu"],
    **dict(num_envs=4, num_steps=4, minibatches=2, epochs=1, memory_size=8, hidden_size=8, block_updates=1),
    **dict(train_levels=0, held_out_levels=1),
)
FRAME = (84, 84, 3)


def shapes(config: Config, **options: Any) -> tuple[Any, Any]:
    """Return the shapes of parameters and outputs for two steps of three environments with frames."""
    network = make_network(config, spaces.Discrete(4), FRAME, **options)
    observation, starts = jnp.zeros((2, 3, *FRAME), jnp.uint8), jnp.zeros((2, 3), bool)

    def outputs() -> Any:
        state = network.memory.initial_state(3)
        variables = network.init(jax.random.key(0), state, observation, starts)
        return variables["params"], network.apply(variables, state, observation, starts)[1]

    return jax.eval_shape(outputs)


def test_impala_has_fifteen_convolutions_and_halves_the_frame_thrice() -> None:
    params, _ = shapes(Config(encoder="impala"))
    assert len(params["encoder"]["observation_impala"]) == 15
    assert params["encoder"]["embedding"]["kernel"].shape == (11 * 11 * 32, 512)


def test_a_residual_adds_what_goes_into_the_memory(get_key: Callable[[], jax.Array]) -> None:
    observation, starts = jax.random.normal(get_key(), (2, 3, 5)), jnp.zeros((2, 3), bool)
    plain, residual = (
        make_network(Config(dtype="float32", residual=on, memory_size=8, hidden_size=8), spaces.Discrete(4))
        for on in (False, True)
    )
    state = plain.memory.initial_state(3)
    variables = jax.jit(plain.init)(get_key(), state, observation, starts)
    look = partial(jax.jit, static_argnames="capture_intermediates")
    _, before = look(plain.apply)(variables, state, observation, starts, capture_intermediates=True)
    remembered = before["intermediates"]["memory"]["__call__"][0][1]
    features = before["intermediates"]["encoder"]["__call__"][0].reshape(2, 3, 8)
    _, after = look(residual.apply)(variables, state, observation, starts, capture_intermediates=True)
    body = variables["params"]["body"]
    expected = (remembered + features) @ body["kernel"] + body["bias"][None, None]
    np.testing.assert_allclose(after["intermediates"]["body"]["__call__"][0], expected, atol=1e-5)


def test_a_clock_shows_the_step_of_the_episode_across_calls(get_key: Callable[[], jax.Array]) -> None:
    observation = jax.random.normal(get_key(), (4, 2, 3))
    starts = jnp.asarray([[0, 0], [0, 1], [0, 0], [0, 0]], bool)
    state, seen = Clock().preprocess(jnp.asarray([5, 600], jnp.int32), observation, starts)
    angle = np.asarray([[5, 511], [6, 0], [7, 1], [8, 2]], np.float32)
    np.testing.assert_allclose(seen["clock"][..., 0], np.sin(angle), atol=1e-5)
    np.testing.assert_array_equal(state, [9, 3])
    np.testing.assert_array_equal(seen["observation"], observation)
    assert "clock_linear" in shapes(Config(memory="clock"))[0]["encoder"]


def test_gates_start_as_far_towards_the_identity_as_asked(get_key: Callable[[], jax.Array]) -> None:
    stream, update = jax.random.normal(get_key(), (2, 3, 4)), jnp.ones((2, 3, 4))
    variables = jax.jit(Gate(2.0).init)(get_key(), stream, update)
    moved = [np.abs(jax.jit(Gate(bias).apply)(variables, stream, update) - stream).max() for bias in (0.0, 2.0, 50.0)]
    assert moved[0] > moved[1] > moved[2]
    assert moved[2] < 1e-6
    config = Config(memory="gtrxl", memory_gate_bias=0.5, memory_positions=False)
    assert make_memory(config) == TransformerXL(512, 3, 4, 256, True, 0.5, False, True, jnp.dtype("bfloat16"))


@pytest.mark.slow
def test_without_positions_the_transformer_does_not_know_the_step(get_key: Callable[[], jax.Array]) -> None:
    observation, starts = jax.random.normal(get_key(), (2, 3, 5)), jnp.zeros((2, 3), bool)
    small = Config(memory="trxl", memory_size=8, hidden_size=8, memory_heads=2, memory_window=4, memory_layers=1)
    variables = None
    for positions in (False, True):
        config = dataclasses.replace(small, memory_positions=positions, dtype="float32")
        network = make_network(config, spaces.Discrete(4))
        empty, apply = network.memory.initial_state(3), jax.jit(network.apply)
        variables = variables or jax.jit(network.init)(jax.random.key(0), empty, observation, starts)
        early, late = (empty._replace(time=empty.time + step) for step in (8, 15))  # the window is full at both
        values = [apply(variables, state, observation, starts)[1].value for state in (early, late)]
        assert np.allclose(*values, atol=1e-6) is not positions


@pytest.fixture(scope="module")
def endless() -> tuple[Config, TrainingGame]:
    config = dataclasses.replace(
        SMALL, env="Endless-MortarMayhem-v0", options=("observation=symbolic",), ground_truth_head=0.1
    )
    config = dataclasses.replace(config, bootstrap_time_limits=False)  # which compiles the game once more
    return config, make_game(config)


@pytest.mark.slow
def test_a_head_learns_the_ground_truth_of_the_state_that_is_seen(endless: tuple[Config, TrainingGame]) -> None:
    config, game = endless
    setup = ppo.make_setup(config, game)
    state = ppo.make_init(setup)(ppo.seeds_of(setup), game.params)
    ground_truth = jax.vmap(game.env.ground_truth)(state.env_state)

    @jax.jit
    def run(state: ppo.TrainState) -> Any:
        after, rollout, memory, _ = ppo.collect(setup, state, game.params)
        batch = ppo.estimate(setup, after, rollout, memory)
        return rollout, ppo.minibatch_loss(setup, state.params, batch, jnp.float32(0), jnp.float32(0.1))

    rollout, (loss, metrics) = run(state)
    np.testing.assert_array_equal(rollout.ground_truth[0], ground_truth)
    parts = metrics["policy_loss"] + 0.5 * metrics["value_loss"] + 0.1 * metrics["ground_truth_loss"]
    np.testing.assert_allclose(loss, parts, rtol=1e-5)
    assert metrics["ground_truth_loss"] > 0


def test_the_ground_truth_is_found_inside_of_wrappers(endless: tuple[Config, TrainingGame]) -> None:
    config, game = endless
    wrapped = make_game(dataclasses.replace(config, last_action_reward=True))
    _, state = wrapped.env.reset(jax.random.key(0), wrapped.params)
    _, bare = game.env.reset(jax.random.key(0), game.params)
    ground_truth_fn = ground_truth_of(wrapped.env)
    assert ground_truth_fn is not None
    np.testing.assert_array_equal(ground_truth_fn(state), game.env.ground_truth(bare))


def test_a_game_without_ground_truth_is_rejected_by_name() -> None:
    config = dataclasses.replace(SMALL, options=("observation=symbolic",), ground_truth_head=0.1)
    with pytest.raises(ConfigError, match=r"--ground-truth-head: expected .*, got MortarMayhem-Grid-v0"):
        ppo.make_setup(config, make_game(config))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"memory": "none", "residual": True},
            "--residual: expected one layer of gru, lstm or your own cell, got memory 'none'",
        ),
        (
            {"memory": "trxl", "residual": True},
            "--residual: expected one layer of gru, lstm or your own cell, got memory 'trxl'",
        ),
        (
            {"memory_layers": 2, "residual": True},
            "got memory 'gru' with 2 layers",
        ),
        ({"memory": "clock", "memory_layers": 2}, "memory 'clock': expected no --memory-layers, got 2"),
    ],
)
def test_flags_that_do_not_go_together_are_rejected_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_network(dataclasses.replace(Config(), **changes), spaces.Discrete(4), FRAME)


def test_a_residual_of_two_widths_is_rejected() -> None:
    with pytest.raises(ConfigError, match="expected as many features as memory outputs, got 512 and 256"):
        shapes(Config(residual=True, memory_size=256))


def test_impala_without_frames_is_rejected() -> None:
    with pytest.raises(ConfigError, match="--encoder impala: expected an observation with a frame"):
        make_network(Config(encoder="impala"), SimpleNamespace(n=4))
