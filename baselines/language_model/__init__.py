"""Decoder for checkpoints of the Llama architecture: `load` a local model, then `forward` inside jit."""

from baselines.language_model.checkpoint import load
from baselines.language_model.config import ModelConfig
from baselines.language_model.decoder import KeyValueCache, empty_cache, forward, initial_params, logits, reset
from baselines.language_model.tokenizer import load_tokenizer

__all__ = [
    "KeyValueCache",
    "ModelConfig",
    "empty_cache",
    "forward",
    "initial_params",
    "load",
    "load_tokenizer",
    "logits",
    "reset",
]
