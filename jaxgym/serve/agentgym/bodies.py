"""How the bodies and queries of AgentGym's routes are read, without a library on the way of every step."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from jaxgym.serve.web.reading import read_json

_DIGITS = re.compile(r"\s*[-+]?[0-9]{1,64}\s*", re.ASCII)
_NEEDED = object()


class BodyError(ValueError):
    """A body or query that is malformed.

    Attributes:
        where: Where, such as `["body", "id"]`.
    """

    def __init__(self, where: list[str], what: str):
        super().__init__(what)
        self.where = where


class Field(NamedTuple):
    """One entry of a body or query.

    Attributes:
        name: Its key.
        read: Returns the value of what was sent, or raises a ValueError that says what to send.
        default: The value where it is left out; it has to be sent without one.
    """

    name: str
    read: Callable[[Any], Any]
    default: Any = _NEEDED


class CallRoute(NamedTuple):
    """One route.

    Attributes:
        method: GET, with its fields in the query, or POST, with its fields in a JSON body.
        path: Its path, behind the prefix of its environment.
        call: The name of the wrapper's method; it takes the owner and the fields.
        fields: The fields in that order. Without any, a body is not looked at.
    """

    method: str
    path: str
    call: str
    fields: tuple[Field, ...] = ()


def integer(sent: Any) -> int:
    """Read an integer; also one that is written as a string, as a query has it, or as a real number."""
    if type(sent) is int:
        return sent
    if (isinstance(sent, str) and _DIGITS.fullmatch(sent)) or (isinstance(sent, float) and sent.is_integer()):
        return int(sent)
    raise ValueError("Input should be a valid integer")


def words(sent: Any) -> str:
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
    """Return a reader that also takes null, which is None."""
    return lambda sent: None if sent is None else read(sent)


def read_body(fields: Sequence[Field], body: bytes) -> list[Any]:
    """Return the values of the fields of a JSON body; other entries are not looked at.

    Raises:
        BodyError: If it is no JSON object, or a field is missing or of another kind.
    """
    if not fields:
        return []
    try:
        sent = read_json(body)
    except (ValueError, RecursionError):
        raise BodyError(["body"], "Field required" if not body else "JSON decode error") from None
    if not isinstance(sent, dict):
        raise BodyError(["body"], "Input should be a valid dictionary")
    return _read(fields, sent, "body")


def read_query(fields: Sequence[Field], query: bytes) -> list[Any]:
    """Return the values of the fields of a query string; other entries are not looked at.

    Raises:
        BodyError: If a field is missing or of another kind.
    """
    return _read(fields, dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)), "query") if fields else []


def _read(fields: Sequence[Field], sent: Mapping[str, Any], where: str) -> list[Any]:
    values = list[Any]()
    for name, read, default in fields:
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
