"""Settings of a server, and how a process becomes one: bind the address, load the game, listen.

Nothing that this module imports takes time, so that `--help` and a wrong flag answer at once.
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
_VISIBLE = range(0x21, 0x7F)
_HOST_NAME = re.compile(r"[\w.-]+|[0-9a-fA-F:.]*::?[0-9a-fA-F:.]*", re.ASCII)
_MOST_SESSIONS = 10**6  # a pool holds these, and those that calls over HTTP play in
BACKLOG = 2048


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
    """Serve a page at / to watch and play sessions."""

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
        """Return the environments, each with its options as they were given."""
        games: list[tuple[str, list[str]]] = [(self.env, [])]
        for word in self.options:
            if "=" in word:
                games[-1][1].append(word)
            else:
                games.append((word, []))
        return games


PROTOCOLS: Mapping[str, type[Serving]] = {"openenv": OpenEnv, "agentgym": AgentGym}


def token_of(serving: Serving) -> str | None:
    """Return the token that requests have to bring, or several, one a line; or None.

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
        what = "holds what no header can bring; write visible ASCII characters" if lines else "is empty; write a token"
        raise OptionError(f"--token-file {path} {what} into it, one token a line.")
    return "\n".join(line.decode() for line in lines)


def bind(serving: Serving) -> socket.socket:
    """Return a socket at the address of a server, which does not listen: clients are refused until the game is loaded.

    Raises:
        OSError: If the address is not available.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in serving.host else socket.AF_INET)
    try:
        if os.name == "posix":  # elsewhere the option means that two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((serving.host, serving.port))
    except OSError as error:
        bound.close()
        raise _unavailable(serving, error) from error
    return bound


def listen(serving: Serving, bound: socket.socket) -> None:
    """Let clients in.

    Raises:
        OSError: If another server has come to listen at the address since it was bound.
    """
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        raise _unavailable(serving, error) from error


def _unavailable(serving: Serving, error: OSError) -> OSError:
    reason = error.strerror if error.errno is None or error.errno < 0 else os.strerror(error.errno)
    where = f"{serving.host} port {serving.port}"
    return OSError(f"can't listen at {where}: {reason}; give another --host or --port.")


@contextlib.contextmanager
def starting(serving: Serving) -> Iterator[socket.socket]:
    """Make the process a server and yield its socket; see `bind` and `be_a_server`.

    Until the server takes the signals, SIGTERM ends the process at once with exit code 0, and SIGINT with 130.
    """
    with _ending_when_asked(), bind(serving) as bound:
        token_of(serving)  # a file that can't be used ends the server before it loads
        be_a_server()
        yield bound


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
    """Settle how a server uses the machine and JAX, before anything is computed.

    JAX stays off a language model's accelerator, unless the environment of the process says otherwise.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    log.keep_standard_descriptors()
    _let_many_in()
    jax = importlib.import_module("jax")  # takes seconds, which nobody waits for who mistypes a flag
    if jax.config.values["jax_platforms"] is None:  # of a program that imported it first, such as a game of its own
        jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])
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
    """Serve, and ends the process with a line of text where that can't be."""
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
