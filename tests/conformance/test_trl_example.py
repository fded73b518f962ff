"""TRL's trainer runs `examples/trl_frozen_lake.py` with a tiny random model; skipped where TRL is not installed.

Scripted completions take the place of generation: a tool call that reaches the goal of seed 0, then a text.
"""

import importlib
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += filter(None, [os.environ.get("TRL")])  # `make conformance` installs TRL beside the other clients
hub = pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
CALL = '<tool_call>\n{"name": "move", "arguments": {"direction": "down"}}\n</tool_call><|im_end|>'


def tiny() -> tuple[Any, Any]:
    """Return a random model of one layer, and a tokenizer of bytes with the chat template of Qwen3."""
    tokenizers, transformers = map(importlib.import_module, ("tokenizers", "transformers"))
    before = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of = {letter: number for number, letter in enumerate(sorted(before.alphabet()))}
    tokens = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=bytes_of, merges=[]))
    tokens.pre_tokenizer, tokens.decoder = before, tokenizers.decoders.ByteLevel()
    tokens.add_special_tokens(list(TOKENS))
    tokens.add_tokens(list(TAGS))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token=TOKENS[0], eos_token=TOKENS[2])
    tokenizer.chat_template = (Path(hub.__file__).parent / "chat_templates/qwen3.jinja").read_text()
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, **heads, **ends
    )
    return transformers.Qwen3ForCausalLM(config), tokenizer


def test_the_trainer_plays_an_episode_with_the_tool_and_gets_its_reward(tmp_path: Path) -> None:
    make_trainer = runpy.run_path(str(ROOT / "examples/trl_frozen_lake.py"))["make_trainer"]
    model, tokenizer = tiny()
    small = {"num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 400, "max_steps": 1}
    local = {"use_vllm": False, "use_cpu": True, "bf16": False, "report_to": [], "save_strategy": "no"}
    settings = small | local | {"output_dir": str(tmp_path), "logging_steps": 1}
    trainer = make_trainer(model, tokenizer, num_levels=1, **settings)
    prompts: list[str] = []

    def completions(prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        completion = "Done.<|im_end|>" if prompts else CALL
        prompts.append(tokenizer.decode(prompt_ids[0]))
        return [tokenizer(completion)["input_ids"] for _ in prompt_ids], None

    trainer._generate_single_turn = completions
    trainer.train()
    assert "Act by calling exactly one tool in each turn. Tools: move(direction: " in prompts[0]
    assert "<action>" not in prompts[0]
    assert "<tool_response>" in prompts[1]
    (step,) = (row for row in trainer.state.log_history if "reward" in row)
    assert (step["reward"], step["tools/call_frequency"], step["tools/failure_frequency"]) == (1.0, 1.0, 0.0)
