"""What a server is told, and how a process becomes one.

Nothing that this module imports takes time: clients are let in at once and wait for what is loaded behind the socket.
"""

import contextlib
import dataclasses
import importlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import tyro

from jaxgym import extras, interrupts
from jaxgym.errors import OptionError
from jaxgym.serve.web import log

MISUSED, FAILED = 2, 1
"""Exit codes: what was asked for does not exist; what it needs is missing, or the port is taken."""

_HIGHEST_PORT = 65535
_HOST_NAME = re.compile(r"[\w.-]+|[0-9a-fA-F:.]*::?[0-9a-fA-F:.]*", re.ASCII)
_MOST_SESSIONS = 10**6  # a pool holds these, and those that calls over HTTP play in
_BACKLOG = 2048


def _number(name: str, default: int) -> int:
    given = os.environ.get(name, "")
    if not given:
        return default
    if not (given.isascii() and given.isdecimal()):
        raise OptionError(f"the environment variable {name} is {given!r}; give an integer, or leave it unset.")
    return int(given)


def _allowed_hosts() -> tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get("ALLOWED_HOSTS", "").split(",") if name.strip())


@dataclasses.dataclass(frozen=True)
class Serving:
    """What every protocol is told."""

    env: str
    """Id of an environment that has words, or its short name, such as mystery_path_grid."""
    options: tyro.conf.Positional[tuple[str, ...]] = ()
    """Options of the environment, its words and its sessions, NAME=VALUE, values in JSON or bare words."""
    host: str = dataclasses.field(default_factory=lambda: os.environ.get("HOST") or "127.0.0.1")
    """Address to listen at; 0.0.0.0 lets other machines in. The environment variable HOST if it is set."""
    port: int = dataclasses.field(default_factory=lambda: _number("PORT", 8000))
    """Port to listen at; 0 takes a free one. The environment variable PORT if it is set."""
    max_sessions: int = dataclasses.field(default_factory=lambda: _number("MAX_CONCURRENT_ENVS", 256))
    """The most sessions at a time. The environment variable MAX_CONCURRENT_ENVS if it is set."""
    idle_seconds: float = 3600.0
    """Sessions that were asked for nothing for so long are closed; 0 means never."""
    token_file: Path | None = None
    """File with a token, or several, one a line; requests then have to bring one: `Authorization: Bearer TOKEN`."""
    allowed_host: tyro.conf.UseAppendAction[tuple[str, ...]] = dataclasses.field(default_factory=_allowed_hosts)
    """A name that clients may give in Host, and pages in Origin, beside this machine's own names and the bound address;
    once for each name. The environment variable ALLOWED_HOSTS, names with commas between them, if it is set."""
    max_kilobytes: int = 256
    """The longest request or message, in units of 1024 bytes."""
    page: bool = True
    """Whether browsers get a page at / to watch and play sessions."""

    def __post_init__(self) -> None:
        lows = {"port": 0, "max_sessions": 1, "idle_seconds": 0, "max_kilobytes": 1}
        for name, low in lows.items():
            if not getattr(self, name) >= low:
                flag = "--" + name.replace("_", "-")
                raise OptionError(f"{flag} {getattr(self, name)} was given; give a number from {low} up.")
        for name in self.allowed_host:
            if not _HOST_NAME.fullmatch(name):
                raise OptionError(
                    f"--allowed-host: expected a host name or address, got {name!r}. Leave out scheme, port and path."
                )
        if self.port > _HIGHEST_PORT:
            raise OptionError(f"--port {self.port} was given; give a number up to {_HIGHEST_PORT}.")
        if self.max_sessions > _MOST_SESSIONS:
            raise OptionError(f"--max-sessions {self.max_sessions} was given; give a number up to {_MOST_SESSIONS}.")


@dataclasses.dataclass(frozen=True)
class OpenEnv(Serving):
    """Serve sessions to clients of OpenEnv, over WebSocket and HTTP."""


@dataclasses.dataclass(frozen=True)
class AgentGym(Serving):
    """Serve sessions to clients of AgentGym, over HTTP."""

    options: tyro.conf.Positional[tuple[str, ...]] = ()
    """Options of the environment, its words and its sessions, NAME=VALUE; and further environments, each followed by
    its options. Of several environments each is served under its short name, as /textcraft and /frozen_lake."""

    def games(self) -> list[tuple[str, list[str]]]:
        """Returns the environments, each with its options as they were given."""
        games: list[tuple[str, list[str]]] = [(self.env, [])]
        for word in self.options:
            if "=" in word:
                games[-1][1].append(word)
            else:
                games.append((word, []))
        return games


PROTOCOLS: Mapping[str, type[Serving]] = {"openenv": OpenEnv, "agentgym": AgentGym}


def listen(serving: Serving) -> socket.socket:
    """Returns a socket that listens; clients are let in from here on.

    Raises:
        OSError: If the address can't be had.
    """
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    try:
        return socket.create_server((serving.host, serving.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{serving.host} port {serving.port}"
        reason = error.strerror if error.errno is None or error.errno < 0 else os.strerror(error.errno)
        raise OSError(f"can't listen at {where}: {reason}; give another --host or --port.") from error


@contextlib.contextmanager
def listening(serving: Serving) -> Iterator[socket.socket]:
    """Makes a server of the process, with a socket that listens; `listen` and `be_a_server` say how.

    Until what serves takes the signals, SIGTERM ends the process at once with exit code 0, and SIGINT with 130.
    """
    with _ending_when_asked(), listen(serving) as listener:
        be_a_server()
        yield listener


@contextlib.contextmanager
def _ending_when_asked() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are not for others
        yield
        return
    # What is being imported could keep an exception to itself.
    codes = {signal.SIGTERM: 0, signal.SIGINT: interrupts.CODE}
    kept = {number: signal.signal(number, lambda *_, code=code: os._exit(code)) for number, code in codes.items()}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def be_a_server() -> None:
    """Keeps JAX off a language model's accelerator, unless the environment of the process says otherwise.

    It takes no time; `settle_jax` follows where JAX is imported.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    log.keep_standard_descriptors()
    _let_many_in()


def settle_jax() -> None:
    """Settles how a server uses JAX, which takes seconds where it is yet to be imported, and has computed nothing."""
    import jax

    if jax.config.values["jax_platforms"] is None:  # of a program that imported it first, such as a game of its own
        jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS"))
    # Small steps are done before a thread could take them over; JAX reads this from no environment.
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _let_many_in() -> None:
    """Lets the process have as many sockets as it may."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # of a system without limits
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def exiting(serve: Callable[[], None]) -> None:
    """Serves, and ends the process with a line of text where that can't be."""
    try:
        serve()
    except ModuleNotFoundError as error:
        log.say(extras.missing("serve", error.name))
        sys.exit(FAILED)
    except OSError as error:
        log.say(f"{error}")
        sys.exit(FAILED)
    except ValueError as error:
        if type(error).__module__ not in ("jaxgym.errors", "jaxgym.serve.errors"):
            raise
        log.say(f"{error}")
        sys.exit(MISUSED)
