"""Queue of calls for single sessions, which are made in batches.

There is no dispatcher thread: the first caller that acquires the lock makes all queued calls. When a caller releases
the lock, it wakes a waiting caller, which makes the calls that have arrived meanwhile.
"""

import asyncio
import contextlib
import dataclasses
import importlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from jaxgym.serve.images import encode_all
from jaxgym.text import InvalidReply

# `signal.signal` converts its arguments and results to enums, which is slow compared with a step.
_signals: Any = importlib.import_module("_signal")


class Interrupts:
    """Context that delays SIGINT in the main thread while a lock is held or a step runs.

    The process's handler is called at the end of the context.

    Attributes:
        came: Arguments of the handler if an interrupt has arrived; otherwise empty.
    """

    __slots__ = ("_handler", "_wake", "came")

    def __init__(self, wake: Callable[[], None] | None = None):
        """Make a context that is not active yet; `wake` is called when an interrupt arrives."""
        self._wake = wake
        self._handler: Any = None
        self.came: tuple[Any, ...] = ()

    def __enter__(self) -> Self:
        if threading.get_ident() == threading.main_thread().ident:
            handler = _signals.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                _signals.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            _signals.signal(signal.SIGINT, handler)
            if self.came:
                handler(*self.came)

    def _note(self, *given: Any) -> None:
        self.came = given
        if self._wake is not None:
            self._wake()


@dataclasses.dataclass(slots=True, eq=False)
class PoolCall:
    """Reply to a session, or without a reply the start of its next episode; without a seed, on the current level.

    Attributes:
        result: A `TurnResult`, an `Opening`, or the exception to raise; None before the call is made.
        future: The future of a coroutine; None for a call of a thread, which waits until `wake`.
        has_left: Whether the thread has stopped waiting because of an interrupt.
    """

    session_id: str
    reply: str | InvalidReply | None
    seed: int | None
    future: "asyncio.Future[Any] | None" = None
    result: Any = None
    has_left: bool = False
    _woken: Any = None

    def __post_init__(self) -> None:
        """Make the lock on which a thread waits."""
        if self.future is None:
            self._woken = threading.Lock()
            self._woken.acquire()

    def wake(self) -> None:
        """Wake the thread, which checks whether its call is made and whether it can acquire the pool's lock."""
        # A second wake-up before the thread runs has no effect; another thread can release the lock just before.
        with contextlib.suppress(RuntimeError):
            self._woken.release()

    def wait(self) -> None:
        """Wait until it is woken."""
        self._woken.acquire()

    def is_dropped(self) -> bool:
        """Return whether no caller waits for the result anymore."""
        return self.has_left if self.future is None else self.future.cancelled() or self.future.get_loop().is_closed()

    def settle(self) -> None:
        """Set the result of the future; runs in its event loop."""
        if self.future is None or self.future.cancelled():
            return
        if isinstance(self.result, BaseException):
            self.future.set_exception(self.result)
        else:
            self.future.set_result(self.result)


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Schedule a function in an event loop of any thread; return whether the loop was open."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # the loop is closed
        return False
    return True


class Calls:
    """Lock of a pool, as a context, with the queue of calls that wait for it."""

    def __init__(self, make: Callable[[Sequence[PoolCall]], None]):
        """Make an empty queue; `make` makes calls for different sessions under the lock and stores their results."""
        self._make = make
        self._lock = threading.Lock()
        self._queue: deque[PoolCall] = deque()
        self._flushing: set[asyncio.AbstractEventLoop] = set()
        self._interrupts = Interrupts()  # of the holder of the lock

    def __enter__(self) -> None:
        interrupts = Interrupts().__enter__()
        self._lock.acquire()
        self._interrupts = interrupts

    def __exit__(self, *_: object) -> None:
        interrupts = self._interrupts
        self._free()
        interrupts.__exit__()

    def _free(self) -> None:
        """Release the lock, and wake a caller that makes the queued calls."""
        self._lock.release()
        self._ask_to_lead()

    def _ask_to_lead(self) -> None:
        for call in tuple(self._queue):
            if call.is_dropped():
                continue
            if call.future is None:
                call.wake()
                return
            loop = call.future.get_loop()
            if call_soon(loop, self.flush, loop):
                return

    def wait(self, session_id: str, reply: str | InvalidReply | None, seed: int | None) -> Any:
        """Make a call of a thread together with the queued calls; return or raise its result."""
        call = PoolCall(session_id, reply, seed)
        is_queued = False
        try:
            while call.result is None:
                with Interrupts(call.wake) as interrupts:
                    if not is_queued:
                        self._queue.append(call)
                        is_queued = True
                    while call.result is None and not interrupts.came:
                        if self._lock.acquire(blocking=False):
                            self._lead(None)
                        else:
                            call.wait()
        except BaseException:
            # If this thread was woken to make the queued calls, another caller has to make them.
            call.has_left = True
            self._ask_to_lead()
            raise
        if isinstance(call.result, BaseException):
            raise call.result
        return call.result

    def future(self, session_id: str, reply: str | InvalidReply | None, seed: int | None) -> "asyncio.Future[Any]":
        """Return the future of a coroutine's call; all calls of one iteration of the event loop are made together."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append(PoolCall(session_id, reply, seed, future))
        if loop not in self._flushing:
            self._flushing = {loop, *(other for other in tuple(self._flushing) if not other.is_closed())}
            loop.call_soon(self.flush, loop)
        return future

    def flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make all queued calls if the lock is free; runs in the event loop."""
        self._flushing.discard(loop)
        with Interrupts():
            # The loop must not block; the holder of the lock schedules `flush` again when it releases the lock.
            if self._lock.acquire(blocking=False):
                self._lead(loop)

    def _lead(self, here: asyncio.AbstractEventLoop | None) -> None:
        """Make all queued calls, one for each session, release the lock, and deliver the results."""
        calls: dict[str, PoolCall] = {}
        try:
            later: list[PoolCall] = []
            for call in [self._queue.popleft() for _ in range(len(self._queue))]:
                if call.session_id in calls:
                    later.append(call)
                elif not call.is_dropped():
                    calls[call.session_id] = call
            self._queue.extendleft(reversed(later))
            self._make(list(calls.values()))
        finally:
            self._free()
            awaited = list[PoolCall]()
            for call in calls.values():
                if call.future is None:
                    call.wake()
                else:
                    awaited.append(call)
            pictured = [call for call in awaited if getattr(call.result, "image", None) is not None]
            if pictured:
                awaited = [call for call in awaited if getattr(call.result, "image", None) is None]
                _encode(pictured)
            _hand_over(awaited, here)


def _encode(calls: Sequence[PoolCall]) -> None:
    """Encode the frames of calls in threads, then deliver all results together, so that the next calls are a batch."""

    def encode() -> None:
        try:
            images = encode_all([call.result.image for call in calls])
            for call, image in zip(calls, images, strict=True):
                call.result = call.result._replace(image=image)
        except Exception as error:  # every waiting caller needs a result
            for call in calls:
                call.result = error
        _hand_over(calls, None)

    threading.Thread(target=encode, name="frames", daemon=True).start()


def _hand_over(calls: Iterable[PoolCall], here: asyncio.AbstractEventLoop | None) -> None:
    """Deliver the results of coroutines' calls; `here` is the current event loop, if any."""
    elsewhere: dict[asyncio.AbstractEventLoop, list[PoolCall]] = {}
    for call in calls:
        loop = None if call.future is None else call.future.get_loop()
        if loop is here:
            call.settle()
        elif loop is not None:
            elsewhere.setdefault(loop, []).append(call)
    for loop, theirs in elsewhere.items():
        call_soon(loop, _hand_over, theirs, loop)
