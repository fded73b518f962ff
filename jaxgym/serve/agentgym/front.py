"""The front of several workers that speak AgentGym's protocol: it says which of them a call is for.

POST /step {"id": 5, ...}  ─>  worker 5 mod N
POST /create               ─>  one after the other
POST /step_batch           ─>  each its part; the answers are put together in order
GET  /list_envs            ─>  all
all else                   ─>  one of them

Calls go to workers as HTTP, over connections that are kept open; what they answer goes back as it is.
"""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from jaxgym.serve.agentgym.bodies import integer
from jaxgym.serve.agentgym.calls import Caller, Request, body_of, respond
from jaxgym.serve.web.http import DRAIN_SECONDS, KEEP_ALIVE_SECONDS, KILOBYTE
from jaxgym.serve.web.serving import Serving
from jaxgym.serve.web.workers import Front, Worker, Workers

WORKERS = "jaxgym.serve.agentgym.server"
KEEPS_CONNECTIONS = True

Tell = Callable[[bytes], None]

_UPSTREAM = b"u"
_BATCHES = {"step_batch": "actions", "reset_batch": "data_idxs"}
_HEALTHY = respond(200, {"status": "healthy"})
_NOBODY = respond(503, {"error": "no worker is there; try again in some seconds."})
_STARTING = respond(503, {"error": "a worker is being started, and no other one has room; try again soon."})
_NO_BODY = respond(405, {"detail": "Method Not Allowed"})
_SWEEP_SECONDS = 15.0


def front(serving: Serving, workers: Workers) -> Front:
    """Returns what answers on the port."""
    return AgentGymFront(serving, workers)


class AgentGymFront:
    """What clients of several workers talk to."""

    def __init__(self, serving: Serving, workers: Workers):
        """Makes it.

        Args:
            serving: The longest request.
            workers: The workers.
        """
        self.max_bytes = serving.max_kilobytes * KILOBYTE
        self.callers = set[Caller]()
        most = serving.max_sessions
        self._full = respond(
            503, {"error": f"all {most} sessions are open; close some, or serve with --max-sessions N."}
        )
        self._workers = workers
        self._lines: dict[Worker, Lines] = {}
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def start(self, listener: socket.socket) -> None:
        """Lets clients in."""
        self._server = await asyncio.get_running_loop().create_server(lambda: Caller(self), sock=listener, backlog=2048)
        self._sweep()

    def _sweep(self) -> None:
        last = time.monotonic() - KEEP_ALIVE_SECONDS
        for caller in [caller for caller in self.callers if caller.used < last and not caller.is_busy]:
            caller.hang_up()
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    async def drain(self) -> None:
        """Lets no more clients in, and returns when all that was asked is answered."""
        if self._server is not None:
            self._server.close()
        until = time.monotonic() + DRAIN_SECONDS
        while self.callers and time.monotonic() < until:
            for caller in list(self.callers):
                caller.end()
            await asyncio.sleep(0.02)

    def lost(self, worker: Worker) -> None:
        """Hears of a worker that died: what it was asked is answered with an error."""
        lines = self._lines.pop(worker, None)
        if lines is not None:
            lines.lose()

    # Calls.

    def answer(self, request: Request, tell: Tell) -> None:
        """Has a call answered.

        Args:
            request: The call.
            tell: Called with the answer, once.
        """
        name = request.path.rstrip("/").rpartition("/")[2]
        if request.path == "/health":
            tell(_HEALTHY)
        elif request.method == "HEAD":
            tell(_NO_BODY.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        elif request.method == "POST" and name == "create":
            self._create(request, self._in_turn(), tell)
        elif request.method == "POST" and name in _BATCHES:
            self._do(self._batch(request, _BATCHES[name], tell))
        elif request.method == "GET" and name == "list_envs":
            self._do(self._list(request, tell))
        else:
            self._ask_owner(request, tell)

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ask(self, worker: Worker, request: bytes, told: Callable[[bytes | None], None]) -> None:
        """Asks a worker; `told` gets its answer, or None if it died."""
        lines = self._lines.get(worker)
        if lines is None:
            lines = self._lines[worker] = Lines(worker)
        lines.ask(request, told)

    async def _asked(self, worker: Worker, request: bytes) -> bytes | None:
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._ask(worker, request, future.set_result)
        return await future

    def _ask_any(self, request: Request, tell: Tell) -> None:
        living = self._workers.living()
        if living:
            self._ask(living[0], request.to_worker(), lambda told: tell(_NOBODY if told is None else told))
        else:
            tell(_NOBODY)

    def _ask_owner(self, request: Request, tell: Tell) -> None:
        number = _number_of(request)
        if number is None:
            self._ask_any(request, tell)
            return
        worker = self._owner(number)
        if worker is None:
            tell(respond(200, _lost(number)))
            return
        self._ask(
            worker,
            request.to_worker(),
            lambda told: tell(respond(200, _lost(number)) if told is None else told),
        )

    def _owner(self, number: int) -> Worker | None:
        """Returns the worker that has an environment; None if it died, until the next one is ready."""
        worker = self._workers.all[number % len(self._workers.all)]
        return worker if worker is not None and worker.is_there else None

    def _in_turn(self) -> list[Worker]:
        """Returns the workers in the order in which they are asked to create the next environment."""
        first = self._turn
        self._turn += 1
        every = self._workers.all
        rotated = [every[(first + step) % len(every)] for step in range(len(every))]
        living = self._workers.living()
        return [worker for worker in rotated if worker in living]

    def _create(self, request: Request, workers: Sequence[Worker], tell: Tell) -> None:
        """Has one worker after the other asked until one has room."""
        if not workers:
            living = len(self._workers.living())
            tell(_NOBODY if not living else _STARTING if living < len(self._workers.all) else self._full)
            return
        worker, *others = workers
        worker.created += 1

        def told(answer: bytes | None) -> None:
            if answer is None or answer.startswith(b"HTTP/1.1 503"):
                self._create(request, others, tell)
            else:
                tell(answer)

        self._ask(worker, request.to_worker(), told)

    async def _list(self, request: Request, tell: Tell) -> None:
        told = await asyncio.gather(*(self._asked(worker, request.to_worker()) for worker in self._workers.living()))
        numbers = list[int]()
        for answer in told:
            mine = None if answer is None else json.loads(body_of(answer))
            if isinstance(mine, list):
                numbers += mine
            elif answer is not None:  # such as to one who brought no token
                tell(answer)
                return
        tell(respond(200, sorted(numbers)))

    async def _batch(self, request: Request, key: str, tell: Tell) -> None:
        parts = _parts(request.body, key, len(self._workers.all))
        if parts is None:  # a worker says what is wrong with it
            self._ask_any(request, tell)
            return
        answers: dict[int, Any] = {}
        asked: list[list[int]] = []
        calls: list[Any] = []
        for numbers, values, lanes in parts:
            owner = self._owner(numbers[0])
            if owner is None:
                answers.update((lane, _lost(number)) for lane, number in zip(lanes, numbers, strict=True))
                continue
            body = json.dumps({"ids": numbers, key: values}).encode()
            asked.append(lanes)
            calls.append(self._asked(owner, request.to_worker(body)))
        told = await asyncio.gather(*calls)
        if len(asked) == 1 and not answers and told[0] is not None:
            tell(told[0])
            return
        numbers = {lane: number for part in parts for number, lane in zip(part[0], part[2], strict=True)}
        for lanes, answer in zip(asked, told, strict=True):
            mine = [_lost(numbers[lane]) for lane in lanes] if answer is None else json.loads(body_of(answer))
            if answer is not None and not isinstance(mine, list):
                tell(answer)
                return
            answers.update(zip(lanes, mine, strict=True))
        tell(respond(200, [answers[lane] for lane in range(len(numbers))]))


Part = tuple[list[int], list[Any], list[int]]


def _parts(body: bytes, key: str, workers: int) -> list[Part] | None:
    """Returns ids, values and places of each worker's part of a batch; None if it is none that could be played."""
    try:
        sent = json.loads(body)
        numbers, values = sent["ids"], sent[key]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    if not isinstance(numbers, list) or not isinstance(values, list) or len(numbers) != len(values) or not numbers:
        return None
    kind = str if key == "actions" else int
    if set(map(type, numbers)) != {int} or set(map(type, values)) != {kind} or len(set(numbers)) < len(numbers):
        return None
    parts: dict[int, Part] = {}
    for lane, (number, value) in enumerate(zip(numbers, values, strict=True)):
        for entries, entry in zip(parts.setdefault(number % workers, ([], [], [])), (number, value, lane), strict=True):
            entries.append(entry)
    return list(parts.values())


def _number_of(request: Request) -> int | None:
    """Returns the id that a call names."""
    try:
        if request.method == "GET":
            return integer(dict(parse_qsl(request.query, keep_blank_values=True))["id"])
        return integer(json.loads(request.body)["id"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def _lost(number: int) -> dict[str, str]:
    return {"error": f"environment {number} was lost with the worker that had it; create another one."}


class Lines:
    """The connections to a worker."""

    def __init__(self, worker: Worker):
        """Has none yet."""
        self.idle: list[Line] = []
        self.all = set[Line]()
        self.worker = worker

    def ask(self, request: bytes, told: Callable[[bytes | None], None]) -> None:
        """Asks over a connection that is free, or over another one."""
        line = self.idle.pop() if self.idle else Line(self)
        line.ask(request, told)

    def lose(self) -> None:
        """Has all that wait told that nobody answers."""
        for line in list(self.all):
            line.lose()


class Line(asyncio.Protocol):
    """A connection to a worker: one question at a time."""

    def __init__(self, lines: Lines):
        """Begins one; what it is asked meanwhile waits."""
        self._lines = lines
        self._transport: Any = None
        self._request = b""
        self._told: Callable[[bytes | None], None] | None = None
        self._got, self._length = b"", 0
        lines.all.add(self)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        lines.worker.give(theirs, _UPSTREAM)
        self._opening = asyncio.get_running_loop().create_task(self._open(ours))

    async def _open(self, ours: socket.socket) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)

    def ask(self, request: bytes, told: Callable[[bytes | None], None]) -> None:
        """Sends a request; `told` gets the answer, or None if none comes."""
        self._told, self._got, self._length = told, b"", 0
        if self._transport is None:
            self._request = request
        else:
            self._transport.write(request)

    def connection_made(self, transport: Any) -> None:
        """Sends what waits."""
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Takes a part of an answer."""
        self._got += data
        if not self._length:
            head, end, _ = self._got.partition(b"\r\n\r\n")
            if not end:
                return
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._length = len(head) + len(end) + int(length)
        if len(self._got) >= self._length:
            told, got, self._told, self._got = self._told, self._got, None, b""
            self._lines.idle.append(self)
            if told is not None:
                told(got)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells whoever waits that nothing comes."""
        del exc
        self.lose()

    def lose(self) -> None:
        """Ends it."""
        self._lines.all.discard(self)
        if self in self._lines.idle:
            self._lines.idle.remove(self)
        if self._transport is not None:
            self._transport.abort()
        told, self._told = self._told, None
        if told is not None:
            told(None)
