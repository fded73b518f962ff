"""Ends of connections, the end of the server, and targets of requests, for any app."""

import asyncio
import json
import socket
import time
from typing import Any

import pytest

from jaxgym.serve.web import http
from tests.serve.test_faults import echo, heard, line_to, served, until
from tests.serve.test_limits import CHUNKED, HOST, repeat

UPLOADS = (
    CHUNKED + b"5\r\nab",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nab",
)

# The ends of connections and of the server.


async def late(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request over HTTP with its body, a moment after its end."""
    if scope["type"] == "http":
        await asyncio.sleep(0.3)
    await repeat(scope, receive, send)


@pytest.mark.parametrize("pause", [0.0, 0.1, 0.6])
def test_a_client_that_has_sent_its_last_request_gets_every_answer(pause: float) -> None:
    request = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\n"
    with served(app=late) as (port, _):
        for bodies in ([b"one"], [b"one", b"two", b"six"]):
            line = line_to(port, b"".join(request + body for body in bodies))
            time.sleep(pause)
            line.shutdown(socket.SHUT_WR)
            received = heard(line)
            assert received.count(b"HTTP/1.1 200") == len(bodies), received
            assert [body in received for body in bodies] == [True] * len(bodies)


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nHo", *UPLOADS, b""])
def test_a_client_that_ends_within_a_request_is_disconnected(begin: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with served(app=late) as (port, server):
        line = line_to(port, begin)
        line.shutdown(socket.SHUT_WR)
        line.settimeout(10)
        assert b"200" not in heard(line)
        assert until(lambda: not server.server_state.connections)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("app", [echo, repeat])
@pytest.mark.parametrize("begin", UPLOADS)
def test_an_unfinished_upload_does_not_hold_the_end_of_the_server(
    app: Any, begin: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(app=app) as (port, server):
        line = line_to(port, begin)
        assert until(lambda: server.server_state.tasks)
        server.should_exit = True
        started = time.monotonic()
        received = heard(line)
        assert until(lambda: not server.server_state.connections and not server.server_state.tasks)
        assert time.monotonic() - started < http.END_SECONDS / 2
    assert received.startswith(b"HTTP/1.1 503")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"].startswith("the server shuts down")
    assert capfd.readouterr().err == ""


def test_an_upload_that_is_finished_during_the_end_of_the_server_is_answered() -> None:
    with served(app=repeat) as (port, server):
        line = line_to(port, CHUNKED + b"5\r\nab")
        assert until(lambda: server.server_state.tasks)
        server.should_exit = True
        time.sleep(0.3)
        line.sendall(b"cde\r\n0\r\n\r\n")
        assert heard(line).endswith(b"abcde")


@pytest.mark.parametrize("count", [1, 3])
def test_a_client_that_reads_no_response_is_disconnected(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE_SECONDS", 0.5)
    monkeypatch.setattr(http, "LINGER_SECONDS", 0.2)
    requests = [b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n"] * count
    with served() as (port, server), line_to(port, *requests):
        assert len(server.server_state.connections) == 1
        assert until(lambda: not server.server_state.connections and not server.server_state.tasks)


# Targets.


HANDSHAKE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def paths(scope: Any, receive: Any, send: Any) -> None:
    """Answer with path and query, over HTTP also where a WebSocket is asked for."""
    content = f"{scope['path']} {scope['query_string'].decode()}".encode()
    await receive()
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": 200, "headers": [(b"content-length", b"%d" % len(content))]})
    await send({"type": f"{kind}.body", "body": content})


@pytest.mark.parametrize("ending", [b"Connection: close\r\n\r\n", HANDSHAKE], ids=["HTTP", "WebSocket"])
@pytest.mark.parametrize(
    ("target", "said"),
    [
        (b"/ws?a=b", b"/ws a=b"),
        (b"http://localhost/ws?a=b", b"/ws a=b"),
        (b"HTTP://localhost:99/ws", b"/ws "),
        (b"ws://localhost/a%20b", b"/a b "),
        (b"http://localhost", b"/ "),
        (b"http://localhost?a=b", b"/ a=b"),
        (b"http://localhost/http://else.where/x", b"/http://else.where/x "),
    ],
)
def test_an_absolute_target_has_the_path_of_the_request(target: bytes, said: bytes, ending: bytes) -> None:
    with served(app=paths) as (port, _):
        received = heard(line_to(port, b"GET " + target + b" HTTP/1.1\r\n" + HOST + ending))
        assert received.startswith(b"HTTP/1.1 200")
        assert received.partition(b"\r\n\r\n")[2] == said


@pytest.mark.parametrize(
    "head",
    [
        b"GET /ws?" + b"x" * 30_000 + b" HTTP/1.1\r\n" + HOST,
        b"GET /ws HTTP/1.1\r\n" + HOST + b"x: " + b"x" * 30_000 + b"\r\n",
        b"GET /ws HTTP/1.1\r\n" + HOST + b"x: y\r\n" * 200,
    ],
    ids=["query", "header", "headers"],
)
def test_the_error_of_a_long_handshake_names_its_limits(head: bytes) -> None:
    with served() as (port, _):
        received = heard(line_to(port, head + HANDSHAKE))
        assert received.startswith(b"HTTP/1.1 431")
        assert "8192 bytes in a line and 128 headers" in json.loads(received.partition(b"\r\n\r\n")[2])["error"]
        assert heard(line_to(port, head + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")


def test_the_error_of_an_invalid_handshake_is_short() -> None:
    with served() as (port, _):
        for name in (b"Sec-WebSocket-Version", b"Sec-WebSocket-Key"):
            lines = b"".join(line + b"\r\n" for line in HANDSHAKE.split(b"\r\n") if line and not line.startswith(name))
            line = line_to(port, b"GET /ws HTTP/1.1\r\n" + HOST + lines + name + b": " + b'"' * 8000 + b"\r\n\r\n")
            received = heard(line)
            assert received.startswith(b"HTTP/1.1 400")
            assert len(received) <= 4096


@pytest.mark.parametrize("is_one", [True, False])
def test_a_message_that_comes_with_its_handshake_is_answered(is_one: bool) -> None:
    head, message = b"GET /ws HTTP/1.1\r\n" + HOST + HANDSHAKE, b"\x81\x82\0\0\0\0hi"
    with served() as (port, _), line_to(port, *([head + message] if is_one else [head, message])) as line:
        received = b""
        while not received.endswith(b"\x81\x02hi"):
            received += line.recv(4096)
        assert received.startswith(b"HTTP/1.1 101")
