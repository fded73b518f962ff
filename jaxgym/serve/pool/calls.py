"""Queue of calls for single sessions, which are made in batches.

There is no dispatcher thread: the first caller that acquires the lock makes all queued calls. When a caller releases
the lock, it wakes another waiting caller to make the calls that have arrived meanwhile.
"""

import asyncio
import importlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from jaxgym.serve.images import png, split, threads
from jaxgym.text import InvalidReply

# `signal.signal` converts its arguments and results to enums, which is slow compared with a step.
_signals: Any = importlib.import_module("_signal")


class Interrupts:
    """Context that delays SIGINT in the main thread while a lock is held or a step runs.

    The process's handler is called at the end of the context.

    Attributes:
        came: Whether an interrupt has arrived.
    """

    __slots__ = ("_handler", "_signal", "_wake", "came")

    def __init__(self, wake: Callable[[], None] | None = None):
        """Make a context that is not active yet; `wake` is called when an interrupt arrives."""
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
    """Reply to a session, or without a reply the start of its next episode; without a seed, on the current level.

    The result is a `TurnResult`, an `Opening`, or the exception to raise; None before the call is made.
    """

    __slots__ = ("reply", "result", "seed", "session_id")

    def __init__(self, session_id: str, reply: str | InvalidReply | None, seed: int | None):
        self.session_id, self.reply, self.seed = session_id, reply, seed
        self.result: Any = None


class ThreadCall(PoolCall):
    """Call of a thread; `has_left` is set when the thread stops waiting."""

    __slots__ = ("_woken", "has_left")

    def __init__(self, session_id: str, reply: str | InvalidReply | None, seed: int | None):
        super().__init__(session_id, reply, seed)
        self.has_left = False
        self._woken = threading.Lock()  # used as a binary semaphore
        self._woken.acquire()

    def is_dropped(self) -> bool:
        """Return whether the thread has stopped waiting because of an interrupt."""
        return self.has_left

    def lead(self) -> bool:
        """Wake the thread."""
        if self.has_left:
            return False
        # A second wake-up before the thread runs has no effect.
        if self._woken.locked():
            self.wake()
        return True

    def wake(self) -> None:
        """Wake the thread, which checks whether its call is made and whether it can acquire the pool's lock."""
        try:
            self._woken.release()
        except RuntimeError:  # another thread has just released it
            return

    def wait(self) -> None:
        """Wait until it is woken."""
        self._woken.acquire()


class LoopCall(PoolCall):
    """Call of a coroutine, which awaits the future in its event loop."""

    __slots__ = ("_calls", "future", "loop")

    def __init__(self, session_id: str, reply: str | InvalidReply | None, seed: int | None, calls: "Calls"):
        super().__init__(session_id, reply, seed)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._calls = calls

    @property
    def has_frame(self) -> bool:
        """True if the result has a frame that is not encoded yet."""
        return getattr(self.result, "image", None) is not None

    def is_dropped(self) -> bool:
        """Return whether the coroutine is canceled, or its event loop is closed."""
        return self.future.cancelled() or self.loop.is_closed()

    def lead(self) -> bool:
        """Schedule `Calls.flush` in the event loop; return whether that was possible."""
        return not self.is_dropped() and call_soon(self.loop, self._calls.flush, self.loop)

    def settle(self) -> None:
        """Set the result of the future; runs in the call's event loop."""
        if self.future.cancelled():
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
        self._queue: deque[ThreadCall | LoopCall] = deque()
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
            if call.lead():
                return

    def wait(self, session_id: str, reply: str | InvalidReply | None, seed: int | None) -> Any:
        """Make a call of a thread together with the queued calls; return or raise its result."""
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
            # If this thread was woken to make the queued calls, another caller has to make them.
            call.has_left = True
            self._ask_to_lead()
            raise
        if isinstance(call.result, BaseException):
            raise call.result
        return call.result

    def future(self, session_id: str, reply: str | InvalidReply | None, seed: int | None) -> "asyncio.Future[Any]":
        """Return the future of a coroutine's call; all calls of one iteration of the event loop are made together."""
        call = LoopCall(session_id, reply, seed, self)
        loop = call.loop
        self._queue.append(call)
        if loop not in self._flushing:
            self._flushing = {loop, *(other for other in self._flushing if not other.is_closed())}
            loop.call_soon(self.flush, loop)
        return call.future

    def flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make all queued calls if the lock is free; runs in the event loop."""
        self._flushing.discard(loop)
        with Interrupts():
            # The loop must not block; the holder of the lock schedules `flush` again when it releases the lock.
            if self._lock.acquire(blocking=False):
                self._lead(loop)

    def _lead(self, here: asyncio.AbstractEventLoop | None) -> None:
        """Make all queued calls, one for each session, release the lock, and deliver the results."""
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
            ready, pictured = list[ThreadCall | LoopCall](), list[LoopCall]()
            for call in calls.values():
                if isinstance(call, LoopCall) and call.has_frame:
                    pictured.append(call)
                else:
                    ready.append(call)
            _hand_over(ready, here)
            if pictured:
                _encode(pictured)


def _encode(calls: Sequence[LoopCall]) -> None:
    """Encode the frames of calls in threads, then deliver all results together, so that the next calls are a batch."""
    parts, counting, finished = split(calls), threading.Lock(), list[bool]()

    def encode(part: Sequence[LoopCall]) -> None:
        for call in part:
            try:
                call.result = call.result._replace(image=png(*call.result.image))
            except Exception as error:  # every waiting caller needs a result
                call.result = error
        with counting:
            finished.append(True)
            is_last = len(finished) == len(parts)
        if is_last:
            _hand_over(calls, None)

    for part in parts:
        threads().submit(encode, part)


def _hand_over(calls: Iterable[ThreadCall | LoopCall], here: asyncio.AbstractEventLoop | None) -> None:
    """Deliver the results of calls to their callers; `here` is the current event loop, if any."""
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
