"""One of several processes that answer behind one port: it does not listen, it is handed connections.

parent --a byte, a socket--> worker        a connection, and what it is
parent <---- a byte ------- worker         that a connection of this kind is lost, or READY
"""

import asyncio
import contextlib
import dataclasses
import importlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxgym.serve.web.serving import Serving

READY = b"r"
"""What a worker says when its game is loaded."""

_TICK_SECONDS = 0.01
_FOR_EVER = 10**7  # seconds


@dataclasses.dataclass(frozen=True)
class Place:
    """Which of several workers a process is.

    Attributes:
        number: Its number, from 0.
        workers: How many there are.
        created: How many environments those before it in its place may have created.
    """

    number: int = 0
    workers: int = 1
    created: int = 0


def work(serving: "Serving", module: str, place: Place, control: socket.socket, keeps_connections: bool) -> None:
    """Answers until the parent says so or ends; this is all that the process of a worker does.

    Args:
        serving: What this worker is told; its share of the sessions.
        module: The module of the protocol.
        place: Which worker it is.
        control: Where connections come from.
        keeps_connections: Whether connections stay open however long nothing is asked.
    """
    # What a terminal sends to all of its processes is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    from jaxgym.serve.web.serving import be_a_server, exiting

    def answer() -> None:
        be_a_server()
        _answer(serving, importlib.import_module(module), place, control, keeps_connections)

    exiting(answer)


def _answer(serving: "Serving", protocol: Any, place: Place, control: socket.socket, keeps_connections: bool) -> None:
    from jaxgym.serve.web.http import make_server
    from jaxgym.serve.web.serving import FAILED

    parts = protocol.parts(serving, place)
    server = make_server(parts, serving)
    if keeps_connections:
        server.config.timeout_keep_alive = _FOR_EVER

    async def main() -> None:
        serve = asyncio.create_task(server.serve(sockets=[]))
        while not server.started and not server.should_exit:
            await asyncio.sleep(_TICK_SECONDS)
        # uvicorn takes this signal, too.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.get_running_loop().add_reader(control.fileno(), _adopt, server, control)
        telling = asyncio.create_task(_tell_ready(parts.loading, control))
        await serve
        telling.cancel()

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(main())
    if parts.loading.error is not None:
        if place.number and not place.created:  # of several that fail alike, one says so
            sys.exit(FAILED)
        raise parts.loading.error
    parts.loading.leave()


async def _tell_ready(loading: Any, control: socket.socket) -> None:
    with contextlib.suppress(Exception):  # what can't be loaded is raised where the process ends
        await loading.get()
        control.send(READY)


def _adopt(server: Any, control: socket.socket) -> None:
    """Takes a connection over; without a parent the server ends."""
    try:
        kind, descriptors, *_ = socket.recv_fds(control, 1, 1)
    except BlockingIOError:
        return
    except OSError:
        kind, descriptors = b"", []
    loop = asyncio.get_running_loop()
    if not kind:
        loop.remove_reader(control.fileno())
        server.should_exit = True
        return

    def tell() -> None:
        with contextlib.suppress(OSError):  # of a parent that is gone
            control.send(kind)

    def protocol() -> asyncio.Protocol:
        made = server.config.http_protocol_class(
            config=server.config, server_state=server.server_state, app_state=server.lifespan.state, _loop=loop
        )
        made.on_lost = tell
        return made

    async def adopt(connection: socket.socket) -> None:
        try:
            await loop.connect_accepted_socket(protocol, connection)
        except OSError:  # of a client that is gone
            tell()

    connection = socket.socket(fileno=descriptors[0])
    connection.setblocking(False)
    task = loop.create_task(adopt(connection))
    server.server_state.tasks.add(task)
    task.add_done_callback(server.server_state.tasks.discard)
