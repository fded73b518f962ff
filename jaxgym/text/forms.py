"""Forms of explicit answers in a reply: tags, boxes, code fences, labels, brackets; see also `json_forms`.

A form finds all of its answers in a text. A form that is opened and not closed is malformed and has no answer.
"""

import re
from numbers import Integral
from typing import Any

from jaxgym.text.json_forms import Form, json_object, objects_in
from jaxgym.text.reasoning import ascii_lower, places

_BOXED, _FENCE = "\\boxed{", "```"
_MOST_WRAPPERS = 4
_MOST_BRACKETS = 256
_LONGEST_BOX = 400

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
_LANGUAGE = re.compile(r"(?:json|text|txt|plaintext|markdown|md|python|bash|sh|action)?\s*", re.IGNORECASE | re.ASCII)
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|texttt)\{(.*)\}", re.DOTALL)


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
    spans = [(start, end) for start, end, given in objects_in(text) or [] if given is not None] if "{" in text else []
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
