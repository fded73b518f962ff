"""Measure the steps per second of an OpenEnv server over WebSocket, on one machine.

    python benchmarks/openenv.py --env frozen_lake --message '<action>up</action>' --sessions 64
    python benchmarks/openenv.py --env sudoku --message '[1 1 1]' --sessions 256

Every session has a socket and requests its next step when the last one is answered. Episodes that end are reset; resets
take time, but are not counted as steps.
"""

import argparse
import asyncio
import json
import time
from typing import Any

from benchmarks import serving
from benchmarks.serving import Server, Socket


async def play(clients: list[Socket], message: str, stop: float) -> list[float]:
    """Return the seconds of each step until a time."""
    frame = json.dumps({"type": "step", "data": {"message": message}}).encode()
    seconds: list[float] = []

    async def go(client: Socket) -> None:
        begun = time.perf_counter()
        while begun < stop:
            answer = await client.ask(frame)
            seconds.append(time.perf_counter() - begun)
            if answer.endswith(b'"done":true}}'):
                await client.ask(b'{"type":"reset"}')
            begun = time.perf_counter()

    await asyncio.gather(*map(go, clients))
    return seconds


async def measure(settings: argparse.Namespace, server: Server) -> tuple[list[float], float, list[float]]:
    clients = [await Socket.connect(server.port) for _ in range(settings.sessions)]
    for number, client in enumerate(clients):
        opened: dict[str, Any] = json.loads(await client.ask(b'{"type":"reset","data":{"seed":%d}}' % number))
        if opened["type"] != "observation":
            raise SystemExit(f"no session: {opened['data']}")
    return await serving.measure(server, lambda stop: play(clients, settings.message, stop), settings.seconds)


def main() -> None:
    parser = serving.flags(__doc__, "frozen_lake")
    parser.add_argument("--message", default="<action>up</action>", help="what every session replies, again and again")
    settings = parser.parse_args()
    with Server("openenv", settings.env, *settings.options, sessions=settings.sessions) as server:
        figures = asyncio.run(measure(settings, server))
    serving.tell(f"{settings.env}, {settings.sessions} sessions, message {settings.message!r}", *figures)


if __name__ == "__main__":
    main()
