"""Calls for one session each, which wait to be made together.

Calls wait in a queue. There is no dispatcher thread: the first caller that finds the lock free makes all calls that
wait, and one that frees the lock asks one of those who came meanwhile to lead. Only the future of a call belongs to an
event loop.
"""

import asyncio
import importlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from jaxgym.text import Refusal

# `signal.signal` makes enums of what it takes and returns, which takes as long as a part of a step.
_signals: Any = importlib.import_module("_signal")


class Interrupts:
    """A context that holds back SIGINT in the main thread, where a lock is held or a step is half made.

    The process's handler is called at the end of the context.

    Attributes:
        came: Whether an interrupt came.
    """

    __slots__ = ("_handler", "_signal", "_wake", "came")

    def __init__(self, wake: Callable[[], None] | None = None):
        """Hold nothing back yet.

        Args:
            wake: Called when an interrupt comes.
        """
        self._wake, self.came = wake, False
        self._handler: Any = None
        self._signal: tuple[Any, ...] = ()

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
                handler(*self._signal)

    def _note(self, *given: Any) -> None:
        self.came, self._signal = True, given
        if self._wake is not None:
            self._wake()


class PoolCall:
    """One reply to a session, or a seed to start its next episode with.

    Attributes:
        session_id: The session.
        reply: The reply, or None to start an episode.
        seed: The level seed of that episode; None for the session's own.
        result: An `Outcome` or `Opening`, or the exception that the caller gets; None before it is made.
    """

    __slots__ = ("reply", "result", "seed", "session_id")

    def __init__(self, session_id: str, reply: str | Refusal | None, seed: int | None):
        self.session_id, self.reply, self.seed = session_id, reply, seed
        self.result: Any = None


class ThreadCall(PoolCall):
    """A call that a thread waits for.

    Attributes:
        has_left: Whether the thread waits no longer.
    """

    __slots__ = ("_woken", "has_left")

    def __init__(self, session_id: str, reply: str | Refusal | None, seed: int | None):
        super().__init__(session_id, reply, seed)
        self.has_left = False
        self._woken = threading.Lock()  # free once, whenever there is something to see
        self._woken.acquire()

    def is_dropped(self) -> bool:
        """Return whether an interrupt took the thread away."""
        return self.has_left

    def lead(self) -> bool:
        """Wake the thread."""
        if self.has_left:
            return False
        # Whoever wakes it twice before it looks says nothing new.
        if self._woken.locked():
            self.wake()
        return True

    def wake(self) -> None:
        """Let the thread look whether the call is made, or whether it can lead."""
        try:
            self._woken.release()
        except RuntimeError:  # of a lock that another thread has just freed
            return

    def wait(self) -> None:
        """Wait until it is woken."""
        self._woken.acquire()


class LoopCall(PoolCall):
    """A call that a coroutine waits for.

    Attributes:
        loop: The event loop that the coroutine runs in.
        future: What it awaits.
    """

    __slots__ = ("_calls", "future", "loop")

    def __init__(self, session_id: str, reply: str | Refusal | None, seed: int | None, calls: "Calls"):
        super().__init__(session_id, reply, seed)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._calls = calls

    def is_dropped(self) -> bool:
        """Return whether the coroutine was cancelled, or its event loop closed."""
        return self.future.cancelled() or self.loop.is_closed()

    def lead(self) -> bool:
        """Have its event loop make the calls that wait."""
        return not self.is_dropped() and call_soon(self.loop, self._calls.flush, self.loop)

    def settle(self) -> None:
        """Hand the result over; runs in the call's event loop."""
        if self.future.cancelled():
            return
        if isinstance(self.result, BaseException):
            self.future.set_exception(self.result)
        else:
            self.future.set_result(self.result)


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Have an event loop of any thread call a function; return whether the loop was still open."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:  # of a loop that is closed
        return False
    return True


class Calls:
    """The lock of a pool, as a context, and the calls that wait for it."""

    def __init__(self, make: Callable[[Sequence[PoolCall]], None]):
        """Make an empty queue.

        Args:
            make: Makes calls for different sessions and stores their results; it runs under the lock.
        """
        self._make = make
        self._lock = threading.Lock()
        self._queue: deque[ThreadCall | LoopCall] = deque()
        self._flushing: set[asyncio.AbstractEventLoop] = set()
        self._interrupts = Interrupts()  # of who holds the lock

    def __enter__(self) -> None:
        interrupts = Interrupts().__enter__()
        self._lock.acquire()
        self._interrupts = interrupts

    def __exit__(self, *_: object) -> None:
        interrupts = self._interrupts
        self._free()
        interrupts.__exit__()

    def _free(self) -> None:
        """Free the lock, and ask one of those who came meanwhile to lead."""
        self._lock.release()
        self._ask_to_lead()

    def _ask_to_lead(self) -> None:
        for call in tuple(self._queue):
            if call.lead():
                return

    def wait(self, session_id: str, reply: str | Refusal | None, seed: int | None) -> Any:
        """Make a call of a thread, together with those that wait; return its result or raise it."""
        call = ThreadCall(session_id, reply, seed)
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
            # This thread may have been asked to lead, and does not: another one has to.
            call.has_left = True
            self._ask_to_lead()
            raise
        if isinstance(call.result, BaseException):
            raise call.result
        return call.result

    def future(self, session_id: str, reply: str | Refusal | None, seed: int | None) -> "asyncio.Future[Any]":
        """Return the result of a call of a coroutine, to be awaited; it is made with all others of this round."""
        call = LoopCall(session_id, reply, seed, self)
        loop = call.loop
        self._queue.append(call)
        if loop not in self._flushing:
            self._flushing = {loop, *(other for other in self._flushing if not other.is_closed())}
            loop.call_soon(self.flush, loop)
        return call.future

    def flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make all calls that wait, if the lock is free; runs in the event loop."""
        self._flushing.discard(loop)
        with Interrupts():
            # Whoever holds the lock asks for this again when it is free: the loop is not kept waiting.
            if self._lock.acquire(blocking=False):
                self._lead(loop)

    def _lead(self, here: asyncio.AbstractEventLoop | None) -> None:
        """Make all calls that wait, one a session, and hand the results over; free the lock."""
        calls: dict[str, ThreadCall | LoopCall] = {}
        try:
            later: list[ThreadCall | LoopCall] = []
            for call in [self._queue.popleft() for _ in range(len(self._queue))]:
                if call.session_id in calls:
                    later.append(call)
                elif not call.is_dropped():
                    calls[call.session_id] = call
            self._queue.extendleft(reversed(later))
            self._make(list(calls.values()))
        finally:
            self._free()
            _hand_over(calls.values(), here)


def _hand_over(calls: Iterable[ThreadCall | LoopCall], here: asyncio.AbstractEventLoop | None) -> None:
    """Hand the results of calls to their callers; `here` is the event loop that this runs in, if any."""
    elsewhere: dict[asyncio.AbstractEventLoop, list[LoopCall]] = {}
    for call in calls:
        if isinstance(call, ThreadCall):
            call.wake()
        elif call.loop is here:
            call.settle()
        else:
            elsewhere.setdefault(call.loop, []).append(call)
    for loop, theirs in elsewhere.items():
        call_soon(loop, _hand_over, theirs, loop)
