r"""Strict parsing of a language model's reply: an explicit answer that is exactly valid, or no action.

A game lists the forms in which it accepts an answer, highest rank first, and parses the answer with its own grammar:

    answer = find_answer(reply, FORMS)
    action = None if answer is None else vocabulary.get(answer.text.lower())

The rules of every game:

1. Only the assistant's turn counts, without its reasoning: every delimiter family of `jaxgym.text.reasoning`, closed or
   not, and the harmony channels, of which only `final` is kept. Tool calls of models become JSON objects.
2. Only the highest form that occurs in the reply counts. Of several answers in that form, the last one counts.
3. A reply without any form is an answer by itself ("up", "Go up.", "1 2 3"). If more than 8,000 characters are left of
   a reply, only the last 8,000 are searched, and only for the highest form.
4. The content of a form can be another form and nothing else; then the content of that form is the answer.
5. The answer must match the game's grammar completely. A form that is opened and not closed has no answer.

Every function here accepts any string and takes time linear in its length.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxgym.text.forms import bracketed
from jaxgym.text.json_forms import Form, Found
from jaxgym.text.reasoning import LONGEST, VisibleText, without_reasoning
from jaxgym.text.tool_calls import with_json_calls

T = TypeVar("T")

FORM = "Reply in this format:"
"""Words before the format of a reply, at the end of the error text of an invalid reply."""

_EXCERPT = 40
_MOST_WRAPPERS = 4
_MOST_NESTED = 4
_LONGEST_NESTED = 2_000
_WORD = re.compile(r"[a-z]+|[0-9]+|[\u2190-\u2193]")


class Answer(NamedTuple):
    """The explicit answer of a reply.

    Attributes:
        value: Content of the form: a string without marks around it (`unwrapped`), a `Call`, or a value or a mapping of
            a JSON object. None if the form is malformed, for example a tag that is not closed.
        text: The content as written, for error messages.
        is_exact: Whether it is the only answer in the highest form of the game, which is the form of the prompt, and
            contains no other form.
        is_plain: Whether the reply has no form, so that `value` is the whole reply.
    """

    value: Any
    text: str
    is_exact: bool = False
    is_plain: bool = False


def find_answer(reply: str, forms: Sequence[Form], *, takes_first: bool = False) -> Answer | None:
    """Return the explicit answer of a reply, or None if nothing is left of the reply after its reasoning.

    Args:
        reply: Any string.
        forms: The accepted forms, highest rank first.
        takes_first: Whether the first answer in the highest form counts instead of the last, for games that reproduce
            the parser of another project.
    """
    return find_in(without_reasoning(reply), forms, takes_first=takes_first)


def find_in(visible: VisibleText, forms: Sequence[Form], *, takes_first: bool = False) -> Answer | None:
    """Return the explicit answer of a reply whose reasoning has been removed; see `find_answer`."""
    if visible.unknown:
        return Answer(None, visible.unknown)
    text = with_json_calls(visible.text)
    # The truncated part can contain an answer in a lower form, or the rest of a reply without a form.
    for rank, form in enumerate(forms[:1] if visible.is_cut else forms):
        found = form(text)
        if found:
            value, written = found[0 if takes_first and rank == 0 else -1][:2]
            inner = _inner(value, forms) if isinstance(value, str) else value
            is_bare = value is None or (isinstance(value, str) and inner == unwrapped(value))
            return Answer(inner, written, is_exact=rank == 0 and len(found) == 1 and is_bare)
    if visible.is_cut:
        return Answer(None, text)
    return Answer(unwrapped(text), text, is_plain=True) if text else None


def _inner(content: str, forms: Sequence[Form]) -> Any:
    """Return the content of a form without marks around it, or the answer of the form that is all of the content."""
    for _ in range(_MOST_NESTED):
        whole = _whole(content, forms) or _whole(unwrapped(content), forms)
        if whole is None:
            break
        if not isinstance(whole.value, str):
            return whole.value
        content = whole.value
    return unwrapped(content)


def _whole(text: str, forms: Sequence[Form]) -> Found | None:
    """Return the form that is all of a text, or None."""
    text = text.strip()
    if len(text) > _LONGEST_NESTED or not _MARKUP.search(text):
        return None
    found = (answer for form in forms for answer in form(text))
    return next((answer for answer in found if (answer.start, answer.end) == (0, len(text))), None)


_MARKUP = re.compile("[<{(:`\uff1a]")
"""Characters of which each form has one, except for brackets."""


def read_answer(
    reply: str, forms: Sequence[Form], read: Callable[[Any], T | None], *, takes_first: bool = False
) -> tuple[Answer | None, T | None]:
    """Return the explicit answer of a reply and its value in the grammar of the game, or None if it is invalid.

    Brackets are also common punctuation. If the highest form is brackets, the value is None if the reply also has
    another form with another answer.

    Args:
        reply: Any string.
        forms: The accepted forms, highest rank first.
        read: The grammar of the game: takes `Answer.value`, and returns None if it is invalid.
        takes_first: See `find_answer`.
    """
    visible = without_reasoning(reply)
    answer = find_in(visible, forms, takes_first=takes_first)
    value = None if answer is None else read(answer.value)
    if answer is not None and value is not None and forms[0] is bracketed and not answer.is_plain:
        other = find_in(VisibleText(visible.text, is_cut=False), forms[1:])
        if other is not None and not other.is_plain and read(other.value) != value:
            return answer._replace(text=f"{answer.text} and {other.text}"), None
    return answer, value


def unwrapped(text: str) -> str:
    """Return a text without the marks of `_WRAPPERS` around it and without one final `.`, `!` or `。`."""
    is_ended = False
    for _ in range(_MOST_WRAPPERS):
        text = text.strip()
        if len(text) > 1 and (text[0], text[-1]) in _WRAPPERS:
            text = text[1:-1]
        elif text and text[-1] in ".!。" and not is_ended:
            text, is_ended = text[:-1], True
        else:
            break
    return text


_QUOTES = ("\u201c\u201d", "\u2018\u2019", "\u201e\u201c", "«»", "\u2039\u203a", "「」", "『』")
_WRAPPERS = {*((mark, mark) for mark in "\"'`*_$"), *map(tuple, (*_QUOTES, "()", "[]", "\uff08\uff09", "【】"))}
"""Quotation marks, emphasis, brackets and LaTeX's signs of formulas."""


def words_of(text: str) -> list[str]:
    """Return the words of letters a to z (lower-case), the numbers and the arrows ←↑→↓ of a text, in order."""
    return _WORD.findall(text.lower())


def last_phrase(text: str, phrases: Mapping[str, T]) -> T | None:
    """Return the value of the last phrase in a text, or None; for lenient parsing only.

    Args:
        text: Prose; its last `LONGEST` characters are searched.
        phrases: Phrases in the spelling of `words_of`, joined by spaces, such as `"turn left"`. The longest of several
            phrases that end at the same word counts.
    """
    found = words_of(text[-LONGEST:])
    longest = max((phrase.count(" ") + 1 for phrase in phrases), default=0)
    for end in range(len(found), 0, -1):
        for start in range(max(end - longest, 0), end):
            phrase = " ".join(found[start:end])
            if phrase in phrases:
                return phrases[phrase]
    return None


def excerpt(text: str) -> str:
    """Return the start of a text in quotation marks, on one line, with printable characters only."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _EXCERPT])
    short = " ".join(printable.split()).replace('"', "'")
    return f'"{short}"' if len(short) <= _EXCERPT else f'"{short[:_EXCERPT].rstrip()}…"'


def invalid(answer: Answer | None, valid: str, form: str) -> str:
    """Return the error text of an invalid reply.

    Args:
        answer: The answer, or None if there is none.
        valid: The valid answers, such as `"up, down, left, right"`.
        form: An example of the form of the prompt.
    """
    got = "no answer" if answer is None or not answer.text.strip() else excerpt(answer.text)
    return f"expected one of {valid}, got {got}. {FORM} {form}."


def without_form(reason: str) -> str:
    """Return the error text of an invalid reply without the form of a reply, for the end of an episode."""
    return reason.partition(f" {FORM}")[0]
