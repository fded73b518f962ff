"""AReaL's own workflow and endpoint run our agent on the rows of `jaxgym dataset`; skipped where AReaL is absent.

The endpoint is served on this machine, with a stand-in for the inference engine.
"""

import asyncio
import dataclasses
import importlib.util
import json
import pickle
import socket
import threading
import time
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typing_extensions

from jaxgym.serve import episodes
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.trainers.areal import GameWorkflow
from jaxgym.serve.trainers.dataset import dataset
from tests.conformance.clients import tiny_chat
from tests.conformance.clients.policies import frozen_lake
from tests.serve.replay import replay

pytest.importorskip("lark")  # one of AReaL's dependencies; `areal` itself needs the replacement below
if importlib.util.find_spec("areal") is None:
    pytest.skip("AReaL is not installed", allow_module_level=True)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

OPTIONS = {"size": 4, "max_turns": 12}
TRAJECTORIES, AT_ONCE, KEY = 1000, 50, "admin"


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionPool]:
    made = SessionPool(capacity=512)
    monkeypatch.setattr(episodes, "_pools", [made])
    yield made
    assert len(made) == 0


class Endpoint:
    """AReaL's endpoint of completions, with a scripted engine.

    Attributes:
        url: The address.
        images: The images of each request.
    """

    def __init__(self, folder: Path) -> None:
        from areal.experimental.openai.proxy import proxy_rollout_server

        self.tokens = tiny_chat.tokenizer()
        self.tokens.save_pretrained(folder)
        self.policy: Callable[[Any, int], str] = frozen_lake
        self.images: list[list[str]] = []
        settings = {"tool_call_parser": "qwen", "reasoning_parser": "qwen3", "engine_max_tokens": None}
        session = {"chat_template_type": "hf", "session_timeout_seconds": 3600, "admin_api_key": KEY}
        agent = types.SimpleNamespace(**settings, **session)
        self.config = types.SimpleNamespace(tokenizer_path=str(folder), lora_name="", agent=agent)
        self.code = proxy_rollout_server
        self.code._engine, self.code._server_host = self, "127.0.0.1"
        self.code._setup_openai_client()
        self.url = ""

    def get_version(self) -> int:
        return 0

    async def agenerate(self, request: Any) -> Any:
        from areal.api.io_struct import ModelResponse

        self.images.append(list(request.image_data or ()))
        chat = tiny_chat.chat_of(self.tokens, request.input_ids)
        said = self.policy(chat, len(tiny_chat.replies_of(chat)) + 1)
        ids = [*self.tokens.encode(said, add_special_tokens=False), self.tokens.eos_token_id]
        return ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=ids,
            output_logprobs=[-0.5] * len(ids),
            output_versions=[0] * len(ids),
            stop_reason="stop",
            tokenizer=request.tokenizer,
        )


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    import uvicorn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "TypedDict", typing_extensions.TypedDict)  # pydantic asks for it before Python 3.12
        patch.setenv("OPENAI_API_KEY", "none")
        made = Endpoint(tmp_path_factory.mktemp("tokenizer"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = uvicorn.Config(made.code.app, port=port, log_level="critical", timeout_keep_alive=600)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    made.url = f"http://127.0.0.1:{port}"
    yield made
    server.should_exit = True
    thread.join()


def play(
    endpoint: Endpoint, configs: list[dict[str, Any]], policy: Callable[[Any, int], str] = frozen_lake
) -> list[Any]:
    """Return the completions of each trajectory or its exception, played as AReaL's executor does."""
    from areal.experimental.openai.proxy.workflow import OpenAIProxyWorkflow
    from areal.infra import workflow_context

    endpoint.policy, endpoint.images = policy, []
    agent = pickle.loads(pickle.dumps(GameWorkflow({"temperature": 1.0})))
    flow = OpenAIProxyWorkflow(mode="inline", agent=agent, proxy_addr=endpoint.url, admin_api_key=KEY)

    async def one(place: int, gate: asyncio.Semaphore) -> list[Any]:
        async with gate:
            workflow_context.set(workflow_context.WorkflowContext(task_id=place))
            return list((await flow.arun_episode(None, {"env_config": configs[place]})).values())

    async def run() -> list[Any]:
        gate = asyncio.Semaphore(64)
        tasks = [asyncio.create_task(one(place, gate)) for place in range(len(configs))]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


def configs_of(count: int, **options: Any) -> list[dict[str, Any]]:
    rows = dataset("areal", ["frozen_lake"], count, {**OPTIONS, **options})
    return [json.loads(line)["env_config"] for line in rows.splitlines()]


def check(endpoint: Endpoint, pool: SessionPool, configs: list[Any], played: list[Any], mark: str = "") -> list[float]:
    """Compare texts and rewards of trajectories with those of the pool; return the rewards that AReaL reads."""
    totals = []
    for config, completions in zip(configs, played, strict=True):
        assert isinstance(completions, list), completions
        tensors = completions[-1].to_tensor_dict()
        chat = tiny_chat.chat_of(endpoint.tokens, tensors["input_ids"][0].tolist())
        replies = tiny_chat.replies_of(chat)
        texts, results = replay(pool, config, replies)
        seen = [message["content"] for message in chat if message["role"] != "assistant"]
        assert seen == [texts[0], *(mark + text for text in texts[1:])][: len(replies) + 1]
        assert len(completions) == len(replies)
        assert completions[-1].reward == pytest.approx(sum(result.reward for result in results))
        assert float(tensors["rewards"].sum()) == completions[-1].reward
        totals.append(completions[-1].reward)
    return totals


def test_a_player_wins_and_the_texts_and_rewards_are_those_of_the_pool(endpoint: Endpoint, pool: SessionPool) -> None:
    configs = [config for config in configs_of(8) for _ in range(4)]
    assert check(endpoint, pool, configs, play(endpoint, configs)) == [1.0] * 32


def test_malformed_replies_are_invalid_turns(endpoint: Endpoint, pool: SessionPool) -> None:
    configs = configs_of(2, invalid_reply_penalty=0.125)
    # AReaL can't record a completion without text.
    played = play(endpoint, configs, lambda chat, turn: tiny_chat.bad_replies(chat, turn) or "hm")
    assert check(endpoint, pool, configs, played) == [-0.125 * 12] * 2


def test_a_thousand_trajectories_leave_no_session(endpoint: Endpoint, pool: SessionPool) -> None:
    for _ in range(TRAJECTORIES // AT_ONCE):
        played = play(endpoint, configs_of(AT_ONCE, max_turns=1))
        assert all(isinstance(completions, list) for completions in played)
        assert len(pool) == 0


def test_a_failing_engine_rejects_the_trajectory_and_leaves_no_session(endpoint: Endpoint, pool: SessionPool) -> None:
    def fail(_: Any, turn: int) -> str:
        if turn > 1:
            raise RuntimeError("the engine is down")
        return "no action"

    assert all(isinstance(each, BaseException) for each in play(endpoint, configs_of(2), fail))
    assert len(pool) == 0


def test_every_turn_brings_one_image(endpoint: Endpoint, pool: SessionPool) -> None:
    configs = configs_of(1, observation_mode="both")
    assert check(endpoint, pool, configs, play(endpoint, configs), "<image>") == [1.0]
    assert [len(images) for images in endpoint.images] == list(range(1, len(endpoint.images) + 1))


def test_the_configuration_of_areal_has_the_fields_of_the_example(endpoint: Endpoint) -> None:
    from areal.api import cli_args

    del endpoint  # its setup makes `areal` importable
    fields = {field.name: field.default_factory for field in dataclasses.fields(cli_args.GRPOConfig)}
    assert {"temperature", "max_new_tokens"} <= set(vars(fields["gconfig"]()))
    assert "path" in vars(fields["train_dataset"]())
