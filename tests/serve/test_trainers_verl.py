"""The agent loop of verl, with a stand-in for verl: a token is a character, and the servers repeat a reply."""

import asyncio
import types
from collections.abc import Iterator
from typing import Any

import pytest

from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from tests.serve import corridor
from tests.serve.fake_modules import imported
from tests.serve.replay import replay

RIGHT = "<right>"
ROW = {"env_config": {"name": "corridor", "seed": 3, "size": None}, "raw_prompt": [], "index": 0}


def ids_of(messages: list[dict[str, Any]]) -> list[int]:
    """Return the tokens of messages; an image is one token, 0."""
    parts = [message["content"] for message in messages]
    texts = ["".join(part.get("text", "\0") for part in text) if isinstance(text, list) else text for text in parts]
    return list(map(ord, "".join(f"[{message['role']}]{text}" for message, text in zip(messages, texts, strict=True))))


class AgentLoopBase:
    def __init__(self, servers: "Servers", response_length: int = 10_000, max_assistant_turns: int | None = None):
        limits = types.SimpleNamespace(max_assistant_turns=max_assistant_turns)
        self.rollout_config = types.SimpleNamespace(response_length=response_length, multi_turn=limits)
        self.server_manager = servers
        self.tokenizer = types.SimpleNamespace(decode=lambda ids, **_: "".join(map(chr, ids)))

    def _assert_mm_supported(self, has_multi_modal: bool) -> None:
        pass

    async def ct_build_initial_tokens(self, messages: list[dict[str, Any]], images: list[Any] | None) -> list[int]:
        assert len(images or []) == ids_of(messages).count(0)
        return ids_of(messages)

    async def ct_merge_assistant_token(
        self, ids: list[int], new: list[int], mask: list[int], log_probs: Any, assistant_logprobs: Any
    ) -> tuple[Any, list[int], list[float]]:
        merged = types.SimpleNamespace(token_ids=ids + new)
        return merged, mask + [1] * len(new), log_probs + assistant_logprobs

    async def ct_merge_context_msg(
        self, before: list[dict[str, Any]], after: list[dict[str, Any]], ids: list[int], mask: list[int], log_probs: Any
    ) -> tuple[Any, list[int], list[float]]:
        assert after[: len(before)] == before
        new = ids_of(after[len(before) :])
        return types.SimpleNamespace(token_ids=ids + new), mask + [0] * len(new), log_probs + [0.0] * len(new)


class Servers:
    """Repeats a reply, and keeps the contexts and images that it got."""

    def __init__(self, reply: str):
        self.reply = reply
        self.contexts: list[str] = []
        self.images: list[list[Any]] = []

    async def generate(self, request_id: str, prompt_ids: list[int], sampling_params: Any, image_data: Any) -> Any:
        assert request_id
        assert sampling_params == {"temperature": 1.0}
        self.contexts.append("".join(map(chr, prompt_ids)))
        self.images.append(image_data or [])
        step = len(self.contexts)
        fields = {"min_global_steps": step, "max_global_steps": step}
        ids = list(map(ord, self.reply))
        return types.SimpleNamespace(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=fields)


@pytest.fixture(scope="module")
def loop_class() -> Iterator[Any]:
    registered: dict[str, str] = {}

    def register(name: str) -> Any:
        return lambda made: registered.update({name: f"{made.__module__}.{made.__qualname__}"}) or made

    content = {"AgentLoopBase": AgentLoopBase, "AgentLoopOutput": types.SimpleNamespace, "register": register}
    with imported("verl", {"verl.experimental.agent_loop.agent_loop": content}) as module:
        assert registered == {"jaxgym": "jaxgym.serve.trainers.verl.JaxgymAgentLoop"}
        yield module.JaxgymAgentLoop


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[SessionPool]:
    corridor.register()
    made = SessionPool(capacity=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "_pools", [made])
        yield made


def run(loop: Any, row: dict[str, Any] = ROW) -> Any:
    return asyncio.run(loop.run({"temperature": 1.0}, **row))


def test_a_trajectory_has_the_texts_and_the_reward_of_a_session(loop_class: Any, pool: SessionPool) -> None:
    servers = Servers(RIGHT)
    output = run(loop_class(servers))
    (system_prompt, *texts), results = replay(pool, ROW["env_config"], [RIGHT] * 3)
    prompt = f"[system]{system_prompt}[user]{texts[0]}"
    assert servers.contexts == [
        prompt,
        f"{prompt}{RIGHT}[user]{texts[1]}",
        f"{prompt}{RIGHT}[user]{texts[1]}{RIGHT}[user]{texts[2]}",
    ]
    assert "".join(map(chr, output.prompt_ids)) == prompt
    assert "".join(map(chr, output.prompt_ids + output.response_ids)) == servers.contexts[-1] + RIGHT
    trained = [chr(token) for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
    assert "".join(trained) == RIGHT * 3
    assert [log_prob == -0.5 for log_prob in output.response_logprobs] == list(map(bool, output.response_mask))
    assert output.reward_score == results[-1].total_reward
    assert output.num_turns == 7
    assert output.multi_modal_data == {}
    assert output.extra_fields == {
        "min_global_steps": 1,
        "max_global_steps": 3,
        "turn_scores": [result.reward for result in results],
        "tool_rewards": [],
        "reward_extra_info": {"success": 1.0, "turns": 3.0, "invalid_replies": 0.0},
    }
    assert len(pool) == 0


def test_a_trajectory_stops_before_a_text_that_does_not_fit(loop_class: Any, pool: SessionPool) -> None:
    output = run(loop_class(Servers("hm"), 100))
    assert "".join(map(chr, output.response_ids)).endswith("hm")
    assert len(output.response_ids) < 100
    assert output.extra_fields["reward_extra_info"]["turns"] == output.response_mask.count(1) / len("hm")
    assert len(pool) == 0


def test_a_reply_that_is_too_long_is_cut_and_played(loop_class: Any) -> None:
    output = run(loop_class(Servers("x" * 99), 50))
    assert output.response_mask == [1] * 50
    assert len(output.response_ids) == len(output.response_logprobs) == 50
    assert output.extra_fields["reward_extra_info"]["invalid_replies"] == 1.0


def test_the_limit_of_turns_of_verl_stops_a_trajectory(loop_class: Any, pool: SessionPool) -> None:
    output = run(loop_class(Servers("<stay>"), max_assistant_turns=2))
    assert output.extra_fields["reward_extra_info"]["turns"] == 2.0
    assert len(pool) == 0


@pytest.mark.slow
def test_every_turn_brings_one_image(loop_class: Any) -> None:
    servers = Servers("nothing")
    config = {"name": "frozen_lake", "seed": 3, "observation_mode": "both", "max_turns": 3}
    output = run(loop_class(servers), {"env_config": config})
    assert [len(images) for images in servers.images] == [1, 2, 3]
    assert [image.size for image in output.multi_modal_data["images"]] == [(252, 252)] * 3
    assert output.prompt_ids.count(0) == 1
    assert output.response_ids.count(0) == 2
