"""What the servers have in common: a socket that is open at once, and what is loaded behind it.

Clients are let in by `jaxgym.serve.web.serving.listen`; `Loading` makes what they wait for, such as `hosting`: JAX, the
game and its programs; `run` has an app answer until the process is asked to end.
"""

import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import uvicorn
from starlette.exceptions import HTTPException

from jaxgym import interrupts
from jaxgym.serve.web import log
from jaxgym.serve.web.guard import App, Guard, Receive, Send
from jaxgym.serve.web.joined import JoinedProtocol, JoinedSockets
from jaxgym.serve.web.serving import Serving, settle_jax

if TYPE_CHECKING:
    from jaxgym.serve.pool import SessionPool

KILOBYTE = 1024
_VISIBLE = range(0x21, 0x7F)
DRAIN_SECONDS = 10
"""How long calls that are being answered may take when the process is asked to end."""

_PING_SECONDS, _PONG_SECONDS = 30.0, 600.0  # a trainer may well not look at its sockets for minutes
KEEP_ALIVE_SECONDS = 75

Loaded = TypeVar("Loaded")


class Loading(Generic[Loaded]):
    """Something that is made in a thread of its own while others wait for it.

    Attributes:
        value: What was made; None before.
        error: Why it was not made, or None.
        on_failure: Called in the event loop of those who wait when it could not be made.
    """

    def __init__(self, make: Callable[[], Loaded]):
        """Keeps what makes it; nothing is started before `start`."""
        self.value: Loaded | None = None
        self.error: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.on_success: Callable[[], None] = lambda: None
        self._make = make
        self._is_over: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread; called in the event loop of those who wait."""
        self._is_over = asyncio.Event()
        # A daemon, so that a process that is asked to end while a program is compiled does end.
        self._thread = threading.Thread(
            name="loading", daemon=True, target=self._run, args=(asyncio.get_running_loop(),)
        )
        self._thread.start()

    def leave(self, code: int = 0) -> None:
        """Ends the process with this exit code while it is being made: the end of Python waits for no compiler."""
        is_alive = self._thread is not None and self._thread.is_alive()
        if is_alive and threading.current_thread() is threading.main_thread():
            os._exit(code)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.value = self._make()
        except Exception as error:  # it is raised where the server ends
            self.error = error
        try:
            loop.call_soon_threadsafe(self._tell)
        except RuntimeError:  # of a loop that was closed meanwhile
            return

    def _tell(self) -> None:
        if self._is_over is not None:
            self._is_over.set()
        if self.error is None:
            self.on_success()
        else:
            self.on_failure()

    async def get(self) -> Loaded:
        """Returns it, as soon as it is there.

        Raises:
            HTTPException: 503, if it can't be made.
        """
        if self.value is None:
            if self._is_over is None:
                raise RuntimeError("nothing was started that could be waited for; call start().")
            await self._is_over.wait()
        if self.value is None:
            raise HTTPException(503, "the game could not be loaded; the server ends.")
        return self.value


@dataclasses.dataclass(frozen=True)
class Hosted:
    """A game that is ready to be played.

    Attributes:
        pool: Where its sessions live.
        env_id: Its id.
        short_name: Its short name.
        options: Options of its sessions, as they were given.
        instructions: The rules and the form of a reply.
    """

    pool: "SessionPool"
    env_id: str
    short_name: str
    options: Mapping[str, Any]
    instructions: str


def hosting(
    serving: Serving, defaults: Mapping[str, Any] | None = None, spare: int = 0, idle_seconds: float | None = None
) -> Callable[[], Hosted]:
    """Returns what imports JAX and prepares the game; it takes seconds and runs in a thread.

    Args:
        serving: The game, its options, and how many sessions there may be.
        defaults: Options for which this protocol has another default.
        spare: Sessions beyond those that clients may hold.
        idle_seconds: When the pool itself closes sessions; never if None.
    """

    def make() -> Hosted:
        settle_jax()
        from jaxgym import text
        from jaxgym.options import parse_options
        from jaxgym.serve.pool import SessionPool

        env_id, spec = text.text_spec_of(serving.env)
        options = {**(defaults or {}), **parse_options(serving.options)}
        pool = SessionPool(serving.max_sessions + spare, idle_seconds, keeps_history=serving.page)
        instructions = pool.prepare(env_id, options)
        # What JAX holds is there for good: a garbage collection that passes over it takes milliseconds less.
        gc.collect()
        gc.freeze()
        return Hosted(pool, env_id, spec.short_name, options, instructions)

    return make


def behind_guard(app: App, serving: Serving, loading: Loading[Any]) -> App:
    """Returns the app of a protocol behind its guard, for any ASGI server; it starts the loading with its lifespan.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
    """
    guard = Guard(
        app,
        token_of(serving),
        serving.max_kilobytes * KILOBYTE,
        has_page=serving.page,
        host=serving.host,
        allowed_hosts=serving.allowed_host,
    )
    return _with_lifespan(guard, loading)


class Parts(NamedTuple):
    """What a protocol consists of.

    Attributes:
        app: WebSockets and HTTP.
        loading: What the app waits for.
        drain: Returns when nothing is being answered any more, and is awaited before WebSockets are closed; None
            where there are none.
    """

    app: App
    loading: Loading[Any]
    drain: "Drain | None" = None


class _Server(uvicorn.Server):
    """A server that has its app finish what was asked for before it closes sockets."""

    drain: "Drain | None" = None
    is_interrupted = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the server."""
        if self.drain is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.drain(), DRAIN_SECONDS)
        await super().shutdown(sockets)
        self.is_interrupted = signal.SIGINT in self._captured_signals
        self._captured_signals.clear()  # uvicorn would raise them again, and the end is what they asked for


Drain = Callable[[], Awaitable[None]]


def make_server(parts: Parts, serving: Serving) -> _Server:
    """Returns the server of a protocol, which is yet to run.

    Args:
        parts: The protocol; what it waits for is started with the server, which ends where that fails.
        serving: Token and sizes.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
    """
    log.log_to_stderr()
    config = uvicorn.Config(
        behind_guard(parts.app, serving, parts.loading),
        http=JoinedProtocol,
        ws=JoinedSockets,
        ws_max_size=serving.max_kilobytes * KILOBYTE,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_SECONDS,
        ws_ping_timeout=_PONG_SECONDS,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        backlog=2048,
    )
    server = _Server(config)
    server.drain = parts.drain

    parts.loading.on_failure = lambda: setattr(server, "should_exit", True)
    return server


def run(parts: Parts, serving: Serving, listener: socket.socket) -> None:
    """Answers on a socket until the process is asked to end (SIGTERM or SIGINT); calls in hand are answered then.

    Args:
        parts: The protocol; what it waits for is started here.
        serving: Token and sizes.
        listener: A socket that listens.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
        Exception: What the loading raised; the server has ended then.
    """
    server = make_server(parts, serving)
    begin = time.monotonic()
    announce(serving, listener)
    parts.loading.on_success = lambda: log.say(f"ready after {time.monotonic() - begin:.0f} s")
    server.run(sockets=[listener])
    if parts.loading.error is not None:
        raise parts.loading.error
    parts.loading.leave(interrupts.CODE if server.is_interrupted else 0)


def token_of(serving: Serving) -> str | None:
    """Returns the token that requests have to bring, or several, one a line; or None.

    Raises:
        OptionError: If its file is empty, or holds anything but visible ASCII characters.
        OSError: If its file can't be read.
    """
    path = serving.token_file
    if path is None:
        return None
    try:
        token = path.read_bytes()
    except OSError as error:
        raise OSError(f"--token-file {path} can't be read: {error.strerror}.") from error
    lines = token.split()
    if not lines or any(byte not in _VISIBLE for line in lines for byte in line):
        from jaxgym.errors import OptionError

        what = "holds what no header can bring; write visible ASCII characters" if lines else "is empty; write a token"
        raise OptionError(f"--token-file {path} {what} into it, one token a line.")
    return "\n".join(line.decode() for line in lines)


def announce(serving: Serving, listener: socket.socket) -> None:
    """Says where the server is, and who may read its token."""
    if serving.token_file is not None and serving.token_file.stat().st_mode & stat.S_IROTH:
        log.say(f"every user of this machine can read {serving.token_file}; chmod 600 keeps it.")
    host, port = listener.getsockname()[:2]
    log.say(f"{serving.env} at http://{f'[{host}]' if ':' in host else host}:{port}")


def _with_lifespan(app: App, loading: Loading[Any]) -> App:
    """Returns an app that starts the loading before the first request is answered."""

    async def whole(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        loading.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return whole
