"""Strict parsing of JSON requests, and JSON responses, including those to invalid requests."""

import collections
import json
import math
import reprlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError, SessionError

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


_MOST_QUOTED, _MOST_KEY = 80, 40


class JsonError(ValueError):
    """JSON text with a value that a request can't contain."""


def quoted(given: Any, most: int = _MOST_QUOTED) -> str:
    """Return a value of a request for an error message, escaped and truncated unless it is short printable ASCII.

    The result has at most 2 · `most` + 3 bytes in JSON.
    """
    given = given if isinstance(given, str) else reprlib.repr(given)
    if len(given) <= most and given.isascii() and given.isprintable():
        return given
    escaped = ascii(given[:most])[1:-1]
    return escaped if len(given) <= most and len(escaped) <= most else f"{escaped[:most]}..."


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # JSON responses with error messages can't contain it
        raise JsonError(f"expected a finite number, got {text[:20]}")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        counts = collections.Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise JsonError(f"expected each key of an object once, got {quoted(twice, _MOST_KEY)} twice")
    return entries


_decoder = json.JSONDecoder(parse_float=_number, parse_constant=_number, object_pairs_hook=_object)


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: If it is not JSON, has a number that is not finite or too long, has a key twice in one object, or is
            nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise JsonError("expected fewer nested arrays and objects") from None
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        # Python converts no longer integers; its message names a setting of Python.
        raise JsonError(f"expected at most {sys.get_int_max_str_digits()} digits in an integer") from None
