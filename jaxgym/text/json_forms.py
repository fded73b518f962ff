"""Forms of answers that are JSON objects or calls of a game's tools."""

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

_ARGUMENTS = ("arguments", "parameters", "input", "args")
_REASONS = {
    *("thought", "thoughts", "think", "thinking", "reason", "reasoning", "why", "explanation", "rationale"),
    *("analysis", "comment", "note", "plan"),
}
"""Keys of a JSON object for reasons, which are not part of the answer."""

_OF_CALLS = _REASONS | {"type", "id", "call_id", "index"}
_WHOLE_VALUES = ({"action"}, {"actions"})
_MOST_FOUND = 64
_MOST_BROKEN = 3
_LONGEST_CALL = 400
_OBJECT = re.compile(r'\{\s{0,40}"')
_END_OF_CALL = re.compile(r"[ \t*`.;]*(\]?)[ \t*`.;]*(?:\n|\Z)")
_ARGUMENT = re.compile(r"""\s{0,8}(?:([a-z_]{1,32})\s{0,8}[=:]\s{0,8})?("[^"]*"|'[^']*'|[^\s,"'()=]+)\s{0,8}(?:,|\Z)""")
_INTEGER = re.compile(r"([0-9]{1,9})(?:\.0{1,9})?", re.ASCII)


class Call(NamedTuple):
    """Call of a tool of the game, in the text of a reply or in JSON.

    Attributes:
        tool: The tool's name.
        arguments: A value for each of its parameters, by name.
    """

    tool: str
    arguments: Mapping[str, Any]


class Found(NamedTuple):
    """Answer of one form in a text.

    Attributes:
        value: Content of the form; see `jaxgym.text.replies.Answer`.
        text: The content as written, for error messages.
        start, end: Place of the form in the text.
    """

    value: Any
    text: str
    start: int
    end: int


Form = Callable[[str], Sequence[Found]]
"""Function that returns all answers of one form in a text, in order."""


def json_object(*names: str, **tools: Sequence[str]) -> Form:
    """Return the form of a JSON object that has one of some keys, or that calls a tool of the game.

    The value is a `Call` for an object such as `{"name": "move", "arguments": {"direction": "up"}}`, the entry itself
    if the only key is `action` or `actions`, and otherwise a mapping of the object's keys. Malformed are an object that
    is not JSON, has a key twice or has unknown keys (other than those of `_REASONS`), and a call with an unknown tool
    or unknown arguments.

    Args:
        *names: The keys, in lower case.
        **tools: The names of the parameters of each tool.
    """
    marker = re.compile(rf"""["'](?:{"|".join((*names, "arguments"))})["']\s*:""", re.IGNORECASE)

    def value_of(given: Mapping[str, Any]) -> tuple[bool, Any]:
        """Return whether an object has an answer, and the answer."""
        inner = given.get("function")
        if isinstance(inner, dict):
            return True, value_of(inner)[1] if given.keys() - {"function"} <= _OF_CALLS else None
        holders = [name for name in _ARGUMENTS if name in given]
        if "name" in given and holders:
            return True, called(given, holders[0])
        found = {name: given[name] for name in names if name in given}
        if any(name not in found and not (name in _REASONS and isinstance(given[name], str)) for name in given):
            return bool(found), None
        return bool(found), next(iter(found.values())) if found.keys() in _WHOLE_VALUES else found

    def called(given: Mapping[str, Any], holder: str) -> Call | None:
        arguments = _whole_object(given[holder]) if isinstance(given[holder], str) else given[holder]
        tool = given["name"].lower() if isinstance(given["name"], str) else ""
        if not isinstance(arguments, dict) or tool not in tools or not given.keys() - {"name", holder} <= _OF_CALLS:
            return None
        return Call(tool, arguments) if arguments.keys() == set(tools[tool]) else None

    def find(text: str) -> list[Found]:
        if "{" not in text:
            return []
        markers = [mark.start() for mark in marker.finditer(text)]
        objects = objects_in(text)
        if objects is None or len(markers) > _MOST_FOUND:
            return [Found(None, text, 0, len(text))] if markers else []
        found = list[Found]()
        for start, end, given in objects:
            has_answer, value = (True, None) if given is None else value_of(given)
            if has_answer and (given is not None or any(start <= place < end for place in markers)):
                found.append(Found(value, text[start:end], start, end))
        spans = [(start, end) for start, end, _ in objects]
        loose = [place for place in markers if not any(start <= place < end for start, end in spans)]
        found += [Found(None, text[place:], place, len(text)) for place in loose]
        return sorted(found, key=lambda answer: answer.start)

    return find


def call(**tools: Sequence[str]) -> Form:
    """Return the form of a call on a line of its own, such as `place(row=1, column=2, number=3)`.

    The value is a `Call`, whose arguments are numbers and strings. Arguments can also be positional.

    Args:
        **tools: The names of the parameters of each tool, in order.
    """
    opening = re.compile(rf"^[ \t>*`-]{{0,8}}(\[?)({'|'.join(tools)})\(", re.IGNORECASE | re.ASCII | re.MULTILINE)

    def find(text: str) -> list[Found]:
        if "(" not in text:
            return []
        found = list[Found]()
        for begun in itertools.islice(opening.finditer(text), _MOST_FOUND):
            inside, closing, _ = text[begun.end() : begun.end() + _LONGEST_CALL].partition(")")
            ended = _END_OF_CALL.match(text, begun.end() + len(inside) + 1)
            if closing and not ended and not begun[1]:
                continue
            tool = begun[2].lower()
            # Some models write calls as a list in brackets; a list of one call is an answer.
            is_whole = closing and ended is not None and len(ended[1]) == len(begun[1])
            given = _arguments(inside, tools[tool]) if is_whole else None
            value = None if given is None else Call(tool, given)
            end = ended.end() if ended else len(text)
            found.append(Found(value, f"{begun[2]}({inside}{closing}", begun.start(), end))
        return found

    return find


class _Twice:
    """JSON object with a duplicate key, at any depth."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Twice:
    entries = {name.lower(): value for name, value in pairs}
    if len(entries) < len(pairs) or any(isinstance(value, _Twice) for value in entries.values()):
        return _Twice()
    return entries


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal)  # floats would round


@functools.lru_cache(maxsize=8)  # several forms search the same text
def objects_in(text: str) -> list[tuple[int, int, dict[str, Any] | None]] | None:
    """Return start, end and content of the outermost JSON objects, or None if many objects are malformed.

    The content of a malformed object is None; it ends at its closing brace, and objects inside of it are ignored.
    """
    found, end, broken = list[tuple[int, int, dict[str, Any] | None]](), 0, 0
    for start in (begun.start() for begun in _OBJECT.finditer(text)):
        if start < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, ArithmeticError, RecursionError):  # not JSON, a number too long, or nested too deeply
            broken += 1
            if broken > _MOST_BROKEN:
                return None
            value, end = None, _closing_brace(text, start)
        found.append((start, end, value if isinstance(value, dict) else None))
        if len(found) > _MOST_FOUND:
            return None
    return found


def _closing_brace(text: str, start: int) -> int:
    """Return the end of the object whose brace is at `start`, or the end of the text."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return len(text)


_BRACE = re.compile(r"[{}]")


def _whole_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a text, or None if the text is anything else."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _arguments(inside: str, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a call by name, or None if they do not match the parameters."""
    given, end = dict[str, Any](), 0
    unnamed: Iterator[str] = iter(parameters)
    while end < len(inside):
        argument = _ARGUMENT.match(inside, end)
        if argument is None or len(given) >= len(parameters):
            return None
        name = argument[1].lower() if argument[1] else next(unnamed)
        if name in given:
            return None
        text = argument[2]
        whole = _INTEGER.fullmatch(text)
        given[name] = int(whole[1]) if whole else text[1:-1] if text[0] in "\"'" else text
        end = argument.end()
    return given if given.keys() == set(parameters) else None
