"""Open sessions of an OpenEnv server."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence

from jaxgym.serve.errors import CapacityError
from jaxgym.serve.openenv.session import ClientSession
from jaxgym.serve.web.http import Hosted

SPARE = 32
"""Sessions in addition to those of clients: for HTTP calls, which need one for the call, and for the page."""


class ClientSessions:
    """Sessions of the clients of a server; used in one event loop."""

    def __init__(self, hosted: Hosted, max_sessions: int, idle_seconds: float):
        """Make an empty collection; the environment's pool has room for `max_sessions + SPARE` sessions.

        A session is closed if its client sends nothing for `idle_seconds`; 0 means never.
        """
        self.hosted, self.max_sessions, self._idle_seconds = hosted, max_sessions, idle_seconds
        self._pool = hosted.pool
        self._open: dict[str, ClientSession] = {}

    @property
    def room(self) -> dict[str, int]:
        """Number of open sessions, and their maximum number, for a client that is rejected."""
        return {"active_sessions": len(self._open), "max_sessions": self.max_sessions}

    def ids(self) -> list[str]:
        """Return the ids of the open sessions."""
        return list(self._open)

    def open(self) -> ClientSession:
        """Open a session, whose episode its first step or reset starts.

        Raises:
            CapacityError: If the server is full.
        """
        self.check_room(1)
        session = self._new()
        self._open[session.id] = session
        return session

    def check_room(self, count: int) -> None:
        """Raise `CapacityError` if there is no room for so many more sessions."""
        if len(self._open) + count > self.max_sessions:
            raise CapacityError(
                f"expected at most {self.max_sessions} open sessions, got {count} more than the {len(self._open)} open "
                "ones. Close some, or start the server with a larger --max-sessions."
            )

    def add(self, sessions: Sequence[ClientSession]) -> list[str]:
        """Add sessions of the pool; return their ids."""
        self._open.update({session.id: session for session in sessions})
        return [session.id for session in sessions]

    def _new(self) -> ClientSession:
        opening = self._pool.open(self.hosted.env_id, None, self.hosted.options, start=False)
        return ClientSession(self._pool, opening)

    def get(self, session_id: object) -> ClientSession | None:
        """Return an open session."""
        return self._open.get(session_id) if isinstance(session_id, str) else None

    def close(self, session: ClientSession) -> None:
        """Close a session if it is open."""
        if self._open.pop(session.id, None) is not None:
            self._pool.close([session.id])

    async def close_idle(self) -> None:
        """Close idle sessions and their sockets, repeatedly."""
        while self._idle_seconds:
            await asyncio.sleep(min(max(self._idle_seconds / 4, 0.1), 5.0))
            last = time.monotonic() - self._idle_seconds
            idle = [session for session in self._open.values() if session.used < last]
            for session in idle:
                self.close(session)
            await asyncio.gather(*(session.hang_up() for session in idle if session.hang_up is not None))

    @contextlib.contextmanager
    def once(self) -> Iterator[ClientSession]:
        """Yield a temporary session, for one call.

        Raises:
            CapacityError: If there are too many such calls at the same time.
        """
        session = self._new()
        try:
            yield session
        finally:
            self._pool.close([session.id])
