"""GRPO of a pretrained model: a tiny Llama with a tokenizer of bytes on lakes of 2 × 2.

<s>SYSTEM | <e><u>P_\\n_G<e><a> | <answer>Up</answer> | <e><u>... | a prefix, then a piece and a reply per turn
"""

import dataclasses
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import runs
from baselines.errors import ConfigError
from baselines.grpo import chat as chats_of_model
from baselines.grpo import command, pretrained
from baselines.grpo.pretrained import Chats, advantages_of
from baselines.grpo.rollout import ChatEpisodes
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD
from baselines.language_model import ModelConfig, initial_params, load_tokenizer
from jaxgym.serve.pool import SessionPool

MARKS = ("<pad>", "<e>", "<s>", "<u>", "<a>")
END = 1
CONFIG = ModelConfig(vocabulary=256 + len(MARKS), width=8, layers=1, heads=2, kv_heads=1, head_dim=4, hidden=8)
TINY = Settings(
    scale="pretrained",
    model="tiny",
    options=("dialect=ragen", "size=2"),
    replies=("2", "1", "3", "4"),
    max_turns=3,
    train_levels=5,
    held_out_levels=4,
    new_openings=False,
    reply_tokens=3,
    warm_updates=40,
    warm_batch=12,
    groups=2,
    group_size=2,
    minibatch=9,
    learning_rate=2e-2,
    updates=2,
    minutes=0,
    eval_updates=1,
    eval_levels=4,
    checkpoint_updates=1,
)


class Bytes:
    """Stand-in for a tokenizer of transformers: bytes and five special tokens."""

    def __call__(self, texts: list[str], *, add_special_tokens: bool) -> dict[str, list[list[int]]]:
        assert not add_special_tokens
        return {"input_ids": [self.encode(text) for text in texts]}

    def encode(self, text: str) -> list[int]:
        tokens = list[int]()
        for part in re.split(f"({'|'.join(MARKS)})", text):
            tokens += [MARKS.index(part)] if part in MARKS else [len(MARKS) + byte for byte in part.encode()]
        return tokens

    def decode(self, tokens: list[int]) -> str:
        parts = (MARKS[t].encode() if t < len(MARKS) else bytes([t - len(MARKS)]) for t in tokens)
        return b"".join(parts).decode(errors="replace")

    def apply_chat_template(self, chat: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        heads = {"system": "<s>", "user": "<u>", "assistant": "<a>"}
        texts = [f"{heads[message['role']]}{message['content']}<e>" for message in chat]
        return "".join(texts) + "<a>" * add_generation_prompt


@pytest.fixture(scope="module")
def loaded() -> Any:
    """Return the objects of a run and parameters that write almost anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained, "load", lambda _: (CONFIG, initial_params(CONFIG, jax.random.key(0))))
        patch.setattr(pretrained, "load_tokenizer", lambda _: Bytes())
        chats, params = Chats.of(TINY)
    return chats, jax.tree.map(lambda leaf: leaf * 5.0, params)


@pytest.fixture(scope="module")
def played(loaded: Any) -> ChatEpisodes:
    """Return four episodes of a model."""
    chats, params = loaded
    return chats.play(params, np.asarray([0, 0, 1, 2]), jax.random.key(3))


def test_a_chat_has_the_tokens_of_its_template(loaded: Any) -> None:
    chats, _ = loaded
    env, options = TINY.env, TINY.session_options
    pool = SessionPool(capacity=1)
    system_prompt = pool.prepare(env, options)
    opened = pool.open_many(env, [0], options)[0]
    chat = [{"role": "system", "content": system_prompt}, {"role": "user", "content": opened.text}]
    expected = Bytes().encode(Bytes().apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    state = chats.env.initial_state(jax.tree.map(lambda leaf: leaf[0], chats.lakes.levels), chats.env_params)
    row, column = state.player_cell.tolist()
    piece = chats.lakes.pieces[0, 2 * row + column]
    assert [*chats.chat.prefix, *piece[piece != PAD].tolist()] == expected


def test_episodes_are_those_of_a_session_that_gets_the_same_replies(loaded: Any) -> None:
    chats, _ = loaded
    indices = np.arange(4)
    episodes = chats.play(None, indices, jax.random.key(1))
    pool = SessionPool(capacity=1)
    for index in indices:
        opened = pool.open_many(TINY.env, [int(index)], TINY.session_options)[0]
        text, rewards, is_over = opened.text, [], False
        for turn in range(TINY.max_turns):
            assert episodes.is_turn[index, turn] == (not is_over)
            if is_over:
                continue
            piece = episodes.pieces[index, turn]
            assert Bytes().decode(piece[piece != PAD].tolist()) == f"<e><u>{text}<e><a>"
            reply = Bytes().decode(episodes.replies[index, turn].tolist()).partition("<e>")[0]
            result = pool.step([opened.id], [reply])[0]
            text, is_over = result.text, result.terminated
            rewards.append(result.reward)
        pool.close([opened.id])
        assert episodes.rewards[index, : len(rewards)].tolist() == rewards
        assert episodes.is_solved[index] == (sum(rewards) == 1)
    assert not episodes.is_invalid.any()
    assert len(set(episodes.is_solved.tolist())) == 2  # both kinds of episodes are compared


def test_sampled_log_probabilities_are_those_of_the_whole_chat(loaded: Any, played: ChatEpisodes) -> None:
    chats, params = loaded
    pieces, replies = (column.reshape(-1, column.shape[-1]) for column in (played.pieces, played.replies))
    every = np.asarray(chats.chat.log_probabilities(params, pieces, replies))
    expected = np.take_along_axis(every, replies[..., None], axis=-1)[..., 0]
    own = replies != PAD
    assert own[:, -1].any()  # a reply without an end
    sampled = played.log_probabilities.reshape(replies.shape)
    np.testing.assert_allclose(sampled[own], expected[own], rtol=1e-3, atol=1e-3)


def test_an_invalid_reply_takes_a_turn_and_changes_nothing(played: ChatEpisodes) -> None:
    later = played.is_invalid[:, :-1] & played.is_turn[:, 1:]
    assert later.any()
    assert (played.places[:, :-1] == played.places[:, 1:])[later].all()
    assert (played.rewards == 0)[played.is_invalid].all()
    found = pretrained.tally(played)
    assert found["invalid_replies"] == played.is_invalid.sum() / played.is_turn.sum()


def test_turns_are_compared_with_those_of_their_group_in_the_same_cell() -> None:
    rewards = np.asarray([[0, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]], np.float32)
    is_turn = np.asarray([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 0, 0]], bool)
    places = np.asarray([[0, 1, 9], [0, 2, 3], [0, 0, 0], [0, 0, 0]])
    episodes = ChatEpisodes(None, None, None, rewards, places, is_turn, None, None)
    settings = dataclasses.replace(TINY, gamma=0.5)
    advantages, returns = advantages_of(settings, episodes)
    assert returns.tolist() == [0.5, 0.0, 1.0, 1.0]
    # In cell 0, the first group has returns 0.5 and 0: 0.25 from their mean, which is also the root mean square.
    assert advantages.tolist() == [[1, 0, 0], [-1, 0, 0], [0, 0, 0], [0, 0, 0]]
    advantages, _ = advantages_of(dataclasses.replace(settings, credit="episode"), episodes)
    assert advantages.tolist() == [[1, 1, 0], [-1, -1, -1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.slow
def test_a_run_learns_and_can_be_resumed(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chats, params = loaded

    def go(name: str, *, resume: bool = False, **changed: Any) -> list[dict[str, Any]]:
        settings = dataclasses.replace(TINY, **changed)
        copy = jax.tree.map(jnp.copy, params)
        monkeypatch.setattr(Chats, "of", lambda _: (dataclasses.replace(chats, settings=settings), copy))
        line = pretrained.train(settings, runs.RunFlags(name, tmp_path, resume))
        assert line.startswith("held-out success ")
        rows = [json.loads(row) for row in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]

    whole = go("whole")
    go("parts", updates=1)
    assert go("parts", resume=True) == whole
    start = json.loads((tmp_path / "whole/start.json").read_text())
    assert start["warm_start"]["invalid_replies"] < start["base"]["invalid_replies"]
    assert "<s>You are on a frozen lake" in (tmp_path / "whole/transcript_after.txt").read_text()


def test_a_model_sets_the_scale() -> None:
    assert command.parse(["--model", "somewhere"]).settings.scale == "pretrained"
    assert command.parse(["--model", "somewhere", "--scale", "cpu"]).settings.model == "somewhere"


def test_another_game_is_rejected() -> None:
    settings = dataclasses.replace(TINY, options=())
    with pytest.raises(ConfigError, match="--model: expected --env FrozenLake-v0 with --options dialect=ragen"):
        chats_of_model.prepare(settings, CONFIG, Bytes(), np.arange(3))


def test_a_long_reply_and_a_small_minibatch_are_rejected() -> None:
    settings = dataclasses.replace(TINY, replies=("<answer>Up</answer>",))
    with pytest.raises(ConfigError, match="--reply-tokens: expected at least 20, got 3"):
        chats_of_model.prepare(settings, CONFIG, Bytes(), np.arange(3))
    with pytest.raises(ConfigError, match="--minibatch: expected at least --max-turns 3, got 2"):
        Chats.of(dataclasses.replace(TINY, minibatch=2))


def test_a_template_that_writes_the_turns_differently_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Bytes.apply_chat_template

    def counted(self: Bytes, chat: list[dict[str, str]], **flags: bool) -> str:
        return plain(
            self,
            [{**message, "content": f"{place}{message['content']}"} for place, message in enumerate(chat)],
            **flags,
        )

    monkeypatch.setattr(Bytes, "apply_chat_template", counted)
    with pytest.raises(ConfigError, match="expected a chat template that writes all turns alike"):
        chats_of_model.template_of(Bytes(), "Rules.")


def test_the_tokenizer_of_a_folder_is_that_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def from_pretrained(path: str, **options: Any) -> str:
        calls.append((path, options))
        if "missing" in path:
            raise OSError("no tokenizer")
        return "made"

    stand_in = types.SimpleNamespace(AutoTokenizer=types.SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    assert load_tokenizer("models/folder") == "made"
    assert calls == [("models/folder", {"local_files_only": True})]
    with pytest.raises(ConfigError, match=r"expected a tokenizer, got none \(no tokenizer\)"):
        load_tokenizer("missing/folder")


def test_a_tokenizer_without_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"missing packages: .*transformers"):
        load_tokenizer(tmp_path)
