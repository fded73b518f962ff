r"""AgentGym's formats of a model's reply, and its messages: what its clients and tasks hand around.

    react             Thought:\\nI need flax.\\n\\nAction:\\nget 1 flax
    function_calling  {"thought": "I need flax.", "function_name": "get", "arguments": {"amount": 1, "item": "flax"}}
    code_as_action    ```python\\n# I need flax.\\nget(1, 'flax')\\n```

All three say the same: the thought "I need flax." and the action "get 1 flax".
"""

import ast
import dataclasses
import enum
import io
import json
import re
import string
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from jaxgym.serve.arguments import as_kind, quoted

ConversationMessage = TypedDict("ConversationMessage", {"from": str, "loss": bool | None, "value": str})
"""A message: `from` "human" or "gpt"; whether a model learns from it; its text."""

ConversationStart = tuple[ConversationMessage, ConversationMessage]
"""What a conversation starts with: the instructions, and that they were understood."""


class APIConversationMessage(TypedDict):
    """A message as chat servers have it: `role` "user" or "assistant"."""

    role: str
    content: str
    reasoning_content: str | None


class ActionFormat(enum.Enum):
    """How a model gives its action."""

    REACT = "react"
    FUNCTION_CALLING = "function_calling"
    CODE_AS_ACTION = "code_as_action"


class ActionWithThought(NamedTuple):
    """What a reply says."""

    thought: str
    action: str


class FormatError(ValueError):
    """A reply that does not have its format; the sentence tells a model what to do."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that a model may call in place of writing an action.

    Attributes:
        name: Its name.
        description: What it does.
        parameters: What each of its parameters is, in their order.
        action: The action that it stands for, with the parameters in braces, such as `"get {amount} {item}"`.
    """

    name: str
    description: str
    parameters: Mapping[str, str]
    action: str

    def schema(self) -> dict[str, Any]:
        """Returns it as chat servers describe a function."""
        properties = {name: {"type": "string", "description": what} for name, what in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.parameters)}
        return {"name": self.name, "description": self.description, "parameters": parameters}

    def signature(self) -> str:
        """Returns it as Python declares a function."""
        described = "".join(f"    {name}: {what}\n" for name, what in self.parameters.items())
        return f'def {self.name}({", ".join(self.parameters)}):\n    """{self.description}\n\n{described}    """'

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the action of a call.

        Raises:
            FormatError: If the arguments are not those of the parameters, or one is neither a string nor an integer.
        """
        if set(arguments) != set(self.parameters):
            raise FormatError(
                f"Invalid action: {self.name} was called with {', '.join(map(str, arguments)) or 'nothing'}; "
                f"call it with {', '.join(self.parameters) or 'nothing'}."
            )
        given = {
            name: value if isinstance(value, str) else as_kind(value, "integer") for name, value in arguments.items()
        }
        for name, value in given.items():
            if value is None:
                raise FormatError(
                    f"Invalid action: {self.name}: expected a string or an integer for {name}, got "
                    f"{quoted(arguments[name])}. Call {self.name} with {', '.join(self.parameters)}."
                )
        return self.action.format(**given)

    def read(self, action: str) -> dict[str, str] | None:
        """Returns the arguments of the call that stands for an action, or None if there is none."""
        pattern = "".join(
            re.escape(literal) + (f"(?P<{name}>.+?)" if name else "")
            for literal, name, *_ in string.Formatter().parse(self.action)
        )
        found = re.fullmatch(pattern, action, re.DOTALL)
        return found.groupdict() if found else None


ACT = Function("act", "Does one action.", {"action": "the action, as the instructions word it"}, "{action}")
"""The function of any environment."""

TEXTCRAFT_FUNCTIONS = (
    Function(
        "get",
        "Gathers an item that no crafting command makes.",
        {"amount": "how many of it", "item": "its name, such as flax"},
        "get {amount} {item}",
    ),
    Function(
        "craft",
        "Crafts an item by one of the crafting commands.",
        {
            "output": "an amount and an item, such as 2 flax yarn",
            "inputs": "the same for each input, with commas between",
        },
        "craft {output} using {inputs}",
    ),
    Function("inventory", "Lists what you carry.", {}, "inventory"),
)
"""The functions of TextCraft."""

UNDERSTOOD = "OK. I'll follow your instructions and try my best to solve the task."
_ONE_ACTION = "Error: Only one 'Action' is allowed per response. Please adjust your response."
_REACT = """\
Write each reply in this form, a thought and one action:
Thought:
your thoughts

Action:
your action"""
_CALLING = """\
You act by calling one of these functions:

{functions}

Write each reply as one JSON object and nothing else:
```json
{{"thought": "your thoughts", "function_name": "the name", "arguments": {{"name of a parameter": "its value"}}}}
```"""
_CODE = """\
You act by calling one of these Python functions:

```python
{functions}
```

Write each reply as one block of code and nothing else, with one call and plain values:
```python
# your thoughts
the call
```"""
_ACTIONS = re.compile(r"Action:\s*(.*?)(?=\n|$)", re.DOTALL)
_FENCE = re.compile(r"```(?:[A-Za-z]*\n)?(.*?)(?:```|\Z)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Adapter:
    """What an environment needs to be played in each format.

    Attributes:
        functions: What a model may call; unique in their names.
    """

    functions: Sequence[Function] = (ACT,)

    def start(self, instructions: str, action_format: ActionFormat) -> ConversationStart:
        """Returns how a conversation starts, given the rules of the environment."""
        if action_format is ActionFormat.REACT:
            form = _REACT
        elif action_format is ActionFormat.FUNCTION_CALLING:
            schemas = ({"type": "function", "function": function.schema()} for function in self.functions)
            form = _CALLING.format(functions="\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas))
        else:
            form = _CODE.format(functions="\n\n".join(function.signature() for function in self.functions))
        value = f"{instructions}\n\n{form}".strip()
        return {"from": "human", "loss": None, "value": value}, {"from": "gpt", "loss": False, "value": UNDERSTOOD}

    def parse(self, reply: str, action_format: ActionFormat) -> ActionWithThought:
        """Returns what a reply says.

        Raises:
            FormatError: If it has not this format.
        """
        if action_format is ActionFormat.REACT:
            return self._parse_react(reply)
        if action_format is ActionFormat.FUNCTION_CALLING:
            return self._parse_call(reply)
        return self._parse_code(reply)

    def write(self, said: ActionWithThought, action_format: ActionFormat) -> str:
        """Returns a reply that says this.

        Raises:
            FormatError: If no function stands for the action.
        """
        thought, action = said
        if action_format is ActionFormat.REACT:
            return f"Thought:\n{thought}\n\nAction:\n{action}"
        name, arguments = self._call_of(action)
        if action_format is ActionFormat.FUNCTION_CALLING:
            call = {"thought": thought, "function_name": name, "arguments": arguments}
            return json.dumps(call, ensure_ascii=False, indent=2)
        comments = "\n".join(f"# {line}" for line in thought.splitlines())
        return f"```python\n{comments}\n{name}({', '.join(map(repr, arguments.values()))})\n```"

    def _parse_react(self, reply: str) -> ActionWithThought:
        """Returns the line that follows `Action:`, nothing where none does."""
        actions = _ACTIONS.findall(reply)
        if len(actions) > 1:
            raise FormatError(_ONE_ACTION)
        thought = reply.partition("Action:")[0].rpartition("Thought:")[2].strip()
        return ActionWithThought(thought, actions[0].strip() if actions else "")

    def _parse_call(self, reply: str) -> ActionWithThought:
        """Returns what a JSON object calls, whatever stands around it."""
        begin, end = reply.find("{"), reply.rfind("}")
        try:
            call = json.loads(reply[begin : end + 1], strict=False)
            name, arguments = call["function_name"], call.get("arguments")
            arguments = {} if arguments in (None, "") else arguments  # as clients write that there are none
            arguments = json.loads(arguments, strict=False) if isinstance(arguments, str) else arguments
            thought = call.get("thought") or ""
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise FormatError("Invalid action: reply with one JSON object as it was asked for.") from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise FormatError("Invalid action: function_name takes a string, arguments an object.")
        return ActionWithThought(str(thought), self._function(name).write(arguments))

    def _parse_code(self, reply: str) -> ActionWithThought:
        """Returns what a call in Python stands for; it is read and never run."""
        fenced = _FENCE.search(reply)
        code = (fenced[1] if fenced else reply).strip()
        try:
            statements = ast.parse(code).body
            tokens = tokenize.generate_tokens(io.StringIO(code).readline)
            thought = " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormatError("Invalid action: this is no Python code.") from None
        call = statements[0].value if len(statements) == 1 and isinstance(statements[0], ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise FormatError("Invalid action: reply with one call of one function.")
        function = self._function(call.func.id)
        try:
            given = [ast.literal_eval(argument) for argument in call.args]
            named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            raise FormatError("Invalid action: give plain values, such as 'flax' or 1.") from None
        names = [name for name in function.parameters if name not in named]
        surplus = {f"value {place}": value for place, value in enumerate(given[len(names) :], 1)}
        return ActionWithThought(thought, function.write(dict(zip(names, given, strict=False)) | named | surplus))

    def _function(self, name: str) -> Function:
        for function in self.functions:
            if function.name == name:
                return function
        known = ", ".join(function.name for function in self.functions)
        raise FormatError(f"Invalid action: there is no function {name[:40]!r}; call {known}.")

    def _call_of(self, action: str) -> tuple[str, dict[str, str]]:
        for function in self.functions:
            arguments = function.read(action)
            if arguments is not None:
                return function.name, arguments
        raise FormatError(f"no function stands for {action[:40]!r}; give one of {len(self.functions)} with its values.")
