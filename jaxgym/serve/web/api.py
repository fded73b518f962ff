"""App of a table of routes: the arguments of a method are the fields of its requests.

    POST /step {"id": 3, "action": "up"}  ─>  step(owner, id=3, action="up")  ─>  a JSON value, or a `Response`

The response to an invalid request is short for any request.
"""

import functools
import inspect
import json
import operator
import reprlib
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypeVar
from urllib.parse import parse_qsl

import pydantic
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict  # a dependency of pydantic, which needs it on Python 3.11

from jaxgym.errors import ContractError
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.web.answers import MOST_SAID, answer, message_of, quoted, read_json
from jaxgym.serve.web.guard import token_of_request

MOST_ERRORS = 4
"""Maximum number of faults of one request in a response."""

_MOST_QUOTED = 40
_OK, _BAD, _NOT_FOUND, _NOT_ALLOWED, _UNPROCESSABLE, _FULL = 200, 400, 404, 405, 422, 503


def _number(given: Any) -> Any:
    if isinstance(given, bool) or (isinstance(given, str) and not given.removeprefix("-").isdecimal()):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return given


Text = pydantic.InstanceOf[str]
"""String that may contain lone surrogates, as replies of models can, which pydantic would reject."""

Whole = Annotated[int, pydantic.BeforeValidator(_number)]
"""Integer, also from a string of digits, as in a query, or a whole float."""

Model = TypeVar("Model", bound=pydantic.BaseModel)


class FieldError(ValueError):
    """Request that does not match its model; each of its `errors` has type, path (`loc`), message and input."""

    def __init__(self, errors: Sequence[Any]):
        """Store the first few errors with truncated inputs."""
        self.errors = [_shortened(error) for error in errors[:MOST_ERRORS]]
        super().__init__("; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in self.errors))


def _shortened(error: Any) -> dict[str, Any]:
    given = error["input"]
    text = given if isinstance(given, str) else reprlib.repr(given)
    is_short = len(text) <= _MOST_QUOTED and text.isascii() and text.isprintable() and "..." not in text
    place = [quoted(part, _MOST_QUOTED) if isinstance(part, str) else part for part in error["loc"]]
    return {**error, "loc": place, "input": given if is_short else quoted(text, _MOST_QUOTED)}


def checked(model: type[Model], given: Any, *where: str | int) -> Model:
    """Return the fields of a request whose path is `where`; raise `FieldError` if they do not match the model."""
    return validated(model.__pydantic_validator__, given, *where)  # faster than `model_validate`


def validated(validator: Any, given: Any, *where: str | int) -> Any:
    """Return the fields of a request whose path is `where`; raise `FieldError` if pydantic's validator fails."""
    try:
        return validator.validate_python(given)
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        raise FieldError([{**fault, "loc": (*where, *fault["loc"])} for fault in faults]) from None


_KINDS: dict[Any, Any] = {str: Text, int: Whole, list[str]: list[Text], list[int]: list[pydantic.StrictInt]}


def reader_of(call: Callable[..., Any]) -> Callable[[Any, str], dict[str, Any]] | None:
    """Return the function that reads the arguments of a method of a route, or None if it has no fields.

    Args:
        call: The method. Its first argument is the owner. If another one is called `body`, its type is the model of the
            whole body. Otherwise each argument is a field of any name, which is optional if it has a default value.
    """
    hints = typing.get_type_hints(call, include_extras=True)
    if isinstance(hints.get("body"), type) and issubclass(hints["body"], pydantic.BaseModel):
        return lambda given, where: {"body": checked(hints["body"], given, where)}
    fields: dict[str, Any] = {}
    for name, argument in list(inspect.signature(call).parameters.items())[1:]:
        kinds = typing.get_args(hints[name]) if isinstance(hints[name], types.UnionType) else (hints[name],)
        kind = functools.reduce(operator.or_, (_KINDS.get(kind, kind) for kind in kinds))
        fields[name] = kind if argument.default is argument.empty else NotRequired[kind]
    if not fields:
        return None
    validator = pydantic.TypeAdapter(TypedDict(call.__name__, fields)).validator  # pyright: ignore[reportArgumentType]
    return lambda given, where: validated(validator, given, where)


def constant(content: Any) -> Callable[[str | None], Awaitable[Any]]:
    """Return the method of a route that always returns the same content."""

    async def call(_: str | None) -> Any:
        return content

    return call


class Api:
    """ASGI app of a table of routes.

    Attributes:
        error_key: Key of the error text in a response.
        fault_key: Key of the faults of fields; in place of them, `"error"` has their text.
        session_status: Status of the response to a session error.
        allows_empty: Whether an empty body is an object without fields.
        headers: Further headers of the responses.
        has_owners: Whether the owner of a call is its token; otherwise it is None.
    """

    error_key, fault_key, session_status = "error", "detail", _UNPROCESSABLE
    headers: Mapping[str, str] = types.MappingProxyType({})
    allows_empty, has_owners = True, False

    def __init__(self, routes: Mapping[tuple[str, str], Callable[..., Awaitable[Any]]]):
        """Make an app of the methods by HTTP method and path."""
        self._routes = {place: (reader_of(call), call) for place, call in routes.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await receive()
            reply = _NOT_FOUND, {"error": "expected HTTP, got a WebSocket. This address has no WebSockets."}
        else:
            try:
                reply = await self.respond(scope, await _body(receive))
            except HTTPException as error:
                reply = error.status_code, {self.error_key: quoted(error.detail, MOST_SAID)}
        if isinstance(reply, Response):
            await reply(scope, receive, send)
        elif scope["type"] != "http" or self.headers:
            await answer(reply[1], reply[0], self.headers)(scope, receive, send)
        else:  # faster than a `Response`
            content = json.dumps(reply[1]).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
            await send({"type": "http.response.start", "status": reply[0], "headers": headers})
            await send({"type": "http.response.body", "body": content})

    def respond(self, scope: Scope, body: bytes) -> Awaitable[Response | tuple[int, Any]]:
        """Return the response to a request, or its status and content."""
        owner = token_of_request(scope["headers"]).decode("latin-1") if self.has_owners else None
        return self.answer(scope["method"], scope["path"], scope["query_string"], body, owner)

    async def answer(
        self, method: str, path: str, query: bytes, body: bytes, owner: str | None
    ) -> Response | tuple[int, Any]:
        """Return the response to a call, or its status and content."""
        method, path = "GET" if method == "HEAD" else method, path.rstrip("/") or "/"
        known = self._routes.get((method, path))
        if known is None:
            is_known = any(path == place for _, place in self._routes)
            status, said = (_NOT_ALLOWED, "Method Not Allowed") if is_known else (_NOT_FOUND, "Not Found")
            return status, {self.fault_key: said}
        read, call = known
        try:
            content = await call(owner, **(self._fields(read, method, query, body) if read else {}))
        except FieldError as error:
            return _UNPROCESSABLE, {self.fault_key: f"{error}." if self.fault_key == "error" else error.errors}
        except CapacityError as error:
            return _FULL, {self.error_key: message_of(error)}
        except (SessionError, ContractError) as error:
            return self.session_status, {self.error_key: message_of(error)}
        return content if isinstance(content, Response) else (_OK, content)

    def _fields(self, read: Callable[[Any, str], dict[str, Any]], method: str, query: bytes, body: bytes) -> Any:
        if method != "GET":
            return read(_json_of(body) if body.strip() or not self.allows_empty else {}, "body")
        sent = dict[str, str]()
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name in sent:
                text = f"expected the parameter {quoted(name)} once, got it twice"
                raise FieldError([{"type": "value_error", "loc": ["query"], "msg": text, "input": None}])
            sent[name] = value
        return read(sent, "query")


def _json_of(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        text = f"JSON decode error: {error}"
        raise FieldError([{"type": "json_invalid", "loc": ["body"], "msg": text, "input": None}]) from error


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(_BAD, "the client disconnected before its request was complete.")
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)
