"""AgentGym's protocol over HTTP: `jaxgym serve agentgym --env textcraft --port 36001`.

    POST /create {}                                   ─>  {"id": 0, "observation": "Crafting commands: ...", ...}
    POST /step   {"id": 0, "action": "get 1 flax"}    ─>  {"observation": "Got 1 flax", "reward": 0.0, "done": false}

`jaxgym.serve.agentgym.wrapper` implements the calls. A malformed call returns status 422; an invalid call returns 200
and `{"error": ...}`, as AgentGym's clients expect; a full server returns 503.
"""

import asyncio
import inspect
import json
import re
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jaxgym.errors import ContractError, OptionError
from jaxgym.serve.agentgym.wrapper import AgentGymWrapper
from jaxgym.serve.agentgym.wrappers import short_name_of, wrap
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.page.routes import with_page
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.web.answers import answer, message_of, quoted, read_json
from jaxgym.serve.web.guard import token_of_request
from jaxgym.serve.web.http import freeze, served_options
from jaxgym.serve.web.serving import AgentGym

_DIGITS = re.compile(r"\s*[-+]?[0-9]{1,64}\s*", re.ASCII)

Fields = Mapping[str, tuple[Callable[[Any], Any], Any]]
"""Reader and default value of each field, by name; `inspect.Parameter.empty` marks a required field."""


class BodyError(ValueError):
    """Malformed body or query; `where` is the path of the fault, such as `["body", "id"]`."""

    def __init__(self, where: list[str], what: str):
        super().__init__(what)
        self.where = where


def _integer(sent: Any) -> int:
    """Read an integer, also from a string of digits, as in a query, or a whole float."""
    if type(sent) is int:
        return sent
    if (isinstance(sent, str) and _DIGITS.fullmatch(sent)) or (isinstance(sent, float) and sent.is_integer()):
        return int(sent)
    raise ValueError("Input should be a valid integer")


def _list_of(kind: type, name: str) -> Callable[[Any], Any]:
    def read(sent: Any) -> Any:
        if isinstance(sent, list) and set(map(type, sent)) <= {kind}:
            return sent
        raise ValueError(f"Input should be a list of {name}")

    return read


def _string(sent: Any) -> str:
    if isinstance(sent, str):
        return sent
    raise ValueError("Input should be a valid string")


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    int: _integer,
    str: _string,
    list[int]: _list_of(int, "integers"),
    list[str]: _list_of(str, "strings"),
}


def fields_of(call: Callable[..., Any]) -> Fields:
    """Return the fields of a route: the arguments of its method after the first one, the owner.

    Args:
        call: The method. An argument has the type int, str, list[int] or list[str], or one of them or None. An argument
            with a default value is an optional field.

    Raises:
        TypeError: If an argument has another type.
    """
    hints, fields = typing.get_type_hints(call), dict[str, tuple[Callable[[Any], Any], Any]]()
    for name, argument in list(inspect.signature(call).parameters.items())[1:]:
        hint = hints[name]
        read = _READERS.get(typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint)
        if read is None:
            raise TypeError(f"{call.__name__}: {name}: expected int, str or a list of them, got {hint}.")
        fields[name] = (_or_none(read) if isinstance(hint, types.UnionType) else read), argument.default
    return fields


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda sent: None if sent is None else read(sent)


def read_fields(fields: Fields, method: str, query: bytes, body: bytes) -> list[Any]:
    """Return the values of the fields of a call, from the query of a GET or the body of a POST; ignore other entries.

    Raises:
        BodyError: If the body is not a JSON object, or a field is missing or has another type.
    """
    values: list[Any] = []
    if not fields:
        return values
    where = "query" if method == "GET" else "body"
    sent = _parameters(query) if where == "query" else _object(body)
    for name, (read, default) in fields.items():
        if name in sent:
            try:
                values.append(read(sent[name]))
            except ValueError as error:
                raise BodyError([where, name], str(error)) from None
        elif default is inspect.Parameter.empty:
            raise BodyError([where, name], "Field required")
        else:
            values.append(default)
    return values


def _parameters(query: bytes) -> dict[str, str]:
    sent = dict[str, str]()
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in sent:
            raise BodyError(["query"], f"expected the parameter {quoted(name)} once, got it twice")
        sent[name] = value
    return sent


def _object(body: bytes) -> dict[str, Any]:
    try:
        sent = read_json(body)
    except ValueError as error:
        raise BodyError(["body"], f"JSON decode error: {error}" if body else "Field required") from None
    if not isinstance(sent, dict):
        raise BodyError(["body"], "Input should be a valid dictionary")
    return sent


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        except (SessionError, ContractError) as error:
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


def load(serving: AgentGym) -> ASGIApp:
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
    return make_app(serving, app)


def make_app(serving: AgentGym, app: AgentGymApp) -> ASGIApp:
    """Return the app with the page."""
    hosted = [wrapper.hosted for wrapper in app.wrappers.values() if wrapper.hosted is not None]
    return with_page(app, serving, hosted, app.sessions) if hosted else app
