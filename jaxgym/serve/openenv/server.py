"""OpenEnv server of one environment: `jaxgym serve openenv --env sudoku`, and apps for other ASGI servers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from jaxgym.serve.openenv.branching import UNDO_TURNS
from jaxgym.serve.openenv.conversation import Conversations
from jaxgym.serve.openenv.routes import routes
from jaxgym.serve.openenv.rpc import Methods
from jaxgym.serve.openenv.sessions import SPARE, ClientSessions
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.web.answers import answer
from jaxgym.serve.web.http import Hosted, behind_guard, host, loaded_at_start, serve
from jaxgym.serve.web.serving import OpenEnv, Serving, be_a_server, starting, token_of


class OpenEnvApp:
    """App with `/ws` and `/mcp` over WebSocket, and the HTTP routes."""

    def __init__(self, serving: Serving, hosted: Hosted):
        """Make the app of an environment."""
        self._sessions = sessions = ClientSessions(hosted, serving.max_sessions, serving.idle_seconds)
        methods = Methods(sessions, branching=getattr(serving, "branching", False))
        self._conversations = Conversations(sessions, methods)
        self._closing_idle: asyncio.Task[None] | None = None
        token = token_of(serving)
        # OpenEnv sessions do not belong to a token, so with several tokens the page shows no sessions of clients.
        is_of_many = token is not None and len(token.split()) > 1
        app = routes(serving, sessions, methods)
        self._http = with_page(app, serving, [hosted], lambda _: [] if is_of_many else sessions.ids())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or serve a WebSocket."""
        if self._closing_idle is None:
            self._closing_idle = asyncio.create_task(self._sessions.close_idle())
        path = scope["path"].rstrip("/") or "/"
        scope = scope if path == scope["path"] else {**scope, "path": path}
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)
        elif path in ("/ws", "/mcp"):
            await self._conversations.talk(scope, receive, send)
        else:
            await receive()
            await answer({"error": "the WebSocket paths of this server are /ws and /mcp."}, 404)(scope, receive, send)


def load(serving: Serving) -> OpenEnvApp:
    """Make the app and compile its programs, which takes seconds; raises the errors of `host`."""
    # OpenEnv clients compute their own rewards, so the default is the environment's reward only.
    undo_turns = UNDO_TURNS if getattr(serving, "branching", False) else 0
    return OpenEnvApp(serving, host(serving, {"rewards": "environment"}, SPARE, undo_turns))


def settings(env: str, options: Sequence[str] = (), **more: Any) -> OpenEnv:
    """Return the settings of `jaxgym serve openenv`; defaults can come from environment variables.

    Args:
        env: Id or short name of an environment with a text interface.
        options: Options, each NAME=VALUE.
        **more: Other settings, such as `max_sessions`; an invalid one raises an `OptionError`.
    """
    return OpenEnv(env, tuple(options), **more)


def make_app(serving: Serving) -> ASGIApp:
    """Return the app for any ASGI server; it loads the environment at the start. Raises the errors of `token_of`."""
    token_of(serving)
    be_a_server()
    return loaded_at_start(lambda: behind_guard(load(serving), serving))


def listen_and_serve(serving: Serving) -> None:
    """Serve until the process receives a signal; see `jaxgym.serve.web.serving.starting` and `http.serve`."""
    with starting(serving) as bound:
        serve(load, serving, bound)
