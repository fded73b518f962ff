"""The stages of `examples/llm` with a tiny random model; skipped where TRL is not installed.

Scripted completions take the place of TRL's generation: the moves of the expert, then an empty reply.
"""

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += filter(None, [os.environ.get("TRL")])  # `make conformance` installs TRL beside the other clients
pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FOLDER = Path(__file__).parents[2] / "examples/llm"
TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    episodes = importlib.import_module("episodes")
    small = dataclasses.replace(episodes.GAMES["frozen_lake"], num_validation=4, num_held_out=4)
    monkeypatch.setitem(episodes.GAMES, "frozen_lake", small)
    monkeypatch.setattr(episodes, "MAX_NEW_TOKENS", 4)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the folder of a random model of one layer, whose tokens are bytes."""
    tokenizers, transformers = map(importlib.import_module, ("tokenizers", "transformers"))
    before = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of = {letter: number for number, letter in enumerate(sorted(before.alphabet()))}
    tokens = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=bytes_of, merges=[]))
    tokens.pre_tokenizer, tokens.decoder = before, tokenizers.decoders.ByteLevel()
    tokens.add_special_tokens(list(TOKENS))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token=TOKENS[0], eos_token=TOKENS[2])
    tokenizer.chat_template = (FOLDER / "chat_template.jinja").read_text()
    tokenizer.response_template = json.loads((FOLDER / "response_template.json").read_text())
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, **heads, **ends
    )
    folder = tmp_path / "tiny"
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, stage: str, *argv: Any) -> None:
    monkeypatch.setattr(sys, "argv", [stage, *map(str, argv)])
    importlib.import_module(stage).main()


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_chat_of_the_expert_is_parsed_as_its_own_moves(model: Path) -> None:
    episodes, transformers = map(importlib.import_module, ("episodes", "transformers"))
    tokenizer, game = transformers.AutoTokenizer.from_pretrained(model), episodes.GAMES["frozen_lake"]
    for form in episodes.FORMS:
        (chat,) = [row["messages"] for row in episodes.demonstrations(game, form, [3], tokenizer)]
        played = episodes.FORMS[form](game)
        again = played.start(3)
        for message in chat[len(again) :]:
            if message["role"] == "assistant" and message["content"]:
                again += [message, {"role": played.role, "content": played.step(tokenizer, message["content"])}]
        assert [*again, *played.last] == chat
        assert game.is_success(played.episode)
    assert played.step(tokenizer, "") is not None
    assert episodes.ToolEpisode(game).step(tokenizer, "") is None


def test_each_stage_writes_its_results(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("--batch", 2, "--micro-batch", 2, "--every", 1)
    run(monkeypatch, "sft", "frozen_lake", model, tmp_path / "sft", "--episodes", 2, "--steps", 1, *small)
    (validation,) = rows(tmp_path / "sft/validation.jsonl")
    assert (validation["step"], validation["episodes"]) == (1, 4)

    trl, episodes = map(importlib.import_module, ("trl", "episodes"))
    game, calls = episodes.GAMES["frozen_lake"], list[int]()

    def complete(trainer: Any, prompt_ids: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        if not calls:
            (seed,) = {env.episode.seed for env in trainer.environments}
            (chat,) = episodes.demonstrations(game, "tools", [seed], trainer.processing_class)
            replies = [message["content"] for message in chat["messages"] if message["role"] == "assistant"]
            complete.replies = iter(replies)
        calls.append(len(prompt_ids))
        reply = f"{next(complete.replies)}{TOKENS[2]}"
        return [trainer.processing_class(reply)["input_ids"] for _ in prompt_ids], None

    monkeypatch.setattr(trl.GRPOTrainer, "_generate_single_turn", complete)
    limits = ("--levels", 1, "--generations", 2, "--steps", 1, "--updates", 1)
    run(monkeypatch, "grpo", "frozen_lake", tmp_path / "sft/model", tmp_path / "grpo", *limits, *small)
    (update,) = [row for row in rows(tmp_path / "grpo/curve.jsonl") if "reward" in row]
    assert (update["reward"], update["invalid_reply_rate"], update["tools/failure_frequency"]) == (1.0, 0.0, 0.0)
    assert [row["step"] for row in rows(tmp_path / "grpo/validation.jsonl")] == [0, 1]

    run(monkeypatch, "evaluate", "frozen_lake", tmp_path / "grpo/model", tmp_path / "held_out", "--episodes", 3)
    results = json.loads((tmp_path / "held_out.json").read_text())
    assert results["sampled"]["episodes"] == results["greedy"]["episodes"] == 3
