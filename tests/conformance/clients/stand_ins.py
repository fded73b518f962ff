"""Stand-ins for a model in ms-swift: a tokenizer of characters, and an engine that calls a policy."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from swift.infer_engine import protocol
from swift.rollout import run_multi_turn
from swift.rollout.agent_loop import invoke_async_hook

from tests.conformance.clients.policies import Policy

ONCE = protocol.RequestConfig(n=1)


class CharTokenizer:
    """One token per character."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Answers every request with the reply of a policy of its own, as text and as tokens."""

    def __init__(self, make_policy: Callable[[], Policy], delay: float = 0.0) -> None:
        self.make_policy, self.delay = make_policy, delay
        self.template, self.engine, self.tokenizer = None, None, CharTokenizer()
        self.policies: dict[str, tuple[Policy, int]] = {}
        self.calls = 0

    def answer(self, request: Any) -> Any:
        policy, turn = self.policies.get(request.uuid) or (self.make_policy(), 0)
        self.policies[request.uuid] = policy, turn + 1
        reply = policy([{**message, "content": text_of(message["content"])} for message in request.messages], turn + 1)
        self.calls += 1
        message = protocol.ChatMessage(role="assistant", content=reply)
        tokens = self.tokenizer.encode(reply)
        choice = protocol.ChatCompletionResponseChoice(0, message, finish_reason="stop", token_ids=tokens)
        return protocol.ChatCompletionResponse(model="scripted", choices=[choice], usage=protocol.UsageInfo(0, 0, 0))

    async def infer_async(self, request: Any, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(self.delay)
        return self.answer(request)

    async def _batch_infer_stream(self, tasks: list[Any], *_: Any, **__: Any) -> list[Any]:
        return await asyncio.gather(*tasks)


def text_of(content: Any) -> Any:
    """Return the text of a message, which the scheduler keeps as tokens between turns."""
    return "".join(map(chr, content)) if isinstance(content, list) else content


def request_of(env_config: dict[str, Any] | None) -> Any:
    """Return the request of a dataset row; its prompt is a placeholder."""
    row = {} if env_config is None else {"env_config": env_config}
    messages = [{"role": "user", "content": "<placeholder>"}]
    return protocol.RolloutInferRequest(messages=messages, data_dict=row, uuid=uuid.uuid4().hex)


def play_colocated(scheduler: Any, requests: list[Any], max_turns: int) -> list[Any]:
    """Play as a trainer does in colocate mode: every call of the hooks runs on an event loop of its own."""
    invoke_async_hook(scheduler.on_trajectory_start(requests))
    answer = scheduler.infer_engine.answer

    def generate(requests: list[Any], _: Any) -> list[Any]:
        return [protocol.RolloutOutput(response=answer(request)) for request in requests]

    return run_multi_turn(requests, generate(requests, ONCE), scheduler, generate, ONCE, max_turns)


def checked_infos(output: Any) -> dict[str, Any]:
    """Return what a trajectory gives to the rewards, after checks of its form."""
    infos = output.rollout_infos
    assert {"total_reward", "step_rewards", "gym_done", "num_turns"} <= set(infos)
    roles = [message["role"] for message in output.messages if message["role"] != "system"]
    assert roles == [("user", "assistant")[turn % 2] for turn in range(len(roles))]
    assert all("<placeholder>" not in text_of(message["content"]) for message in output.messages)
    output.model_dump_json()
    return infos
