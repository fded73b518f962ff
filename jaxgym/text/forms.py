"""Forms of explicit answers in a reply: tags, JSON, calls, boxes, code fences, labels, brackets.

A form finds all of its answers in a text. A form that is opened and not closed is malformed and has no answer.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from numbers import Integral
from typing import Any, NamedTuple

from jaxgym.text.reasoning import ascii_lower, places

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
_MOST_BRACKETS = 256
_LONGEST_BOX = 400
_LONGEST_CALL = 400
_BOXED, _FENCE = "\\boxed{", "```"
_MOST_WRAPPERS = 4

_LABEL = re.compile(
    r"^[ \t>*_#`-]{0,8}(?:(?:final|next|my|chosen)[ ])?(?:actions?|answer)[ \t*_]{0,4}[:\uff1a][*_]{0,4}",
    re.IGNORECASE | re.ASCII | re.MULTILINE,
)
_REACT_LABEL = re.compile(
    r"[ \t>*_#`-]{0,8}(?:thoughts?|observation|action input|actions?|final answer|answer|reason|reasoning|explanation)"
    r"[ \t*_]{0,4}[:\uff1a]",
    re.IGNORECASE | re.ASCII,
)
_GROUP = re.compile(r"(?<!\\)\[([^\[\]]*)\]|(?<!\\)\[[^\[\]]*\Z")
_NO_GROUP = re.compile(r"[A-Z][A-Z_]+|\s*\{.*", re.ASCII | re.DOTALL)  # a token such as [TOOL_CALLS], a JSON array
_OBJECT = re.compile(r'\{\s{0,40}"')
_LANGUAGE = re.compile(r"(?:json|text|txt|plaintext|markdown|md|python|bash|sh|action)?\s*", re.IGNORECASE | re.ASCII)
_END_OF_CALL = re.compile(r"[ \t*`.;]*(\]?)[ \t*`.;]*(?:\n|\Z)")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|texttt)\{(.*)\}", re.DOTALL)
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


Form = Callable[[str], Sequence[tuple[Any, str]]]
"""Function that returns all answers of one form in a text, in order: values and texts as in `Answer`."""


def tag(name: str) -> Form:
    """Return the form `<name>…</name>`; ignore case and blanks before `>`."""
    mark_of = re.compile(rf"<(/?){name}\s{{0,8}}>")

    def find(text: str) -> list[tuple[Any, str]]:
        if "<" not in text:
            return []
        found, start = list[tuple[Any, str]](), None
        for mark in mark_of.finditer(ascii_lower(text)):
            if not mark[1]:
                start = mark.end() if start is None else start
            elif start is None:
                found.append((None, text[: mark.start()]))
            else:
                content = text[start : mark.start()].strip()
                found.append((content, content))
                start = None
        if start is not None:
            found.append((None, text[start:]))
        return found

    return find


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

    def find(text: str) -> list[tuple[Any, str]]:
        if "{" not in text:
            return []
        markers = [mark.start() for mark in marker.finditer(text)]
        objects = _objects(text)
        if objects is None or len(markers) > _MOST_FOUND:
            return [(None, text)] if markers else []
        found = list[tuple[int, Any, str]]()
        for start, end, given in objects:
            has_answer, value = (True, None) if given is None else value_of(given)
            if has_answer and (given is not None or any(start <= place < end for place in markers)):
                found.append((start, value, text[start:end]))
        spans = [(start, end) for start, end, _ in objects]
        loose = [place for place in markers if not any(start <= place < end for start, end in spans)]
        found += [(place, None, text[place:]) for place in loose]
        return [(value, written) for _, value, written in sorted(found, key=lambda entry: entry[0])]

    return find


def call(**tools: Sequence[str]) -> Form:
    """Return the form of a call on a line of its own, such as `place(row=1, column=2, number=3)`.

    The value is a `Call`, whose arguments are numbers and strings. Arguments can also be positional.

    Args:
        **tools: The names of the parameters of each tool, in order.
    """
    opening = re.compile(rf"^[ \t>*`-]{{0,8}}(\[?)({'|'.join(tools)})\(", re.IGNORECASE | re.ASCII | re.MULTILINE)

    def find(text: str) -> list[tuple[Any, str]]:
        if "(" not in text:
            return []
        found = list[tuple[Any, str]]()
        for begun in itertools.islice(opening.finditer(text), _MOST_FOUND):
            inside, closing, _ = text[begun.end() : begun.end() + _LONGEST_CALL].partition(")")
            ended = _END_OF_CALL.match(text, begun.end() + len(inside) + 1)
            if closing and not ended and not begun[1]:
                continue
            tool = begun[2].lower()
            # Some models write calls as a list in brackets; a list of one call is an answer.
            is_whole = closing and ended is not None and len(ended[1]) == len(begun[1])
            given = _arguments(inside, tools[tool]) if is_whole else None
            found.append((None if given is None else Call(tool, given), f"{begun[2]}({inside}{closing}"))
        return found

    return find


def boxed(text: str) -> list[tuple[Any, str]]:
    r"""Find the last `\boxed{…}`; remove commands such as `\text{…}` around its content."""
    start = text.rfind(_BOXED)
    if start < 0:
        return []
    start += len(_BOXED)
    depth = 1
    for brace in re.finditer(r"[{}]", text[start : start + _LONGEST_BOX]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            content = inner = text[start : start + brace.start()].strip()
            for _ in range(_MOST_WRAPPERS):
                wrapped = _LATEX_TEXT.fullmatch(inner)
                inner = wrapped[1].strip() if wrapped else inner
            return [(inner, content)]
    return [(None, text[start:])]


def labeled(text: str) -> list[tuple[Any, str]]:
    """Find the last line `Action: …` or `Answer: …`; the content is on the same line or the next one (ReAct).

    It is malformed if another line follows directly, unless that line begins with a label such as `Observation:`.
    """
    if ":" not in text and "\uff1a" not in text:
        return []
    labels = list(_LABEL.finditer(text))
    if not labels:
        return []
    rest = text[labels[-1].end() :].strip()
    if rest.startswith(_FENCE):
        inside, closing, _ = rest[len(_FENCE) :].partition(_FENCE)
        return fenced(f"{_FENCE}{inside}{closing}")
    content, _, below = rest.partition("\n")
    below = below.partition("\n")[0]
    if below.strip() and not _REACT_LABEL.match(below):
        return [(None, rest)]
    return [(content.strip().strip("*_ "), content.strip())]


def fenced(text: str) -> list[tuple[Any, str]]:
    """Find the last block between two code fences; its first line can name a common language, or `action`."""
    fences = places(text, _FENCE)
    if not fences:
        return []
    if len(fences) % 2:
        return [(None, text[fences[-1] :])]
    inside = text[fences[-2] + len(_FENCE) : fences[-1]]
    language, newline, rest = inside.partition("\n")
    content = rest.strip() if newline else inside.strip()
    return [(content if not newline or _LANGUAGE.fullmatch(language) else None, content)]


def bracketed(text: str) -> list[tuple[Any, str]]:
    r"""Find all `[…]` without brackets inside, for games whose prompt asks for this form.

    A bracket that is not closed is malformed. Brackets in JSON objects, `\[` of LaTeX, and tokens of chat templates
    such as `[TOOL_CALLS]` are not answers.
    """
    if "[" not in text:
        return []
    if text.count("[") > _MOST_BRACKETS:
        return [(None, text)]
    spans = [(start, end) for start, end, given in _objects(text) or [] if given is not None] if "{" in text else []
    groups = [
        group
        for group in _GROUP.finditer(text)
        if not any(start <= group.start() < end for start, end in spans) and not _NO_GROUP.fullmatch(group[1] or "")
    ]
    return [(group[1] and group[1].strip(), group[0]) for group in groups]


ACTION, ANSWER = tag("action"), tag("answer")

FORMS: tuple[Form, ...] = (ACTION, ANSWER, json_object("action", "actions"), boxed, fenced, labeled)
"""Forms for a prompt that asks for `<action>…</action>` with a string, highest rank first."""


def whole_number(value: Any) -> int | None:
    """Return a value of a JSON object or tool argument as an integer, or None if it is not a whole number.

    Whole floats are integers. Booleans, fractions, strings and all other types are not.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


# JSON and calls.


class _Twice:
    """JSON object with a duplicate key, at any depth."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Twice:
    entries = {name.lower(): value for name, value in pairs}
    if len(entries) < len(pairs) or any(isinstance(value, _Twice) for value in entries.values()):
        return _Twice()
    return entries


def _number(literal: str) -> float | Decimal:
    """Return a whole number with a point or an exponent as a float, and any other as a `Decimal`, which is invalid."""
    try:
        exact = Decimal(literal)
    except InvalidOperation:  # the exponent is too large for `Decimal`
        return Decimal("NaN")
    return float(literal) if exact == exact.to_integral_value() else exact


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_number)


def _objects(text: str) -> list[tuple[int, int, dict[str, Any] | None]] | None:
    """Return start, end and content of the outermost objects, or None if many objects are malformed.

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
