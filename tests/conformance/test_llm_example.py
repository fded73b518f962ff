"""The chats of `examples/llm`, with TRL's parser of tool calls; skipped where TRL is not installed."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

sys.path += filter(None, [os.environ.get("TRL")])  # `make conformance` installs TRL beside the other clients
pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FOLDER = Path(__file__).parents[2] / "examples/llm"
TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """Return the folder of a tokenizer whose tokens are bytes."""
    tokenizers, transformers = map(importlib.import_module, ("tokenizers", "transformers"))
    before = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of = {letter: number for number, letter in enumerate(sorted(before.alphabet()))}
    tokens = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=bytes_of, merges=[]))
    tokens.pre_tokenizer, tokens.decoder = before, tokenizers.decoders.ByteLevel()
    tokens.add_special_tokens(list(TOKENS))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token=TOKENS[0], eos_token=TOKENS[2])
    tokenizer.chat_template = (FOLDER / "chat_template.jinja").read_text()
    tokenizer.response_template = json.loads((FOLDER / "response_template.json").read_text())
    folder = tmp_path / "tokenizer"
    tokenizer.save_pretrained(folder)
    return folder


def test_a_chat_of_the_expert_is_parsed_as_its_own_moves(tokenizer_folder: Path) -> None:
    episodes, transformers = map(importlib.import_module, ("episodes", "transformers"))
    tokenizer, game = transformers.AutoTokenizer.from_pretrained(tokenizer_folder), episodes.GAMES["frozen_lake"]
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


@pytest.mark.parametrize("script", ["evaluate", "sft", "grpo"])
def test_a_wrong_argument_is_a_usage_error(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(script).main
    for more, says in (((), "expected a folder with a config.json"), (("--episodes", "0"), "an integer of at least 1")):
        flags = tuple(flag.replace("--episodes", "--levels") for flag in more) if script == "grpo" else more
        monkeypatch.setattr(sys, "argv", [script, *flags, "frozen_lake", str(tmp_path), str(tmp_path / "out")])
        with pytest.raises(SystemExit):
            main()
        assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
