"""Tools of a text environment, as function calls of a model; they are those of `jaxgym.serve.trl`."""

import inspect
import json
from collections.abc import Mapping
from typing import Any

from jaxgym.serve import arguments, trl
from jaxgym.serve.sessions import Opening
from jaxgym.text import InvalidReply


class Tools:
    """Tools of one environment, which convert function calls to replies.

    >>> Tools("frozen_lake", {}).reply_of("move", '{"direction": "up"}')[0]
    '<action>up</action>'
    """

    def __init__(self, name: str, options: Mapping[str, Any]):
        """Find the tools of an environment.

        Args:
            name: Id or short name of an environment with a text interface.
            options: The options of its sessions.
        """
        self._tools: dict[str, Any] = trl.replies_of(name, options)
        self._keeps_form = "reply" in self._tools  # the argument of this tool is a reply in the form of the rules

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools, in the format of OpenAI's Responses API."""
        return [
            {
                "type": "function",
                "name": name,
                "description": (inspect.getdoc(tool) or "").partition("\n")[0],
                "parameters": tool.schema,
                "strict": False,
            }
            for name, tool in self._tools.items()
        ]

    def system_prompt(self, opening: Opening) -> str:
        """Return the system prompt with the tools in place of the form of a reply."""
        form = "" if self._keeps_form else opening.reply_format
        return f"{opening.system_prompt.removesuffix(form).rstrip()}\n\n{self._how_to_act()}"

    def reply_of(self, name: str | None, given: str | None) -> tuple[str | InvalidReply, str]:
        """Return the reply of a call, or an `InvalidReply`; and the sentence that asks for a correct call.

        Args:
            name: The name of the tool; None if the model has called none.
            given: The arguments in JSON.
        """
        tool = self._tools.get(name or "")
        if tool is None:
            got = "a message without one" if name is None else arguments.quoted(name)
            return InvalidReply(f"expected a call of one of the tools, got {got}."), self._how_to_act()
        try:
            values = json.loads(given or "{}")
        except (ValueError, RecursionError):
            values = given
        asked = f"Call {arguments.call_text(tool.__name__, tool.schema)}."
        read = arguments.read(tool.__name__, tool.schema, values)
        return InvalidReply(read) if isinstance(read, str) else tool(**read), asked

    def with_call(self, text: str, asked: str) -> str:
        """Return the text after an invalid reply with a sentence of `reply_of` in place of the form of a reply."""
        return trl.with_tool_call(text, asked, keeps_form=self._keeps_form)

    def _how_to_act(self) -> str:
        return trl.how_to_act({name: tool.schema for name, tool in self._tools.items()})
