"""Sizes of a model of the Llama architecture, from `config.json` or from the metadata of a GGUF file."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from baselines.errors import ConfigError

_OPTIONS = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "rope_type": "default"}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes and constants of a model; hashable, so it can be a static argument of jit.

    Attributes:
        vocabulary: Number of tokens.
        width: Number of units of the residual stream.
        layers: Number of layers.
        heads: Number of attention heads of a layer.
        kv_heads: Number of heads of keys and values, each shared by `heads / kv_heads` heads.
        head_dim: Number of units of a head.
        hidden: Number of hidden units of the feed-forward layer.
        epsilon: Constant in the root of RMSNorm.
        rope_base: Base of the wavelengths of rotary positions.
        context: Number of positions that the model was trained for.
        tied: Whether the embedding is also the output layer.

    Raises:
        ConfigError: if the sizes do not fit together.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    epsilon: float = 1e-5
    rope_base: float = 10_000.0
    context: int = 2048
    tied: bool = True

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ConfigError(f"heads: expected a multiple of kv_heads {self.kv_heads}, got {self.heads}")
        if self.head_dim % 2:
            raise ConfigError(f"head_dim: expected an even number, got {self.head_dim}")

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the config that a `config.json` of `transformers` describes.

        Raises:
            ConfigError: if the model has another architecture or an unsupported option.
        """
        if found.get("model_type") != "llama":
            raise ConfigError(f"expected a model of type 'llama', got {found.get('model_type')!r}. Load another model.")
        rope = found.get("rope_parameters") or found.get("rope_scaling") or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        for name, value in {**found, "rope_type": kind}.items():
            if name in _OPTIONS and value != _OPTIONS[name]:
                raise ConfigError(f"{name}: expected {_OPTIONS[name]!r}, got {value!r}. Load another model.")
        heads, width = found["num_attention_heads"], found["hidden_size"]
        return cls(
            vocabulary=found["vocab_size"],
            width=width,
            layers=found["num_hidden_layers"],
            heads=heads,
            kv_heads=found.get("num_key_value_heads") or heads,
            head_dim=found.get("head_dim") or width // heads,
            hidden=found["intermediate_size"],
            epsilon=found.get("rms_norm_eps", 1e-6),
            rope_base=float(rope.get("rope_theta") or found.get("rope_theta", 10_000.0)),
            context=found.get("max_position_embeddings", 2048),
            tied=found.get("tie_word_embeddings", False),
        )

    @classmethod
    def from_gguf(cls, found: Mapping[str, Any], vocabulary: int, *, tied: bool) -> Self:
        """Return the config that the metadata of a GGUF file describes.

        Raises:
            ConfigError: if the model has another architecture or an unsupported option.
        """
        if found.get("general.architecture") != "llama":
            got = found.get("general.architecture")
            raise ConfigError(f"expected a model of architecture 'llama', got {got!r}. Load another model.")
        own = {name.removeprefix("llama."): value for name, value in found.items() if name.startswith("llama.")}
        scaling = own.get("rope.scaling.type", "none")
        if scaling != "none" or own.get("expert_count"):
            raise ConfigError(f"expected no experts and rope.scaling.type 'none', got {scaling!r}. Load another model.")
        heads, width = own["attention.head_count"], own["embedding_length"]
        return cls(
            vocabulary=vocabulary,
            width=width,
            layers=own["block_count"],
            heads=heads,
            kv_heads=own.get("attention.head_count_kv", heads),
            head_dim=own.get("attention.key_length", width // heads),
            hidden=own["feed_forward_length"],
            epsilon=float(own["attention.layer_norm_rms_epsilon"]),
            rope_base=float(own.get("rope.freq_base", 10_000.0)),
            context=own["context_length"],
            tied=tied,
        )
