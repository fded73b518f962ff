r"""Conversion of tool calls in the formats of current models to JSON objects.

    <function=move><parameter=direction>up</parameter></function>
      ->  {"name": "move", "arguments": {"direction": "up"}}

A call that is malformed or not closed becomes an object without a tool, which is an invalid answer.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxgym.text.reasoning import GAP, places

_TOOL = r"[ \t\n]{0,8}+(?<![\w.-])([\w.-]{1,64}+)[ \t\n]{0,8}+"
_DSML = "\uff5cDSML\uff5c"
_DEEPSEEK = "<\uff5ctool▁sep\uff5c>"


class _Format(NamedTuple):
    """Format of tool calls.

    Attributes:
        sign: Substring of each call, for a fast check.
        opening: Text before the arguments; its group is the name of the tool.
        closing: Text after the arguments.
        argument: Text before the value of an argument, whose group is its name, and text after the value; None if the
            arguments are always a JSON object.
    """

    sign: str
    opening: re.Pattern[str]
    closing: str
    argument: tuple[re.Pattern[str], str] | None


def _format(sign: str, opening: str, closing: str = "", argument: str = "", end: str = "") -> _Format:
    named = (re.compile(argument), end) if argument else None
    return _Format(sign, re.compile(opening, re.MULTILINE), closing, named)


_FORMATS = (
    # Qwen3-Coder, Nemotron 3 and Step 3.5; Llama 3 with JSON between the tags.
    _format("<function=", rf"<function={_TOOL}>", "</function>", r"<parameter=([\w.-]{1,64})>", "</parameter>"),
    # MiniMax M2, and DeepSeek V3.2 without its mark DSML.
    _format(
        "<invoke",
        rf'<invoke name="{_TOOL}">',
        "</invoke>",
        r'<parameter name="([\w.-]{1,64})"[^<>]{0,40}>',
        "</parameter>",
    ),
    # GLM 4.5 to 4.7.
    _format(
        "<tool_call>",
        rf"<tool_call>{_TOOL}(?=<arg_key>|</tool_call>|\Z)",
        "</tool_call>",
        r"<arg_key>\s{0,8}([\w.-]{1,64})\s{0,8}</arg_key>\s{0,8}<arg_value>",
        "</arg_value>",
    ),
    # Mistral.
    _format("[ARGS]", rf"(?:\[TOOL_CALLS\])?{_TOOL}(?:\[CALL_ID\]\w{{1,64}})?\[ARGS\]"),
    # DeepSeek R1 and V3, then V3.1.
    _format(_DEEPSEEK, rf"function{_DEEPSEEK}{_TOOL}```json", "```"),
    _format(_DEEPSEEK, rf"{_TOOL}{_DEEPSEEK}"),
    # Kimi K2.
    _format(
        "<|tool_call_argument_begin|>",
        r"functions\.(\w{1,64}):[0-9]{1,4}\s{0,8}<\|tool_call_argument_begin\|>",
    ),
    # ReAct with the arguments on a line of their own.
    _format("Action Input:", r"^[ \t*]{0,4}Action:[ \t*]{0,4}(\w{1,64})[ \t]{0,8}\n[ \t*]{0,4}Action Input:(?=\s*\{)"),
)
_SIGNS = (*(form.sign for form in _FORMATS), _DSML, "tool_", "TOOL_", "\uff5ctool▁", "<|python_")
_WRAPPERS = re.compile(
    r"</?(?:tool_calls?|function_calls|minimax:tool_call)>|\[TOOL_CALLS\]|<\|(?:python_(?:tag|start|end)|/?tools?_\w{1,32})\|>"
    r"|<\uff5ctool▁\w{1,32}\uff5c>|<\|(?:start|end)_action\|>"
)
_EDGE = "\x01"
_BEFORE_CALL = re.compile(rf"{_EDGE}[\s{_EDGE}]{{0,16}}(?=\[?\{{)")
_AFTER_CALL = re.compile(rf"(\}}\s{{0,8}}\]?)[\s{_EDGE}]{{0,16}}{_EDGE}")
_DECODER = json.JSONDecoder()
_NUMBER = re.compile(r"([0-9]{1,9})(?:\.0{1,9})?", re.ASCII)
_MOST_CALLS = 16
_LONGEST_OPENING = 180
_MALFORMED = '{"name": null, "arguments": {}}'


def with_json_calls(text: str) -> str:
    """Convert the tool calls in a text to JSON objects, and remove the tokens around them."""
    if not any(map(text.__contains__, _SIGNS)):
        return text
    text = text.replace(f"<{_DSML}", "<").replace(f"</{_DSML}", "</")
    for form in _FORMATS:
        if form.sign in text:
            text = _rewritten(text, form)
    text = _AFTER_CALL.sub(r"\1\n", _BEFORE_CALL.sub("\n", _WRAPPERS.sub(_EDGE, text)))
    return text.replace(_EDGE, f"\n{GAP}\n").strip("\n\t ")


def _rewritten(text: str, form: _Format) -> str:
    """Convert the tool calls of one format in a text to JSON objects."""
    if text.count(form.sign) > _MOST_CALLS:
        return _MALFORMED
    parts, end = list[str](), 0
    for begun in _openings(text, form):
        if begun.start() < end:
            continue
        given, after = _call(text, begun, form)
        if given == _MALFORMED and "{" in text[after:]:  # it can be a part of the arguments
            return _MALFORMED
        parts += [text[end : begun.start()], f"\n{given}\n"]
        end = after
    return "".join([*parts, text[end:]])


def _openings(text: str, form: _Format) -> Iterator[re.Match[str]]:
    """Yield the openings of calls; an opening that ends with its sign is searched only just before each sign."""
    if not form.opening.pattern.endswith(re.escape(form.sign)):
        yield from form.opening.finditer(text)
        return
    after = 0
    for place in places(text, form.sign):
        start, after = max(place - _LONGEST_OPENING, after), place + len(form.sign)
        begun = form.opening.search(text, start, after)
        if begun:
            yield begun


def _call(text: str, begun: re.Match[str], form: _Format) -> tuple[str, int]:
    """Return the JSON object of the call that begins at a match, and the end of the call.

    A malformed call ends after its opening, or after its JSON object, so that a later answer of the reply counts.
    """
    body = text[begun.end() :].lstrip()
    start = len(text) - len(body)
    if body.startswith("{"):
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return _MALFORMED, begun.end()
        rest = text[end:].lstrip()
        if not rest.startswith(form.closing):
            return _MALFORMED, end
        return _json(begun[1], text[start:end]), len(text) - len(rest) + len(form.closing)
    end = text.find(form.closing, start) if form.argument else -1
    if form.argument is None or end < 0:
        return _MALFORMED, begun.end()
    pairs = list(_pairs(*form.argument, text[start:end]))
    given = {name: value for name, value in pairs if name}
    return _json(begun[1], json.dumps(given) if len(given) == len(pairs) else ""), end + len(form.closing)


def _json(tool: str, arguments: str) -> str:
    return f'{{"name": "{tool}", "arguments": {arguments}}}' if arguments else _MALFORMED


def _pairs(opening: re.Pattern[str], closing: str, body: str) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each argument in the body of a call, and an empty name for other text."""
    end = 0
    while begun := opening.search(body, end):
        stop = body.find(closing, begun.end())
        if body[end : begun.start()].strip() or stop < 0:
            yield "", ""
            return
        value = body[begun.end() : stop].strip()
        whole = _NUMBER.fullmatch(value)
        yield begun[1], int(whole[1]) if whole else value
        end = stop + len(closing)
    if body[end:].strip():
        yield "", ""
