"""Tokenizer of a local model, by `transformers`."""

import importlib
from pathlib import Path
from typing import Any

from baselines.errors import ConfigError
from jaxgym import extras


def load_tokenizer(path: str | Path) -> Any:
    """Return the tokenizer of a model with `transformers`; see `baselines.language_model.load` for the path.

    Raises:
        ConfigError: if a package or the tokenizer is missing.
    """
    path = Path(path)
    try:
        maker: Any = importlib.import_module("transformers").AutoTokenizer
    except ModuleNotFoundError as error:
        raise ConfigError(extras.missing("language-model", error.name)) from error
    try:
        if path.suffix == ".gguf":
            return maker.from_pretrained(str(path.parent), gguf_file=path.name)
        return maker.from_pretrained(str(path), local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected a tokenizer, got none ({error}). Copy the files of the model.") from error
