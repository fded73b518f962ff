"""The tools of a game for JSON-RPC: those that its environment of TRL has, and `reply`, which takes any reply.

>>> tool = tools_of("frozen_lake")["move"]
>>> tool.schema["properties"]["direction"]["enum"], tool.reply({"direction": "up"})
(['up', 'down', 'left', 'right'], '<action>up</action>')
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgym.serve import trl

REPLY = "reply"
_KINDS = {str: "string", int: "integer", bool: "boolean", float: "number"}
_ARGUMENT = re.compile(r"^\s+(\w+)(?: \([^)]*\))?: (.+)$", re.MULTILINE)


class Tool(NamedTuple):
    """What a model may call.

    Attributes:
        description: What it is for.
        schema: JSON schema of its arguments.
        reply: Returns the reply that arguments stand for; they are those of the schema.
    """

    description: str
    schema: dict[str, Any]
    reply: Callable[[Mapping[str, Any]], str]


def tools_of(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Tool]:
    """Returns the tools of a game by name.

    Args:
        name: An id that has words, or its short name.
        options: What the game is played with.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    any_reply = Tool("Makes a move, in the form that the rules ask for.", _MESSAGE, lambda given: given["message"])
    return {
        **{tool: _tool(function) for tool, function in trl.replies_of(name, options or {}).items()},
        REPLY: any_reply,
    }


_MESSAGE = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "The move."}},
    "required": ["message"],
    "additionalProperties": False,
}


def _tool(function: Callable[..., str]) -> Tool:
    told = inspect.getdoc(function) or ""
    about = dict(_ARGUMENT.findall(told.partition("Args:")[2].partition("Returns:")[0]))
    hints, parameters = typing.get_type_hints(function), inspect.signature(function).parameters
    schema = {
        "type": "object",
        "properties": {name: {**_schema(hints[name]), "description": about.get(name, "")} for name in parameters},
        "required": [name for name, parameter in parameters.items() if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    return Tool(told.partition("\n")[0], schema, lambda given: function(**given))


def _schema(hint: Any) -> dict[str, Any]:
    if typing.get_origin(hint) is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    return {"type": _KINDS[hint]}


def misfit(schema: Mapping[str, Any], given: Any) -> str | None:
    """Returns why arguments do not have the form of a tool's schema, one sentence, or None if they have it."""
    if not isinstance(given, dict):
        return "the arguments are no object."
    properties = schema["properties"]
    for name in given:
        if name not in properties:
            return f"there is no argument {name!r}; give {', '.join(properties)}."
    for name in schema.get("required", ()):
        if name not in given:
            return f"the argument {name!r} is missing."
    for name, value in given.items():
        kind = next(kind for kind, called in _KINDS.items() if called == properties[name]["type"])
        if type(value) is not kind:
            return f"the argument {name!r} is no {properties[name]['type']}."
        choices = properties[name].get("enum")
        if choices and value not in choices:
            return f"the argument {name!r} is none of {', '.join(choices)}."
    return None
