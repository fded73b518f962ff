"""Measure the steps per second of a server with AgentGym's protocol over HTTP, on one machine.

    python benchmarks/agentgym.py --env textcraft --action inventory --sessions 64
    python benchmarks/agentgym.py --env frozen_lake --action up --sessions 256 --mode batch

In mode "each", every session has a persistent connection and requests its next step when the last one is answered; in
mode "batch", one connection requests a step of all sessions. Episodes that end are reset; resets take time, but are not
counted as steps.
"""

import argparse
import asyncio
import time

from benchmarks import serving
from benchmarks.serving import Connection, Server


async def each(connections: list[Connection], ids: list[int], action: str, stop: float) -> list[float]:
    """Return the seconds of each step until a time."""
    seconds: list[float] = []

    async def play(connection: Connection, number: int) -> None:
        begun = time.perf_counter()
        while begun < stop:
            answer = await connection.post("step", id=number, action=action)
            seconds.append(time.perf_counter() - begun)
            if answer["done"]:
                await connection.post("reset", id=number, data_idx=len(seconds))
            begun = time.perf_counter()

    await asyncio.gather(*map(play, connections, ids))
    return seconds


async def batch(connections: list[Connection], ids: list[int], action: str, stop: float) -> list[float]:
    """Return the seconds of each step until a time; a step takes as long as its batch."""
    connection, actions = connections[0], [action] * len(ids)
    seconds: list[float] = []
    begun = time.perf_counter()
    while begun < stop:
        answers = await connection.post("step_batch", ids=ids, actions=actions)
        seconds += [time.perf_counter() - begun] * len(ids)
        ended = [number for number, answer in zip(ids, answers, strict=True) if answer["done"]]
        if ended:
            await connection.post("reset_batch", ids=ended, data_idxs=[len(seconds) + number for number in ended])
        begun = time.perf_counter()
    return seconds


async def measure(settings: argparse.Namespace, server: Server) -> tuple[list[float], float, list[float]]:
    play = {"each": each, "batch": batch}[settings.mode]
    connections = [await Connection.connect(server.port)]
    ids = [(await connections[0].post("create"))["id"] for _ in range(settings.sessions)]
    if settings.mode == "each":
        connections += [await Connection.connect(server.port) for _ in ids[1:]]
    await connections[0].post("reset_batch", ids=ids, data_idxs=list(range(len(ids))))
    return await serving.measure(server, lambda stop: play(connections, ids, settings.action, stop), settings.seconds)


def main() -> None:
    parser = serving.flags(__doc__, "textcraft")
    parser.add_argument("--action", default="inventory", help="what every session does, again and again")
    parser.add_argument("--mode", default="each", choices=("each", "batch"))
    settings = parser.parse_args()
    with Server("agentgym", settings.env, *settings.options, sessions=settings.sessions) as server:
        figures = asyncio.run(measure(settings, server))
    serving.tell(f"{settings.env}, {settings.sessions} sessions, mode {settings.mode}, {settings.action!r}", *figures)


if __name__ == "__main__":
    main()
