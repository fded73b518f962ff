"""Several processes behind one port: client ─> parent ─> workers, which load nothing here but in the last test."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from jaxgym.serve.agentgym.client import EnvClient, ServerError
from jaxgym.serve.openenv.client import OpenEnvWrapper
from jaxgym.serve.openenv.front import is_own
from jaxgym.serve.web.serving import OpenEnv

ROOT = Path(__file__).parents[2]
GONE = "was lost with the worker that had it"


@contextlib.contextmanager
def served(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Starts a server; gives its process and its port."""
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    try:
        found = re.search(r":(\d+)\n", process.stderr.readline())
        assert found is not None
        yield process, int(found[1])
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def agentgym() -> Iterator[int]:
    with served("-m", "tests.serve.several", "agentgym") as (_, port):
        yield port


def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def post(port: int, path: str, **body: Any) -> Any:
    return ask(port, "POST", path, body)[1]


def until(holds: Any) -> bool:
    for _ in range(400):
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_environments_are_created_in_turn_and_their_calls_go_to_their_worker(agentgym: int) -> None:
    assert [post(agentgym, "/create")["id"] for _ in range(4)] == [0, 1, 2, 3]
    assert [post(agentgym, "/step", id=number)["worker"] for number in (0, 1, 2, 3, "5", 4.0)] == [0, 1, 0, 1, 1, 0]
    assert [ask(agentgym, "GET", f"/goal?id={number}")[1]["worker"] for number in (0, 1)] == [0, 1]
    assert post(agentgym, "/unknown")["path"] == "/unknown"
    assert ask(agentgym, "GET", "/list_envs") == (200, [0, 1, 2, 3])


def test_a_batch_is_split_and_joined_in_order(agentgym: int) -> None:
    told = post(agentgym, "/step_batch", ids=[3, 0, 1, 2], actions=["x"] * 4)
    assert [(lane["id"], lane["worker"]) for lane in told] == [(3, 1), (0, 0), (1, 1), (2, 0)]
    assert {lane["worker"] for lane in post(agentgym, "/step_batch", ids=[3, 1], actions=["x"] * 2)} == {1}
    assert ask(agentgym, "POST", "/step_batch", {"ids": 3, "actions": []})[0] == 422
    # A batch that can't be played goes to one worker as it is, which says what is wrong.
    assert {lane["worker"] for lane in post(agentgym, "/step_batch", ids=[1, 1, 0], actions=["x"] * 3)} == {0}


def test_where_one_worker_is_full_another_one_creates_and_then_none(agentgym: int) -> None:
    assert [post(agentgym, "/create")["id"] for _ in range(4)] == [4, 5, 6, 7]
    status, told = ask(agentgym, "POST", "/create")
    assert (status, told["error"]) == (503, "all 8 sessions are open; close some, or serve with --max-sessions N.")


def test_the_front_refuses_what_is_too_long_or_no_http(agentgym: int) -> None:
    assert ask(agentgym, "GET", "/health") == (200, {"status": "healthy"})
    assert ask(agentgym, "POST", "/step", b"x" * 2000)[0] == 413
    pieces = http.client.HTTPConnection("127.0.0.1", agentgym, timeout=30)
    with contextlib.closing(pieces):
        pieces.request("POST", "/step", iter([b"x" * 600, b"x" * 600]))
        assert pieces.getresponse().status == 413
    for said, status in (
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"400"),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"200"),
    ):
        with socket.create_connection(("127.0.0.1", agentgym), 30) as line:
            line.sendall(said)
            assert line.recv(1000).split()[1] == status
    with socket.create_connection(("127.0.0.1", agentgym), 30) as line:
        line.sendall(b"GET /health HTTP/1.1\r\n\r\n" * 40)
        told = b""
        while told.count(b"healthy") < 40:
            told += line.recv(65536)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_a_dead_worker_had_is_told_another_one_follows_and_without_a_parent_all_end() -> None:
    with served("-m", "tests.serve.several", "agentgym") as (process, port):
        assert [post(port, "/create")["id"] for _ in range(4)] == [0, 1, 2, 3]
        assert GONE in post(port, "/die", id=1)["error"]
        told = post(port, "/step_batch", ids=[3, 2], actions=["x"] * 2)
        assert GONE in told[0]["error"] or told[0]["worker"] == 1
        assert told[1]["worker"] == 0
        assert until(lambda: "error" not in post(port, "/step", id=1))
        numbers = [post(port, "/create")["id"] for _ in range(3)]
        assert not {0, 1, 2, 3} & set(numbers)
        assert {number % 2 for number in numbers} == {0, 1}
        pids = [post(port, "/step", id=number)["pid"] for number in range(2)]
        process.kill()
        assert until(lambda: not any(map(is_alive, pids)))


def test_sockets_go_to_the_worker_that_has_the_fewest_and_all_else_to_one() -> None:
    with served("-m", "tests.serve.several", "openenv") as (process, port), contextlib.ExitStack() as stack:

        def joined(path: str = "/ws") -> Any:
            return stack.enter_context(connect(f"ws://127.0.0.1:{port}{path}", proxy=None))

        def who(client: Any) -> dict[str, int]:
            client.send("")
            return json.loads(client.recv(30))

        clients = [joined() for _ in range(6)]
        assert Counter(who(client)["worker"] for client in clients) == {0: 3, 1: 3}
        mine = [client for client in clients if who(client)["worker"] == 1]
        for client in mine[:2]:
            client.close()
        assert until(lambda: Counter(who(joined())["worker"] for _ in range(1)) == {1: 1})
        assert {post(port, "/reset")["worker"] for _ in range(3)} == {who(joined("/ws?session_id=x"))["worker"]} == {0}
        # A worker that dies takes its sockets along, and nobody else's.
        os.kill(who(mine[2])["pid"], signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            mine[2].recv(30)
        others = [client for client in clients if client not in mine]
        assert {who(client)["worker"] for client in others} == {0}
        process.terminate()
        with pytest.raises(ConnectionClosed) as ended:
            others[0].recv(30)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1012
        assert process.wait(30) == 0


def test_workers_that_can_not_start_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVERAL_FAIL", "1")
    with served("-m", "tests.serve.several", "openenv") as (process, _):
        assert process.stderr is not None
        assert process.stderr.read().count("there is nothing to load") == 1
        assert process.wait(30) == 1


@pytest.mark.parametrize(
    ("line", "own"),
    [
        (b"GET /ws HTTP/1.1\r", True),
        (b"GET /ws?x=1 HTTP/1.1\r", True),
        (b"GET /mcp HTTP/1.1\r", True),
        (b"GET /ws?session_id=1 HTTP/1.1\r", False),
        (b"POST /mcp HTTP/1.1\r", False),
        (b"GET /health HTTP/1.1\r", False),
        (b"\x16\x03\x01", False),
    ],
)
def test_a_socket_that_names_no_session_is_one_of_its_own(line: bytes, own: bool) -> None:
    assert is_own(line) is own


def test_there_are_no_more_workers_than_sessions() -> None:
    with pytest.raises(ValueError, match="give each one at least"):
        OpenEnv(env="sudoku", workers=3, max_sessions=2)


@pytest.mark.slow
def test_games_are_played_by_workers_and_outlive_one_of_them() -> None:
    flags = ("--env", "frozen_lake", "--port", "0", "--max-sessions", "8", "--workers", "2")
    with served("-m", "jaxgym", "serve", "openenv", *flags) as (process, port):
        config = {"base_url": f"http://127.0.0.1:{port}", "reset_kwargs": {"seed": 3}, "message_timeout": 60}
        wrappers = [OpenEnvWrapper(config) for _ in range(4)]
        assert len({json.dumps(wrapper.reset()[0]["text"]) for wrapper in wrappers}) == 1
        before = [wrapper.step({"message": "<action>down</action>"})[0]["text"] for wrapper in wrappers]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)
        # Sockets that are lost are opened again, and their episodes repeated.
        after = [wrapper.step({"message": "<action>right</action>"})[0]["text"] for wrapper in wrappers]
        assert len(set(before)) == len(set(after)) == 1
        for wrapper in wrappers:
            wrapper.close()
    with served("-m", "jaxgym", "serve", "agentgym", *flags) as (process, port):
        clients = [EnvClient(f"http://127.0.0.1:{port}", token=None) for _ in range(4)]
        assert sorted(client.env_id for client in clients) == [0, 1, 2, 3]
        assert len({client.reset(3)["observation"] for client in clients}) == 1
        assert len({client.step("Thought: x  Action: down").state for client in clients}) == 1
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        workers = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)
        lost: list[str] = []
        for client in clients:
            try:
                client.step("Thought: x  Action: right")
            except ServerError as error:
                lost.append(str(error))
        assert [GONE in why for why in lost] == [True, True]
        for client in clients:
            with contextlib.suppress(ServerError):
                client.close()
