"""Decoder of the Llama architecture: files, and logits beside a slow reference in NumPy.

position   0  1  2  3  4  5  6       a ring of 4 slots: the token at position 6 is in slot 2,
window              [3  4  5  6]     and attends to positions 3 to 6
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from baselines.errors import ConfigError
from baselines.language_model import ModelConfig, empty_cache, forward, initial_params, load, logits, reset

CONFIG = ModelConfig(vocabulary=11, width=12, layers=2, heads=4, kv_heads=2, head_dim=6, hidden=10, tied=False)
TOKENS = np.asarray([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]], np.int32)

WINDOW = 4

_jitted = jax.jit(forward, static_argnums=0, static_argnames=("empty", "window"))


def run(params: Any, tokens: np.ndarray, cache: Any = None, is_token: Any = None, empty: str = "masked") -> Any:
    """Run the model; masks are always given, so that the tests share compiled programs."""
    mask = np.ones(tokens.shape[:2], bool) if is_token is None else is_token
    return _jitted(CONFIG, params, tokens, cache, mask, empty=empty, window=None if cache is None else WINDOW)


def ring(dtype: Any = jnp.float32, slots: int = WINDOW) -> Any:
    return empty_cache(CONFIG, len(TOKENS), slots, dtype)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(x**2) + CONFIG.epsilon) * gain


def rotated(x: np.ndarray, position: int) -> np.ndarray:
    """Rotate unit i of a head together with unit i + 3, as complex numbers."""
    half = CONFIG.head_dim // 2
    turns = position / CONFIG.rope_base ** (np.arange(half) / half)
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * turns)
    return np.concatenate([pairs.real, pairs.imag])


def reference(params: Any, embeddings: np.ndarray, window: int, zeros: bool) -> np.ndarray:
    """Return the hidden states of one row, (T, width), token by token and head by head, in float64."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    past = [[[] for _ in range(CONFIG.kv_heads)] for _ in range(CONFIG.layers)]
    outputs = []
    for position, x in enumerate(embeddings.astype(np.float64)):
        for layer in range(CONFIG.layers):
            own = {name: leaf[layer] for name, leaf in params["layers"].items()}
            inner = norm(x, own["attention_norm"])
            query, key, value = ((inner @ own[name]).reshape(-1, CONFIG.head_dim) for name in ("query", "key", "value"))
            for head in range(CONFIG.kv_heads):
                past[layer][head].append((rotated(key[head], position), value[head]))
            read = []
            for head in range(CONFIG.heads):
                seen = past[layer][head // 2][-window:]
                if zeros:
                    seen = seen + [(np.zeros(CONFIG.head_dim),) * 2] * (window - len(seen))
                keys, values = (np.stack(column) for column in zip(*seen, strict=True))
                read.append(softmax(keys @ rotated(query[head], position) / CONFIG.head_dim**0.5) @ values)
            x = x + np.concatenate(read) @ own["output"]
            inner = norm(x, own["feed_norm"])
            gate = inner @ own["gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (inner @ own["up"])) @ own["down"]
        outputs.append(norm(x, params["norm"]))
    return np.stack(outputs)


@pytest.fixture(scope="module")
def params() -> Any:
    """Return parameters that are large enough for every part to matter."""
    small = initial_params(CONFIG, jax.random.key(0))
    noise = jax.random.uniform(jax.random.key(1), (CONFIG.width,), minval=0.5, maxval=2.0)
    made = jax.tree.map(lambda leaf: leaf * 20.0, small)
    made["norm"] = noise
    made["layers"] |= {name: noise[None] * jnp.asarray([[1.0], [0.5]]) for name in ("attention_norm", "feed_norm")}
    return made


def expected_of(params: Any, window: int = 99, zeros: bool = False) -> np.ndarray:
    return np.stack([reference(params, np.asarray(params["embedding"])[row], window, zeros) for row in TOKENS])


def stepped(params: Any, sizes: tuple[int, ...], empty: str, slots: int) -> np.ndarray:
    """Return the hidden states of the tokens, given to a ring in parts of some sizes."""
    cache, parts, start = ring(slots=slots), [], 0
    for size in sizes:
        hidden, cache = run(params, TOKENS[:, start : start + size], cache, empty=empty)
        parts.append(hidden)
        start += size
    return np.concatenate(parts, axis=1)


def test_logits_of_all_tokens_at_once_are_those_of_the_reference(params: Any) -> None:
    hidden, cache = run(params, TOKENS)
    assert cache is None
    np.testing.assert_allclose(hidden, expected_of(params), rtol=1e-4, atol=1e-4)
    head = np.asarray(params["head"])
    np.testing.assert_allclose(logits(CONFIG, params, hidden), expected_of(params) @ head.T, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("empty", ["masked", "zeros"])
@pytest.mark.parametrize(
    ("sizes", "slots"),
    [((1,) * 7, WINDOW), ((2, 5), WINDOW), ((2, 2, 3), WINDOW + 1), ((3, 3, 1), WINDOW + 2)],
    ids=str,
)
def test_a_ring_attends_to_the_newest_tokens(params: Any, sizes: tuple[int, ...], slots: int, empty: str) -> None:
    expected = expected_of(params, WINDOW, empty == "zeros")
    np.testing.assert_allclose(stepped(params, sizes, empty, slots), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(expected, expected_of(params), atol=1e-2)


def test_padding_takes_no_position_and_is_never_attended_to(params: Any) -> None:
    is_token = np.asarray([[1, 1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 0, 0, 1]], bool)
    hidden, _ = run(params, TOKENS, None, is_token)
    cache = ring()
    first, cache = run(params, TOKENS[:, :2], cache, is_token[:, :2])
    second, cache = run(params, TOKENS[:, 2:], cache, is_token[:, 2:])
    cached = np.concatenate([first, second], axis=1)
    assert cache.position.tolist() == [5, 3]
    for found, window in ((hidden, 99), (cached, WINDOW)):
        for row in range(2):
            own = reference(params, np.asarray(params["embedding"])[TOKENS[row, is_token[row]]], window, False)
            np.testing.assert_allclose(found[row, is_token[row]], own, rtol=1e-4, atol=1e-4)


def test_a_single_token_of_padding_leaves_the_cache_as_it_is(params: Any) -> None:
    cache = run(params, TOKENS[:, :5], ring())[1]
    after = run(params, TOKENS[:, 5:6], cache, np.zeros((2, 1), bool))[1]
    chex.assert_trees_all_equal(after, cache)


def test_a_reset_row_starts_anew_and_the_others_go_on(params: Any) -> None:
    cache = run(params, TOKENS[:, :5], ring())[1]
    cache = reset(cache, jnp.asarray([True, False]))
    hidden, cache = run(params, TOKENS[:, 5:], cache)
    assert cache.position.tolist() == [2, 7]
    embedding = np.asarray(params["embedding"])
    np.testing.assert_allclose(hidden[0], reference(params, embedding[TOKENS[0, 5:]], 99, False), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(hidden[1], expected_of(params, WINDOW)[1, 5:], rtol=1e-4, atol=1e-4)


def test_embeddings_are_inputs_as_tokens_are_and_vmap_adds_an_axis(params: Any) -> None:
    embeddings = params["embedding"][TOKENS]
    expected, _ = run(params, TOKENS)
    one = jax.vmap(lambda row: forward(CONFIG, params, row[None])[0][0])
    np.testing.assert_allclose(one(embeddings), expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_is_near_float32(params: Any) -> None:
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    hidden, cache = run(half, TOKENS[:, :5], ring(jnp.bfloat16))
    last, _ = run(half, TOKENS[:, 5:], cache)
    assert hidden.dtype == cache.keys[0].dtype == jnp.bfloat16
    assert logits(CONFIG, half, hidden).dtype == jnp.float32
    found = np.concatenate([hidden, last], axis=1).astype(np.float32)
    expected = expected_of(params, WINDOW)
    assert np.abs(found - expected).mean() < 0.05 * np.abs(expected).mean()


HUB = {
    "model_type": "llama",
    "vocab_size": 11,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 10,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 2048,
}
NAMES = {
    "attention_norm": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "feed_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def tensors_of(params: Any) -> dict[str, np.ndarray]:
    """Return the tensors of a checkpoint of transformers."""
    outer = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "head"}
    tensors = {f"{name}.weight": np.asarray(params[own]) for name, own in outer.items() if own in params}
    for own, name in NAMES.items():
        for layer, leaf in enumerate(np.asarray(params["layers"][own])):
            tensors[f"model.layers.{layer}.{name}.weight"] = np.ascontiguousarray(leaf.T)
    return tensors


@pytest.fixture
def folder(params: Any, tmp_path: Path) -> Path:
    numpy = pytest.importorskip("safetensors.numpy")
    (tmp_path / "config.json").write_text(json.dumps(HUB))
    numpy.save_file(tensors_of(params), tmp_path / "model.safetensors")
    return tmp_path


def test_a_folder_of_safetensors_is_loaded(folder: Path, params: Any) -> None:
    config, found = load(folder)
    assert config == CONFIG
    chex.assert_trees_all_equal(found, params)


def test_a_folder_of_several_files_in_bfloat16_is_loaded(folder: Path, params: Any) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    tensors = {name: leaf.astype(ml_dtypes.bfloat16) for name, leaf in tensors_of(params).items()}
    (folder / "model.safetensors").unlink()
    owners = {name: f"model-{place % 2}.safetensors" for place, name in enumerate(tensors)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": owners}))
    for file in set(owners.values()):
        numpy.save_file({name: leaf for name, leaf in tensors.items() if owners[name] == file}, folder / file)
    _, found = load(folder, jnp.bfloat16)
    chex.assert_trees_all_equal(found, jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params))


def write_gguf(path: Path, params: Any, **more: object) -> None:
    """Write a GGUF file as llama.cpp's converter does: rows of queries and keys in the order of neighboring pairs."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(12)
    writer.add_block_count(2)
    writer.add_feed_forward_length(10)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(6)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    for add, value in more.items():
        getattr(writer, add)(value)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
    names |= {"self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "lm_head": "output"}
    names |= {"post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
    names |= {"mlp.down_proj": "ffn_down", "model.layers": "blk", "model.embed_tokens": "token_embd"}
    names |= {"model.norm": "output_norm"}
    for name, tensor in tensors_of(params).items():
        if "q_proj" in name or "k_proj" in name:
            places = [unit for pair in range(3) for unit in (pair, pair + 3)]  # of a head of 6 units
            tensor = np.concatenate([head[places] for head in np.split(tensor, len(tensor) // 6)])
        for long, short in names.items():
            name = name.replace(long, short)
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_loaded(params: Any, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", params)
    config, found = load(tmp_path / "tiny.gguf")
    assert config.epsilon == pytest.approx(1e-5)
    chex.assert_trees_all_equal(found, params)


def test_a_gguf_file_without_an_output_layer_is_tied(params: Any, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tied.gguf", {name: leaf for name, leaf in params.items() if name != "head"})
    config, found = load(tmp_path / "tied.gguf")
    assert config.tied
    assert "head" not in found


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "gpt2"}, "expected a model of type 'llama', got 'gpt2'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rope_type: expected 'default', got 'llama3'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type: expected 'default', got 'yarn'"),
        ({"attention_bias": True}, "attention_bias: expected False, got True"),
        ({"hidden_act": "gelu"}, "hidden_act: expected 'silu', got 'gelu'"),
        ({"num_key_value_heads": 3}, "heads: expected a multiple of kv_heads 3, got 4"),
    ],
)
def test_another_architecture_is_rejected(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelConfig.from_json(HUB | changed)


def test_both_spellings_of_the_rotary_base_are_read() -> None:
    newer = {name: value for name, value in HUB.items() if name != "rope_theta"}
    newer["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e5}
    assert ModelConfig.from_json(newer).rope_base == 5e5
    assert ModelConfig.from_json(HUB).rope_base == 1e4


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "expected a folder with config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "expected a folder with config.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 9), "expected a folder with config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "expected a folder with config.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "expected a folder with config.json"),
        (
            lambda folder: (folder / "config.json").write_text(
                '{"model_type": "llama", "num_attention_heads": "x", "hidden_size": 8, "vocab_size": 8, '
                '"num_hidden_layers": 1, "intermediate_size": 8}'
            ),
            "expected a folder with config.json",
        ),
        (
            lambda folder: (folder / "config.json").write_text(json.dumps(HUB | {"vocab_size": 12})),
            r"model.embed_tokens: expected shape \(12, 12\), got \(11, 12\)",
        ),
        (
            lambda folder: (folder / "config.json").write_text(json.dumps(HUB | {"num_hidden_layers": 3})),
            "expected an entry 'model.layers.2.",
        ),
    ],
)
def test_a_folder_that_cannot_be_read_is_rejected(folder: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(folder)
    with pytest.raises(ConfigError, match=message):
        load(folder)


def test_a_file_that_is_no_gguf_is_rejected(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    with pytest.raises(ConfigError, match=r"expected a folder .* or a \.gguf file"):
        load(tmp_path / "missing.gguf")
    (tmp_path / "other.gguf").write_bytes(b"no gguf" * 9)
    with pytest.raises(ConfigError, match=r"expected a folder .* or a \.gguf file"):
        load(tmp_path / "other.gguf")
