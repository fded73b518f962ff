"""Write a folder in Hugging Face's format from a GGUF file: `python examples/llm/prepare.py MODEL.gguf FOLDER`.

It needs `pip install torch transformers gguf`. The weights are saved in bfloat16. The chat template is ChatML, as in
the file, and it also renders tool calls and their results, which TRL's `environment_factory` needs.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

CONTROL_TOKEN = 3
FOLDER = Path(__file__).parent


def tokenizer_of(path: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a file: bytes and merges as in GPT-2, each digit a token of its own."""
    fields = GGUFReader(path).fields

    def entry(name: str) -> Any:
        return fields[f"tokenizer.ggml.{name}"].contents()

    names = entry("tokens")
    merges = [tuple(pair.split(" ")) for pair in entry("merges")]
    tokens = Tokenizer(models.BPE(vocab={name: number for number, name in enumerate(names)}, merges=merges))
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokens.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_of])
    tokens.decoder = decoders.ByteLevel()
    tokens.add_special_tokens(
        [name for name, kind in zip(names, entry("token_type"), strict=True) if kind == CONTROL_TOKEN]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        bos_token=names[entry("bos_token_id")],
        eos_token=names[entry("eos_token_id")],
        pad_token="<|endoftext|>",
        model_max_length=fields["llama.context_length"].contents(),
        padding_side="left",
    )
    tokenizer.chat_template = (FOLDER / "chat_template.jinja").read_text()
    # transformers finds the calls in a completion, such as move(direction="down"), by this template.
    tokenizer.response_template = json.loads((FOLDER / "response_template.json").read_text())
    return tokenizer


def main(path: Path, folder: Path) -> None:
    """Convert a file."""
    read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16)
    # transformers 5.17 does not save a model that it has read from a GGUF file.
    entries = {name: value for name, value in read.config.to_dict().items() if name != "quantization_config"}
    model = AutoModelForCausalLM.from_config(type(read.config)(**entries), dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    tokenizer = tokenizer_of(path)
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
