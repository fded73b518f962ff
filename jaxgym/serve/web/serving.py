"""Settings of a server, and the start of a server process: bind the address, load the environment, listen.

This module has no slow imports, so that `--help` and the errors of wrong flags are printed at once.
"""

import contextlib
import dataclasses
import importlib
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxgym import interrupts
from jaxgym.errors import OptionError
from jaxgym.serve.web import log

_HIGHEST_PORT = 65535
_VISIBLE = range(0x21, 0x7F)
_HOST_NAME = re.compile(r"[\w.-]+|[0-9a-fA-F:.]*::?[0-9a-fA-F:.]*", re.ASCII)
_MOST_SESSIONS = 10**6  # leaves room in a pool for the temporary sessions of HTTP calls
BACKLOG = 2048
KILOBYTE = 1024


def _number(name: str, default: int) -> int:
    given = os.environ.get(name, "")
    if not given:
        return default
    if not (given.isascii() and given.isdecimal()):
        raise OptionError(f"environment variable {name}: expected an integer, got {given!r}. Correct or unset it.")
    return int(given)


def _allowed_hosts() -> tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get("ALLOWED_HOSTS", "").split(",") if name.strip())


_Options = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME=VALUE ...]")]


@dataclasses.dataclass(frozen=True)
class Serving:
    """Settings of every protocol."""

    env: str
    """Id or short name of an environment with a text interface, such as mystery_path_grid."""
    options: _Options = ()
    """Options of the environment, its text interface and its sessions, NAME=VALUE, with VALUE in JSON or a plain
    string."""
    host: str = dataclasses.field(default_factory=lambda: os.environ.get("HOST") or "127.0.0.1")
    """Address to listen on; 0.0.0.0 allows other machines. Default: the environment variable HOST, if it is set."""
    port: int = dataclasses.field(default_factory=lambda: _number("PORT", 8000))
    """Port to listen on; 0 selects a free one. Default: the environment variable PORT, if it is set."""
    max_sessions: int = dataclasses.field(default_factory=lambda: _number("MAX_CONCURRENT_ENVS", 256))
    """Maximum number of open sessions. Default: the environment variable MAX_CONCURRENT_ENVS, if it is set."""
    idle_seconds: float = 3600.0
    """Time without a call in seconds after which a session is closed; 0 means never."""
    token_file: Path | None = None
    """File with one or more tokens, one on each line; requests then need one: `Authorization: Bearer TOKEN`."""
    allowed_host: tyro.conf.UseAppendAction[tuple[str, ...]] = dataclasses.field(default_factory=_allowed_hosts)
    """Name that is allowed in the headers Host and Origin, in addition to this machine's names and the bound address;
    repeat the flag for several. Default: the environment variable ALLOWED_HOSTS, separated by commas, if it is set."""
    max_kilobytes: int = 256
    """Maximum size of a request or message, in units of 1024 bytes."""
    page: bool = True
    """Serve a page at / to watch and play sessions."""

    def __post_init__(self) -> None:
        lows = {"port": 0, "max_sessions": 1, "idle_seconds": 0, "max_kilobytes": 1}
        for name, low in lows.items():
            if not getattr(self, name) >= low:
                flag = "--" + name.replace("_", "-")
                raise OptionError(f"{flag}: expected a number of at least {low}, got {getattr(self, name)}.")
        for name in self.allowed_host:
            if not _HOST_NAME.fullmatch(name):
                raise OptionError(
                    f"--allowed-host: expected a host name or address, got {name!r}. Leave out scheme, port and path."
                )
        if self.port > _HIGHEST_PORT:
            raise OptionError(f"--port: expected a number of at most {_HIGHEST_PORT}, got {self.port}.")
        if self.max_sessions > _MOST_SESSIONS:
            raise OptionError(f"--max-sessions: expected at most {_MOST_SESSIONS}, got {self.max_sessions}.")


@dataclasses.dataclass(frozen=True)
class OpenEnv(Serving):
    """Serve text episodes over OpenEnv (WebSocket and HTTP)."""

    branching: bool = False
    """Let clients fork, save, load and undo sessions. Never use it to evaluate a model."""


@dataclasses.dataclass(frozen=True)
class AgentGym(Serving):
    """Serve text episodes over AgentGym (HTTP)."""

    options: _Options = ()
    """Options of the environment, its text interface and its sessions, NAME=VALUE; then further environments, each
    followed by its options. Each of several environments is served under its short name, such as /textcraft."""

    def games(self) -> list[tuple[str, list[str]]]:
        """Return the environments, each with its NAME=VALUE options."""
        games: list[tuple[str, list[str]]] = [(self.env, [])]
        for word in self.options:
            if "=" in word:
                games[-1][1].append(word)
            else:
                games.append((word, []))
        return games


PROTOCOLS: Mapping[str, type[Serving]] = {"openenv": OpenEnv, "agentgym": AgentGym}


def tokens_of(serving: Serving) -> list[bytes] | None:
    """Return the tokens of the token file, or None without a file.

    Raises:
        OptionError: If the file is empty, or contains other than visible ASCII characters.
        OSError: If the file can't be read.
    """
    path = serving.token_file
    if path is None:
        return None
    try:
        lines = path.read_bytes().split()
    except OSError as error:
        raise OSError(f"--token-file {path} can't be read: {error.strerror}.") from error
    if not lines or any(byte not in _VISIBLE for line in lines for byte in line):
        got = "other characters" if lines else "an empty file"
        raise OptionError(f"--token-file {path}: expected tokens of visible ASCII characters, got {got}.")
    return lines


def bind(serving: Serving) -> socket.socket:
    """Return a bound socket, or raise `OSError` if the address is not available.

    It does not listen yet, so that clients are rejected until the environment is loaded.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in serving.host else socket.AF_INET)
    try:
        if os.name == "posix":  # on other systems the option allows two servers on one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((serving.host, serving.port))
    except OSError as error:
        bound.close()
        raise _unavailable(serving, error) from error
    return bound


def listen(serving: Serving, bound: socket.socket) -> None:
    """Start to listen; raise `OSError` if another server listens at the address since it was bound."""
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        raise _unavailable(serving, error) from error


def _unavailable(serving: Serving, error: OSError) -> OSError:
    reason = error.strerror if error.errno is None or error.errno < 0 else os.strerror(error.errno)
    where = f"{serving.host}, port {serving.port}"
    return OSError(f"can't listen on {where}: {reason}. Use another --host or --port.")


@contextlib.contextmanager
def starting(serving: Serving) -> Iterator[socket.socket]:
    """Make the process a server and yield its socket; see `bind` and `be_a_server`.

    Until the server handles signals, SIGTERM ends the process at once with exit code 0, and SIGINT with 130.
    """
    with _ending_when_asked(), bind(serving) as bound:
        tokens_of(serving)  # raises for an invalid file before the environment is loaded
        be_a_server()
        yield bound


@contextlib.contextmanager
def _ending_when_asked() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
        yield
        return
    # The handlers exit, because a module that is being imported could swallow an exception.
    codes = {signal.SIGTERM: 0, signal.SIGINT: interrupts.CODE}
    kept = {number: signal.signal(number, lambda *_, code=code: os._exit(code)) for number, code in codes.items()}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def be_a_server() -> None:
    """Configure the process and JAX for a server, before any computation; see `use_cpu_by_default`."""
    log.keep_standard_descriptors()
    _let_many_in()
    jax = use_cpu_by_default()
    # A small step takes less time than its dispatch to another thread. JAX has no environment variable for this option.
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def use_cpu_by_default() -> Any:
    """Import JAX and return it; it uses the CPU, and leaves accelerators to the language model.

    If the environment variable `JAX_PLATFORMS` is set, JAX uses the platforms that it names.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = importlib.import_module("jax")  # takes seconds, so it is imported after the flags are validated
    if jax.config.values["jax_platforms"] is None:  # JAX was imported before the variable was set
        jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])
    return jax


def _let_many_in() -> None:
    """Raise the limit of open files, and so of sockets, to its maximum."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows has no such limit
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
