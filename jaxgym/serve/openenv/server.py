"""A server of one game that speaks OpenEnv: `jaxgym serve openenv --env sudoku`, and apps for other ASGI servers."""

import socket
from collections.abc import Sequence
from typing import Any

from jaxgym.serve.openenv.app import OpenEnvApp
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.web import log
from jaxgym.serve.web.guard import App
from jaxgym.serve.web.http import behind_guard, host, loaded_at_start, run
from jaxgym.serve.web.serving import OpenEnv, Serving, be_a_server, starting, token_of


def load(serving: Serving) -> OpenEnvApp:
    """Return the app with its game, ready to be played, which takes seconds.

    Raises:
        OptionError, UnknownIdError, LevelError: If something that was given does not exist.
    """
    # Clients of this protocol score for themselves: unless the options say otherwise, the reward is the environment's.
    return OpenEnvApp(serving, host(serving, {"scoring": "environment"}, spare=SPARE))


def serve(serving: Serving, bound: socket.socket) -> None:
    """Load the game and serve until the process is asked to end; see `jaxgym.serve.web.http.run`."""
    log.say(f"loading {serving.env}")
    run(load(serving), serving, bound)


def settings(env: str, options: Sequence[str] = (), **more: Any) -> OpenEnv:
    """Return what `jaxgym serve openenv` is told, with its defaults and those of the process's environment.

    Args:
        env: Id of an environment that has words, or its short name.
        options: Options, NAME=VALUE each.
        **more: Any of the other settings, such as `max_sessions`.

    Raises:
        OptionError: If a setting does not take its value.
    """
    return OpenEnv(env, tuple(options), **more)


def make_app(serving: Serving) -> App:
    """Return the app for any ASGI server, which loads the game when the server starts.

    Raises:
        OptionError: If the file of the token is empty.
        OSError: If it can't be read.
    """
    token_of(serving)
    be_a_server()
    return loaded_at_start(lambda: behind_guard(load(serving), serving))


def listen_and_serve(serving: Serving) -> None:
    """Serve until the process is asked to end; see `jaxgym.serve.web.serving.starting` and `serve`."""
    with starting(serving) as bound:
        serve(serving, bound)
