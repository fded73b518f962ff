"""Common parts of the servers: `host` loads an environment, `serve` serves an app until the process gets a signal."""

import asyncio
import contextlib
import dataclasses
import gc
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

import uvicorn
from starlette.routing import Router
from starlette.types import ASGIApp

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.options import parse_options
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.web import log
from jaxgym.serve.web.guard import Guard
from jaxgym.serve.web.requests import HttpConnection, SocketConnection
from jaxgym.serve.web.serving import BACKLOG, KILOBYTE, Serving, listen

END_SECONDS = 10
"""Timeout in seconds at shutdown for open calls, and for connections to close."""

LINGER_SECONDS = 10.0
"""Timeout in seconds of a closing connection for its client to read."""

_PING_SECONDS, _PONG_SECONDS = 30.0, 600.0  # a trainer may not read its sockets for minutes
KEEP_ALIVE_SECONDS = 75


@dataclasses.dataclass(frozen=True)
class Hosted:
    """Environment of a server, with the options of its sessions. Its programs are compiled.

    `reply_format` is the end of the system prompt that describes the form of a reply; empty if it is not separate.
    """

    pool: SessionPool
    env_id: str
    short_name: str
    options: Mapping[str, Any]
    system_prompt: str
    reply_format: str = ""


def served_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the options of NAME=VALUE pairs; raise `OptionError` for the one that servers do not support."""
    options = parse_options(pairs)
    if options.get("adapt") is not None:
        raise OptionError("adapt: expected None on a server, got a range. Trainers adapt the difficulty.")
    return options


def host(serving: Serving, defaults: Mapping[str, Any] | None = None, spare: int = 0, undo_turns: int = 0) -> Hosted:
    """Load an environment and compile its programs, which takes seconds.

    Args:
        serving: The settings, with the environment and its options.
        defaults: Options for which the protocol has another default.
        spare: Number of sessions in addition to those of clients.
        undo_turns: Number of turns that `SessionPool.undo` can take back.

    Raises:
        OptionError, UnknownIdError, LevelError: If the environment or an option is invalid.
    """
    env_id, _ = text.text_spec_of(serving.env)
    options = {**(defaults or {}), **served_options(serving.options)}
    pool = SessionPool(serving.max_sessions + spare, keeps_history=serving.page, undo_turns=undo_turns)
    pool.prepare(env_id, options)
    opening = pool.open(env_id, None, options, start=False)
    pool.close([opening.id])
    freeze()
    short_name = text.short_name_of(env_id)
    return Hosted(pool, env_id, short_name, options, opening.system_prompt, opening.reply_format)


def freeze() -> None:
    """Exclude all loaded objects from garbage collection, which makes collections faster by milliseconds."""
    gc.collect()
    gc.freeze()


def loaded_at_start(load: Callable[[], ASGIApp]) -> ASGIApp:
    """Return an app for any ASGI server that is loaded when the server starts, before it accepts clients."""

    async def not_started(*_: Any) -> None:
        raise RuntimeError("expected the lifespan of the app to have started. Serve it with lifespan on.")

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        router.default = await asyncio.to_thread(load)
        yield

    router = Router(default=not_started, lifespan=lifespan)
    return router


def close_late(connections: Iterable[Any]) -> None:
    """Close connections whose request is late, and abort closing connections whose client does not read."""
    now = time.monotonic()
    for connection in list(connections):
        if connection.transport.is_closing():
            connection.deadline = min(connection.deadline, now + LINGER_SECONDS)
            if now >= connection.deadline:
                connection.transport.abort()
        elif now >= connection.deadline:
            connection.give_up()


class _Server(uvicorn.Server):
    """Server that returns normally after a signal."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down the server."""
        await super().shutdown(sockets)
        self._captured_signals.clear()  # uvicorn would raise the signals again


def make_server(app: ASGIApp, serving: Serving) -> uvicorn.Server:
    """Return the server of a protocol without starting it; raises the errors of `tokens_of`."""
    log.log_to_stderr()

    async def close_connections() -> None:
        close_late(server.server_state.connections)

    config = uvicorn.Config(
        Guard(app, serving),
        interface="asgi3",
        http=HttpConnection,
        ws=SocketConnection,
        ws_max_size=serving.max_kilobytes * KILOBYTE,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_SECONDS,
        ws_ping_timeout=_PONG_SECONDS,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # no app reads the address of the client
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=END_SECONDS,
        backlog=BACKLOG,
        callback_notify=close_connections,  # once a second
        timeout_notify=0,
    )
    server = _Server(config)
    return server


def serve(load: Callable[[Any], ASGIApp], serving: Serving, bound: socket.socket) -> None:
    """Load an app and serve it until the process receives SIGTERM or SIGINT; then answer the open calls and return.

    Args:
        load: Makes the app of the settings, and compiles its programs.
        serving: The settings.
        bound: The socket, which listens when the app is loaded.

    Raises:
        OptionError, OSError: See `tokens_of` and `listen`, and the errors of `load`.
    """
    log.print_line(f"loading {serving.env}")
    server = make_server(load(serving), serving)
    listen(serving, bound)
    announce(serving, bound)
    server.run(sockets=[bound])


def announce(serving: Serving, listener: socket.socket) -> None:
    """Log the address of the server, and a warning if other users can read the token file."""
    if serving.token_file is not None and serving.token_file.stat().st_mode & stat.S_IROTH:
        log.print_line(f"every user of this machine can read {serving.token_file}. Run chmod 600 on it.")
    host, port = listener.getsockname()[:2]
    log.print_line(f"{serving.env} at http://{f'[{host}]' if ':' in host else host}:{port}")
