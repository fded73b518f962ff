"""Limits of one connection, and checks of host, origin and token, in every protocol."""

import asyncio
import re
import socket
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from jaxgym.errors import OptionError
from jaxgym.serve.web import http
from jaxgym.serve.web.guard import Guard
from jaxgym.serve.web.serving import OpenEnv
from tests.serve.test_faults import echo, heard, line_to, sent_until_cut, served

MOST = 1 << 24
HOST = b"Host: localhost\r\n"
CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNKED = CHUNKED.replace(HOST, HOST + b"Connection: close\r\n")


def is_served(port: int) -> bool:
    return httpx.get(f"http://127.0.0.1:{port}/").status_code == 200


# The parts of a request.


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nx: ", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (b"GET / HTTP/1.1\r\n" + HOST, b"x: y\r\n" * 8192),
        (CHUNKED + b"1;", b"x" * 65536),
        (CHUNKED, b"1;" + b"x" * 65536 + b"\r\nx\r\n"),
        (CHUNKED + b"1\r\nx\r\n0\r\nx: ", b"x" * 65536),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"x: y\r\n" * 8192),
        (CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100000000000\r\n\r\n", b"x" * 65536),
    ],
    ids=[
        *("header", "target", "headers", "chunk extension", "chunk extensions", "trailer", "trailers"),
        *("chunked body", "body"),
    ],
)
def test_a_part_of_a_request_without_an_end_closes_that_connection(begin: bytes, piece: bytes) -> None:
    with served(max_kilobytes=4) as (port, _):
        assert sent_until_cut(line_to(port, begin), piece) < 2 * MOST
        assert is_served(port)


def test_a_head_has_64_kilobytes_however_it_comes() -> None:
    with served() as (port, _):
        for length, status in ((60_000, b"200"), (66_000, b"431"), (250_000, b"431")):
            head = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\nx: " + b"x" * length + b"\r\n\r\n"
            for pieces in ([head], [head[:9], head[9:30_000], head[30_000:]]):
                assert heard(line_to(port, *pieces)).startswith(b"HTTP/1.1 " + status)


def test_chunks_of_one_byte_are_no_abuse() -> None:
    with served(max_kilobytes=64) as (port, _):
        body = b"1\r\nx\r\n" * 60_000 + b"0\r\nx: y\r\n\r\n"
        assert heard(line_to(port, LAST_CHUNKED + body)).startswith(b"HTTP/1.1 200")


def test_a_connection_goes_on_behind_a_chunked_body() -> None:
    body = b"1;x=y\r\nx\r\n0\r\nx: y\r\n\r\n"
    with served() as (port, _), line_to(port) as line:
        for _ in range(3):
            line.sendall(CHUNKED + body)
            received = line.recv(65536)
            while not received.endswith(b"said"):
                received += line.recv(65536)
            assert received.startswith(b"HTTP/1.1 200")
            assert b"connection: close" not in received


@pytest.mark.parametrize(("length", "status"), [(60_000, b"200"), (66_000, b"431"), (250_000, b"431")])
def test_the_head_in_one_read_with_the_end_of_a_chunked_body_is_limited(length: int, status: bytes) -> None:
    with served() as (port, _):
        head = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\nx: " + b"x" * length + b"\r\n\r\n"
        received = heard(line_to(port, CHUNKED + b"1\r\nx\r\n0\r\n\r\n" + head))
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", status]
        assert is_served(port)


@pytest.mark.parametrize(
    "size", [b"+1", b"0x1", b"1_0", b"-1", b"-ff", b"g", b" 1", b"", b"1\n", b"0" * 5 + b"+", b"f" * 40]
)
def test_a_chunk_size_of_another_form_is_rejected(size: bytes) -> None:
    with served() as (port, _):
        received = heard(line_to(port, CHUNKED + size + b"\r\nx\r\n0\r\n\r\n"))
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"400"]
        assert is_served(port)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\n", b"x"),
        (b"\r\n", b"\r\n\r\n"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"1;", b"x"),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"x: y\r\n"),
    ],
    ids=["head", "blank lines", "body", "chunks", "chunk extension", "trailers"],
)
def test_a_part_of_a_request_that_comes_slowly_closes_that_connection(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE_SECONDS", 0.5)
    with served() as (port, _), line_to(port, begin) as line:
        line.settimeout(0.05)
        for _ in range(400):
            try:
                line.sendall(piece)
                if line.recv(100) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("the connection is open after 20 s of a request that takes 0.5 s at most")
        assert is_served(port)


def test_requests_ahead_of_their_answers_are_held_as_bytes() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(1)
        await echo(scope, receive, send)

    request = b"GET /%b HTTP/1.1\r\n" + HOST + b"\r\n"
    with served(app=slow) as (port, _), line_to(port, request % b"slow") as line:
        tracemalloc.start()
        line.sendall((request % b"") * 6000)
        time.sleep(0.5)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 << 20
        received = b""
        while received.count(b"said") < 6001:
            received += line.recv(1 << 16)
        assert received.count(b"HTTP/1.1 200") == 6001


def test_messages_ahead_of_their_answers_are_counted() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await asyncio.sleep(2)
            return
        await echo(scope, receive, send)

    with served(app=slow) as (port, _), connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as client:
        client.socket.sendall(b"\x81\x81\0\0\0\0x" * 5000)
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(10)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008


def test_answers_to_a_client_with_too_many_messages_are_dropped_without_a_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended = threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await asyncio.sleep(0.5)
            try:
                while (message := await receive())["type"] == "websocket.receive":
                    await send({"type": "websocket.send", "text": message["text"]})
            except OSError:
                ended.set()
            return
        await echo(scope, receive, send)

    with served(app=slow) as (port, _), connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as client:
        client.socket.sendall(b"\x81\x81\0\0\0\0x" * 5000)
        with pytest.raises(ConnectionClosed):
            client.recv(10)
        assert ended.wait(10)
    assert capfd.readouterr().err == ""


# Who may ask.


def test_trailers_authorize_nothing_and_name_no_host(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("anne")
    with served(token_file=tmp_path / "token") as (port, _):
        body = b"1\r\nx\r\n0\r\nAuthorization: Bearer anne\r\nHost: localhost\r\n\r\n"
        assert heard(line_to(port, LAST_CHUNKED + body)).startswith(b"HTTP/1.1 401")
        received = heard(line_to(port, LAST_CHUNKED.replace(HOST, b"Authorization: Bearer anne\r\n") + body))
        assert received.startswith(b"HTTP/1.1 400")
        right = LAST_CHUNKED.replace(HOST, HOST + b"Authorization: Bearer anne\r\n") + b"1\r\nx\r\n0\r\nx: y\r\n\r\n"
        assert heard(line_to(port, right)).startswith(b"HTTP/1.1 200")


PATHS = ("/", "/health", "/reset", "/step", "/mcp", "/page/sessions", "/nowhere")


def test_the_host_is_checked_on_every_route() -> None:
    known = ("localhost", "LOCALHOST:99", "localhost.", "127.0.0.1", "127.8.8.8:1", "[::1]:8000", "a.localhost", "box")
    foreign = ("rebound.example", "rebound.example:80", "localhost.example", "10.9.8.7", "", "a@localhost", "[::1", "é")
    with served(allowed_host=("box",)) as (port, _):
        for path in PATHS:
            for hosts, status in ((known, b"200"), (foreign, b"403")):
                for host in hosts:
                    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
                    assert heard(line_to(port, head)).startswith(b"HTTP/1.1 " + status), (path, host)
            for hosts in (b"", HOST * 2):
                head = f"GET {path} HTTP/1.1\r\nConnection: close\r\n".encode() + hosts + b"\r\n"
                assert heard(line_to(port, head)).startswith(b"HTTP/1.1 400"), (path, hosts)
            for target, host, status in (
                ("http://rebound.example", "localhost", b"403"),
                ("http://localhost@rebound.example:80", "localhost", b"403"),
                ("HTTP://localhost", "rebound.example", b"200"),
            ):
                head = f"GET {target}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
                assert heard(line_to(port, head)).startswith(b"HTTP/1.1 " + status), (path, target)
        for headers in ({"Host": "rebound.example"}, {"Host": "localhost", "Origin": "http://rebound.example"}):
            upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            asked = f"GET /ws HTTP/1.1\r\n{lines}{upgrade}Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            assert heard(line_to(port, asked.encode())).startswith(b"HTTP/1.1 403")


def test_only_a_request_of_http_1_0_needs_no_host() -> None:
    for version, status in ((b"1.0", b"200"), (b"1.1", b"400")):
        with served() as (port, _):
            head = b"GET / HTTP/" + version + b"\r\nConnection: close\r\n"
            assert heard(line_to(port, head + b"\r\n")).startswith(b"HTTP/1.1 " + status)
            for host in (b"", b"rebound.example"):
                assert heard(line_to(port, head + b"Host: " + host + b"\r\n\r\n")).startswith(b"HTTP/1.1 403")


def test_the_page_is_shown_under_a_known_host_only() -> None:
    with served(page=True) as (port, _):
        for host, status in (("localhost", 200), ("rebound.example", 403)):
            headers = {"Host": host, "Accept": "text/html"}
            assert httpx.get(f"http://127.0.0.1:{port}/", headers=headers).status_code == status


def test_an_origin_is_the_servers_own_or_allowed_by_name() -> None:
    with served(allowed_host=("box",)) as (port, _):
        own = f"127.0.0.1:{port}"
        for origin, status in (
            (f"http://{own}", 200),
            (f"http://localhost:{port}", 200),
            (f"http://[::1]:{port}", 200),
            ("http://localhost", 403),
            ("http://box", 200),
            ("https://box:8443", 200),
            ("http://127.0.0.1:1", 403),
            ("http://rebound.example", 403),
            ("null", 403),
            ("", 403),
        ):
            for path in PATHS:
                assert httpx.get(f"http://{own}{path}", headers={"Origin": origin}).status_code == status, origin
        received = heard(
            line_to(
                port,
                b"GET / HTTP/1.1\r\n"
                + HOST
                + b"Connection: close\r\nOrigin: http://box\r\nOrigin: http://a.example\r\n\r\n",
            )
        )
        assert received.startswith(b"HTTP/1.1 400")


def test_the_bound_address_is_known_and_behind_a_wildcard_the_one_that_was_called() -> None:
    def status(host: str, bound: str, local: str) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", host.encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "server": (local, 8000)}
        asyncio.run(Guard(echo, OpenEnv(env="nothing", host=bound))(scope, receive, send))
        return sent[0]["status"]

    assert status("10.1.2.3:8000", "10.1.2.3", "10.1.2.3") == 200
    assert status("10.1.2.3", "0.0.0.0", "10.1.2.3") == 200
    assert status("[fd00::1]:80", "::", "fd00::1") == 200
    assert status("10.1.2.4", "0.0.0.0", "10.1.2.3") == 403
    assert status("rebound.example", "0.0.0.0", "rebound.example") == 403
    for host in ("", "!.rebound.example", "!.rebound.example:8000"):
        assert status(host, "", "10.1.2.3") == 403


@pytest.mark.parametrize("name", ["http://box", "box:80", "box/path", "", "a b"])
def test_an_allowed_host_is_a_name(name: str) -> None:
    with pytest.raises(OptionError, match="--allowed-host: expected a host name or address"):
        OpenEnv(env="nothing", allowed_host=(name,))


def test_several_authorizations_are_none(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("anne\nbob\n")
    with served(token_file=tmp_path / "tokens") as (port, _):
        twice = b"Connection: close\r\nAuthorization: Bearer bob\r\nAuthorization: Bearer anne\r\n\r\n"
        assert heard(line_to(port, b"GET / HTTP/1.1\r\n" + HOST + twice)).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_has_any_case(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "token").write_text("anne")
    with served(token_file=tmp_path / "token") as (port, _):
        for token, status in (("anne", 200), ("ann", 401), ("Anne", 401)):
            headers = {"Authorization": f"{scheme} {token}"}
            assert httpx.get(f"http://127.0.0.1:{port}/", headers=headers).status_code == status
        url = f"ws://127.0.0.1:{port}/ws"
        with connect(url, proxy=None, additional_headers={"Authorization": f"{scheme} anne"}) as client:
            client.send("x")
            assert client.recv(10) == "x"
        with pytest.raises(InvalidStatus, match="401"):
            connect(url, proxy=None, additional_headers={"Authorization": f"{scheme} ann"})


# What HTTP/1.1 lets a server ignore.


async def repeat(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request over HTTP with its body."""
    if scope["type"] != "http":
        await echo(scope, receive, send)
        return
    body, message = b"", {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("protocol", [b"h2c", b"h2c, websocket", b"TLS/1.0", b"websocket"])
@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"uPGRADE"])
def test_an_upgrade_that_is_unknown_is_ignored(protocol: bytes, name: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings\r\n" + name + b": " + protocol + b"\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"
    )
    request = b"POST / HTTP/1.1\r\n" + HOST + upgrade + b"Content-Length: 28\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n.."
    with served(app=repeat) as (port, _):
        for pieces in ([request], [request[:40], request[40:90], request[90:]], [request[:-28], request[-28:]]):
            line = line_to(
                port, *pieces, b"POST / HTTP/1.1\r\n" + HOST + b"Connection: close\r\nContent-Length: 3\r\n\r\nend"
            )
            received = heard(line)
            assert received.count(b"HTTP/1.1 200") == 2
            assert b"GET /smuggled" in received
            assert received.endswith(b"end")
    assert capfd.readouterr().err == ""


def test_what_is_no_http_is_told_shortly_and_is_nothing_to_log(capfd: pytest.CaptureFixture[str]) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    with served() as (port, _):
        for said in (
            b"\x16\x03\x01\x02\x00" + b"x" * 1000 + b"\r\n\r\n",
            b"NOTHING\r\n\r\n",
            b"CONNECT a.example:80 HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET http://[/ HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            CHUNKED + b"no size\r\n\r\n",
            b"GET /ws HTTP/1.1\r\n" + HOST + upgrade + b"\r\n",
            b"GET /ws HTTP/1.1\r\n" + HOST + upgrade + key + b"x: " + b"x" * 60_000 + b"\r\n\r\n",
            b"GET /ws HTTP/1.1\r\n" + HOST + upgrade + key + b"x: y\r\n" * 200 + b"\r\n",
        ):
            received = heard(line_to(port, said))
            assert received == b"" or received.startswith(b"HTTP/1.1 4")
            assert len(received) <= 4096
        assert is_served(port)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "codings", [[b"gzip, chunked"], [b"gzip", b"chunked"], [b"chunked", b"chunked"], [b"identity"]]
)
def test_a_transfer_coding_other_than_chunked_is_rejected(codings: list[bytes]) -> None:
    lines = b"".join(b"Transfer-Encoding: " + coding + b"\r\n" for coding in codings)
    with served(app=repeat) as (port, _):
        received = heard(line_to(port, b"POST / HTTP/1.1\r\n" + HOST + lines + b"\r\n1\r\nx\r\n0\r\n\r\n"))
        assert re.findall(rb"HTTP/1.1 (\d+)", received) in ([b"501"], [b"400"])
        for same in (b"Chunked", b"chunked "):
            head = LAST_CHUNKED.replace(b": chunked", b": " + same)
            assert heard(line_to(port, head + b"1\r\nx\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("version", [b"2.0", b"0.9", b"1.2", b"3.0"])
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_another_version_of_http_is_rejected(method: bytes, version: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with served() as (port, _):
        for more in (b"", upgrade + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"):
            received = heard(line_to(port, method + b" / HTTP/" + version + b"\r\n" + HOST + more + b"\r\n"))
            assert re.findall(rb"HTTP/1.1 (\d+)", received) in ([b"505"], [b"400"])
        assert is_served(port)


def test_a_connection_goes_on_behind_a_body_that_was_rejected() -> None:
    with served(max_kilobytes=1) as (port, _), socket.create_connection(("127.0.0.1", port), 10) as line:
        long = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000
        line.sendall(long + b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        received = heard(line)
        assert received.startswith(b"HTTP/1.1 413")
        assert received.count(b"HTTP/1.1 200") == 1


def test_a_connection_goes_on_behind_a_body_that_comes_after_its_rejection() -> None:
    with served(max_kilobytes=1) as (port, _), socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5000\r\n\r\n")
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 413")
        line.sendall(b"x" * 2000)
        time.sleep(0.05)
        line.sendall(b"x" * 3000 + b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert heard(line).startswith(b"HTTP/1.1 200")
