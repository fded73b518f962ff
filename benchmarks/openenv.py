"""How many steps a server of OpenEnv answers over WebSocket, on one machine.

    python benchmarks/openenv.py --env frozen_lake --message '<action>up</action>' --sessions 64
    python benchmarks/openenv.py --env sudoku --message '[1 1 1]' --sessions 256

A server is started in a process of its own and driven from this one, so both want a core. Every session has a socket
and asks for its next step when the last one is answered. An episode that ends is reset, which is part of the time and
counts for nothing. The time of the server's processor is that of all its threads.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import struct
import subprocess
import sys
import time
from typing import Any

import jax

import jaxgym

PROCESSOR_TICKS = slice(11, 13)  # user and system, behind the name in /proc/PID/stat
SHORT, MIDDLE, LONG = 125, 126, 127  # lengths of frames: as they are, in two bytes, in eight
TEXT, MASKED = 0x81, 0x80


class Client:
    """A socket, with no more of WebSocket than this server needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def shake_hands(self) -> "Client":
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        self.writer.write(f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}\r\n".encode())
        await self.reader.readuntil(b"\r\n\r\n")
        return self

    async def ask(self, frame: bytes) -> bytes:
        length = len(frame)
        short = (
            bytes([TEXT, MASKED | length]) if length <= SHORT else struct.pack("!BBH", TEXT, MASKED | MIDDLE, length)
        )
        self.writer.write(short + bytes(4) + frame)  # a mask of zeros leaves the frame as it is
        length = (await self.reader.readexactly(2))[1]
        if length == MIDDLE:
            length = int.from_bytes(await self.reader.readexactly(2))
        elif length == LONG:
            length = int.from_bytes(await self.reader.readexactly(8))
        return await self.reader.readexactly(length)


async def connect(port: int) -> Client:
    """Connects as soon as the server listens."""
    while True:
        try:
            return await Client(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)).shake_hands()
        except OSError:
            await asyncio.sleep(0.1)


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        ticks = file.read().rpartition(")")[2].split()[PROCESSOR_TICKS]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


async def play(clients: list[Client], message: str, stop: float) -> list[float]:
    """Returns how many seconds each step took, until then."""
    frame = json.dumps({"type": "step", "data": {"message": message}}).encode()
    seconds: list[float] = []

    async def go(client: Client) -> None:
        begun = time.perf_counter()
        while begun < stop:
            answer = await client.ask(frame)
            seconds.append(time.perf_counter() - begun)
            if answer.endswith(b'"done":true}}'):
                await client.ask(b'{"type":"reset"}')
            begun = time.perf_counter()

    await asyncio.gather(*map(go, clients))
    return seconds


async def measure(settings: argparse.Namespace, port: int, pid: int) -> tuple[list[float], float, float]:
    """Returns the seconds of the steps, and the seconds and the server's processor seconds of all together."""
    clients = [await connect(port) for _ in range(settings.sessions)]
    for number, client in enumerate(clients):
        opened: dict[str, Any] = json.loads(await client.ask(b'{"type":"reset","data":{"seed":%d}}' % number))
        if opened["type"] != "observation":
            raise SystemExit(f"no session: {opened['data']}")
    await play(clients, settings.message, time.perf_counter() + min(1.0, settings.seconds))
    begun, used = time.perf_counter(), processor_seconds(pid)
    steps = await play(clients, settings.message, begun + settings.seconds)
    return steps, time.perf_counter() - begun, processor_seconds(pid) - used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="frozen_lake", help="an id that has words, or its short name")
    parser.add_argument("--message", default="<action>up</action>", help="what every session replies, again and again")
    parser.add_argument("--sessions", type=int, default=64, help="sessions side by side")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long is measured")
    settings = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--env", settings.env, "--port", str(port), "--max-sessions", str(settings.sessions)]
    command = [sys.executable, "-m", "jaxgym", "serve", "openenv", *words]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        steps, wall, processor = asyncio.run(measure(settings, port, server.pid))
    finally:
        server.terminate()
        server.wait()
    steps.sort()
    slow, middle = (1e3 * steps[int(part * len(steps))] for part in (0.99, 0.5))
    print(
        f"{platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}, jaxgym {jaxgym.__version__}"
    )
    print(f"{settings.env}, {settings.sessions} sessions, message {settings.message!r}")
    print(f"{len(steps)} steps in {wall:.2f} s; a step takes {middle:.1f} ms, 1 of 100 more than {slow:.1f} ms")
    print(f"{1e6 * processor / len(steps):.1f} us of the server's processor time a step")
    print(f"{len(steps) / wall:.0f} steps/s")


if __name__ == "__main__":
    main()
