"""Strict parsing of JSON requests: finite numbers, and no duplicate keys."""

import json
import math
from typing import Any

from jaxgym.serve.web.answers import quoted

_MOST_KEY = 40


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # JSON responses with error messages can't contain it
        raise ValueError(f"expected a finite number, got {text[:20]}")
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
