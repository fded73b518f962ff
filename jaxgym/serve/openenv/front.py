"""The front of several workers that speak OpenEnv: it hands connections over, and takes no part in what is said.

A WebSocket whose session begins and ends with it goes to the worker that has the fewest. Everything else, such as
sessions that calls over HTTP open and name, is for one worker.
"""

import asyncio
import contextlib
import socket
import time
from urllib.parse import parse_qs

from jaxgym.serve.web.serving import Serving
from jaxgym.serve.web.workers import Front, Worker, Workers

WORKERS = "jaxgym.serve.openenv.server"
KEEPS_CONNECTIONS = False
OWN, HOME = b"s", b"h"
"""Kinds of connections: a WebSocket that is a session of its own, and all others, which one worker answers."""

_LOOK_SECONDS, _AGAIN_SECONDS = 10.0, 0.02
_PAUSE_SECONDS = 1.0
_LINE = 4096
_AT_ONCE = 64


def front(serving: Serving, workers: Workers) -> Front:
    """Returns what answers on the port."""
    del serving
    return OpenEnvFront(workers)


def is_own(line: bytes) -> bool:
    """Whether a connection that begins with this line is a session of its own."""
    method, _, rest = line.partition(b" ")
    path, _, query = rest.partition(b" ")[0].partition(b"?")
    return method == b"GET" and (path == b"/mcp" or (path == b"/ws" and b"session_id" not in parse_qs(query)))


class OpenEnvFront:
    """What clients of several workers connect to."""

    def __init__(self, workers: Workers):
        """Hands over to these."""
        self._workers = workers
        self._home: Worker | None = None
        self._looking: set[socket.socket] = set()
        self._listener: socket.socket | None = None

    async def start(self, listener: socket.socket) -> None:
        """Lets clients in."""
        listener.setblocking(False)
        self._listener = listener
        self._listen()

    def _listen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)

    async def drain(self) -> None:
        """Closes the listener; what is said is up to the workers."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for connection in self._looking:
            asyncio.get_running_loop().remove_reader(connection.fileno())
            connection.close()
        self._looking.clear()

    def lost(self, worker: Worker) -> None:
        """Has another worker answer what a worker did that died."""
        if self._home is worker:
            self._home = None

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # of a client that is gone
                continue
            except OSError:  # of too many of them
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener.fileno())
                loop.call_later(_PAUSE_SECONDS, self._listen)
                return
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._looking.add(connection)
            self._look(connection, time.monotonic() + _LOOK_SECONDS)

    def _look(self, connection: socket.socket, until: float) -> None:
        """Looks at the first line of a connection and leaves it there for the worker."""
        if connection not in self._looking:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(connection.fileno())
        try:
            begun = connection.recv(_LINE, socket.MSG_PEEK)
        except BlockingIOError:
            loop.add_reader(connection.fileno(), self._look, connection, until)
            loop.call_at(loop.time() + until - time.monotonic(), self._give_up, connection)
            return
        except OSError:
            begun = b""
        if b"\n" in begun or len(begun) == _LINE:
            self._looking.discard(connection)
            self._hand_over(connection, begun.partition(b"\n")[0])
        elif not begun or time.monotonic() > until:
            self._give_up(connection)
        else:
            loop.call_later(_AGAIN_SECONDS, self._look, connection, until)

    def _give_up(self, connection: socket.socket) -> None:
        if connection in self._looking:
            asyncio.get_running_loop().remove_reader(connection.fileno())
            self._looking.discard(connection)
            connection.close()

    def _hand_over(self, connection: socket.socket, line: bytes) -> None:
        living = self._workers.living()
        if not living:
            connection.close()
        elif is_own(line):
            min(living, key=lambda worker: worker.load[OWN]).give(connection, OWN)
        else:
            if self._home is None or not self._home.is_there:
                self._home = living[0]
            self._home.give(connection, HOME)
