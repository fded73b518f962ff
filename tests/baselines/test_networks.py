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
from baselines.errors import ConfigError
from baselines.networks import BlockConv, action_sizes, make_network


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


def test_a_space_without_a_policy_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither Discrete nor MultiDiscrete"):
        action_sizes(spaces.Box(0.0, 1.0, (2,)))
