"""The encoder reads views of symbols and missions, of these environments and of a user's own."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.config import Config, EncoderName
from baselines.encoders import Encoder, MissionEncoder, SymbolEmbedding, Symbols, symbols_of
from baselines.errors import ConfigError
from baselines.networks import make_network
from jaxgym.envs.babyai.mission import MISSION_LENGTH, WORDS
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete

SYMBOLS: Symbols = (("direction", 4), ("image", 11), ("mission", len(WORDS) + 1))
CLOSED, LOCKED = 1, 2


def tokens(mission: str) -> jax.Array:
    """Return the tokens of a mission, uint8 (1, 72)."""
    words = [WORDS.index(word) + 1 for word in mission.replace(",", " ,").split()]
    return jnp.asarray([words + [0] * (MISSION_LENGTH - len(words))], jnp.uint8)


def observation(mission: str = "open the red door", state: int = CLOSED, direction: int = 0) -> dict[str, jax.Array]:
    """Return one observation of a red door ahead, leaves (1, ...)."""
    image = jnp.zeros((1, 7, 7, 3), jnp.uint8).at[0, 3, 5].set(jnp.asarray([4, 0, state], jnp.uint8))
    return {"direction": jnp.asarray([direction], jnp.int32), "image": image, "mission": tokens(mission)}


def parameters(module: Any, seen: Any) -> Any:
    """Return random parameters; the initializers of the module take seconds to compile."""
    draws = np.random.default_rng(0)

    def draw(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        scale = np.prod(leaf.shape[:-1]) ** -0.5 if leaf.ndim > 1 else 0.1
        return jnp.asarray(draws.normal(0, scale, leaf.shape), jnp.float32)

    return jax.tree.map(draw, jax.eval_shape(module.init, jax.random.key(0), seen))


@pytest.fixture(scope="module")
def encode() -> Callable[[dict[str, jax.Array]], np.ndarray]:
    """Return an encoder with random weights, without the embedding of all parts."""
    encoder = Encoder(64, embed=False, symbols=SYMBOLS)
    params, apply = parameters(encoder, observation()), jax.jit(encoder.apply)
    return lambda seen: np.asarray(apply(params, seen))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (observation("put the red ball next to the blue box"), observation("put the blue box next to the red ball")),
        (observation("put the red ball next to the blue box"), observation("put the blue ball next to the red box")),
        (observation("open a door, then go to a key"), observation("go to a key, then open a door")),
        (observation("open a door after you go to a key"), observation("go to a key after you open a door")),
        (observation(state=CLOSED), observation(state=LOCKED)),
        (observation(direction=0), observation(direction=3)),
    ],
    ids=["objects", "colors", "then", "after", "state", "direction"],
)
def test_different_observations_have_different_features(encode: Any, first: Any, second: Any) -> None:
    difference, size = np.abs(encode(first) - encode(second)).max(), np.abs(encode(first)).max()
    assert difference > 0.02 * size


def test_padding_does_not_change_the_features_of_a_mission() -> None:
    encoder, padded = MissionEncoder(len(WORDS) + 1, 8, 16), tokens("put the red ball next to the blue box")
    length = int((padded > 0).sum())
    params = parameters(encoder, padded)["params"]
    short = {**params, "position": params["position"][:length]}
    expected = encoder.apply({"params": short}, padded[:, :length])
    np.testing.assert_allclose(encoder.apply({"params": params}, padded), expected, atol=1e-6)
    assert np.abs(expected).max() > 0


def test_a_mission_without_words_has_no_features() -> None:
    encoder, empty = MissionEncoder(5, 8, 16), jnp.zeros((2, 6), jnp.uint8)
    assert (np.asarray(encoder.apply(parameters(encoder, empty), empty)) == 0).all()


def test_an_embedding_is_the_sum_of_a_vector_for_each_channel() -> None:
    symbols = jnp.asarray([[4, 0, 2], [1, 0, 0]], jnp.uint8)
    variables = parameters(SymbolEmbedding(11, 6), symbols)
    table = np.asarray(variables["params"]["table"])
    expected = [sum(table[channel, symbol] for channel, symbol in enumerate(cell)) for cell in np.asarray(symbols)]
    np.testing.assert_allclose(SymbolEmbedding(11, 6).apply(variables, symbols), expected, rtol=1e-5)


def test_the_mission_scales_what_the_view_shows(encode: Any) -> None:
    # A sum of a feature of the view and a feature of the mission would have the same difference for both missions.
    differences = [
        encode(observation(mission, CLOSED)) - encode(observation(mission, LOCKED))
        for mission in ("open the red door", "go to the red door")
    ]
    assert np.abs(differences[0] - differences[1]).max() > 0.02 * np.abs(differences[0]).max()


def test_gradients_reach_all_parameters() -> None:
    draws = np.random.default_rng(0)
    seen: dict[str, jax.Array] = {
        "direction": jnp.asarray(draws.integers(0, 4, 16), jnp.int32),
        "image": jnp.asarray(draws.integers(0, 11, (16, 7, 7, 3)), jnp.uint8),
        "mission": jnp.asarray(draws.integers(1, 34, (16, MISSION_LENGTH)), jnp.uint8),
    }
    encoder = Encoder(64, symbols=SYMBOLS)
    params = parameters(encoder, seen)
    gradients = jax.jit(jax.grad(lambda params: jnp.square(encoder.apply(params, seen)).sum()))(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.abs(leaf).max() > 0, jax.tree_util.keystr(path)


@pytest.mark.parametrize("kind", ["nature", "impala"])
def test_a_mission_modulates_a_frame_too(kind: EncoderName) -> None:
    seen = observation() | {"image": jnp.zeros((1, 56, 56, 3), jnp.uint8)}
    symbols = tuple(pair for pair in SYMBOLS if pair[0] != "image")
    for given, blocks in ((seen, 2), ({"image": seen["image"]}, 0)):
        encoder = Encoder(64, kind, symbols=symbols if blocks else ())
        names = jax.eval_shape(encoder.init, jax.random.key(0), given)["params"]
        assert len([name for name in names if "film" in name]) == blocks


def test_symbols_are_found_by_bounds_dtype_and_rank_in_any_environment() -> None:
    grid = Box(low=0, high=10, shape=(5, 9, 2), dtype=jnp.uint8)
    space = Dict(
        {
            "frame": Box(low=0, high=255, shape=(36, 36, 3), dtype=jnp.uint8),
            "seen": grid,
            "mission": Box(low=0, high=300, shape=(6,), dtype=jnp.int32),
            "heading": Discrete(4),
            "vector": Box(low=0.0, high=1.0, shape=(6,), dtype=jnp.float32),
            "signed": Box(low=-1, high=1, shape=(5, 9, 2), dtype=jnp.int32),
            "counters": MultiDiscrete((2, 3)),
            "time": Box(low=0, high=2**31 - 1, shape=(), dtype=jnp.int32),
            "maps": Box(low=0.0, high=1.0, shape=(5, 9, 2), dtype=jnp.float32),
        }
    )
    assert dict(symbols_of(space)) == {"heading": 4, "mission": 301, "seen": 11}
    assert symbols_of(grid) == (("observation", 11),)
    assert symbols_of(Box(low=0, high=255, shape=(84, 84, 3), dtype=jnp.uint8)) == ()


@pytest.mark.parametrize("memory", ["gru", "mingru", "none"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_network_of_symbols_has_heads_in_float32(memory: str, dtype: Any) -> None:
    network = make_network(
        Config(dtype=dtype, memory=memory, hidden_size=32, memory_size=16), SimpleNamespace(n=7), symbols=SYMBOLS
    )
    starts = jnp.zeros((2, 3), bool)
    seen = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (2, 3, *leaf.shape[1:])), observation())

    def outputs() -> Any:
        state = network.memory.initial_state(3)
        return network.apply(network.init(jax.random.key(0), state, seen, starts), state, seen, starts)[1]

    output = jax.eval_shape(outputs)
    assert (output.logits.shape, output.value.shape) == ((2, 3, 7), (2, 3))
    assert (output.logits.dtype, output.value.dtype) == (jnp.float32, jnp.float32)


@pytest.mark.parametrize("kind", ["nature", "impala"])
@pytest.mark.parametrize(("name", "shape"), [("board", (7, 7, 3)), ("words", (72,))])
def test_bytes_without_bounds_are_rejected_by_their_name(kind: EncoderName, name: str, shape: tuple[int, ...]) -> None:
    seen = {name: jnp.zeros((2, *shape), jnp.uint8), "direction": jnp.zeros(2, jnp.int32)}
    message = (
        rf"^expected frames of at least .* px, got {name} of shape {re.escape(str(shape))}\. For a grid of symbols"
    )
    with pytest.raises(ConfigError, match=message):
        jax.eval_shape(Encoder(8, kind).init, jax.random.key(0), seen)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reconstruction": 0.1}, "--reconstruction: expected an observation with a frame, got none"),
        ({"encoder": "impala"}, "--encoder impala: expected an observation with a frame, got none"),
        ({"memory": "stack4"}, "memory 'stack4': expected an observation with a frame, got none"),
    ],
)
def test_settings_of_frames_are_rejected_for_symbols(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        make_network(Config(**settings), SimpleNamespace(n=7), symbols=SYMBOLS)
