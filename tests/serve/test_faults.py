"""Rejected behavior of clients, for any app: an app that answers everything, behind the servers' guard.

client --a socket--> uvicorn in a thread, with our protocols --> Guard --> echo
"""

import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from jaxgym import interrupts
from jaxgym.errors import OptionError
from jaxgym.serve import command
from jaxgym.serve.web import http, requests
from jaxgym.serve.web.serving import PROTOCOLS, OpenEnv, starting, tokens_of
from tests.serve.running import running

SECONDS = 30
LARGE = 1 << 24


async def echo(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    body, status = b"." * LARGE if scope["path"] == "/large" else b"said", 200
    try:
        while (await receive()).get("more_body"):
            continue
    except HTTPException as error:
        status = error.status_code
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def served(app: Any = echo, page: bool = False, **settings: Any) -> Iterator[tuple[int, Any]]:
    """Serve; yield the port and the server."""
    serving = OpenEnv(env="nothing", port=0, page=page, **settings)
    with running(app, serving) as (port, server):
        yield port, server


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(max_kilobytes=4) as (port, _):
        yield port


def line_to(port: int, *said: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), SECONDS)
    for part in said:
        line.sendall(part)
        time.sleep(0.02)
    return line


def heard(line: socket.socket) -> bytes:
    """Return all output until the end."""
    received = b""
    with line, contextlib.suppress(ConnectionError):
        while part := line.recv(65536):
            received += part
    return received


def sent_until_cut(line: socket.socket, piece: bytes) -> int:
    sent = 0
    with line, contextlib.suppress(ConnectionError):
        while sent < 1 << 28:
            line.sendall(piece)
            sent += len(piece)
    return sent


def until(holds: Any) -> bool:
    for _ in range(300):
        if holds():
            return True
        time.sleep(0.02)
    return False


def test_a_head_without_an_end_is_rejected(port: int) -> None:
    line = line_to(port, b"GET / HTTP/1.1\r\n", *[b"x: " + b"x" * 40_000 + b"\r\n"] * 3)
    assert heard(line).startswith(b"HTTP/1.1 431")
    assert sent_until_cut(line_to(port, b"GET / HTTP/1.1\r\nx: "), b"x" * 65536) < 1 << 26


def test_a_body_without_an_end_is_rejected_and_cut_off(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert sent_until_cut(line_to(port, head), b"10000\r\n" + b"x" * 65536 + b"\r\n") < 1 << 26


def test_a_client_goes_on_after_a_body_that_is_too_long(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DISCARD_SECONDS", SECONDS)  # on a busy machine, a client needs time to send its end
    with httpx.Client() as client:
        for status in (413, 200):
            body = iter([b"x" * 5000] if status == 413 else [b"x"])
            assert client.post(f"http://127.0.0.1:{port}/", content=body).status_code == status


@pytest.mark.parametrize("parts", [1, 2, 3], ids="{} reads".format)
@pytest.mark.parametrize("trailers", [b"", b"x: y\r\n"], ids=["no trailers", "trailers"])
@pytest.mark.parametrize("body", [b"x", b"\r\n\r\n" * 3, b"x" * 5000, b"\r\n\r\n" * 1250], ids=len)
def test_a_request_in_the_same_read_as_the_end_of_a_chunked_body_is_answered(
    port: int, body: bytes, trailers: bytes, parts: int
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    chunked = b"\r\n%x\r\n%b\r\n0\r\n" % (len(body), body) + trailers
    cut = len(head + chunked) - 3  # inside of the marks that end the body
    said = (head + chunked + b"\r\n") * 2 + head + b"Connection: close" + b"\r\n" + chunked + b"\r\n"
    expected = b"413" if len(body) > 4096 else b"200"
    pieces = [said] if parts == 1 else [said[:cut], said[cut:]] if parts == 2 else [said[:cut], said[cut:-2], said[-2:]]
    assert re.findall(rb"HTTP/1.1 (\d+)", heard(line_to(port, *pieces))) == [expected] * 3


def test_who_does_not_go_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE_SECONDS", 0.2)
    unfinished = (
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    with served() as (port, _):
        lines = [line_to(port, said) for said in unfinished]
        assert [heard(line).startswith(b"HTTP/1.1 200") for line in lines] == [False, False, False, True]


def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LINGER_SECONDS", 0.2)
    with (
        served() as (port, server),
        line_to(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ):
        assert until(lambda: server.server_state.connections)
        assert until(lambda: not server.server_state.connections)


def test_pings_of_those_who_do_not_read_are_not_answered() -> None:
    with served() as (port, server), line_to(port) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n")
        line.sendall(b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
        assert b"101" in line.recv(4096)
        (protocol,) = server.server_state.connections
        ping, pong = b"\x89\x81" + bytes(4) + b"%d", b"\x8a\x01%d"
        protocol.writable.clear()  # as where the client does not read
        line.sendall(ping % 1)
        time.sleep(0.2)
        protocol.writable.set()
        line.sendall(ping % 2)
        assert line.recv(4096) == pong % 2


def test_pages_of_other_sites_may_not_ask(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    for origin in ("http://else.where", "null", f"http://127.0.0.1:{port + 1}"):
        for method in ("GET", "POST", "OPTIONS"):
            received = httpx.request(method, f"{base}/", headers={"Origin": origin})
            assert received.status_code == 403
            assert not any(name.startswith("access-control") for name in received.headers)
        with pytest.raises(InvalidStatus, match="403"), connect(f"ws://127.0.0.1:{port}/ws", origin=origin, proxy=None):  # type: ignore[arg-type]
            raise AssertionError("it was let in")
    assert httpx.get(f"{base}/", headers={"Origin": base}).status_code == 200


def test_a_socket_that_is_rejected_is_nothing_to_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{port}/ws", origin="http://else.where", proxy=None)  # type: ignore[arg-type]
    assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    log.removeHandler(caplog.handler)
    assert caplog.messages == []


# The client ends a message with one more, empty piece; nothing follows it that could hide the close frame.
@pytest.mark.parametrize(
    ("message", "code"), [([b"\xff\xfe"], 1007), (["x"] * requests.MOST_PIECES, 1009), (["x" * 5000], 1009)]
)
def test_a_message_that_is_none_ends_a_socket(
    port: int, message: list[Any], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as client:
        with contextlib.suppress(ConnectionClosed):
            if isinstance(message[0], bytes):
                client.send(message[0], text=True)
            else:
                client.send(iter(message))
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(SECONDS)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == code
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_of_tokens_is_read_or_it_is_said_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    serving = OpenEnv(env="nothing", token_file=path)
    with pytest.raises(OSError, match="can't be read: No such file"):
        tokens_of(serving)
    for content, why in ((b" \n", "an empty file"), (b"\xff\xfe", "other characters"), (b"a\0b", "other characters")):
        path.write_bytes(content)
        with pytest.raises(OptionError, match=why):
            tokens_of(serving)
    path.write_bytes(b"anne\r\nbob\n")
    assert tokens_of(serving) == [b"anne", b"bob"]
    for mode, is_told in ((0o600, False), (0o644, True)):
        path.chmod(mode)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            http.announce(serving, listener)
        assert ("every user" in capsys.readouterr().err) is is_told


def test_each_token_of_a_file_is_one_and_the_scheme_is_bearer(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("anne\nbob\n")
    with served(token_file=tmp_path / "tokens") as (port, _):
        for given, status in (
            ("Bearer anne", 200),
            ("Bearer bob", 200),
            ("Bearer ann", 401),
            ("Bearer anne\tbob", 401),
            ("Basic anne", 401),
            ("", 401),
        ):
            received = httpx.get(f"http://127.0.0.1:{port}/", headers={"Authorization": given})
            assert received.status_code == status, given
        assert received.headers["www-authenticate"] == "Bearer"
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def test_the_servers_listen_on_this_machine_alone_unless_told() -> None:
    assert {kind(env="nothing").host for kind in PROTOCOLS.values()} == {"127.0.0.1"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("flag", [("--workers", "4"), ("--workers=4",)])
def test_the_flag_workers_names_two_ways_to_scale_out(
    protocol: str, flag: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([protocol, "--env", "nothing", "--port", "0", *flag])
    received = capsys.readouterr().err
    assert ended.value.code == command.MISUSED
    assert "Ray Serve" in received
    assert "reverse proxy" in received
    (page,) = re.findall(r"docs/[\w/]+\.md", received)
    headings = re.findall(r"^## (.*)$", (Path(__file__).parents[2] / page).read_text(), re.MULTILINE)
    assert headings == ["Ray Serve", "Reverse proxy", "Session pool on Ray"]


def test_a_server_that_loads_lets_no_client_in_and_ends_at_once_when_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = f"""if True:
        import time
        from jaxgym.serve import command
        from jaxgym.serve.pool import SessionPool

        def load(*_):
            print("loads", flush=True)
            time.sleep(60)

        SessionPool.prepare = load
        command.main(["openenv", "--env", "frozen_lake", "--port", "{port}"])
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loads\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), SECONDS)
    process.terminate()
    assert process.communicate(timeout=SECONDS) == ("", "jaxgym: loading frozen_lake\n")
    assert process.returncode == 0


@pytest.mark.parametrize(("asked", "code"), [("SIGTERM", 0), ("SIGINT", interrupts.CODE)])
def test_a_server_that_is_asked_to_end_as_soon_as_it_has_its_address_ends_at_once(asked: str, code: int) -> None:
    program = f"""
import signal
from jaxgym.serve import command
from jaxgym.serve.web import serving

serving.be_a_server = lambda: signal.raise_signal(signal.{asked})
command.main(["openenv", "--env", "nothing", "--port", "0"])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, "")


def test_a_server_that_has_ended_leaves_the_signals_of_its_process_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with starting(OpenEnv(env="nothing", port=0)):
        during = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert not set(during) & set(before)


def test_servers_leave_accelerators_alone_and_make_small_steps_at_once_if_jax_was_imported_first() -> None:
    program = """if True:
        import jax
        from jaxgym.serve.openenv.server import make_app, settings
        from jaxgym.serve.web.serving import OpenEnv, starting
        def show():
            print(jax.config.jax_platforms, jax.config.read("jax_cpu_enable_async_dispatch"))
            jax.config.update("jax_platforms", None)
            jax.config.update("jax_cpu_enable_async_dispatch", True)
        with starting(OpenEnv(env="nothing", port=0)):
            show()
        make_app(settings("nothing"))
        show()
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS, check=True)
    assert ended.stdout == "cpu False\n" * 2
