"""Actor of a pool on Ray: a session pool in a process of its own."""

import asyncio
import contextlib
import gc
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxgym.serve.errors import ClosedSessionError, PartialStepError, SessionError, UnknownSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.ray import placement

_COMPILING = ("prepare", "open_many")
# A batch takes calls until it has so many sessions. Larger batches take hardly less time for each session, and an actor
# that makes all calls together is idle while all clients read their results.
_ROWS = 256


class Shard(SessionPool):
    """Session pool whose session ids name its actor."""

    def __init__(self, number: int, capacity: int, idle_seconds: float | None):
        """Make an empty pool on the CPU; see `SessionPool` for the arguments."""
        super().__init__(capacity, idle_seconds, jax.local_devices(backend="cpu")[0])
        self._prefix = placement.prefix_of_start(number)

    def _new_id(self) -> str:
        return self._prefix + super()._new_id()

    def close_known(self, ids: Sequence[str]) -> None:
        """Close the sessions that are open; ignore other ids."""
        for session_id in ids:
            with contextlib.suppress(UnknownSessionError):
                self.close([session_id])

    def _unknown(self, session_id: str) -> UnknownSessionError:
        if session_id.startswith(self._prefix):
            return super()._unknown(session_id)
        return ClosedSessionError(f"The session {session_id!r} ended when its actor restarted. Open another one.")


class Merger:
    """Queue of calls for several sessions each, which are made together."""

    def __init__(self, make: Callable[[Sequence[str], Sequence[Any]], Sequence[Any]]):
        """Make an empty queue; `make` gets different sessions and a value for each, and returns a result for each."""
        self._make = make
        self._waiting: deque[tuple[Sequence[str], Sequence[Any], asyncio.Future[Any]]] = deque()

    def future(self, ids: Sequence[str], values: Sequence[Any]) -> "asyncio.Future[Any]":
        """Return the future of a call's results; calls that arrive while another batch is made are made together."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        future = loop.create_future()
        self._waiting.append((ids, values, future))
        return future

    def _flush(self) -> None:
        calls, futures, rows = list[tuple[Sequence[str], Sequence[Any]]](), list[asyncio.Future[Any]](), 0
        while self._waiting and rows < _ROWS:
            ids, values, future = self._waiting.popleft()
            calls.append((ids, values))
            futures.append(future)
            rows += len(ids)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        for future, result in zip(futures, self._made(calls), strict=True):
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _made(self, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]) -> list[list[Any] | Exception]:
        """Return the results or the error of each call."""
        every = [each for ids, _ in calls for each in ids]
        try:
            results = iter(self._make(every, [each for _, values in calls for each in values]))
        except PartialStepError as error:
            return [_part(error, ids) for ids, _ in calls]
        except SessionError as error:  # no session has changed, and the error is that of one call
            return [error] if len(calls) == 1 else [self._made([call])[0] for call in calls]
        except Exception as error:  # every waiting client needs a result
            return [error for _ in calls]
        return [list(itertools.islice(results, len(ids))) for ids, _ in calls]


def _part(error: PartialStepError, ids: Sequence[str]) -> list[Any] | Exception:
    """Return the results of some sessions of a step, or the error if one of them has failed."""
    results = {session_id: error.results[session_id] for session_id in ids}
    failed = next((result for result in results.values() if isinstance(result, Exception)), None)
    return list(results.values()) if failed is None else PartialStepError(str(failed), results)


class Actor:
    """Asynchronous actor: calls that arrive at the same time are batched."""

    def __init__(self, number: int, capacity: int, idle_seconds: float | None):
        """Make the pool."""
        self._pool = Shard(number, capacity, idle_seconds)
        self._mergers = {"step": Merger(self._pool.step), "reset": Merger(self._pool.reset)}
        gc.freeze()  # otherwise each full collection checks the 240 000 objects of the imports

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the pool; return its result, or raise its exception.

        The results of `step` and `reset` are columns: a tuple of the values of all sessions for each field. Ray
        serializes them several times as fast as named tuples.
        """
        if method in self._mergers:
            return tuple(zip(*await self._mergers[method].future(*arguments), strict=True))
        function = getattr(self._pool, method)
        if method in _COMPILING:  # in a thread, so that the other sessions continue during a compilation
            return await asyncio.to_thread(function, *arguments)
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result
