"""HTTP with one write for an answer: uvicorn writes head and body apart, which is a call of the system for each.

On a small answer that call is half of the work.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoinedWrites:
    """A transport that writes what it is given in one round of the event loop at its end."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        """Takes a transport, which all but writing is left to."""
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Returns what the transport has."""
        return getattr(self._transport, name)

    def write(self, content: bytes) -> None:
        """Writes bytes behind those that wait."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(content)

    def writelines(self, contents: list[bytes]) -> None:
        """Writes all of some bytes."""
        self.write(b"".join(contents))

    def write_eof(self) -> None:
        """Writes what waits, and the end."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Writes what waits and closes the transport."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class JoinedProtocol(HttpToolsProtocol):
    """The protocol of uvicorn, and of the WebSockets that follow it, on such a transport."""

    def connection_made(self, transport: Any) -> None:
        """Starts on a connection."""
        super().connection_made(JoinedWrites(transport, self.loop))  # pyright: ignore[reportArgumentType]
