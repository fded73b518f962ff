"""Fields of AgentGym's routes in bodies and queries; a validation library would slow down every step."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from jaxgym.serve.web.parsing import quoted, read_json

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
