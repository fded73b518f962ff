"""OpenEnv server of one environment: `jaxgym serve openenv --env sudoku`, and apps for other ASGI servers."""

import socket
from collections.abc import Sequence
from typing import Any

from jaxgym.serve.openenv.app import OpenEnvApp
from jaxgym.serve.openenv.branching import UNDO_TURNS
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.web import log
from jaxgym.serve.web.guard import App
from jaxgym.serve.web.http import behind_guard, host, loaded_at_start, run
from jaxgym.serve.web.serving import OpenEnv, Serving, be_a_server, starting, token_of


def load(serving: Serving) -> OpenEnvApp:
    """Make the app and compile its programs, which takes seconds; raises the errors of `host`."""
    # OpenEnv clients compute their own rewards, so the default is the environment's reward only.
    undo_turns = UNDO_TURNS if getattr(serving, "branching", False) else 0
    return OpenEnvApp(serving, host(serving, {"rewards": "environment"}, SPARE, undo_turns))


def serve(serving: Serving, bound: socket.socket) -> None:
    """Load the environment and serve until the process receives a signal; see `jaxgym.serve.web.http.run`."""
    log.print_line(f"loading {serving.env}")
    run(load(serving), serving, bound)


def settings(env: str, options: Sequence[str] = (), **more: Any) -> OpenEnv:
    """Return the settings of `jaxgym serve openenv`; defaults can come from environment variables.

    Args:
        env: Id or short name of an environment with a text interface.
        options: Options, each NAME=VALUE.
        **more: Other settings, such as `max_sessions`; an invalid one raises an `OptionError`.
    """
    return OpenEnv(env, tuple(options), **more)


def make_app(serving: Serving) -> App:
    """Return the app for any ASGI server; it loads the environment at the start. Raises the errors of `token_of`."""
    token_of(serving)
    be_a_server()
    return loaded_at_start(lambda: behind_guard(load(serving), serving))


def listen_and_serve(serving: Serving) -> None:
    """Serve until the process receives a signal; see `jaxgym.serve.web.serving.starting` and `serve`."""
    with starting(serving) as bound:
        serve(serving, bound)
