"""Test servers with faults: forgotten sessions, malformed calls, clients that ask for too much or die, and shutdown.

    python benchmarks/serving_faults.py
    python benchmarks/serving_faults.py --protocol openenv --sessions 100 --calls 1000 --only forgotten malformed

Each line has what was done and what was observed; the first failure ends the run with exit code 1.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.serving import BINARY, CLOSE, PING, TEXT, Connection, Server, Socket

GAMES = {"openenv": ("frozen_lake", "<action>right</action>"), "agentgym": ("textcraft", "inventory")}
IDLE_SECONDS = 4
GROWTH = 24  # MiB by which memory may differ between equal rounds
PATIENCE = 60.0
AWAY, RESTART = 1001, 1012
JUNK: tuple[Any, ...] = (
    None, True, -1, 10**30, 1.5, float("nan"), "", "x", "\ud800", "a" * 5000, [], [[]], {}, {"id": {}}, [1, "x"],
)  # fmt: skip


class Failure(Exception):
    """A check that failed."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Failure(what)


def show(protocol: str, what: str) -> None:
    print(f"{protocol}: {what}", flush=True)


def served(protocol: str, *argv: str, sessions: int) -> Server:
    return Server(protocol, GAMES[protocol][0], *argv, sessions=sessions)


async def until(holds: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not await holds():
        check(time.monotonic() < end, what)
        await asyncio.sleep(0.1)


# A session of either protocol.


class Player:
    """A session that reports the answers."""

    def __init__(self, port: int, protocol: str, headers: str = ""):
        self.port, self.protocol, self.headers, self.received = port, protocol, headers, list[Any]()

    async def open(self, seed: int = 3) -> "Player":
        if self.protocol == "openenv":
            self.line: Any = await Socket.connect(self.port, headers=self.headers)
            said = json.loads(await self.line.ask(json.dumps({"type": "reset", "data": {"seed": seed}}).encode()))
            check(said["type"] == "observation", f"no session: {said}")
            self.received = [said["data"]["observation"]["text"]]
        else:
            self.line = await Connection.connect(self.port)
            status, made = await self.line.ask("POST", "create", b"{}", self.headers)
            check(status == 200, f"no session: {made}")
            self.id = made["id"]
            self.received = [await self._post("reset", id=self.id, data_idx=seed)]
            self.received[0].pop("id")
        return self

    async def _post(self, path: str, **body: Any) -> Any:
        return (await self.line.ask("POST", path, json.dumps(body).encode(), self.headers))[1]

    def send(self) -> None:
        """Send a step without waiting for the answer."""
        reply = GAMES[self.protocol][1]
        if self.protocol == "openenv":
            self.line.send(json.dumps({"type": "step", "data": {"message": reply}}).encode())
        else:
            body = json.dumps({"id": self.id, "action": reply})
            self.line.writer.write(f"POST /step HTTP/1.1\r\nHost: localhost\r\n{self.headers}".encode())
            self.line.writer.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())

    async def receive(self) -> Any:
        if self.protocol == "openenv":
            return json.loads((await self.line.receive())[1])
        return (await self.line.answer())[1]

    async def step(self) -> Any:
        self.send()
        said = await self.receive()
        self.received.append(said)
        return said

    def close(self) -> None:
        self.line.close()


# Forgotten sessions.


async def forgotten(protocol: str, settings: argparse.Namespace) -> None:
    room, idle = settings.sessions + 1, ("--idle-seconds", str(IDLE_SECONDS))
    with served(protocol, *idle, sessions=room) as server:
        (await Player(server.port, protocol).open()).close()
        memory = [server.memory()]
        for _ in range(3):
            players = [Player(server.port, protocol) for _ in range(settings.sessions)]
            for first in range(0, len(players), 50):
                await asyncio.gather(*(player.open() for player in players[first : first + 50]))
            if protocol == "openenv":
                ended = await asyncio.gather(*(player.line.receive() for player in players))
                codes = Counter((end[0], int.from_bytes(end[1][:2])) for end in ended)
                check(set(codes) == {(CLOSE, AWAY)}, f"idle sockets are told {codes}")
            await asyncio.sleep(1.5 * IDLE_SECONDS)
            memory.append(server.memory())
            for player in players:
                player.close()
    seen = ", ".join(f"{held:.0f}" for held in memory)
    check(memory[3] - memory[1] < GROWTH, f"memory grows: {seen} MiB")
    show(protocol, f"{settings.sessions} sessions were forgotten three times, none was rejected: {seen} MiB held")


# Malformed calls.


def frames(die: random.Random) -> Iterator[tuple[int, bytes]]:
    """Yield invalid frames: the first byte and the payload."""

    def said(value: Any) -> bytes:
        return json.dumps(value).encode()

    while True:
        junk, other = die.choice(JUNK), die.choice(JUNK)
        yield die.choice(
            (
                (TEXT, die.randbytes(die.randrange(1, 300)) + b"\xff"),
                (BINARY, die.randbytes(100)),
                (TEXT, b"[" * die.choice((10, 100_000))),
                (TEXT, b'{"type":' * 20_000),
                (TEXT, b'{"type":"step","data":{"message":' + b"9" * 10_000 + b"}}"),
                (TEXT, said(junk)),
                (TEXT, said({"type": junk, "data": other})),
                (TEXT, said({"type": "step", "data": {"message": [junk]}})),
                (TEXT, said({"type": "step", "data": {"message": "x", "more": junk}})),
                (TEXT, said({"type": "reset", "data": [junk]})),
                (TEXT, said({"type": "reset", "data": {"seed": die.choice(("3", -1, 2**32, 0.5, []))}})),
                (TEXT, said({"type": "reset", "data": {"split": "none", "index": junk}})),
                (TEXT, said({"type": "state", "more": junk})),
                (TEXT, said({"type": "mcp", "data": {"jsonrpc": "2.0", "method": str(junk), "id": other}})),
                (TEXT, said({"type": "mcp", "data": {"jsonrpc": junk}})),
                (TEXT, said({"type": "step", "data": {"message": "x" * 300_000}})),
            )
        )


async def bad_frames(port: int, calls: int, die: random.Random) -> Counter[str]:
    seen, client = Counter[str](), None
    for (opcode, frame), _ in zip(frames(die), range(calls), strict=False):
        client = client or await Socket.connect(port)
        client.send(frame, opcode)
        first, answer = await client.receive()
        if first == CLOSE:
            seen[f"closed {int.from_bytes(answer[:2])}"] += 1
            client = client.close()
            continue
        received = json.loads(answer)
        wrong = (
            received["data"].get("error", {}).get("code") if received["type"] == "mcp" else received["data"].get("code")
        )
        check(wrong is not None, f"{frame[:200]} was answered with {answer[:200]}")
        seen[str(wrong)] += 1
        if wrong == "SESSION_ERROR":
            client = client.close()
    return seen


async def bad_ids(port: int, calls: int, die: random.Random) -> Counter[str]:
    """Call with ids of sessions that do not exist or belong to others."""
    seen = Counter[str]()
    http = await Connection.connect(port)
    for _ in range(calls):
        name = die.choice((die.randbytes(16).hex(), "x", "0", "%00", "é" * 3))
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        call["params"] = {"name": "reply", "arguments": {"message": "x"}, "session_id": name}  # type: ignore[assignment]
        _, received = await http.ask("POST", "mcp", json.dumps(call).encode())
        seen[str(received["error"]["code"])] += 1
        client = await Socket.connect(port, f"/ws?session_id={die.randbytes(16).hex()}")
        seen[json.loads((await client.receive())[1])["data"]["code"]] += 1
        client.close()
    http.close()
    return seen


def bodies(die: random.Random, foreign: int) -> Iterator[tuple[str, bytes]]:
    """Yield paths and bodies that are not valid calls, or calls for foreign sessions."""
    while True:
        junk, path = die.choice(JUNK), die.choice(("step", "reset", "close", "step_batch", "reset_batch", "render"))
        number = die.choice((foreign, str(foreign), float(foreign), -1, 10**6, 10**30))
        body: Any = die.choice(
            (
                junk,
                {"id": junk, "action": "inventory"},
                {"id": number, "action": "inventory", "data_idx": 1},
                {"ids": junk, "actions": junk, "data_idxs": junk},
                {"ids": [foreign, foreign], "actions": ["inventory"] * 2, "data_idxs": [1, 1]},
                {"ids": [foreign], "actions": ["inventory"] * 2, "data_idxs": [1, 2]},
                {"ids": [foreign], "actions": ["inventory"], "data_idxs": [1]},
            )
        )
        raw = (b"[" * 100_000, die.randbytes(200), b'{"id":' * 20_000, b"x" * 300_000, b'{"id":1', b"")
        yield path, die.choice(raw) if die.random() < 0.4 else json.dumps(body).encode()


def kind_of(status: int, received: Any) -> str:
    """Return the kind of error of a rejected call, or nothing if it was accepted."""
    if status != 200:
        return str(status)
    answers = received if isinstance(received, list) else [received]
    return "200 error" if all(answer is False or "error" in answer for answer in answers) else ""


async def bad_bodies(port: int, calls: int, die: random.Random, foreign: int, headers: str) -> Counter[str]:
    seen, client = Counter[str](), None
    for (path, body), _ in zip(bodies(die, foreign), range(calls), strict=False):
        client = client or await Connection.connect(port)
        status, received = await client.ask("POST", path, body, headers)
        kind = kind_of(status, received)
        check(bool(kind) or received == [], f"{path} {body[:200]} was answered with {status} {received}")
        seen[kind or "200 none"] += 1
        if status == 413:
            client = client.close()
    return seen


async def malformed(protocol: str, settings: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokens").write_text("anne\nbob\n")
        argv = ["--token-file", f"{folder}/tokens"] if protocol == "agentgym" else []
        ours, theirs = (f"Authorization: Bearer {name}\r\n" if argv else "" for name in ("anne", "bob"))
        with served(protocol, *argv, sessions=32) as server:
            alone = await Player(server.port, protocol, ours).open()
            for _ in range(60):
                await alone.step()
            player = await Player(server.port, protocol, ours).open()

            async def play() -> None:
                while len(player.received) < len(alone.received):
                    await player.step()
                    await asyncio.sleep(0.05)

            dice = [random.Random(number) for number in range(8)]
            share = settings.calls // 8
            if protocol == "openenv":
                bad = [bad_frames(server.port, share * 9 // 10, die) for die in dice]
                bad += [bad_ids(server.port, share // 20, die) for die in dice]
            else:
                bad = [bad_bodies(server.port, share, die, player.id, theirs) for die in dice]
            begun = time.monotonic()
            *seen, _ = await asyncio.gather(*bad, play())
            check(player.received == alone.received, "a session was disturbed")
            kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(sum(seen, Counter()).items()))
            show(protocol, f"{settings.calls} malformed calls in {time.monotonic() - begun:.0f} s: {kinds}")
            show(protocol, "a session beside them was told the same as alone")
            said = server.end()
    check(server.code == 0, f"the server ended with {server.code}")
    check("Traceback" not in said, f"the server failed:\n{said[-3000:]}")


# Clients that ask for too much.


async def greedy(protocol: str, settings: argparse.Namespace) -> None:
    del settings
    with served(protocol, sessions=8) as server:
        await (await Player(server.port, protocol).open()).step()
        before = server.memory()
        head = await Connection.connect(server.port)
        sent = await flood(head, b"GET / HTTP/1.1\r\nx: ", b"x" * 65536)
        show(protocol, f"a head without an end was cut off after {sent:.1f} MiB")
        body = await Connection.connect(server.port)
        start = b"POST /step HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent = await flood(body, start, b"10000\r\n" + b"x" * 65536 + b"\r\n")
        show(protocol, f"a body without an end was cut off after {sent:.1f} MiB")
        if protocol == "openenv":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(flood_of_pings(await Socket.connect(server.port)), 10)
        check(server.memory() - before < GROWTH, f"memory grows by {server.memory() - before:.0f} MiB")
        show(protocol, f"memory grew by {server.memory() - before:.1f} MiB")
        await (await Player(server.port, protocol).open()).step()


async def flood(line: Connection, start: bytes, piece: bytes) -> float:
    """Send without end; return the MiB that could be sent."""
    sent = 0
    line.writer.write(start)
    with contextlib.suppress(OSError):
        while sent < 2**30:
            line.writer.write(piece)
            await line.writer.drain()
            sent += len(piece)
    check(sent < 2**30, "nobody ended it")
    return sent / 2**20


async def flood_of_pings(line: Socket) -> None:
    """Send pings and read no answer."""
    line.reader._transport.pause_reading()  # type: ignore[attr-defined]
    while True:
        for _ in range(1000):
            line.send(b"x" * 125, PING)
        await line.writer.drain()


# Clients that die.


async def dying(protocol: str, settings: argparse.Namespace) -> None:
    del settings
    if protocol != "openenv":
        return  # there, sessions do not end with connections
    room = 16
    with served(protocol, sessions=room) as server:
        for _ in range(10):
            players = [await Player(server.port, protocol).open() for _ in range(room)]
            for player in players:
                player.send()
                cut = player.line.writer.get_extra_info("socket")
                cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                player.line.writer.transport.abort()
            await asyncio.sleep(0.3)
    show(protocol, f"{10 * room} clients were cut off in a step, with room for {room}: none of the next was rejected")


async def end_of(player: Player) -> str:
    """Return how the connection was closed."""
    with contextlib.suppress(EOFError, ConnectionError):
        if player.protocol == "openenv":
            return str(int.from_bytes((await player.line.receive())[1][:2]))
        check(await player.line.reader.read(1) == b"", "something was said that nobody asked for")
    return "closed"


async def ending(protocol: str, settings: argparse.Namespace) -> None:
    del settings
    with served(protocol, sessions=64) as server:
        players = [await Player(server.port, protocol).open() for _ in range(64)]
        for player in players[:32]:
            player.send()
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        answered = [await player.receive() for player in players[:32]]
        check(all("error" not in answer for answer in answered), "what was asked was not answered")
        codes = Counter([await end_of(player) for player in players])
        said = await asyncio.to_thread(server.end)
        seconds = time.monotonic() - begun
    check(server.code == 0, f"exit code {server.code}: {said[-2000:]}")
    check(set(codes) == ({str(RESTART)} if protocol == "openenv" else {"closed"}), f"closed with {codes}")
    show(protocol, f"asked to end, it answered 32 steps, closed with {dict(codes)} and ended in {seconds:.1f} s with 0")


PARTS = {part.__name__: part for part in (forgotten, malformed, greedy, dying, ending)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", nargs="+", default=list(GAMES), choices=tuple(GAMES))
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=tuple(PARTS), help="what is tried")
    parser.add_argument("--sessions", type=int, default=1000, help="sessions that are forgotten")
    parser.add_argument("--calls", type=int, default=10_000, help="malformed calls")
    settings = parser.parse_args()
    for protocol in settings.protocol:
        for part in settings.only:
            try:
                asyncio.run(PARTS[part](protocol, settings))
            except Failure as failure:
                raise SystemExit(f"{protocol}, {part}: {failure}") from None


if __name__ == "__main__":
    main()
