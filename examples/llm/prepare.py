"""Write a folder in Hugging Face's format from a GGUF file: `python examples/llm/prepare.py MODEL.gguf FOLDER`.

It needs `pip install torch transformers gguf`. The weights are saved in bfloat16. The chat template is ChatML, as in
the file, and it also renders tool calls and their results, which TRL's `environment_factory` needs.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

CONTROL_TOKEN = 3
TOOL_CALLS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {  # move(direction="down"), at the start of the completion
            "open_pattern": r"\A(?P<name>\w+)\(",
            "close": ")",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r'(?P<key>\w+)=(?P<value>"[^"]*"|[^,]+)',
                "value_parser": {"name": "json", "args": {"allow_non_json": True}},
            },
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""How `parse_response` of transformers finds the tool calls in a completion."""


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
    tokenizer.chat_template = (Path(__file__).parent / "chat_template.jinja").read_text()
    tokenizer.response_template = TOOL_CALLS
    return tokenizer


def main(path: Path, folder: Path) -> None:
    """Convert a file."""
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16)
    tokenizer = tokenizer_of(path)
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
