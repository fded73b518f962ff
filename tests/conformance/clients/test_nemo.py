"""`NemoServer` with NeMo Gym's own agent, client and session middleware over HTTP; skipped where NeMo Gym is absent.

The model server is a stand-in with scripted responses.
"""

import asyncio
import base64
import contextlib
import gc
import http.cookiejar
import io
import json
import os
import socket
import sys
import threading
import time
import types
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

sys.path.append(os.environ.get("NEMO", ""))  # the folder that `make conformance` fills
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings(action="ignore"):
    utils: Any = pytest.importorskip("nemo_gym.server_utils")

import fastapi  # noqa: E402
import uvicorn  # noqa: E402
from nemo_gym import base_resources_server, config_types  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from responses_api_agents.gymnasium_agent import app as agents  # noqa: E402

from jaxgym.serve.trainers import nemo  # noqa: E402
from tests.conformance.clients import policies, trajectories  # noqa: E402

LAKE = {"size": 4, "max_turns": 20, "invalid_reply_penalty": 0.25}
SEEDS = (0, 1, 2, 3)
EXAMPLE = Path(__file__).parents[3] / "examples/nemo_gym/resources_servers/jaxgym/data/example.jsonl"
AGENT = {"agent_ref": {"type": "responses_api_agents", "name": "jaxgym_gymnasium_agent"}}
Responder = Callable[[list[dict[str, Any]], int], list[dict[str, Any]]]


def message(text: str) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]


def call(arguments: str, number: int) -> dict[str, Any]:
    names = {"name": "move", "call_id": f"call {number}", "id": f"id {number}", "status": "completed"}
    return {"type": "function_call", "arguments": arguments, **names}


def texts_of(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of the user's messages and of the results of tools."""
    texts = []
    for item in items:
        content = item.get("output") if item.get("type") == "function_call_output" else item.get("content")
        if item.get("role") != "assistant" and content is not None:
            parts = [{"text": content}] if isinstance(content, str) else content
            texts.append("".join(part.get("text", "") for part in parts))
    return texts


def by_text(items: list[dict[str, Any]], turn: int) -> list[dict[str, Any]]:
    return message(policies.frozen_lake([{"role": "user", "content": text} for text in texts_of(items)], turn))


def by_tool(items: list[dict[str, Any]], turn: int) -> list[dict[str, Any]]:
    reply = by_text(items, turn)[0]["content"][0]["text"]
    return [call(json.dumps({"direction": reply.split(">")[1].split("<")[0]}), turn)]


def malformed(_: Any, turn: int) -> list[dict[str, Any]]:
    return message(trajectories.MALFORMED[turn % len(trajectories.MALFORMED)])


class ModelServer:
    """Answers each rollout, by the key in its metadata, with a responder; keeps the inputs."""

    def __init__(self) -> None:
        self.app, self.respond = fastapi.FastAPI(), by_text
        self.inputs: dict[str, list[list[dict[str, Any]]]] = {}
        self.app.add_route("/v1/responses", self.responses, methods=["POST"])

    async def responses(self, request: Any) -> Any:
        body = await request.json()
        seen = self.inputs.setdefault(body["metadata"]["key"], [])
        seen.append(body["input"])
        try:
            output = self.respond(body["input"], len(seen))
        except RuntimeError:
            return fastapi.responses.JSONResponse({}, 500)
        entries = {"id": "r", "created_at": 0.0, "model": "scripted", "object": "response", "output": output}
        return fastapi.responses.JSONResponse(
            {**entries, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        )


@contextlib.contextmanager
def listening(app: Any) -> Iterator[int]:
    """Serve an app in a thread and yield its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_keep_alive=600))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


class Gym:
    """NeMo Gym with a resources server, a model server and an agent."""

    def __init__(self, env_port: int, model_port: int, model: ModelServer, client: Any) -> None:
        self.env_port, self.model_port, self.model, self.client = env_port, model_port, model, client

    def run(self, rows: Sequence[dict[str, Any]], respond: Responder, max_steps: int = 64) -> list[Any]:
        """Run all rows at the same time; return the results, or exceptions, in their order."""
        self.model.respond, self.model.inputs = respond, {}
        config = agents.GymnasiumAgentConfig(
            host="127.0.0.1",
            port=1,
            entrypoint="app.py",
            name="agent",
            max_steps=max_steps,
            resources_server=config_types.ResourcesServerRef(type="resources_servers", name="jaxgym"),
            model_server=config_types.ModelServerRef(type="responses_api_models", name="policy_model"),
        )

        async def go() -> list[Any]:
            utils.set_global_aiohttp_client(utils.GlobalAIOHTTPAsyncClientConfig())
            agent = agents.GymnasiumAgent(config=config, server_client=self.client)
            request: Any = types.SimpleNamespace(cookies={})
            try:
                return await asyncio.gather(
                    *(agent.run(request, with_key(row, key)) for key, row in enumerate(rows)), return_exceptions=True
                )
            finally:
                await utils.get_global_aiohttp_client().close()
                utils._GLOBAL_AIOHTTP_CLIENT = None

        results = asyncio.run(go())
        gc.collect()  # connections of failed requests warn, which only a running test ignores
        return results


def with_key(row: dict[str, Any], key: int) -> Any:
    params = {**row["responses_create_params"], "metadata": {"key": str(key)}}
    return agents.GymnasiumAgentRunRequest.model_validate({**row, "responses_create_params": params})


@pytest.fixture(scope="module")
def gym() -> Iterator[Gym]:
    model = ModelServer()
    with contextlib.ExitStack() as stack:
        model_port = stack.enter_context(listening(model.app))
        entries = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "jaxgym"}
        config = base_resources_server.BaseResourcesServerConfig(**entries)
        client = utils.ServerClient(
            head_server_config=config_types.BaseServerConfig(host="127.0.0.1", port=1),
            global_config_dict=OmegaConf.create({}),
        )
        app = nemo.NemoServer(config=config, server_client=client).setup_webserver()
        env_port = stack.enter_context(listening(app))
        ports = {
            "jaxgym": {"resources_servers": {"jaxgym": {**entries, "port": env_port}}},
            "policy_model": {"responses_api_models": {"policy_model": {**entries, "port": model_port}}},
        }
        client = utils.ServerClient(
            head_server_config=config_types.BaseServerConfig(host="127.0.0.1", port=1),
            global_config_dict=OmegaConf.create(ports),
        )
        yield Gym(env_port, model_port, model, client)


def replies_of(result: Any) -> list[str]:
    return [item.content[0].text for item in result.response.output if getattr(item, "role", "") == "assistant"]


def test_the_agent_gets_the_texts_and_the_rewards_of_the_pool(gym: Gym) -> None:
    rows = [nemo.row_of("frozen_lake", seed, LAKE) for seed in (*SEEDS, SEEDS[0])]
    results = gym.run(rows, by_text)
    for key, (seed, result) in enumerate(zip((*SEEDS, SEEDS[0]), results, strict=True)):
        turns = trajectories.turns_of({"name": "frozen_lake", **LAKE}, seed, replies_of(result))
        _, first, *texts = texts_of(gym.model.inputs[str(key)][-1])
        assert first.endswith(f"\n\n{turns[0][0]}")
        assert texts == [text for text, _ in turns[1:-1]]
        assert result.reward == pytest.approx(sum(reward for _, reward in turns)) == 1
        assert (result.terminated, result.truncated) == (True, False)
    assert gym.model.inputs["0"] == gym.model.inputs["4"]


def test_tools_and_images_in_the_rows_of_the_example(gym: Gym) -> None:
    rows = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    for row in rows:
        options = {name: value for name, value in row["env_config"].items() if name != "name"}
        made = nemo.row_of("frozen_lake", row["seed"], options)
        assert {**row, "responses_create_params": None} == {**made, "responses_create_params": None, **AGENT}
        tools = (each["responses_create_params"].get("tools") for each in (row, made))
        assert next(tools) == next(tools)
    pictured = [row for row in rows if "tools" in row["responses_create_params"]]
    results = gym.run([row for row in rows if row not in pictured], by_text)
    assert [result.reward for result in results] == [1.0] * len(results)
    results = gym.run(pictured, by_tool)
    assert [result.reward for result in results] == [1.0] * len(results)
    for key, result in enumerate(results):
        images: list[str] = []
        for turn, items in enumerate(gym.model.inputs[str(key)], 1):
            contents = [item.get("output") or item.get("content") or [] for item in items]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            shown = [part["image_url"] for part in parts if part["type"] == "input_image"]
            assert (len(shown), shown[:-1]) == (turn, images)
            images = shown
        assert len(images) == sum(item.type == "function_call" for item in result.response.output)
        first = Image.open(io.BytesIO(base64.b64decode(images[0].partition(",")[2])))
        assert first.size == (252, 252)


def test_malformed_replies_are_invalid_turns(gym: Gym) -> None:
    (result,) = gym.run([nemo.row_of("frozen_lake", 0, LAKE)], malformed)
    assert result.reward == -0.25 * LAKE["max_turns"]
    assert (result.terminated, result.truncated) == (False, True)


def test_a_thousand_trajectories_leave_no_session(gym: Gym) -> None:
    rows = [nemo.row_of("frozen_lake", seed, {**LAKE, "max_turns": 2}) for seed in range(250)]
    for _ in range(4):
        results = gym.run(rows, lambda *_: message("<action>up</action>"))
        assert not [result for result in results if isinstance(result, BaseException)]
        assert trajectories.open_sessions() == 0


def test_limits_of_the_agent_and_failures_of_the_model_leave_no_session(gym: Gym) -> None:
    def fail(_: Any, turn: int) -> list[dict[str, Any]]:
        if turn > 1:
            raise RuntimeError
        return message("?")

    rows = [nemo.row_of("frozen_lake", seed, LAKE) for seed in range(16)]
    assert [result.truncated for result in gym.run(rows, lambda *_: message("?"), max_steps=2)] == [True] * 16
    assert trajectories.open_sessions() == 0
    assert all(isinstance(result, Exception) for result in gym.run(rows, fail))
    assert trajectories.open_sessions() == 0


def test_a_second_reset_of_a_session_starts_again(gym: Gym) -> None:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def post(path: str, body: Any) -> Any:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{gym.env_port}{path}", json.dumps(body).encode(), headers)
        return json.loads(opener.open(request).read())

    row = nemo.row_of("frozen_lake", 0, LAKE)
    assert post("/reset", row) == post("/reset", row)
    assert trajectories.open_sessions() == 1
    assert post("/close", {}) == post("/close", {}) == {}
    assert trajectories.open_sessions() == 0
