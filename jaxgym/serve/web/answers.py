"""JSON of requests and answers, and the answers to requests that are invalid."""

import json
import math
import reprlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jaxgym.serve.errors import CapacityError, SessionError

_REFUSED, _FULL = 422, 503
_MOST_QUOTED = 80
_MOST_KEY = 40
MOST_SAID = 1000
"""Maximum length of an error message."""

MOST_ERRORS = 4
"""Maximum number of faults of one request that its answer lists."""


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # an error message quotes it in JSON, which has no such numbers
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"expected each key of an object once, got {quoted(twice, _MOST_KEY)} twice")
    return entries


_decoder = json.JSONDecoder(parse_float=_number, parse_constant=_number, object_pairs_hook=_object)


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: If it is not JSON, has a number that is not finite, or has a key twice in one object.
        RecursionError: If it is nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _decoder.decode(text)


def quoted(given: Any, most: int = _MOST_QUOTED) -> str:
    """Return a value of a request for an error message: as it is if it is short printable ASCII, else escaped and cut.

    With `most` characters the result has at most twice as many bytes in JSON, and three more.
    """
    given = given if isinstance(given, str) else reprlib.repr(given)
    if len(given) <= most and given.isascii() and given.isprintable():
        return given
    escaped = ascii(given[:most])[1:-1]
    return escaped if len(given) <= most and len(escaped) <= most else f"{escaped[:most]}..."


def message_of(error: Exception) -> str:
    """Return the message of an error for an answer, cut to a length that leaves the answer below 4 kB."""
    return quoted(str(error), MOST_SAID)


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
            return answer({key: quoted(error.detail, MOST_SAID)}, error.status_code, headers)
        return answer({key: message_of(error)}, _FULL if isinstance(error, CapacityError) else _REFUSED, headers)

    return {HTTPException: tell, SessionError: tell}
