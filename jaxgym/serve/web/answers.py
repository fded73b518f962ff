"""Strict parsing of JSON, and JSON responses."""

import collections
import json
import math
import reprlib
import sys
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

MOST_SAID = 1000
"""Maximum length of an error message."""


def message_of(error: Exception) -> str:
    """Return the message of an error, truncated so that the response is smaller than 4 kB."""
    return quoted(str(error), MOST_SAID)


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(json.dumps(content), status, headers, "application/json")


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
