"""The server and the clients of OpenEnv, over sockets of this machine.

client --websockets, httpx, our wrapper--> uvicorn in a thread --> the pool; the game is the tests' corridor
"""

import asyncio
import contextlib
import dataclasses
import json
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve import command
from jaxgym.serve.openenv import server as openenv_server
from jaxgym.serve.openenv.client import LostError, OpenEnvError, OpenEnvScheduler, OpenEnvWrapper
from jaxgym.serve.openenv.rpc import Methods, tools_of
from jaxgym.serve.openenv.server import OpenEnvApp
from jaxgym.serve.openenv.sessions import SPARE, ClientSession, ClientSessions, ResetOptions
from jaxgym.serve.pool.pool import MOST_SESSIONS
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import OpenEnv, bind
from tests.ids import short_names
from tests.serve import corridor
from tests.serve.running import running

ROOT = Path(__file__).parents[2]
ROOM = 4
WIN = ["<right>"] * 8


@pytest.fixture(scope="module")
def hosted() -> http.Hosted:
    corridor.register()
    serving = OpenEnv(env="corridor", max_sessions=ROOM)
    return http.host(serving, {"rewards": "environment"}, spare=SPARE)


@contextlib.contextmanager
def served(hosted: http.Hosted, **settings: Any) -> Iterator[str]:
    """Serve the corridor; yield the address without its scheme."""
    serving = OpenEnv(env="corridor", port=0, max_sessions=ROOM, **settings)
    app = OpenEnvApp(serving, hosted)
    with running(app, serving) as (port, _):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def address(hosted: http.Hosted) -> Iterator[str]:
    with served(hosted) as where:
        yield where


@contextlib.contextmanager
def joined(address: str, query: str = "") -> Iterator[ClientConnection]:
    with connect(f"ws://{address}/ws{query}", proxy=None) as client:
        yield client


def ask(client: ClientConnection, frame: Any) -> dict[str, Any]:
    client.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
    return json.loads(client.recv(10))


def reset(client: ClientConnection, **data: Any) -> dict[str, Any]:
    return ask(client, {"type": "reset", "data": data})["data"]


def step(client: ClientConnection, reply: str) -> dict[str, Any]:
    return ask(client, {"type": "step", "data": {"message": reply}})["data"]


def until(holds: Any) -> bool:
    """Return whether something becomes true within a few seconds."""
    for _ in range(200):
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_an_episode_is_played_over_a_socket(address: str) -> None:
    with joined(address) as client:
        opened = reset(client, seed=3, episode_id="mine", of_another_server=1)
        observation = opened["observation"]
        assert opened["reward"] is None
        assert not opened["done"]
        assert observation["prompt"].startswith("Reach the goal")
        assert observation["messages"] == [{"sender_id": -1, "content": observation["text"], "category": "MESSAGE"}]
        played = [step(client, reply) for reply in WIN]
        assert played[-1]["done"]
        assert sum(turn["reward"] for turn in played) == 1.0
        assert played[-1]["reward"] == 0.0
        assert played[-1]["observation"]["info"]["is_solved"]
        state = ask(client, {"type": "state"})["data"]
        assert (state["episode_id"], state["step_count"], state["seed"]) == ("mine", len(WIN), 3)
        assert not reset(client)["done"]
        assert ask(client, {"type": "state"})["data"]["episode_id"] not in ("mine", None)
        client.send('{"type": "close"}')
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(10)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1000


def test_a_seed_gives_the_same_episode_and_none_another_each_time(address: str) -> None:
    with joined(address) as one, joined(address) as other:
        assert reset(one, seed=5) == reset(other, split="train", index=5)
        assert step(one, "<right>") == step(other, "<right>")
        assert len({reset(one)["observation"]["info"]["seed"] for _ in range(3)}) == 3
        assert reset(one, split="test", index=1)["observation"]["info"]["seed"] == 2**31 + 1


def test_a_seed_beside_a_split_is_one_of_it(address: str) -> None:
    with joined(address) as client:
        for given in ({"split": "test", "index": 1}, {"split": "test"}, {"split": "test", "index": None}):
            assert reset(client, seed=2**31 + 1, **given)["observation"]["info"]["seed"] == 2**31 + 1
        for seed, given, wanted in (
            (3, {"split": "test"}, "from 2147483648 to 4294967295"),
            (2**31, {"split": "train"}, "from 0 to 2147483647"),
            (3, {"split": "train", "index": 4}, "4"),
        ):
            received = ask(client, {"type": "reset", "data": {"seed": seed, **given}})["data"]
            assert received["code"] == "VALIDATION_ERROR"
            assert f"seed: Input should be {wanted} to match this split" in received["message"]
            assert httpx.post(f"http://{address}/reset", json={"seed": seed, **given}).status_code == 422
        assert (
            ask(client, {"type": "reset", "data": {"seed": "3", "split": "train"}})["data"]["code"] == received["code"]
        )
        assert ask(client, {"type": "state"})["data"]["seed"] == 2**31 + 1


def test_a_step_before_the_reset_starts_an_episode(address: str) -> None:
    with joined(address) as client:
        assert ask(client, {"type": "state"})["data"]["episode_id"] is None
        assert step(client, "<stay>")["observation"]["info"]["turn"] == 1
        assert ask(client, {"type": "state"})["data"]["episode_id"]


def test_a_bad_reply_is_an_observation(address: str) -> None:
    with joined(address) as client:
        reset(client, seed=3)
        turn = step(client, "jump \ud800")
        assert turn["observation"]["info"]["invalid_reply"] == "Say left, stay or right."
        assert not turn["done"]


BAD = (
    ("{oops", "INVALID_JSON"),
    ("1" * 5000, "INVALID_JSON"),
    ("[" * 100_000, "INVALID_JSON"),
    ('{"type": "step", "data": {"message": NaN}}', "INVALID_JSON"),
    ('{"type": "reset", "data": {"seed": 1e999}}', "INVALID_JSON"),
    ('{"type": "step", "data": {"message": "<stay>", "message": "<right>"}}', "INVALID_JSON"),
    ('{"type": "state", "type": "step", "data": {"message": "<stay>"}}', "INVALID_JSON"),
    ('{"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "id": 2}}', "INVALID_JSON"),
    ({}, "UNKNOWN_TYPE"),
    ({"type": ["step"]}, "UNKNOWN_TYPE"),
    ({"type": "step"}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"message": 3}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"message": "x", "more": 1}}, "VALIDATION_ERROR"),
    ({"type": "step", "data": {"message": "x", "metadata": 1}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": None}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {}, "more": 1}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"seed": "abc"}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"seed": 2**32}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"split": "mine", "index": 0}}, "VALIDATION_ERROR"),
    ({"type": "reset", "data": {"episode_id": "x" * 256}}, "VALIDATION_ERROR"),
    ({"type": "state", "data": {}}, "VALIDATION_ERROR"),
    ({"type": "mcp", "data": 1}, "VALIDATION_ERROR"),
)


def test_a_malformed_frame_is_told_and_changes_nothing(address: str) -> None:
    with joined(address) as client:
        reset(client, seed=3)
        answers = [ask(client, frame) for frame, _ in BAD]
        assert [answer["data"].get("code") for answer in answers] == [code for _, code in BAD]
        assert all(answer["data"]["errors"] for answer in answers if answer["data"]["code"] == "VALIDATION_ERROR")
        assert step(client, "<stay>")["observation"]["info"]["turn"] == 1


@pytest.mark.parametrize("frame", ["[1]", b'{"type": "reset"}'])
def test_a_frame_that_is_no_object_ends_the_session(address: str, frame: Any) -> None:
    with joined(address) as client:
        assert ask(client, frame)["data"]["code"] == "SESSION_ERROR"
        with pytest.raises(ConnectionClosed):
            client.recv(10)


def test_a_full_server_says_so_and_a_cut_connection_makes_room(address: str) -> None:
    def is_let_in() -> bool:
        with joined(address) as client:
            return ask(client, {"type": "reset"})["type"] == "observation"

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(joined(address)) for _ in range(ROOM)]
        for client in clients:
            reset(client)
        with joined(address) as late:
            received = json.loads(late.recv(10))["data"]
            assert (received["code"], received["active_sessions"], received["max_sessions"]) == (
                "CAPACITY_REACHED",
                ROOM,
                ROOM,
            )
        assert httpx.post(f"http://{address}/reset").status_code == 200
        clients[0].send(json.dumps({"type": "step", "data": {"message": "<right>"}}))
        clients[0].socket.shutdown(socket.SHUT_RDWR)
        assert until(is_let_in)


def test_an_idle_session_is_closed_and_its_socket_too(hosted: http.Hosted) -> None:
    with served(hosted, idle_seconds=0.3) as where, joined(where) as client:
        reset(client)
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(10)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1001


def test_a_client_that_does_not_read_that_it_ends_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openenv_server, "_PATIENCE", 0.05)

    async def stuck(_: Any) -> None:
        await asyncio.Event().wait()

    async def hang_up() -> bool:
        talk = asyncio.create_task(stuck(None))
        await openenv_server.hanging_up(stuck, talk)()
        await asyncio.wait([talk])
        return talk.cancelled()

    assert asyncio.run(hang_up())


def test_the_routes_answer(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}") as client:
        assert client.get("/health").json() == {"status": "healthy"}
        assert client.get("/metadata").json()["name"] == "corridor"
        assert client.get("/openapi.json").json()["info"]["version"]
        assert client.get("/schema").json()["action"]["required"] == ["message"]
        assert client.get("/state").json()["step_count"] == 0
        assert client.post("/reset").json()["observation"]["prompt"]
        assert client.post("/reset", json={"seed": 3}).json()["observation"]["info"]["seed"] == 3
        assert client.post("/step", json={"action": {"message": "<stay>"}}).json()["reward"] == 0.0
        bad = [client.post("/step", json={"action": {"nope": 1}}), client.post("/reset", json={"seed": -1})]
        bad.append(client.post("/reset", content="{oops"))
        bad.append(client.post("/step", content='{"action": {"message": "<stay>", "message": "<right>"}}'))
        assert [answer.status_code for answer in bad] == [422] * 4
        assert ["body", "action", "nope"] in [fault["loc"] for fault in bad[0].json()["detail"]]
        assert client.get("/nowhere").status_code == 404
    with pytest.raises(InvalidStatus, match="404"):
        connect(f"ws://{address}/nowhere", proxy=None)


def test_the_tasks_are_seeds(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}") as client:
        name = client.get("/list_environments").json()[0]
        assert [split["name"] for split in client.get(f"/{name}/splits").json()] == ["train", "test"]
        assert client.post(f"/{name}/num_tasks", json={"split": "test"}).json() == {"num_tasks": 2**31}
        tasks = client.post(f"/{name}/task_range", json={"split": "test", "start": 1, "stop": 3}).json()["tasks"]
        assert [task["seed"] for task in tasks] == [2**31 + 1, 2**31 + 2]
        assert client.post(f"/{name}/task", json={"split": "train", "index": 7}).json()["task"]["seed"] == 7
        assert client.post(f"/{name}/task", json={"split": "train", "index": -1}).status_code == 400
        assert client.post(f"/{name}/tasks", json={"split": "train"}).status_code == 501
        long = client.post(f"/{name}/task_range", json={"split": "train", "stop": 10_001})
        assert (long.status_code, "at most 10000" in long.text, "10001" in long.text) == (400, True, True)
        assert client.get("/another/splits").status_code == 404


def test_tools_play_in_a_session_of_their_own(address: str) -> None:
    def call(method: str, **params: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = httpx.post(f"http://{address}/mcp", json=asked).json()
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
        return answer

    def use(name: str, **arguments: Any) -> dict[str, Any]:
        return call("tools/call", name=name, arguments=arguments, session_id=session)

    assert [tool["name"] for tool in call("tools/list")["result"]["tools"]] == ["begin", "reply"]
    session = call("openenv/session/create")["result"]["session_id"]
    begun = use("begin", seed=3)["result"]
    assert begun["data"].startswith("Reach the goal")
    assert begun["content"] == [{"type": "text", "text": begun["data"]}]
    assert use("reply", message="<stay>")["result"]["structured_content"]["observation"]["info"]["turn"] == 1
    with joined(address, f"?session_id={session}") as client:
        assert step(client, "<stay>")["observation"]["info"]["turn"] == 2
        with joined(address, f"?session_id={session}") as second:
            assert json.loads(second.recv(10))["data"]["code"] == "SESSION_ERROR"
    wrong = [{"wrong": 1}, {}, {"message": 1}, {"message": None}, {"message": ["<stay>"]}, [], 0, "<stay>"]
    for turn, arguments in enumerate(wrong, 3):
        received = call("tools/call", name="reply", arguments=arguments, session_id=session)["result"]
        assert received["is_error"]
        observed = received["structured_content"]["observation"]
        assert observed["info"]["turn"] == turn
        assert observed["info"]["invalid_reply"].startswith(("reply: expected ", "reply: unknown ", "reply: missing "))
        assert observed["info"]["invalid_reply"].endswith("Call reply(message: string).")
        assert observed["info"]["invalid_reply"] in received["data"]
    assert use("begin", seed=3.0)["result"]["structured_content"]["observation"]["info"]["seed"] == 3
    assert use("begin", seed="three")["error"]["message"] == (
        "begin: expected an integer for seed, got 'three'. Call begin(seed: integer, optional)."
    )
    assert use("begin", seed="three")["error"]["code"] == -32602
    assert use("dance")["error"]["code"] == -32602
    assert until(lambda: call("openenv/session/close", session_id=session)["result"]["closed"])
    assert use("reply", message="x")["error"]["code"] == -32602
    assert call("resources/list")["error"]["code"] == -32601


def test_texts_for_tools_name_the_tools_and_no_form_of_a_reply() -> None:
    sessions = ClientSessions(http.host(OpenEnv(env="sudoku", max_sessions=2)), 2, 0.0)
    methods, session, form = Methods(sessions), sessions.open(), sessions.hosted.reply_format

    def call(method: str, **params: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return asyncio.run(methods.answer(asked, session))["result"]

    place, reply = call("tools/list")["tools"][1:]
    assert (place["name"], reply["name"]) == ("place", "reply")
    assert reply["description"].endswith(form)
    wrong = [{"row": 0, "column": 1, "number": 1}, {"row": 1.5, "column": 1, "number": 1}]
    begun, *moved = [
        call("tools/call", name="begin", arguments={"seed": 3}),
        *(call("tools/call", name="place", arguments=arguments) for arguments in wrong),
    ]
    tools = "place(row: integer, column: integer, number: integer)"
    assert f"\n\nAct by calling exactly one tool in each turn. Tools: {tools}.\n\n" in begun["data"]
    for received in (begun, *moved):
        assert form not in json.dumps(received).replace("\\n", "\n")
        assert "Reply in this form" not in json.dumps(received)
    for received in moved:
        assert "Call place(row: integer, column: integer, number: integer)" in received["data"]
        assert received["structured_content"]["observation"]["prompt"] == methods.prompt


def test_the_error_of_the_tool_for_replies_names_its_call_and_the_form_of_its_argument() -> None:
    sessions = ClientSessions(http.host(OpenEnv(env="sudoku", max_sessions=2)), 2, 0.0)
    methods, session = Methods(sessions), sessions.open()
    calls = [("begin", {"seed": 3}), ("reply", {"message": "none"})]
    for name, arguments in calls:
        params = {"name": name, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        received = asyncio.run(methods.answer(asked, session))["result"]
    assert "Call reply(message: string) with a message in this format: [row column number]" in received["data"]
    assert "Reply in this" not in json.dumps(received["structured_content"]["observation"]["info"])


def test_a_client_of_mcp_has_a_session_by_its_header(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}") as client:

        def call(method: str, **params: Any) -> dict[str, Any]:
            asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            return client.post("/mcp", json=asked).json()

        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
        welcome = client.post("/mcp", json=asked)
        assert welcome.json()["result"]["protocolVersion"] == "2025-06-18"
        assert welcome.json()["result"]["instructions"].startswith("Reach the goal")
        client.headers["Mcp-Session-Id"] = welcome.headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.post("/mcp", json=note).status_code == 202
        assert client.get("/mcp").status_code == 405
        assert call("ping")["result"] == {}
        assert [tool["name"] for tool in call("tools/list")["result"]["tools"]] == ["begin", "reply"]
        assert not call("tools/call", name="begin", arguments={"seed": 3})["result"]["isError"]
        moved = call("tools/call", name="reply", arguments={"message": "<stay>"})["result"]
        assert moved["structuredContent"]["observation"]["info"]["turn"] == 1
        rejected = call("tools/call", name="reply", arguments={"wrong": 1})["result"]
        assert rejected["isError"]
        assert "wrong" in rejected["content"][0]["text"]
        assert rejected["structuredContent"]["observation"]["info"]["turn"] == 2
        assert call("resources/list")["error"]["code"] == -32601
        assert client.delete("/mcp").status_code == 204
        assert client.post("/mcp", json=asked).status_code == 404
        client.headers.pop("Mcp-Session-Id")
        assert client.delete("/mcp").status_code == 400
        assert client.post("/mcp", json={**asked, "params": 1}).json()["error"]["code"] == -32602
        ids = [client.post("/mcp", json=asked).headers.get("mcp-session-id") for _ in range(ROOM + 1)]
        assert ids[-1] is None
        for session in ids[:-1]:
            assert client.delete("/mcp", headers={"Mcp-Session-Id": session or ""}).status_code == 204


def test_a_game_has_the_tools_of_its_moves() -> None:
    place = tools_of("sudoku")["place"]
    assert place.reply({"row": 1, "column": 2, "number": 3}) == "[1 2 3]"
    assert place.schema["required"] == ["row", "column", "number"]
    assert place.schema["properties"]["row"]["description"].startswith("Row of the cell")
    move = tools_of("frozen_lake")["move"]
    assert move.reply({"direction": "off"}) == text.InvalidReply(
        "move: expected one of up, down, left, right for direction, got 'off'. Call move(direction: up | down | left | "
        "right)."
    )
    assert tools_of("frozen_lake", {"dialect": "textarena"})["move"].reply({"direction": "up"}) == "[up]"
    get = tools_of("textcraft")["get"]
    assert get.reply({"item": "log", "count": 2.0}) == "<action>get 2 log</action>"
    assert get.schema["properties"]["item"]["pattern"].startswith("^[^<>")
    for name in short_names():
        assert "reply" in tools_of(name)


def test_a_token_and_the_sizes_of_requests_are_asked_for(hosted: http.Hosted, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with served(hosted, token_file=tmp_path / "token", max_kilobytes=1) as where:
        headers = {"Authorization": "Bearer secret"}
        assert httpx.get(f"http://{where}/health").status_code == 200
        assert httpx.get(f"http://{where}/schema").status_code == 401
        assert httpx.get(f"http://{where}/schema", headers=headers).status_code == 200
        long = json.dumps({"seed": 3, "more": "x" * 2000})
        assert httpx.post(f"http://{where}/reset", headers=headers, content=long).status_code == 413
        pieces = iter([long.encode()])  # without a length
        assert httpx.post(f"http://{where}/reset", headers=headers, content=pieces).status_code == 413
        wrapper = OpenEnvWrapper({"base_url": f"http://{where}", "token": "secret"})
        assert wrapper.reset()[0]["prompt"]
        wrapper.close()


def test_a_server_that_rejects_a_socket_is_not_asked_again(
    hosted: http.Hosted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "token").write_text("secret\n")
    with served(hosted, token_file=tmp_path / "token") as where:
        wrapper = OpenEnvWrapper({"base_url": f"http://{where}"})
        with pytest.raises(OpenEnvError, match=r"expected the token of this server.* \(code: HTTP_401\)"):
            wrapper.reset()
    assert "more tries" not in caplog.text


def test_what_was_asked_for_is_answered_before_the_server_ends(
    hosted: http.Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    at_once = ClientSession.step

    async def slowly(session: ClientSession, reply: str) -> str:
        begun.append(reply)
        await asyncio.sleep(0.5)
        return await at_once(session, reply)

    monkeypatch.setattr(ClientSession, "step", slowly)
    with contextlib.ExitStack() as stack:
        with served(hosted) as where:
            clients = [stack.enter_context(joined(where)) for _ in range(ROOM)]
            for client in clients:
                reset(client, seed=3)
                client.send(json.dumps({"type": "step", "data": {"message": "<stay>"}}))
            assert until(lambda: len(begun) == ROOM)
        for client in clients:
            assert json.loads(client.recv(10))["data"]["observation"]["info"]["turn"] == 1
            with pytest.raises(ConnectionClosed) as ended:
                client.recv(10)
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1012


def test_a_game_that_can_not_be_loaded_ends_the_server() -> None:
    serving = OpenEnv(env="no_such_game", port=0)
    with bind(serving) as bound:
        with pytest.raises(ValueError, match="no_such_game"):
            http.serve(openenv_server.load, serving, bound)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(bound.getsockname(), 10)


def test_the_command_says_why_it_can_not_serve(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {str(taken.getsockname()[1]): (1, "can't listen"), "0": (2, "Unknown text environment 'no_such_game'")}
        for port, (code, received) in ports.items():
            with pytest.raises(SystemExit) as ended:
                command.main(["openenv", "--env", "no_such_game", "--port", port])
            assert ended.value.code == code
            assert received in capsys.readouterr().err


def test_the_package_serves_the_game_that_its_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"JAXGYM_ENV": "corridor", "JAXGYM_OPTIONS": "length=5 bonus=2", "MAX_CONCURRENT_ENVS": "7"}
    for name, value in {**settings, "JAX_PLATFORMS": "cpu"}.items():
        monkeypatch.setenv(name, value)
    package = runpy.run_path(str(ROOT / "examples/openenv/server/app.py"))
    serving = package["SERVING"]
    assert (serving.env, serving.options, serving.max_sessions) == ("corridor", ("length=5", "bonus=2"), 7)

    with pytest.raises(RuntimeError, match="lifespan"):
        TestClient(package["app"]).get("/health")
    with TestClient(package["app"], base_url="http://localhost") as client:
        assert client.get("/health").status_code == 200
        assert client.get("/metadata").json()["name"] == "corridor"


def test_an_app_whose_game_can_not_be_loaded_does_not_start() -> None:
    async def started() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            sent.append(message)

        with pytest.raises(ValueError, match="no_such_game"):
            await openenv_server.make_app(OpenEnv(env="no_such_game"))({"type": "lifespan"}, receive, send)
        return sent

    (sent,) = asyncio.run(started())
    assert sent["type"] == "lifespan.startup.failed"
    assert "Unknown text environment 'no_such_game'" in sent["message"]


def test_settings_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("PORT", "9001")
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "7")
    serving = OpenEnv(env="corridor")
    assert (serving.host, serving.port, serving.max_sessions) == ("0.0.0.0", 9001, 7)
    monkeypatch.setenv("PORT", "http")
    with pytest.raises(OptionError, match="PORT: expected an integer, got 'http'"):
        OpenEnv(env="corridor")
    with pytest.raises(OptionError, match="--max-sessions: expected a number of at least 1, got 0"):
        OpenEnv(env="corridor", port=1, max_sessions=0)
    most = OpenEnv(env="corridor", port=1, max_sessions=10**6)
    assert most.max_sessions + SPARE <= MOST_SESSIONS
    with pytest.raises(OptionError, match="--max-sessions: expected at most 1000000, got 1000001"):
        dataclasses.replace(most, max_sessions=10**6 + 1)


def test_the_command_line_is_read_before_jax_is_imported() -> None:
    program = "import sys, jaxgym.serve.command; print('jax' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"


def test_what_is_longer_than_before_stands_behind_it(hosted: http.Hosted) -> None:
    # As clients of TextArena read it: what is longer than before holds what they have read, and is cut off.
    sessions = ClientSessions(hosted, 1, 0)

    async def play() -> list[tuple[str, str]]:
        own = sessions.open()
        observed = [await own.reset(ResetOptions(seed=3))]
        observed += [await own.step(reply) for reply in ("<stay>", "jump", "<stay>", "jump", *WIN)]
        sessions.close(own)
        made = [json.loads(text)["observation"] for text in observed]
        return [(one["messages"][0]["content"], one["text"]) for one in made]

    length = 0
    for content, newest in asyncio.run(play()):
        said = content[length:] if len(content) > length else content
        assert said.strip() == newest
        length = len(content)


# Our clients.


def test_a_lost_episode_is_repeated_before_it_goes_on(address: str) -> None:
    kept, cut = (OpenEnvWrapper({"base_url": f"http://{address}", "retry_delay": 0}) for _ in range(2))
    for wrapper in (kept, cut):
        wrapper._start = {"seed": 3}
        wrapper.reset()
        wrapper.step({"message": "<stay>"})
    cut._sockets[0].transport.abort()
    assert kept.step({"message": "<right>"}) == cut.step({"message": "<right>"})
    assert kept.step({"message": "<right>"})[0]["info"]["turn"] == 3
    cut._sockets[0].transport.abort()
    cut._last = {"text": "another past"}
    with pytest.raises(LostError, match="gave another observation"):
        cut.step({"message": "<right>"})
    for wrapper in (kept, cut):
        wrapper.close()
        wrapper.close()


def test_an_action_that_the_server_rejects_is_no_reason_to_try_again(address: str) -> None:
    wrapper = OpenEnvWrapper({"base_url": f"http://{address}"})
    wrapper.reset()
    with pytest.raises(OpenEnvError, match="VALIDATION_ERROR"):
        wrapper.step({"nope": 1})
    assert wrapper.step({"message": "<stay>"})[0]["info"]["turn"] == 1
    wrapper.close()


def request(name: str, address: str) -> Any:
    config = {"base_url": f"http://{address}", "reset_kwargs": {"seed": 3}, "retry_delay": 0, "size": None}
    return SimpleNamespace(uuid=name, messages=[{"role": "user", "content": "?"}], data_dict={"env_config": config})


def turn(scheduler: OpenEnvScheduler, asked: Any, reply: Any, number: int) -> dict[str, Any]:
    choice: Any = SimpleNamespace(message=SimpleNamespace(content=reply), finish_reason="stop")
    asked.messages.append({"role": "assistant", "content": reply})
    ended = asyncio.run(scheduler.on_turn_end(asked, choice, number))  # another loop each time
    if not ended["done"]:
        scheduler.step(asked, choice, number)
    return ended


def test_the_scheduler_plays_a_trajectory_to_its_end(address: str) -> None:
    scheduler = OpenEnvScheduler()
    asked = request("a", address)
    asyncio.run(scheduler.on_trajectory_start([asked]))
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    ended: dict[str, Any] = {}
    for number, reply in enumerate(['{"cell": 3}', *WIN], 1):
        ended = turn(scheduler, asked, reply, number)
        if ended["done"]:
            break
    infos = ended["rollout_infos"]
    assert (infos["total_reward"], infos["gym_done"]) == (1.0, True)
    assert infos["step_rewards"][0] == 0.0
    assert [message["role"] for message in asked.messages[1:]] == ["user", "assistant"] * len(infos["step_rewards"])
    assert turn(scheduler, asked, "<stay>", 9)["rollout_infos"]["total_reward"] == 0.0


def test_contents_of_every_form_are_turns_and_their_ends_are_recorded(address: str) -> None:
    scheduler = OpenEnvScheduler(max_turns=4)
    asked = request("a", address)
    asyncio.run(scheduler.on_trajectory_start([asked]))
    contents: list[Any] = [None, [{"type": "thinking", "thinking": "no"}], [{"type": "text", "text": "<stay>"}], ""]
    for number, content in enumerate(contents, 1):
        ended = turn(scheduler, asked, content, number)
    infos = ended["rollout_infos"]
    assert (infos["step_rewards"], "error" in infos) == ([0.0] * 4, False)
    assert [entry["finish_reason"] for entry in infos["turns"]] == ["stop"] * 4
    received = [message["content"] for message in asked.messages if message["role"] == "user"][1:]
    assert [text.startswith(f"{number}: Say left") for number, text in enumerate(received, 1)] == [True, True, False]


def test_a_trajectory_gives_its_session_back_wherever_it_ends(address: str) -> None:
    scheduler = OpenEnvScheduler(max_turns=1)
    scheduler.max_trajectories = 1
    for name in "abcdefg":  # more than the server has room for
        asked = request(name, address)
        asyncio.run(scheduler.on_trajectory_start([asked]))
        ended = turn(scheduler, asked, "<stay>", 1)
        assert (ended["done"], ended["rollout_infos"]["gym_done"]) == (True, False)
    with pytest.raises(ValueError, match="expected at most 1 trajectories in one call, got 2"):
        asyncio.run(scheduler.on_trajectory_start([request("h", address), request("i", address)]))
    scheduler.wait_seconds = 0.1
    asyncio.run(scheduler.on_trajectory_start([request("h", address)]))
    with pytest.raises(TimeoutError, match="max_trajectories"):
        asyncio.run(scheduler.on_trajectory_start([request("i", address)]))
    turn(scheduler, request("h", address), "<stay>", 1)


def test_a_server_that_is_gone_ends_a_trajectory_with_what_it_has(hosted: http.Hosted) -> None:
    scheduler = OpenEnvScheduler()
    with served(hosted) as where:
        asked = request("a", where)
        asyncio.run(scheduler.on_trajectory_start([asked]))
        turn(scheduler, asked, "<stay>", 1)
    ended = turn(scheduler, asked, "<stay>", 2)
    assert ended["done"]
    assert ended["rollout_infos"]["step_rewards"] == [0.0, 0.0]
    assert ended["rollout_infos"]["error"]
    with pytest.raises(OSError, match=r"."):
        asyncio.run(scheduler.on_trajectory_start([asked]))
