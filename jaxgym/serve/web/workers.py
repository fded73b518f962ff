"""Several processes behind one port, as their parent sees them; it knows no game and no JAX.

A worker that dies is replaced, and its sessions are lost with it. Without their parent all workers end.
"""

import asyncio
import dataclasses
import importlib
import multiprocessing
import signal
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from jaxgym.serve.web.serving import Serving
from jaxgym.serve.web.worker import READY, Place, work

END_SECONDS = 25
"""How long a worker may take to end before it is killed: twice what answers and sockets have, and a little."""

_LONGEST_PAUSE = 30.0
_MOST_REPORTS = 4096


class Front(Protocol):
    """What answers on the port of the parent."""

    async def start(self, listener: socket.socket) -> None:
        """Lets clients in."""
        ...

    async def drain(self) -> None:
        """Closes the listener, and returns when nothing is on its way through the parent any more."""
        ...

    def lost(self, worker: "Worker") -> None:
        """Hears of a worker that died; another one follows in its place."""
        ...


class Worker:
    """A process that answers.

    Attributes:
        place: Which one it is.
        is_ready: Whether its game is loaded.
        load: Connections that it has been given and not lost, by kind.
        created: Environments that it was asked to create.
    """

    def __init__(self, place: Place, process: BaseProcess, control: socket.socket):
        self.place, self.process, self.control = place, process, control
        self.is_ready = False
        self.load = Counter[bytes]()
        self.created = place.created
        self._waiting = deque[tuple[socket.socket, bytes]]()

    @property
    def is_there(self) -> bool:
        """Whether it may be asked; at the start all are, though they load: none of them is to get more than others."""
        return self.is_ready or not self.place.created

    def give(self, connection: socket.socket, kind: bytes) -> None:
        """Hands a connection over, which is closed here; at once, or when the worker has taken those before it."""
        self.load[kind] += 1
        self._waiting.append((connection, kind))
        if len(self._waiting) == 1:
            self._hand_over()

    def _hand_over(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            connection, kind = self._waiting[0]
            try:
                socket.send_fds(self.control, [kind], [connection.fileno()])
            except BlockingIOError:
                loop.add_writer(self.control.fileno(), self._hand_over)
                return
            except OSError:  # of a worker that has just died: its connections die with it
                break
            self._waiting.popleft()
            connection.close()
        self.let_go()

    def let_go(self) -> None:
        """Closes the connections that the worker has not taken."""
        if self.control.fileno() >= 0:
            asyncio.get_running_loop().remove_writer(self.control.fileno())
        while self._waiting:
            self._waiting.popleft()[0].close()


class Workers:
    """All workers of a server.

    Attributes:
        all: Those that live, by their number; None where one died and the next is yet to start.
        failure: The exit code of a worker that could not start, or None.
    """

    def __init__(self, serving: Serving, module: str, *, keeps_connections: bool, stop: Callable[[], None]):
        """Starts none yet.

        Args:
            serving: What all of them serve together.
            module: The module of the protocol.
            keeps_connections: Whether workers keep connections open however long nothing is asked.
            stop: Called when they can't go on.
        """
        self._serving, self._module, self._keeps, self._stop = serving, module, keeps_connections, stop
        self._spawn = multiprocessing.get_context("spawn")
        self._is_ending = False
        self._failures = 0
        self.failure: int | None = None
        self.all: list[Worker | None] = [None] * serving.workers

    def living(self) -> list[Worker]:
        """Returns those that answer, or, without any, those that are going to."""
        living = [worker for worker in self.all if worker is not None]
        return [worker for worker in living if worker.is_there] or living

    def start(self, front: Front) -> None:
        """Starts all."""
        for number in range(len(self.all)):
            self._start(front, number, 0)

    def _start(self, front: Front, number: int, created: int) -> None:
        if self._is_ending:
            return
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        place = Place(number, len(self.all), created)
        share, rest = divmod(self._serving.max_sessions, len(self.all))
        told = dataclasses.replace(self._serving, max_sessions=share + (number < rest))
        arguments = (told, self._module, place, theirs, self._keeps)
        process = self._spawn.Process(target=work, args=arguments, name=f"jaxgym worker {number}", daemon=True)
        process.start()
        theirs.close()
        worker = self.all[number] = Worker(place, process, ours)
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), self._hear, worker)
        loop.add_reader(process.sentinel, self._bury, front, worker)

    def _hear(self, worker: Worker) -> None:
        try:
            said = worker.control.recv(_MOST_REPORTS)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            asyncio.get_running_loop().remove_reader(worker.control.fileno())
            return
        kinds = Counter(said[place : place + 1] for place in range(len(said)))
        if kinds.pop(READY, 0):
            worker.is_ready, self._failures = True, 0
            if self.failure is not None:
                self._stop()
        worker.load.subtract(kinds)

    def _bury(self, front: Front, worker: Worker) -> None:
        """Clears away what is left of a process that ended, and starts the next one in its place."""
        loop, number = asyncio.get_running_loop(), worker.place.number
        loop.remove_reader(worker.process.sentinel)
        loop.remove_reader(worker.control.fileno())
        worker.let_go()
        worker.control.close()
        worker.process.join()
        self.all[number] = None
        front.lost(worker)
        code = worker.process.exitcode
        if self._is_ending:
            return
        if not worker.is_ready and not worker.place.created and code and code > 0:
            self.failure = code
            first = self.all[0]
            if first is None or first.is_ready:  # else it fails alike, and says why
                self._stop()
            return
        self._failures += not worker.is_ready
        pause = min(2.0**self._failures - 1, _LONGEST_PAUSE)
        sys.stderr.write(f"jaxgym: worker {number} ended with exit code {code}; another one starts.\n")
        # One more than was asked for: the next worker can be told from the first.
        loop.call_later(pause, self._start, front, number, max(worker.created, 1))

    async def end(self) -> None:
        """Ends all, those that take too long by force."""
        self._is_ending = True
        for worker in self.all:
            if worker is not None:
                worker.process.terminate()
        until = time.monotonic() + END_SECONDS
        while any(self.all) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        for worker in self.all:
            if worker is not None:
                worker.process.kill()


def serve(serving: Serving, module: str, listener: socket.socket) -> None:
    """Answers on a socket through several processes until this one is asked to end (SIGTERM or SIGINT).

    Args:
        serving: What is served, and by how many workers.
        module: The module of the protocol's front: it has `front`, `WORKERS` and `KEEPS_CONNECTIONS`.
        listener: A socket that listens.
    """
    if not hasattr(socket, "send_fds"):
        raise OSError("this system can't hand connections over; serve with one worker.")
    from jaxgym.serve.web.http import announce, token_of

    token_of(serving)
    announce(serving, listener)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        failure = runner.run(_serve(serving, module, listener))
    if failure is not None:
        sys.exit(failure)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:  # where there is none for this system
        return None


async def _serve(serving: Serving, module: str, listener: socket.socket) -> int | None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    protocol: Any = importlib.import_module(module)
    workers = Workers(serving, protocol.WORKERS, keeps_connections=protocol.KEEPS_CONNECTIONS, stop=stop.set)
    front: Front = protocol.front(serving, workers)
    workers.start(front)
    await front.start(listener)
    await stop.wait()
    await front.drain()
    await workers.end()
    return workers.failure
