"""A server continues if its log cannot be written: stderr is full, closed, or a pipe without a reader."""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Any

import httpx
import pytest

CLIENT = httpx.Client()
atexit.register(CLIENT.close)
PROGRAM = """if True:
    import sys
    from jaxgym.serve.web import http
    from jaxgym.serve.web.serving import OpenEnv, starting

    async def app(scope, receive, send):
        if scope["path"] == "/fail":
            raise ValueError("x" * 2000)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"said"})

    serving = OpenEnv(env="nothing", port=int(sys.argv[1]), page=False)
    with starting(serving) as bound:
        http.serve(lambda _: app, serving, bound)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def status(port: int, path: str) -> int:
    for _ in range(300):
        with contextlib.suppress(httpx.ConnectError):
            return CLIENT.get(f"http://127.0.0.1:{port}{path}", timeout=10).status_code
        time.sleep(0.1)
    raise AssertionError("no server listens")


@pytest.mark.parametrize(
    "stderr",
    ["full", *(pytest.param(how, marks=pytest.mark.slow) for how in ("closed", "without a reader", "never read"))],
)
def test_a_server_whose_log_can_not_be_written_keeps_serving(stderr: str) -> None:
    port = free_port()
    command: list[Any] = [sys.executable, "-c", PROGRAM, str(port)]
    if stderr == "closed":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(command, stderr=full if stderr == "full" else subprocess.PIPE)
    try:
        if stderr == "without a reader":
            assert process.stderr is not None
            process.stderr.close()
        for _ in range(100 if stderr == "never read" else 3):  # a hundred are more than a pipe holds
            assert status(port, "/fail") == 500
        assert status(port, "/") == 200
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(30)
        if process.stderr is not None:
            process.stderr.close()


def test_the_log_is_written_where_it_can_be() -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(port)], stderr=subprocess.PIPE, text=True)
    assert status(port, "/fail") == 500
    process.terminate()
    said = process.communicate(timeout=30)[1]
    assert f"jaxgym: nothing at http://127.0.0.1:{port}\n" in said
    assert "ERROR: Exception in ASGI application" in said
    assert "ValueError: xxx" in said
    assert process.returncode == 0


def test_a_descriptor_that_is_closed_becomes_no_socket() -> None:
    imports = "import socket; from jaxgym.serve.web.serving import be_a_server"
    program = f"{imports}; be_a_server(); print(socket.socket().fileno())"
    read, write = os.pipe()
    command = ["sh", "-c", 'exec "$@" 0<&- 2>&-', "sh", sys.executable, "-c", program]
    subprocess.run(command, stdout=write, check=True, timeout=60)
    os.close(write)
    with os.fdopen(read) as received:
        assert int(received.read()) > 2
