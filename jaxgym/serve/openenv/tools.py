"""The tools of a game for JSON-RPC: those that its environment of TRL has, and `reply`, which takes any reply.

>>> tool = tools_of("frozen_lake")["move"]
>>> tool.schema["properties"]["direction"]["enum"], tool.reply({"direction": "up"})
(['up', 'down', 'left', 'right'], '<action>up</action>')
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgym.serve import arguments, trl
from jaxgym.text import Refusal

REPLY = "reply"


class Tool(NamedTuple):
    """What a model may call.

    Attributes:
        description: What it is for.
        schema: JSON schema of its arguments.
        reply: Returns the reply that arguments stand for, or why they are invalid.
    """

    description: str
    schema: dict[str, Any]
    reply: Callable[[Any], str | Refusal]


def tools_of(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Tool]:
    """Returns the tools of a game by name.

    Args:
        name: An id that has words, or its short name.
        options: What the game is played with.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    own = {tool: _tool(tool, function) for tool, function in trl.replies_of(name, options or {}).items()}
    about = "Makes a move, in the form that the rules ask for."
    return {**own, REPLY: _made(REPLY, about, _MESSAGE, lambda message: message)}


_MESSAGE = {
    "type": "object",
    "properties": {"message": {"type": "string", "description": "The move."}},
    "required": ["message"],
    "additionalProperties": False,
}


def _tool(name: str, function: Any) -> Tool:
    return _made(name, (inspect.getdoc(function) or "").partition("\n")[0], function.schema, function)


def _made(name: str, about: str, schema: dict[str, Any], function: Callable[..., str | Refusal]) -> Tool:
    def reply(given: Any) -> str | Refusal:
        read = arguments.read(name, schema, given)
        return Refusal(read) if isinstance(read, str) else function(**read)

    return Tool(about, schema, reply)
