"""Weights of a local model: a Hugging Face folder with safetensors files, or a GGUF file."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from baselines.errors import ConfigError
from baselines.language_model.config import ModelConfig
from baselines.language_model.decoder import shapes
from jaxgym import extras

Tensors = Callable[[str], np.ndarray]
"""Function from the name of a tensor to its values."""

# Names of the tensors: here, in safetensors, in GGUF.
_OUTER = {
    "embedding": ("model.embed_tokens", "token_embd"),
    "norm": ("model.norm", "output_norm"),
    "head": ("lm_head", "output"),
}
_PREFIX = ("model.layers.", "blk.")
_LAYER = {  # all but the norms are transposed
    "attention_norm": ("input_layernorm", "attn_norm"),
    "query": ("self_attn.q_proj", "attn_q"),
    "key": ("self_attn.k_proj", "attn_k"),
    "value": ("self_attn.v_proj", "attn_v"),
    "output": ("self_attn.o_proj", "attn_output"),
    "feed_norm": ("post_attention_layernorm", "ffn_norm"),
    "gate": ("mlp.gate_proj", "ffn_gate"),
    "up": ("mlp.up_proj", "ffn_up"),
    "down": ("mlp.down_proj", "ffn_down"),
}
_NORMS = ("attention_norm", "feed_norm")


def load(path: str | Path, dtype: Any = jnp.float32) -> tuple[ModelConfig, Any]:
    """Load a model of the Llama architecture.

    Args:
        path: A folder with `config.json` and safetensors files, or a GGUF file.
        dtype: Type of the parameters and of the computation: float32 or bfloat16.

    Returns:
        Config and parameters; see `decoder.initial_params`.

    Raises:
        ConfigError: if there is no model, or it has another architecture, tensors or sizes, or a package is missing.
    """
    path = Path(path)
    try:
        config, tensors, place = (_open_gguf if path.suffix == ".gguf" else _open_folder)(path)
        return config, _params(config, tensors, place, jnp.dtype(dtype))
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(extras.missing("language-model", error.name)) from error
    except KeyError as error:
        raise ConfigError(f"{path}: expected an entry {error}, got none. Load another model.") from error
    except Exception as error:  # readers of safetensors and GGUF raise errors of many classes for damaged files
        raise ConfigError(
            f"expected a folder with config.json and model.safetensors, or a .gguf file, got {path}: {error}"
        ) from error


def _params(config: ModelConfig, tensors: Tensors, place: int, dtype: Any) -> Any:
    """Return the parameters; `place` is that of the format in the names."""
    expected = shapes(config)

    def read(name: str, shape: tuple[int, ...], *, transposed: bool) -> np.ndarray:
        found = tensors(f"{name}.weight")
        found = found.T if transposed else found
        if found.shape != shape:
            raise ConfigError(f"{name}: expected shape {shape}, got {found.shape}. The file does not fit its config.")
        return found.astype(dtype)

    def stack(name: str, shape: tuple[int, ...]) -> jax.Array:
        names = [f"{_PREFIX[place]}{layer}.{_LAYER[name][place]}" for layer in range(shape[0])]
        return jnp.asarray(np.stack([read(own, shape[1:], transposed=name not in _NORMS) for own in names]))

    outer = {name: shape for name, shape in expected.items() if name != "layers"}
    params = {name: jnp.asarray(read(_OUTER[name][place], shape, transposed=False)) for name, shape in outer.items()}
    return params | {"layers": {name: stack(name, shape) for name, shape in expected["layers"].items()}}


def _open_folder(path: Path) -> tuple[ModelConfig, Tensors, int]:
    safetensors: Any = importlib.import_module("safetensors")
    config = ModelConfig.from_json(json.loads((path / "config.json").read_text()))
    index = path / "model.safetensors.index.json"
    names = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {"model.safetensors"}
    try:
        files = [safetensors.safe_open(path / name, framework="np") for name in sorted(names)]
    except safetensors.SafetensorError as error:
        raise ValueError(f"{error}") from error
    owners = {name: file for file in files for name in file.keys()}  # noqa: SIM118 — a file is no mapping
    return config, lambda name: owners[name].get_tensor(name), 0


def _open_gguf(path: Path) -> tuple[ModelConfig, Tensors, int]:
    gguf: Any = importlib.import_module("gguf")
    reader = gguf.GGUFReader(path)
    found = {tensor.name: tensor for tensor in reader.tensors}
    if "rope_freqs.weight" in found:
        raise ConfigError(f"{path}: expected plain rotary positions, got scaled ones. Load another model.")
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    config = ModelConfig.from_gguf(fields, int(found["token_embd.weight"].shape[1]), tied="output.weight" not in found)

    def read(name: str) -> np.ndarray:
        values = gguf.dequantize(found[name].data, found[name].tensor_type)
        for part, heads in (("attn_q.", config.heads), ("attn_k.", config.kv_heads)):
            if part in name:
                values = _rotary_halves(values, heads)
        return values

    return config, read, 1


def _rotary_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Undo the order of rows in GGUF, (heads * head_dim, width), where the units of a rotated pair are neighbors."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)
