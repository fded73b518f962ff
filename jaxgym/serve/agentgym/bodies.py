"""Parsing of the bodies and queries of AgentGym's routes; a validation library would slow down every step."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from jaxgym.serve.web.parsing import quoted, read_json

_DIGITS = re.compile(r"\s*[-+]?[0-9]{1,64}\s*", re.ASCII)
_NEEDED = object()


class BodyError(ValueError):
    """Malformed body or query; `where` is the path of the fault, such as `["body", "id"]`."""

    def __init__(self, where: list[str], what: str):
        super().__init__(what)
        self.where = where


class Field(NamedTuple):
    """Field of a body or query.

    Attributes:
        name: The key.
        read: Returns the validated value, or raises a ValueError.
        default: The default value; a field without one is required.
    """

    name: str
    read: Callable[[Any], Any]
    default: Any = _NEEDED


class CallRoute(NamedTuple):
    """Route of an environment.

    Attributes:
        method: GET, with its fields in the query, or POST, with its fields in a JSON body.
        path: The path after the prefix of the environment.
        call: Name of the wrapper's method; it takes the owner and the fields.
        fields: The fields in the order of the method's arguments. Without fields, the body is ignored.
    """

    method: str
    path: str
    call: str
    fields: tuple[Field, ...] = ()


def integer(sent: Any) -> int:
    """Read an integer, also from a string of digits, as in a query, or a whole float."""
    if type(sent) is int:
        return sent
    if (isinstance(sent, str) and _DIGITS.fullmatch(sent)) or (isinstance(sent, float) and sent.is_integer()):
        return int(sent)
    raise ValueError("Input should be a valid integer")


def string(sent: Any) -> str:
    """Read a string."""
    if isinstance(sent, str):
        return sent
    raise ValueError("Input should be a valid string")


def integers(sent: Any) -> list[int]:
    """Read a list of integers."""
    if isinstance(sent, list) and all(type(entry) is int for entry in sent):
        return sent
    raise ValueError("Input should be a list of integers")


def texts(sent: Any) -> list[str]:
    """Read a list of strings."""
    if isinstance(sent, list) and set(map(type, sent)) <= {str}:
        return sent
    raise ValueError("Input should be a list of strings")


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that also accepts null."""
    return lambda sent: None if sent is None else read(sent)


def read_fields(route: CallRoute, query: bytes, body: bytes) -> list[Any]:
    """Return the values of the fields of a call; ignore other entries.

    Raises:
        BodyError: If the body is not a JSON object, or a field is missing or has another type.
    """
    values: list[Any] = []
    if not route.fields:
        return values
    where = "query" if route.method == "GET" else "body"
    sent = _parameters(query) if where == "query" else _object(body)
    for name, read, default in route.fields:
        if name in sent:
            try:
                values.append(read(sent[name]))
            except ValueError as error:
                raise BodyError([where, name], str(error)) from None
        elif default is _NEEDED:
            raise BodyError([where, name], "Field required")
        else:
            values.append(default)
    return values


def _parameters(query: bytes) -> dict[str, str]:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    sent = dict[str, str]()
    for name, value in pairs:
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
