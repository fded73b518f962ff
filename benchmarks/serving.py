"""Shared parts of the server benchmarks: a server in a process of its own, clients of both protocols, and figures.

    with Server("openenv", "frozen_lake", sessions=64) as server:
        client = await Socket.connect(server.port)

Server and clients need a core each. A client implements only the parts of its protocol that these servers need, so that
the time is the server's. The processor time of a server is that of all its threads.
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
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

import jax

import jaxgym

TICKS = slice(11, 13)  # user and system time in /proc/PID/stat after the name
SHORT, MIDDLE, LONG = 125, 126, 127  # frame lengths: in the first byte, in two bytes, in eight bytes
TEXT, BINARY, CLOSE, PING, MASKED = 0x81, 0x82, 0x88, 0x89, 0x80
END_SECONDS = 60


class Server:
    """A server in a process of its own, which ends with the context."""

    def __init__(self, protocol: str, env: str, *argv: str, sessions: int):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        flags = ["--port", str(self.port), "--max-sessions", str(sessions)]
        self.command = [sys.executable, "-m", "jaxgym", "serve", protocol, "--env", env, *argv, *flags]
        self.code: int | None = None

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            self.end()

    def end(self) -> str:
        """Terminate the server; return its output."""
        self.process.terminate()
        try:
            said = self.process.communicate(timeout=END_SECONDS)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        self.code = self.process.returncode
        return said

    def processor_seconds(self) -> float:
        """Return the processor time that it has used."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, stat[TICKS])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Return its memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Connection:
    """Persistent HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Connect as soon as the server listens."""
        while True:
            try:
                return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
            except ConnectionRefusedError:
                await asyncio.sleep(0.1)

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "") -> tuple[int, Any]:
        head = f"{method} /{path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        return await self.answer()

    async def answer(self) -> tuple[int, Any]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await self.reader.readexactly(length)
        return int(head.split()[1]), json.loads(content) if b"json" in head else content.decode()

    async def post(self, path: str, **body: Any) -> Any:
        return (await self.ask("POST", path, json.dumps(body).encode()))[1]

    def close(self) -> None:
        self.writer.close()


class Socket:
    """WebSocket client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int, path: str = "/ws", headers: str = "") -> Self:
        """Connect as soon as the server listens."""
        plain = await Connection.connect(port)
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        plain.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}{headers}\r\n".encode())
        head = await plain.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise ConnectionError(head.partition(b"\r\n")[0].decode())
        return cls(plain.reader, plain.writer)

    def send(self, frame: bytes, opcode: int = TEXT) -> None:
        length = len(frame)
        if length <= SHORT:
            head = bytes([opcode, MASKED | length])
        elif length < 1 << 16:
            head = struct.pack("!BBH", opcode, MASKED | MIDDLE, length)
        else:
            head = struct.pack("!BBQ", opcode, MASKED | LONG, length)
        self.writer.write(head + bytes(4) + frame)  # a mask of zeros leaves the frame unchanged

    async def receive(self) -> tuple[int, bytes]:
        """Return the first byte and the payload of the next frame that is not a ping."""
        opcode, frame = PING, b""
        while opcode == PING:
            opcode, length = await self.reader.readexactly(2)
            if length == MIDDLE:
                length = int.from_bytes(await self.reader.readexactly(2))
            elif length == LONG:
                length = int.from_bytes(await self.reader.readexactly(8))
            frame = await self.reader.readexactly(length)
        return opcode, frame

    async def ask(self, frame: bytes) -> bytes:
        self.send(frame)
        return (await self.receive())[1]

    def close(self) -> None:
        self.writer.close()


Play = Callable[[float], Coroutine[Any, Any, list[float]]]


async def measure(server: Server, play: Play, seconds: float) -> tuple[list[float], float, float]:
    """Play for a while after a warm-up.

    Args:
        server: The server.
        play: Function that plays until a time of `time.perf_counter` and returns the seconds of each step.
        seconds: Duration of the measurement.

    Returns:
        Seconds of each step, of all of them together, and of the server's processor.
    """
    await play(time.perf_counter() + min(1.0, seconds))
    begun, used = time.perf_counter(), server.processor_seconds()
    steps = await play(begun + seconds)
    wall = time.perf_counter() - begun
    return steps, wall, server.processor_seconds() - used


def tell(title: str, steps: Sequence[float], wall: float, processor: float) -> None:
    """Print the figures of a measurement."""
    ordered = sorted(steps)
    middle, slow = (1e3 * ordered[int(part * len(ordered))] for part in (0.5, 0.99))
    print(
        f"{platform.machine()}, Python {platform.python_version()}, jax {jax.__version__}, jaxgym {jaxgym.__version__}"
    )
    print(title)
    print(f"{len(steps)} steps in {wall:.2f} s; a step takes {middle:.1f} ms, 1 of 100 more than {slow:.1f} ms")
    print(f"{processor * 1e6 / len(steps):.1f} us of the server's processor time a step")
    print(f"{len(steps) / wall:.0f} steps/s")


def flags(doc: str, env: str) -> argparse.ArgumentParser:
    """Return the flags that all benchmarks share."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--env", default=env, help="an id that has a text interface, or its short name")
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE", help="options of the sessions")
    parser.add_argument("--sessions", type=int, default=64, help="sessions side by side")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long is measured")
    return parser
