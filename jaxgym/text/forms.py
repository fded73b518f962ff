"""Forms of explicit answers in a reply: tags, boxes, code fences, labels, brackets; see also `json_forms`.

A form finds all of its answers in a text. A form that is opened and not closed is malformed and has no answer.
"""

import re
from decimal import Decimal
from numbers import Integral
from typing import Any

from jaxgym.text.json_forms import Form, Found, json_object, objects_in
from jaxgym.text.reasoning import ascii_lower

_BOXED, _FENCE = "\\boxed{", "```"
_MOST_WRAPPERS = 4
_MOST_BRACKETS = 256
_MOST_FENCES = 128
_LONGEST_BOX = 400
_MOST_DIGITS = 18

_LABEL = re.compile(
    r"^[ \t>*_#`-]{0,8}(?:(?:final|next|my|chosen)[ ])?(?:actions?|answer)[ \t*_]{0,4}[:\uff1a][*_]{0,4}",
    re.IGNORECASE | re.ASCII | re.MULTILINE,
)
_FENCE_MARK = re.compile(
    rf"(?P<begins>^[ \t>*[-]{{0,8}}|{_LABEL.pattern}\s{{0,8}})?(?P<mark>`{{3,16}})(?P<ends>]?[ \t]*$)?", _LABEL.flags
)
_REACT_LABEL = re.compile(
    r"[ \t>*_#`-]{0,8}(?:thoughts?|observation|action input|actions?|final answer|answer|reason|reasoning|explanation)"
    r"[ \t*_]{0,4}[:\uff1a]",
    re.IGNORECASE | re.ASCII,
)
_GROUP = re.compile(r"(?<!\\)\[([^\[\]]*)\]|(?<!\\)\[[^\[\]]*\Z")
_NO_GROUP = re.compile(r"TOOL_CALLS|ARGS|CALL_ID|\s*\{.*\}\s*", re.DOTALL)  # Mistral's tokens, or an array of objects
_LANGUAGE = re.compile(r"(?:json|text|txt|plaintext|markdown|md|python|bash|sh|action)?\s*", re.IGNORECASE | re.ASCII)
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|texttt)\{(.*)\}", re.DOTALL)


def tag(name: str) -> Form:
    """Return the form `<name>…</name>`, not in a JSON object; ignore case and blanks before `>`."""
    mark_of = re.compile(rf"<(/?){name}\s{{0,8}}>")

    def find(text: str) -> list[Found]:
        if "<" not in text:
            return []
        found, opened = list[Found](), None
        marks = list(mark_of.finditer(ascii_lower(text)))
        spans = _json_spans(text) if marks else []
        for mark in marks:
            if any(start <= mark.start() < end for start, end in spans):
                continue
            if not mark[1]:
                opened = opened or mark
            elif opened is None:
                found.append(Found(None, text[: mark.start()], 0, mark.end()))
            else:
                content = text[opened.end() : mark.start()].strip()
                found.append(Found(content, content, opened.start(), mark.end()))
                opened = None
        if opened is not None:
            found.append(Found(None, text[opened.end() :], opened.start(), len(text)))
        return found

    return find


def _json_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each JSON object that is not malformed."""
    if "{" not in text:
        return []
    return [(start, end) for start, end, given in objects_in(text) or [] if given is not None]


def boxed(text: str) -> list[Found]:
    r"""Find the last `\boxed{…}`; remove commands such as `\text{…}` around its content."""
    start = text.rfind(_BOXED)
    if start < 0:
        return []
    first = start + len(_BOXED)
    depth = 1
    for brace in re.finditer(r"[{}]", text[first : first + _LONGEST_BOX]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            content = inner = text[first : first + brace.start()].strip()
            for _ in range(_MOST_WRAPPERS):
                wrapped = _LATEX_TEXT.fullmatch(inner)
                inner = wrapped[1].strip() if wrapped else inner
            return [Found(inner, content, start, first + brace.end())]
    return [Found(None, text[first:], start, len(text))]


def labeled(text: str) -> list[Found]:
    """Find the last line `Action: …` or `Answer: …`; the content is on the same line or the next one (ReAct).

    It is malformed if another line follows directly, unless that line begins with a label such as `Observation:`.
    """
    if ":" not in text and "\uff1a" not in text:
        return []
    labels = list(_LABEL.finditer(text))
    if not labels:
        return []
    start = labels[-1].start()
    rest = text[labels[-1].end() :].strip()
    end = len(text.rstrip())
    content, _, below = rest.partition("\n")
    next_line = below.partition("\n")[0]
    if next_line.strip() and not _REACT_LABEL.match(next_line):
        return [Found(None, rest, start, end)]
    return [Found(content.strip().strip("*_ "), content.strip(), start, end - len(below))]


def fenced(text: str) -> list[Found]:
    """Find all blocks between code fences; the first line of a block can name a common language, or `action`.

    A fence that opens a block is at the start of its line, or after a label. One that closes it is at the end of its
    line, and has at least as many marks.
    """
    if _FENCE not in text:
        return []
    if text.count(_FENCE) > _MOST_FENCES:
        return [Found(None, text, 0, len(text))]
    found, opened = list[Found](), None
    for fence in _FENCE_MARK.finditer(text):
        if opened is None:
            opened = None if fence["begins"] is None else fence
        elif fence["ends"] is not None and len(fence["mark"]) >= len(opened["mark"]):
            inside = text[opened.end("mark") : fence.start("mark")]
            language, newline, rest = inside.partition("\n")
            content = rest.strip() if newline else inside.strip()
            value = content if not newline or _LANGUAGE.fullmatch(language) else None
            found.append(Found(value, content, opened.start("mark"), fence.end("mark")))
            opened = None
    if opened is not None:
        found.append(Found(None, text[opened.start("mark") :], opened.start("mark"), len(text)))
    return found


def bracketed(text: str) -> list[Found]:
    r"""Find all `[…]` without brackets inside, for games whose prompt asks for this form.

    A bracket that is not closed is malformed. Brackets in JSON objects, `\[` of LaTeX, and the tokens `[TOOL_CALLS]`,
    `[ARGS]` and `[CALL_ID]` are not answers.
    """
    if "[" not in text:
        return []
    if text.count("[") > _MOST_BRACKETS:
        return [Found(None, text, 0, len(text))]
    spans = _json_spans(text)
    groups = [
        group
        for group in _GROUP.finditer(text)
        if not any(start <= group.start() < end for start, end in spans) and not _NO_GROUP.fullmatch(group[1] or "")
    ]
    return [Found(group[1] and group[1].strip(), group[0], *group.span()) for group in groups]


ACTION, ANSWER = tag("action"), tag("answer")

FORMS: tuple[Form, ...] = (ACTION, ANSWER, json_object("action", "actions"), boxed, fenced, labeled)
"""Forms for a prompt that asks for `<action>…</action>` with a string, highest rank first."""


def whole_number(value: Any) -> int | None:
    """Return a value of a JSON object or tool argument as an integer, or None if it is not a whole number.

    Whole floats are integers. Booleans, fractions, strings and all other types are not.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal):
        return int(value) if value.adjusted() < _MOST_DIGITS and value == value.to_integral_value() else None
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
