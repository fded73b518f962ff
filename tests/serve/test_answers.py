"""Answers to bad requests are short for any request, and limits hold for concurrent requests."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from jaxgym.serve.agentgym.server import load
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.page.routes import MOST_PLAYED
from jaxgym.serve.web import http
from jaxgym.serve.web.answers import quoted
from jaxgym.serve.web.serving import AgentGym, OpenEnv
from tests.serve import corridor, test_agentgym, test_openenv
from tests.serve.running import running

MOST = 4096
LONG = ("x" * 200_000, "\0" * 40_000, "☃" * 30_000, "🂡" * 15_000, '"\\' * 50_000)
MANY = {f"key{number}": "x" for number in range(10_000)}
VALUES = [
    *LONG,
    MANY,
    list(range(30_000)),
    {LONG[0]: 1},
    [[[["x" * 60] * 6] * 6] * 6] * 6,
    int("9" * 4000),
    1e300,
    True,
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    corridor.register()
    serving = OpenEnv(env="corridor", max_sessions=test_openenv.ROOM)
    hosted = http.host(serving, {"rewards": "environment"}, spare=SPARE)
    with test_openenv.served(hosted, max_kilobytes=2048) as where:
        yield where


@pytest.fixture(scope="module")
def agentgym() -> Iterator[str]:
    with test_agentgym.served("frozen_lake") as base:
        yield base


def frames(value: Any) -> Iterator[Any]:
    """Yield frames with a wrong value in each place."""
    yield {"type": value}
    yield {"type": "step", "data": {"message": "<stay>", "more": value}}
    yield {"type": "step", "data": {"message": "<stay>"}, "more": value}
    yield {"type": "step", "data": {"message": [value]}}
    yield {"type": "step", "data": {"message": "<stay>", "metadata": [value]}}
    yield {"type": "step", "data": [value]}
    yield {"type": "reset", "data": {"seed": [value]}}
    yield {"type": "reset", "data": {"split": value, "index": value}}
    yield {"type": "reset", "data": {"split": "train", "index": [value]}}
    yield {"type": "reset", "data": {"episode_id": [value]}}
    yield {"type": "state", "more": value}
    yield {"type": "mcp", "data": [value]}
    for call in calls(value):
        yield {"type": "mcp", "data": call}
    if isinstance(value, dict):
        yield {"type": "step", "data": value}
        yield {"type": "state", **value}


def calls(value: Any) -> Iterator[Any]:
    yield {"jsonrpc": value, "id": 1, "method": "tools/list"}
    yield {"jsonrpc": "2.0", "id": [value], "method": "tools/list"}
    yield {"jsonrpc": "2.0", "id": 1, "method": str(value)}
    yield {"jsonrpc": "2.0", "id": 1, "method": [value]}
    yield {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [value]}
    yield {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": str(value)}}
    yield {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "reply", "arguments": {str(value): 1}}}
    yield {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "reply", "arguments": {"message": [value]}},
    }
    yield {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": value}}
    if isinstance(value, str):
        yield {"jsonrpc": "2.0", "id": value, "method": "no/method"}
        yield {"jsonrpc": "2.0", "id": value, "method": 5}


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_the_answer_to_a_bad_frame_is_short(address: str, number: int) -> None:
    for frame in frames(VALUES[number]):
        with connect(f"ws://{address}/ws", proxy=None) as client:
            client.send(json.dumps(frame, ensure_ascii=False))
            received = client.recv(10)
        assert len(received.encode() if isinstance(received, str) else received) <= MOST, str(frame)[:80]
        # Wrong arguments of a tool are an invalid turn of the game.
        assert '"error"' in str(received) or '"is_error": true' in str(received)
        assert "CAPACITY" not in str(received)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_the_answer_to_a_bad_call_over_http_is_short(address: str, agentgym: str, number: int) -> None:
    value = VALUES[number]
    bad: list[tuple[str, str, Any]] = [("POST", "/mcp", call) for call in calls(value)]
    bad += [("POST", "/reset", {"seed": [value]}), ("POST", "/reset", [value]), ("POST", "/step", {"action": value})]
    bad += [
        ("POST", "/step", {"action": {"message": "x", "more": value}}),
        ("POST", "/corridor/task", {"split": value}),
    ]
    bad += [("POST", "/corridor/task_range", {"split": "train", "start": value, "stop": [value]})]
    bad += [
        ("POST", f"/page/{name}", {"game": value, "key": value, "seed": [value]}) for name in ("play", "step", "close")
    ]
    with httpx.Client(base_url=f"http://{address}") as client:
        for method, path, body in bad:
            received = client.request(method, path, content=json.dumps(body, ensure_ascii=False).encode())
            assert len(received.content) <= MOST, (path, str(body)[:80])
    known = httpx.post(f"{agentgym}/create").json()["id"]
    others = [
        *({"id": value, "action": value}, {"id": known, "action": [value], "data_idx": [value]}),
        *({"id": int("9" * 4000), "action": "x"}, {"id": known, "data_idx": int("9" * 4000)}, [value]),
        *({"ids": list(range(100, 20_000)), "actions": ["x"] * 19_900, "data_idxs": [1] * 19_900},),
        *({"ids": [value], "actions": [value], "data_idxs": [value]},),
        *({"ids": list(range(100, 116)), "actions": ["x"] * 16, "data_idxs": [1] * 16},),
    ]
    with httpx.Client(base_url=agentgym) as client:
        for path in ("step", "reset", "close", "step_batch", "reset_batch", "render"):
            for body in others:
                received = client.post(f"/{path}", content=json.dumps(body).encode())
                assert len(received.content) <= MOST, (path, str(body)[:80])
        client.post("/close", json={"id": known})


def test_the_answer_to_a_long_path_is_short(address: str, agentgym: str) -> None:
    long = "x" * 60_000
    for base in (f"http://{address}", agentgym):
        for path in (
            f"/{long}",
            f"/{long}/splits",
            f"/reset/?{long}",
            f"/page/sessions/?{long}",
            f"/page/session?watch={long}",
        ):
            received = httpx.get(base + path)
            assert len(received.content) + len(str(received.headers)) <= MOST, path[:30]
    with connect(f"ws://{address}/ws?session_id={'x' * 8000}", proxy=None) as client:
        assert len(client.recv(10)) <= MOST


def test_what_is_quoted_is_short_in_json() -> None:
    for value in VALUES:
        assert len(json.dumps(quoted(value))) <= 2 * 83 + 2
    assert quoted("plain text") == "plain text"


BAD_JSON = {
    '{"id": 0, "id": 1}': "expected each key of an object once, got id twice",
    '{"id": NaN}': "expected a finite number, got NaN",
    '{"id": ' + "9" * 5000 + "}": "expected at most 4300 digits in an integer",
    '{"id": ' + "[" * 100_000: "expected fewer nested arrays and objects",
    '{"id": 0': "Expecting",
}


@pytest.mark.parametrize("content", BAD_JSON, ids=["key", "nan", "digits", "nested", "end"])
def test_the_error_of_malformed_json_names_the_fault(address: str, agentgym: str, content: str) -> None:
    base = f"http://{address}"
    received = [httpx.post(url, content=content) for url in (f"{base}/reset", f"{base}/mcp", f"{agentgym}/step")]
    assert [answer.status_code for answer in received] == [422, 400, 422]
    texts = [answer.text for answer in received]
    for path in ("ws", "mcp"):
        with connect(f"ws://{address}/{path}", proxy=None) as client:
            client.send(content)
            texts.append(str(client.recv(10)))
    for text in texts:
        assert BAD_JSON[content] in text
        assert "sys." not in text
        assert "recursion" not in text


def test_a_parameter_of_a_query_that_is_given_twice_is_an_error(address: str, agentgym: str) -> None:
    received = httpx.get(f"{agentgym}/observation?id=0&id=1")
    assert received.status_code == 422
    assert "expected the parameter id once, got it twice" in received.text
    assert httpx.get(f"{agentgym}/observation?id=0&x=1").status_code == 200
    with connect(f"ws://{address}/ws?session_id=a&session_id=b", proxy=None) as client:
        assert "expected one session_id, got 2" in str(client.recv(10))


# Limits.


def at_once(calls: int, call: Callable[[int], Any]) -> list[Any]:
    """Return the results of concurrent calls from threads."""
    barrier = threading.Barrier(calls)

    def wait(number: int) -> Any:
        barrier.wait(30)
        return call(number)

    with ThreadPoolExecutor(calls) as threads:
        return list(threads.map(wait, range(calls)))


def test_people_have_room_for_a_few_however_many_ask_at_once(address: str) -> None:
    with httpx.Client(base_url=f"http://{address}") as client:
        received = at_once(24, lambda _: client.post("/page/play", json={"game": "corridor"}))
        keys = [answer.json()["key"] for answer in received if answer.status_code == 200]
        assert Counter(answer.status_code for answer in received) == {200: MOST_PLAYED, 503: 24 - MOST_PLAYED}
        assert len(set(keys)) == MOST_PLAYED
        # A place that a bad call took is free again.
        assert client.post("/page/close", json={"key": keys.pop()}).status_code == 200
        assert client.post("/page/play", json={"game": "corridor", "seed": 2**40}).status_code == 422
        received = at_once(8, lambda _: client.post("/page/play", json={"game": "corridor"}))
        assert Counter(answer.status_code for answer in received) == {200: 1, 503: 7}
        keys += [answer.json()["key"] for answer in received if answer.status_code == 200]
        # A step beside a close is answered, whichever comes first.
        for key in keys:
            ways = (("step", {"key": key, "reply": "<stay>"}), ("close", {"key": key}))
            both = at_once(2, lambda way: client.post(f"/page/{ways[way][0]}", json=ways[way][1]).status_code)  # noqa: B023
            assert both[0] in (200, 404, 422)
            assert both[1] == 200


def test_clients_have_as_many_sessions_as_they_may_however_they_ask_at_once(address: str) -> None:
    ends = threading.Barrier(24, timeout=30)

    def ask(number: int) -> bool:
        if number % 2:
            asked = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            received = httpx.post(f"http://{address}/mcp", json=asked).json()
            ends.wait()
            if "result" in received:
                asked = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": received["result"]}
                httpx.post(f"http://{address}/mcp", json=asked)
            return "result" in received
        with connect(f"ws://{address}/ws", proxy=None) as client:
            client.send('{"type": "state"}')
            has_session = json.loads(client.recv(10))["type"] == "state"
            ends.wait()
        return has_session

    assert sum(at_once(24, ask)) == test_openenv.ROOM


def test_calls_without_a_session_leave_none_at_a_full_server() -> None:
    corridor.register()
    hosted = http.host(OpenEnv(env="corridor", max_sessions=test_openenv.ROOM), {"rewards": "environment"}, spare=SPARE)
    begin = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "begin"}}
    calls = [("/reset", {}), ("/step", {"action": {"message": "<stay>"}}), ("/mcp", begin)]
    with test_openenv.served(hosted) as where, httpx.Client(base_url=f"http://{where}", timeout=60) as client:
        create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        for _ in range(test_openenv.ROOM):
            assert "result" in client.post("/mcp", json=create).json()
        assert "error" in client.post("/mcp", json=create).json()
        received = at_once(60, lambda number: client.post(calls[number % 3][0], json=calls[number % 3][1]).status_code)
        assert set(received) <= {200, 503}
        assert len(hosted.pool) == test_openenv.ROOM
        # As many temporary sessions as there may be, and one more.
        extra = [hosted.pool.open("corridor", None, hosted.options, start=False).id for _ in range(SPARE)]
        for path, body in calls[:2]:
            full = client.post(path, json=body)
            assert (full.status_code, "--max-sessions" in full.text) == (503, True)
        full = client.post("/mcp", json=begin)
        assert (full.json()["error"]["code"], "--max-sessions" in full.text) == (-32000, True)
        hosted.pool.close(extra)
        assert [client.post(path, json=body).status_code for path, body in calls] == [200] * 3


def test_environments_are_as_many_as_there_may_be_however_many_ask_at_once() -> None:
    serving = AgentGym("frozen_lake", port=0, max_sessions=5, idle_seconds=0)
    with running(load(serving), serving) as (port, _):
        received = at_once(20, lambda _: httpx.post(f"http://127.0.0.1:{port}/create", timeout=60))
    assert Counter(answer.status_code for answer in received) == {200: 5, 503: 15}
    assert all("--max-sessions" in answer.text for answer in received if answer.status_code == 503)
