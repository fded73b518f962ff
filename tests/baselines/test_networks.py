"""The network computes the published layers, for every kind of observation and action."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import spaces

from baselines.config import Config
from baselines.encoders import BlockConv, space_to_depth
from baselines.errors import ConfigError
from baselines.networks import BlockDeconv, action_sizes, depth_to_space, make_network, reconstruction_loss


@pytest.mark.parametrize(
    ("size", "channels", "kernel", "stride"), [(84, 3, 8, 4), (20, 32, 4, 2), (9, 64, 3, 1), (22, 3, 8, 4)]
)
def test_a_convolution_over_blocks_equals_the_plain_one(
    get_key: Callable[[], jax.Array], size: int, channels: int, kernel: int, stride: int
) -> None:
    image = jax.random.randint(get_key(), (2, size, size, channels), 0, 256).astype(jnp.uint8)
    layer = BlockConv(6, kernel, stride)
    variables = layer.init(get_key(), image)
    plain = jax.lax.conv_general_dilated(
        image.astype(jnp.float32) / 255,
        variables["params"]["kernel"],
        (stride, stride),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    np.testing.assert_allclose(layer.apply(variables, image), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "channels", "kernel", "stride"), [(20, 32, 8, 4), (9, 8, 4, 2), (7, 4, 3, 1)])
def test_a_deconvolution_in_blocks_is_the_transpose_of_the_convolution(
    get_key: Callable[[], jax.Array], size: int, channels: int, kernel: int, stride: int
) -> None:
    image = jax.random.normal(get_key(), (2, size, size, channels))
    layer = BlockDeconv(3, kernel, stride)
    variables = layer.init(get_key(), image)
    blocks = kernel // stride
    weights = variables["params"]["kernel"].reshape(channels, blocks, blocks, stride, stride, 3)
    weights = np.asarray(weights.transpose(0, 1, 3, 2, 4, 5)).reshape(channels, kernel, kernel, 3)
    edge = (size - 1) * stride + kernel
    plain = np.zeros((2, edge, edge, 3), np.float32)
    for row in range(size):
        for column in range(size):
            added = np.einsum("nc,cijf->nijf", np.asarray(image[:, row, column]), weights)
            top, left = row * stride, column * stride
            plain[:, top : top + kernel, left : left + kernel] += added
    np.testing.assert_allclose(depth_to_space(layer.apply(variables, image), stride), plain, rtol=1e-4, atol=1e-4)


def test_pixels_go_to_blocks_and_back(get_key: Callable[[], jax.Array]) -> None:
    image = jax.random.normal(get_key(), (2, 12, 8, 3))
    assert (depth_to_space(space_to_depth(image, 4), 4) == image).all()


def test_the_reconstruction_loss_is_the_mean_cross_entropy_of_bytes(get_key: Callable[[], jax.Array]) -> None:
    frame = jax.random.randint(get_key(), (2, 3, 8, 8, 3), 0, 256).astype(jnp.uint8)
    logits = jax.random.normal(get_key(), (6, 8, 8, 3))
    share, given = np.asarray(frame, np.float64).reshape(6, 8, 8, 3) / 255, 1 / (1 + np.exp(-np.float64(logits)))
    expected = -(share * np.log(given) + (1 - share) * np.log(1 - given)).mean()
    np.testing.assert_allclose(reconstruction_loss(space_to_depth(logits, 4), frame), expected, rtol=1e-5)


def test_reconstruction_without_a_frame_is_rejected() -> None:
    network = make_network(Config(memory_size=8, hidden_size=8), spaces.Discrete(4))
    state = network.memory.initial_state(3)
    with pytest.raises(ConfigError, match="--reconstruction: expected an observation with a frame, got none"):
        network.init(jax.random.key(0), state, jnp.zeros((2, 3, 7)), jnp.zeros((2, 3), bool), reconstruct=1)


OBSERVATIONS = {
    "frame": jnp.zeros((2, 3, 84, 84, 3), jnp.uint8),
    "vector": jnp.zeros((2, 3, 7)),
    "both": {"visual_observation": jnp.zeros((2, 3, 84, 84, 3), jnp.uint8), "vector_observation": jnp.zeros((2, 3, 7))},
}
SPACES = {"one branch": spaces.Discrete(4), "two branches": SimpleNamespace(nvec=(3, 2))}


@pytest.mark.parametrize("observation", OBSERVATIONS.values(), ids=OBSERVATIONS.keys())
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_heads_fit_the_spaces(observation: Any, space: Any, dtype: Any) -> None:
    network = make_network(Config(dtype=dtype), space)
    starts = jnp.zeros((2, 3), bool)

    def outputs() -> Any:
        state = network.memory.initial_state(3)
        variables = network.init(jax.random.key(0), state, observation, starts)
        return variables, network.apply(variables, state, observation, starts)

    variables, (state, output) = jax.eval_shape(outputs)
    assert output.logits.shape == (2, 3, sum(action_sizes(space)))
    assert output.value.shape == (2, 3)
    assert state.shape == (3, 512)
    dtypes = {leaf.dtype for leaf in jax.tree.leaves((variables, state, output))}
    assert dtypes == {jnp.dtype("float32")}


def test_the_published_agent_has_its_number_of_parameters() -> None:
    network = make_network(Config(), SimpleNamespace(nvec=(3, 3)))
    starts = jnp.zeros((2, 3), bool)
    state = network.memory.initial_state(3)
    variables = jax.eval_shape(network.init, jax.random.key(0), state, OBSERVATIONS["frame"], starts)
    number = sum(leaf.size for leaf in jax.tree.leaves(variables))
    assert round(number / 1e6, 2) == 4.05


def test_a_space_without_a_policy_head_is_rejected() -> None:
    with pytest.raises(ConfigError, match="expected a Discrete or MultiDiscrete action space"):
        action_sizes(spaces.Box(0.0, 1.0, (2,)))


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("observation", [OBSERVATIONS["frame"], OBSERVATIONS["both"]], ids=["frame", "both"])
def test_the_reconstruction_has_the_size_of_the_frame_for_as_many_environments_as_asked(
    observation: Any, num_envs: int
) -> None:
    network = make_network(Config(), spaces.Discrete(4))

    def reconstruction() -> Any:
        state, starts = network.memory.initial_state(3), jnp.zeros((2, 3), bool)
        variables = network.init(jax.random.key(0), state, observation, starts, reconstruct=1)
        return network.apply(variables, state, observation, starts, reconstruct=num_envs)[1].reconstruction

    assert jax.eval_shape(reconstruction).shape == (2 * num_envs, 21, 21, 48)


@pytest.mark.parametrize(("observation", "features"), [("frame", 3136), ("both", 3136 + 128), ("vector", 512)])
def test_without_an_embedding_the_memory_gets_the_features(observation: str, features: int) -> None:
    network = make_network(Config(embed=False), spaces.Discrete(4))
    state, starts = network.memory.initial_state(3), jnp.zeros((2, 3), bool)
    variables = jax.eval_shape(network.init, jax.random.key(0), state, OBSERVATIONS[observation], starts)
    assert variables["params"]["memory"]["kernel_in"].shape == (features, 3 * 512)
