"""Tokenizer of a local model for `transformers`, which needs no PyTorch for it."""

import importlib
from pathlib import Path
from typing import Any

from baselines.errors import ConfigError
from jaxgym import extras

_CONTROL = 3  # type of the special tokens in GGUF
_KIND = ("gpt2", "smollm")


def load_tokenizer(path: str | Path) -> Any:
    """Return the tokenizer of a model; see `baselines.language_model.load` for the path.

    In a GGUF file, the tokenizer must be that of SmolLM: `gpt2` with the pre-tokenizer `smollm`.

    Raises:
        ConfigError: if a package or the tokenizer is missing, or a GGUF file has another tokenizer.
    """
    path = Path(path)
    try:
        return (_from_gguf if path.suffix == ".gguf" else _from_folder)(path)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(extras.missing("language-model", error.name)) from error
    except KeyError as error:
        raise ConfigError(f"{path}: expected an entry {error}, got none. Load another model.") from error
    except (ImportError, OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected a tokenizer, got none ({error}). Copy the files of the model.") from error


def _from_folder(path: Path) -> Any:
    transformers: Any = importlib.import_module("transformers")
    return transformers.AutoTokenizer.from_pretrained(str(path), local_files_only=True)


def _from_gguf(path: Path) -> Any:
    gguf, tokenizers, transformers = map(importlib.import_module, ("gguf", "tokenizers", "transformers"))
    fields = gguf.GGUFReader(path).fields

    def entry(name: str) -> Any:
        return fields[f"tokenizer.ggml.{name}"].contents()

    kind = entry("model"), entry("pre")
    if kind != _KIND:
        raise ConfigError(f"{path}: expected a tokenizer {_KIND}, got {kind}. Use the folder of the model.")
    names, merges = entry("tokens"), [tuple(pair.split(" ")) for pair in entry("merges")]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=merges)
    )
    before = tokenizers.pre_tokenizers
    made.pre_tokenizer = before.Sequence(
        [before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([name for name, kind in zip(names, entry("token_type"), strict=True) if kind == _CONTROL])
    template = fields.get("tokenizer.chat_template")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=names[entry("bos_token_id")],
        eos_token=names[entry("eos_token_id")],
        model_max_length=fields["llama.context_length"].contents(),
        chat_template=template and template.contents(),
    )
