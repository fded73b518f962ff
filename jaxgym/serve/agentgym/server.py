"""AgentGym's protocol over HTTP: `jaxgym serve agentgym --env textcraft --port 36001`.

    POST /create {}                                   ─>  {"id": 0, "observation": "Crafting commands: ...", ...}
    POST /step   {"id": 0, "action": "get 1 flax"}    ─>  {"observation": "Got 1 flax", "reward": 0.0, "done": false}

`jaxgym.serve.agentgym.wrapper` implements the calls. A malformed call returns status 422; an invalid call returns 200
and `{"error": ...}`, as AgentGym's clients expect; a full server returns 503.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException

from jaxgym.errors import OptionError
from jaxgym.serve.agentgym.bodies import BodyError, Fields, fields_of, read_fields
from jaxgym.serve.agentgym.wrapper import AgentGymWrapper
from jaxgym.serve.agentgym.wrappers import short_name_of, wrap
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.web import guard, log
from jaxgym.serve.web.answers import answer, message_of
from jaxgym.serve.web.guard import Message, Receive, Send, token_of_request
from jaxgym.serve.web.http import freeze, run, served_options
from jaxgym.serve.web.serving import AgentGym

_OK, _BAD, _NOT_FOUND, _NOT_ALLOWED, _MALFORMED, _FULL = 200, 400, 404, 405, 422, 503
_SWEEPS = 4
"""Number of searches for idle sessions in each period of `idle_seconds`."""


class AgentGymApp:
    """App of one environment at the root, or of several environments under prefixes."""

    def __init__(self, pool: SessionPool, wrappers: Mapping[str, AgentGymWrapper], separates_clients: bool = False):
        """Compile the programs of the environments; raises the errors of `SessionPool.prepare`.

        Args:
            pool: The pool of their sessions.
            wrappers: The wrappers by prefix, such as `"/textcraft"`; `""` is the root.
            separates_clients: Whether an environment belongs to the token of the client that created it.
        """
        self._pool, self.wrappers, self._separates_clients = pool, dict(wrappers), separates_clients
        self._routes = dict[tuple[str, str], tuple[Fields, Callable[..., Awaitable[Any]]]]()
        self._timer: asyncio.TimerHandle | None = None
        for prefix, wrapper in wrappers.items():
            wrapper.prepare()
            for (method, path), name in wrapper.ROUTES.items():
                call = getattr(wrapper, name)
                self._routes[method, f"{prefix}{path}".rstrip("/") or "/"] = fields_of(call), call

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await receive()
            await answer(
                {"error": "expected HTTP, got a WebSocket. Use HTTP: AgentGym's protocol has no WebSockets."},
                _NOT_FOUND,
            )(scope, receive, send)
            return
        try:
            owner = token_of_request(scope["headers"]).decode("latin-1") if self._separates_clients else None
            body = await _body(receive)
            status, reply = await self.answer(scope["method"], scope["path"], scope["query_string"], body, owner)
        except HTTPException as error:
            status, reply = error.status_code, {"error": error.detail}
        content = json.dumps(reply).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def answer(self, method: str, path: str, query: bytes, body: bytes, owner: str | None) -> tuple[int, Any]:
        """Return status and content of a response; `owner` is the token if environments belong to tokens."""
        if self._timer is None:
            self._close_idle()
        known = self._routes.get((method, path)) or self._routes.get((method, path.rstrip("/") or "/"))
        if known is None:
            return self._unknown(path.rstrip("/") or "/")
        fields, call = known
        try:
            return _OK, await call(owner, *read_fields(fields, method, query, body))
        except BodyError as error:
            return _MALFORMED, {"detail": [{"type": "value_error", "loc": error.where, "msg": str(error)}]}
        except CapacityError as error:
            return _FULL, {"error": message_of(error)}
        except SessionError as error:
            return _OK, {"error": message_of(error)}

    def sessions(self, token: str) -> list[str]:
        """Return the session ids for the page; if environments belong to tokens, only those of the token."""
        owner = token if self._separates_clients else None
        return [key for wrapper in self.wrappers.values() for key in wrapper.sessions(owner)]

    def _unknown(self, path: str) -> tuple[int, Any]:
        if path == "/health":
            return _OK, {"status": "healthy"}
        if any(path == known for _, known in self._routes):
            return _NOT_ALLOWED, {"detail": "Method Not Allowed"}
        if path == "/":
            return _OK, f"These are the environments {', '.join(self.wrappers)}."
        return _NOT_FOUND, {"detail": "Not Found"}

    def _close_idle(self) -> None:
        """Close idle sessions and schedule the next search; runs in the event loop."""
        if self._pool.idle_seconds is not None:
            self._pool.close_idle()
            for wrapper in self.wrappers.values():
                wrapper.sweep()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pool.idle_seconds / _SWEEPS, self._close_idle)


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(_BAD, "the client disconnected before its request was complete.")
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


def load(serving: AgentGym) -> AgentGymApp:
    """Make the app and compile its programs, which takes seconds; raises the errors of `SessionPool.prepare`."""
    # AgentGym's clients parse replies themselves and send the result, so lenient parsing is allowed.
    pool = SessionPool(
        serving.max_sessions, serving.idle_seconds or None, keeps_history=serving.page, allows_lenient=True
    )
    wrappers = dict[str, AgentGymWrapper]()
    for env, options in serving.games():
        prefix = f"/{short_name_of(env)}"
        if prefix in wrappers:
            raise OptionError(f"expected different environments, got {env} twice. Serve one of them at another port.")
        wrappers[prefix] = wrap(env, pool, served_options(options))
    wrappers = {"": next(iter(wrappers.values()))} if len(wrappers) == 1 else wrappers
    app = AgentGymApp(pool, wrappers, separates_clients=serving.token_file is not None)
    freeze()
    return app


def make_app(serving: AgentGym, app: AgentGymApp) -> guard.App:
    """Return the app with the page."""
    hosted = [wrapper.hosted for wrapper in app.wrappers.values() if wrapper.hosted is not None]
    return with_page(app, serving, hosted, app.sessions) if hosted else app


def serve(serving: AgentGym, bound: socket.socket) -> None:
    """Load the environments and serve until the process receives a signal; see `jaxgym.serve.web.http.run`."""
    log.print_line(f"loading {serving.env}")
    run(make_app(serving, load(serving)), serving, bound)
