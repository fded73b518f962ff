"""Answers in JSON, those to calls that are refused among them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError, SessionError

_REFUSED, _FULL = 422, 503


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a response that holds JSON."""
    return Response(json.dumps(content), status, headers, "application/json")


def refusals(
    key: str, headers: Mapping[str, str] | None = None
) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
    """Returns what an app of Starlette answers where a call raises one of its errors, or one of a session.

    Args:
        key: Under which the reason stands.
        headers: Headers of these answers.
    """

    async def tell(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return answer({key: error.detail}, error.status_code, headers)
        return answer({key: str(error)}, _FULL if isinstance(error, CapacityError) else _REFUSED, headers)

    return {HTTPException: tell, SessionError: tell}
