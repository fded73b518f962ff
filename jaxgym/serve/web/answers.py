"""JSON responses, including those to invalid requests."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.web.parsing import quoted

_BAD, _UNPROCESSABLE, _FULL = 400, 422, 503
MOST_SAID = 1000
"""Maximum length of an error message."""

MOST_ERRORS = 4
"""Maximum number of faults of one request in a response."""


def message_of(error: Exception) -> str:
    """Return the message of an error, truncated so that the response is smaller than 4 kB."""
    return quoted(str(error), MOST_SAID)


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(json.dumps(content), status, headers, "application/json")


def exception_handlers(
    key: str, headers: Mapping[str, str] | None = None
) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    """Return the exception handlers of a Starlette app, with the error message under `key` of the response."""

    async def tell(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return answer({key: quoted(error.detail, MOST_SAID)}, error.status_code, headers)
        return answer({key: message_of(error)}, _FULL if isinstance(error, CapacityError) else _UNPROCESSABLE, headers)

    async def ignore(*_: Any) -> Response:
        return answer({key: "the client disconnected before its request was complete."}, _BAD, headers)

    return {HTTPException: tell, SessionError: tell, ClientDisconnect: ignore}
