"""Each MUST of MCP's streamable HTTP for a server, in the revisions 2025-03-26, 2025-06-18 and 2025-11-25.

The names of the tests follow the sections of the specification's page on transports. Optional parts are not tested:
this server opens no streams, so that the rules about streams, their events and their resumption do not apply.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.web import http
from jaxgym.serve.web.answers import read_json
from jaxgym.serve.web.serving import OpenEnv
from tests.serve import corridor, test_openenv

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
BOTH = {"Accept": "application/json, text/event-stream"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
RESPONSE = {"jsonrpc": "2.0", "id": 1, "result": {}}
ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    corridor.register()
    serving = OpenEnv(env="corridor", max_sessions=test_openenv.ROOM)
    hosted = http.host(serving, {"rewards": "environment"}, spare=SPARE)
    with test_openenv.served(hosted) as where:
        yield where


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    """Return a client without a session."""
    with httpx.Client(base_url=f"http://{address}", headers=BOTH) as client:
        yield client


def initialize(client: httpx.Client, version: str = VERSIONS[0], **headers: str) -> httpx.Response:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}
    return client.post("/mcp", json=asked, headers=headers)


@pytest.fixture(params=VERSIONS)
def session(client: httpx.Client, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Return a client with a session, in each of the versions."""
    client.headers["Mcp-Session-Id"] = initialize(client, request.param).headers["mcp-session-id"]
    client.headers["MCP-Protocol-Version"] = request.param
    yield client
    client.delete("/mcp")


# Encoding and endpoint.


def test_messages_are_utf_8(session: httpx.Client) -> None:
    said = {"jsonrpc": "2.0", "id": "é☃", "method": "ping"}
    received = session.post("/mcp", content=json.dumps(said, ensure_ascii=False).encode())
    assert json.loads(received.content.decode("utf-8"))["id"] == "é☃"
    for content in (json.dumps(said).encode("utf-16"), b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}'):
        received = session.post("/mcp", content=content)
        assert (received.status_code, received.json()["error"]["code"]) == (400, -32700)


def test_one_path_takes_post_and_get(session: httpx.Client) -> None:
    assert session.post("/mcp", json=PING).status_code == 200
    received = session.get("/mcp", headers={"Accept": "text/event-stream"})
    assert received.status_code == 405
    assert set(received.headers["allow"].split(", ")) == {"POST", "DELETE"}
    assert session.post("/mcp/", json=PING).status_code == 200


def test_an_origin_that_is_invalid_is_forbidden(address: str, session: httpx.Client) -> None:
    for method in ("POST", "GET", "DELETE"):
        for origin in ("http://rebound.example", "null", f"http://rebound.example:{address.rpartition(':')[2]}"):
            assert session.request(method, "/mcp", json=PING, headers={"Origin": origin}).status_code == 403
    assert session.post("/mcp", json=PING, headers={"Origin": f"http://{address}"}).status_code == 200


# Sending messages to the server.


@pytest.mark.parametrize("message", [NOTE, RESPONSE, ERROR, {**NOTE, "method": "notifications/unknown"}])
def test_a_notification_or_response_is_taken_with_202_and_no_body(session: httpx.Client, message: Any) -> None:
    received = session.post("/mcp", json=message)
    assert (received.status_code, received.content) == (202, b"")


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"jsonrpc": "1.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": 5},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": "no"} | {"id": None},
        {"jsonrpc": "2.0"},
        "text",
        5,
        None,
        [],
    ],
)
def test_input_that_is_not_taken_has_an_error_status(session: httpx.Client, message: Any) -> None:
    received = session.post("/mcp", json=message)
    assert received.status_code == 400
    assert received.json()["id"] is None
    assert type(received.json()["error"]["code"]) is int


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{", -32700),
        ("", -32700),
        (b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}', -32700),
        ('{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', -32700),
        ('{"a": 1}', -32600),
        ("[]", -32600),
        ('"text"', -32600),
        (json.dumps({"jsonrpc": "2.0", "id": [], "method": "tools/list"}), -32600),
        (json.dumps(RESPONSE), -32600),
    ],
)
def test_input_that_is_not_taken_outside_of_a_session_has_an_error_status(
    client: httpx.Client, content: str | bytes, code: int
) -> None:
    received = client.post("/mcp", content=content)
    assert (received.status_code, received.json()["error"]["code"]) == (400, code)
    assert len(received.content) <= 4096


def test_the_empty_object_of_openenv_validate_has_status_200(client: httpx.Client) -> None:
    received = client.post("/mcp", json={})
    assert (received.status_code, received.json()["jsonrpc"], received.json()["error"]["code"]) == (200, "2.0", -32600)


def test_a_key_is_found_twice_in_linear_time() -> None:
    names = [f"{number:x}" for number in range(100_000)]
    text = "{" + ",".join(f'"{name}":1' for name in [*names, names[-1]]) + "}"
    started = time.process_time()
    with pytest.raises(ValueError, match="got 1869f twice"):
        read_json(text)
    # It takes some hundredths of a second; what is quadratic takes minutes.
    assert time.process_time() - started < 10.0


@pytest.mark.parametrize("call_id", ["x" * 128, "☃" * 128, "🂡" * 128, "\0" * 128, "", 0, -5, 2**64, 10**100])
def test_an_id_is_a_string_of_128_characters_or_an_integer(client: httpx.Client, call_id: Any) -> None:
    asked = {"jsonrpc": "2.0", "id": call_id, "method": "tools/list"}
    assert client.post("/mcp", json=asked).json()["id"] == call_id
    bad = client.post("/mcp", json={**asked, "method": "tools/call", "params": {"name": '"' * 5000}})
    assert (bad.json()["id"], bad.json()["error"]["code"]) == (call_id, -32602)
    assert len(bad.content) <= 4096
    client.headers["Mcp-Session-Id"] = initialize(client).headers["mcp-session-id"]
    for method in ("ping", "tools/list", "no/method"):
        received = client.post("/mcp", json={**asked, "method": method})
        assert (received.status_code, received.json()["id"]) == (200, call_id)
    client.delete("/mcp")


@pytest.mark.parametrize("call_id", ["x" * 129, 10**130, True, [1], {}, 1.5, None])
def test_the_error_of_another_id_names_the_ids_that_are_allowed(client: httpx.Client, call_id: Any) -> None:
    asked = {"jsonrpc": "2.0", "id": call_id, "method": "tools/list"}
    is_json_rpc = call_id in (1.5, None)  # allowed in a call of OpenEnv, but not in MCP
    received = client.post("/mcp", json=asked)
    assert received.status_code == (200 if is_json_rpc else 400)
    if not is_json_rpc:
        assert "string of at most 128 characters" in received.json()["error"]["message"]
        assert "for id, got" in received.json()["error"]["message"]
    client.headers["Mcp-Session-Id"] = initialize(client).headers["mcp-session-id"]
    for method in ("initialize", "tools/list"):
        received = client.post("/mcp", json={**asked, "method": method})
        assert (received.status_code, received.json()["id"]) == (400, None)
        assert "string of at most 128 characters" in received.json()["error"]["message"]
    client.delete("/mcp")


def test_an_unknown_session_has_to_initialize(client: httpx.Client) -> None:
    received = client.post("/mcp", json=PING, headers={"Mcp-Session-Id": "nothing"})
    assert received.status_code == 404
    assert "Session not found" in received.json()["error"]["message"]
    assert "Send initialize" in received.json()["error"]["message"]


def test_the_name_of_a_tool_is_a_string(client: httpx.Client) -> None:
    for params, message in (
        ({}, "expected the name of a tool for name, got none"),
        ({"name": 1}, "expected the name of a tool for name, got 1"),
        ({"name": None}, "expected the name of a tool for name, got null"),
        ({"name": ""}, "Tool not found"),
    ):
        received = client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        ).json()
        assert received["error"]["code"] == -32602
        assert message in received["error"]["message"]


def test_an_argument_that_is_given_twice_is_an_error_and_no_turn(session: httpx.Client) -> None:
    begun = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "begin", "arguments": {"seed": 3}}}
    assert not session.post("/mcp", json=begun).json()["result"]["isError"]
    reply = {"name": "reply", "arguments": {"message": "<stay>"}}
    moved = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": reply})
    received = session.post("/mcp", content=moved.replace('"message":', '"message": "<right>", "message":'))
    assert (received.status_code, received.json()["error"]["code"]) == (400, -32700)
    assert "each key of an object once, got message twice" in received.json()["error"]["message"]
    turn = session.post("/mcp", content=moved).json()["result"]
    assert turn["structuredContent"]["observation"]["info"]["turn"] == 1


def test_a_notification_outside_of_a_session_gets_no_answer(client: httpx.Client) -> None:
    assert (received := client.post("/mcp", json=NOTE)).status_code in (202, 400)
    assert received.status_code == 400 or received.content == b""


@pytest.mark.parametrize("method", ["ping", "tools/list", "tools/call", "no/method", "initialize"])
def test_a_request_is_answered_with_one_object_of_json(session: httpx.Client, method: str) -> None:
    received = session.post("/mcp", json={"jsonrpc": "2.0", "id": "7", "method": method, "params": {"name": "begin"}})
    assert received.headers["content-type"] == "application/json"
    assert received.json()["jsonrpc"] == "2.0"
    assert received.json()["id"] == "7"
    assert ("result" in received.json()) is not ("error" in received.json())


@pytest.mark.parametrize("call_id", [None, True, 1.5, [], {}, "x" * 1000])
def test_a_request_has_a_string_or_an_integer_as_its_id(session: httpx.Client, call_id: Any) -> None:
    received = session.post("/mcp", json={**PING, "id": call_id})
    assert received.status_code == 400
    assert received.json()["id"] is None


def test_several_messages_come_at_a_time_in_the_one_version_that_has_that(session: httpx.Client) -> None:
    has_batches = session.headers["MCP-Protocol-Version"] == "2025-03-26"
    received = session.post("/mcp", json=[PING, NOTE, {**PING, "id": 2}])
    assert received.status_code == (200 if has_batches else 400)
    if has_batches:
        assert [entry["id"] for entry in received.json()] == [1, 2]
        for notes in ([NOTE, NOTE], [RESPONSE, ERROR]):
            assert (received := session.post("/mcp", json=notes)).status_code == 202
            assert received.content == b""
        assert session.post("/mcp", json=[PING, 5]).status_code == 400
        assert len(session.post("/mcp", json=[PING] * 10).json()) == 10
    for count in (11, 1000):
        received = session.post("/mcp", json=[PING] * count)
        assert (received.status_code, received.json()["error"]["code"]) == (400, -32600)
        reason = f"expected 1 to 10 messages in a batch, got {count}" if has_batches else "Only version 2025-03-26"
        assert reason in received.json()["error"]["message"]


# Session management.


def test_the_id_of_a_session_is_visible_ascii_and_can_not_be_guessed(client: httpx.Client) -> None:
    ids = [initialize(client).headers["mcp-session-id"] for _ in range(2)]
    assert ids[0] != ids[1]
    for session_id in ids:
        assert len(session_id) >= 32
        assert all(0x21 <= ord(letter) <= 0x7E for letter in session_id)
        assert client.delete("/mcp", headers={"Mcp-Session-Id": session_id}).status_code == 204


def test_a_session_that_has_ended_is_not_found_whatever_is_asked(session: httpx.Client) -> None:
    assert session.delete("/mcp").status_code == 204
    for method in ("POST", "GET", "DELETE"):
        for message in (PING, NOTE):
            assert session.request(method, "/mcp", json=message).status_code == 404
    assert session.post("/mcp", headers={"Mcp-Session-Id": "x" * 32}, json=PING).status_code == 404


def test_a_session_that_was_idle_for_too_long_is_not_found() -> None:
    corridor.register()
    hosted = http.host(OpenEnv(env="corridor", max_sessions=4), spare=SPARE)
    with (
        test_openenv.served(hosted, idle_seconds=0.5) as where,
        httpx.Client(base_url=f"http://{where}", headers=BOTH) as client,
    ):
        client.headers["Mcp-Session-Id"] = initialize(client).headers["mcp-session-id"]
        assert test_openenv.until(lambda: client.get("/mcp").status_code == 404)
        assert client.post("/mcp", json=PING).status_code == 404


def test_initialize_is_unavailable_while_all_sessions_are_open(client: httpx.Client) -> None:
    ids = [initialize(client).headers["mcp-session-id"] for _ in range(test_openenv.ROOM)]
    received = initialize(client)
    assert received.status_code == 503
    assert received.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in received.headers
    assert received.json()["id"] == "first"
    assert received.json()["error"]["code"] == -32000
    assert received.json()["error"]["data"] == {"active_sessions": 4, "max_sessions": 4}
    for session_id in ids:
        assert client.delete("/mcp", headers={"Mcp-Session-Id": session_id}).status_code == 204
    welcome = initialize(client)
    assert welcome.status_code == 200
    client.delete("/mcp", headers={"Mcp-Session-Id": welcome.headers["mcp-session-id"]})


# Protocol version header, and its negotiation.


@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28", "1.0", "", "x" * 5000])
def test_a_version_that_is_unsupported_is_a_bad_request(session: httpx.Client, version: str) -> None:
    for method in ("POST", "GET", "DELETE"):
        received = session.request(method, "/mcp", json=PING, headers={"MCP-Protocol-Version": version})
        assert received.status_code == 400
        assert len(received.content) <= 4096
    assert session.post("/mcp", json=PING).status_code == 200  # it goes on


def test_without_the_header_the_version_is_that_of_the_session(session: httpx.Client) -> None:
    del session.headers["MCP-Protocol-Version"]
    assert session.post("/mcp", json=PING).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_the_version_that_is_asked_for_is_the_answer_or_the_newest_one(client: httpx.Client) -> None:
    for asked, received in (*zip(VERSIONS, VERSIONS, strict=True), ("2024-11-05", VERSIONS[0]), ("x", VERSIONS[0])):
        welcome = initialize(client, asked)
        assert welcome.json()["id"] == "first"
        assert welcome.json()["result"]["protocolVersion"] == received
        assert {"capabilities", "serverInfo"} < set(welcome.json()["result"])
        client.delete("/mcp", headers={"Mcp-Session-Id": welcome.headers["mcp-session-id"]})


def test_a_client_that_has_a_version_and_no_session_has_to_initialize(client: httpx.Client) -> None:
    for version in VERSIONS:
        headers = {"MCP-Protocol-Version": version}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert client.post("/mcp", json=asked, headers=headers).status_code == 400
        assert client.post("/mcp", json=PING, headers=headers).json()["result"] == {}
