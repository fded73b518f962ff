"""How many steps a server of AgentGym's protocol answers over HTTP, on one machine.

    python benchmarks/agentgym.py --env textcraft --action inventory --sessions 64
    python benchmarks/agentgym.py --env frozen_lake --action up --sessions 256 --mode batch

A server is started in a process of its own and driven from this one, so both want a core. In mode "each" every session
has a connection that is kept open and asks for its next step when the last one is answered; in mode "batch" one
connection asks for a step of all. An episode that ends is reset, which is part of the time and counts for nothing. The
time of the server's processor is that of all its threads.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import time
from typing import Any

import jax

import jaxgym

PROCESSOR_TICKS = slice(11, 13)  # user and system, behind the name in /proc/PID/stat


class Connection:
    """A connection that is kept open, with no more of HTTP than this server needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def post(self, path: str, **body: Any) -> Any:
        content = json.dumps(body).encode()
        self.writer.write(b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(content)))
        self.writer.write(content)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return json.loads(await self.reader.readexactly(length))


async def connect(port: int) -> Connection:
    """Connects as soon as the server listens."""
    while True:
        try:
            return Connection(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
        except OSError:
            await asyncio.sleep(0.1)


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        ticks = file.read().rpartition(")")[2].split()[PROCESSOR_TICKS]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


async def each(connections: list[Connection], ids: list[int], action: str, stop: float) -> int:
    """Returns how many steps were answered until then."""

    async def play(connection: Connection, number: int) -> int:
        steps = 0
        while time.perf_counter() < stop:
            answer = await connection.post("step", id=number, action=action)
            steps += 1
            if answer["done"]:
                await connection.post("reset", id=number, data_idx=steps)
        return steps

    return sum(await asyncio.gather(*map(play, connections, ids)))


async def batch(connections: list[Connection], ids: list[int], action: str, stop: float) -> int:
    """Returns how many steps were answered until then."""
    connection, steps, actions = connections[0], 0, [action] * len(ids)
    while time.perf_counter() < stop:
        answers = await connection.post("step_batch", ids=ids, actions=actions)
        steps += len(ids)
        ended = [number for number, answer in zip(ids, answers, strict=True) if answer["done"]]
        if ended:
            await connection.post("reset_batch", ids=ended, data_idxs=[steps + number for number in ended])
    return steps


async def measure(settings: argparse.Namespace, port: int, pid: int) -> tuple[int, float, float]:
    """Returns the steps, and the seconds and the server's processor seconds that they took."""
    play = {"each": each, "batch": batch}[settings.mode]
    connections = [await connect(port)]
    ids = [(await connections[0].post("create"))["id"] for _ in range(settings.sessions)]
    if settings.mode == "each":
        connections += [await connect(port) for _ in ids[1:]]
    await connections[0].post("reset_batch", ids=ids, data_idxs=list(range(len(ids))))
    await play(connections, ids, settings.action, time.perf_counter() + min(1.0, settings.seconds))
    begun, used = time.perf_counter(), processor_seconds(pid)
    steps = await play(connections, ids, settings.action, begun + settings.seconds)
    return steps, time.perf_counter() - begun, processor_seconds(pid) - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="textcraft", help="an id that has words, or its short name")
    parser.add_argument("--action", default="inventory", help="what every session does, again and again")
    parser.add_argument("--sessions", type=int, default=64, help="sessions side by side")
    parser.add_argument("--mode", default="each", choices=("each", "batch"))
    parser.add_argument("--seconds", type=float, default=5.0, help="how long is measured")
    settings = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--env", settings.env, "--port", str(port), "--max-sessions", str(settings.sessions)]
    command = [sys.executable, "-m", "jaxgym", "serve", "agentgym", *words]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        steps, wall, processor = asyncio.run(measure(settings, port, server.pid))
    finally:
        server.terminate()
        server.wait()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}, jaxgym {jaxgym.__version__}"
    )
    print(f"{settings.env}, {settings.sessions} sessions, mode {settings.mode}, action {settings.action!r}")
    print(f"{steps} steps in {wall:.2f} s")
    print(f"{1e6 * processor / steps:.1f} us of the server's processor time a step")
    print(f"{steps / wall:.0f} steps/s")


if __name__ == "__main__":
    main()
