"""Actor of a pool on Ray: a session pool in a process of its own."""

import asyncio
import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

import jax

from jaxgym.serve.errors import ClosedSessionError, UnknownSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.ray import placement

_COMPILING = ("prepare", "open_many")


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


class Actor:
    """Asynchronous actor: calls that arrive at the same time are batched by its pool."""

    def __init__(self, number: int, capacity: int, idle_seconds: float | None):
        """Make the pool."""
        self._pool = Shard(number, capacity, idle_seconds)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the pool; return its result, or raise its exception."""
        function = getattr(self._pool, method)
        if method in _COMPILING:  # in a thread, so that the other sessions continue during a compilation
            return await asyncio.to_thread(function, *arguments)
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result
