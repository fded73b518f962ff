"""JSON schemas of tools, and the validation of tool arguments.

>>> def place(row: int, column: int = 1) -> str: "..."
>>> read("place", schema_of(place), {"row": 2.0})
{'row': 2}
>>> read("place", schema_of(place), {"row": 2.5})
'place: expected an integer for row, got 2.5. Call place(row: integer, column: integer, optional).'
"""

import inspect
import re
import reprlib
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym.text.forms import whole_number

_KINDS = {str: "string", int: "integer"}
_NOUNS = {"string": "a string", "integer": "an integer"}
_NAMES = {None: "null", True: "true", False: "false"}
_ARGUMENT = re.compile(r"^\s+(\w+)(?: \([^)]*\))?: (.+)$", re.MULTILINE)
_TEXT = "a text without the characters < > [ ] { } ` and line breaks"  # of the patterns of all tools
_MOST_BITS = 63
_MOST_SHOWN = 60

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = 40
_brief.maxlevel = _brief.maxlist = _brief.maxdict = _brief.maxtuple = 3


def schema_of(function: Callable[..., Any], pattern: str | None = None) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, from its type hints and the `Args:` section of its docstring.

    Args:
        function: The function; each argument is a string, one of some strings (`Literal`), or an integer.
        pattern: A regular expression that strings must match completely, or None for any string.
    """
    about = dict(_ARGUMENT.findall((inspect.getdoc(function) or "").partition("Args:")[2].partition("Returns:")[0]))
    hints = typing.get_type_hints(function)
    parameters = {name: entry for name, entry in inspect.signature(function).parameters.items() if name != "self"}
    return {
        "type": "object",
        "properties": {
            name: {**_schema(hints[name], pattern), "description": about.get(name, "")} for name in parameters
        },
        "required": [name for name, entry in parameters.items() if entry.default is entry.empty],
        "additionalProperties": False,
    }


def _schema(hint: Any, pattern: str | None) -> dict[str, Any]:
    if typing.get_origin(hint) is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    return {"type": _KINDS[hint], **({"pattern": f"^{pattern}$"} if pattern and hint is str else {})}


def read(tool: str, schema: Mapping[str, Any], given: Any) -> dict[str, Any] | str:
    """Check the arguments of a call.

    A whole float such as 2.0 is an integer, as in JSON Schema. Nothing else is converted, and nothing is filled in.

    Args:
        tool: The name of the tool.
        schema: The schema of its arguments; each is an integer or a string, perhaps with `enum` or `pattern`.
        given: The arguments of the call, of any type.

    Returns:
        The arguments by name, or an error text if they are invalid.
    """
    properties, required = schema["properties"], schema.get("required", ())
    if not isinstance(given, Mapping):
        return _reason(tool, schema, f"expected an object of arguments, got {quoted(given)}")
    values = dict[str, Any]()
    for name, value in given.items():
        if name not in properties:
            return _reason(tool, schema, f"unknown argument {quoted(name)}")
        entry = properties[name]
        values[name] = _typed(value, entry["type"])
        choices, pattern = entry.get("enum"), entry.get("pattern")
        if values[name] is None or (choices and value not in choices):
            expected = f"one of {', '.join(choices)}" if choices else _NOUNS[entry["type"]]
            if entry["type"] == "integer" and whole_number(value) is not None:
                expected += f" of at most {_MOST_BITS} bits"
            return _reason(tool, schema, f"expected {expected} for {name}, got {quoted(value)}")
        if pattern and not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), value):
            return _reason(tool, schema, f"expected {_TEXT} for {name}, got {quoted(value)}")
    for name in required:
        if name not in given:
            return _reason(tool, schema, f"missing argument {name}")
    return values


def _typed(value: Any, kind: str) -> str | int | None:
    """Return an argument as a `"string"` or an `"integer"`, or None if it has another type."""
    if kind == "string":
        return value if isinstance(value, str) else None
    number = whole_number(value)
    return None if number is None or number.bit_length() > _MOST_BITS else number


def quoted(value: Any) -> str:
    """Return the `repr` of a value for an error text, truncated to 60 characters; true, false and null as in JSON."""
    if value is None or isinstance(value, bool):
        return _NAMES[value]
    try:
        shown = _brief.repr(value)
    except Exception:  # for example an integer with more digits than Python converts
        shown = f"a value of type {type(value).__name__}"
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN - 3]}..."


def call_text(tool: str, schema: Mapping[str, Any]) -> str:
    """Return the call of a tool with the types of its arguments, such as `place(row: integer, column: integer)`."""
    required = schema.get("required", ())
    parameters = [
        f"{name}: {' | '.join(entry.get('enum') or [entry['type']])}{'' if name in required else ', optional'}"
        for name, entry in schema["properties"].items()
    ]
    return f"{tool}({', '.join(parameters)})"


def _reason(tool: str, schema: Mapping[str, Any], fault: str) -> str:
    return f"{tool}: {fault}. Call {call_text(tool, schema)}."
