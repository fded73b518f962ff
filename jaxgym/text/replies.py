r"""Strict reading of a language model's reply: an explicit answer that is exactly valid, or no action.

A game lists the forms in which it accepts an answer, highest rank first, and reads the answer with its own grammar:

    answer = find_answer(reply, FORMS)
    action = None if answer is None else vocabulary.get(answer.text.lower())

The policy, which every game follows:

1. Reasoning is removed first: every delimiter family of `jaxgym.text.reasoning`, closed or not, and the harmony
   channels, of which only `final` is kept.
2. Only the highest form that occurs in the reply counts. Of several answers in that form, the last one counts.
3. A reply without any form is an answer by itself ("up", "Go up.", "1 2 3").
4. The answer must match the game's grammar completely. A form that is opened and not closed holds no answer.

Every function here accepts any string and takes time linear in its length.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from jaxgym.text.reasoning import LONGEST, ascii_lower, places, without_reasoning

T = TypeVar("T")

_ARGUMENTS = ("arguments", "parameters", "input", "args", "function")
_MOST_OBJECTS = 64
_EXCERPT = 40
_BOXED, _FENCE = "\\boxed{", "```"
_MOST_WRAPPERS = 4

_LABEL = re.compile(
    r"^[ \t>*_#`-]{0,8}(?:(?:final|next|my|chosen)[ ])?(?:action input|actions?|answer)[ \t*_]{0,4}:[*_]{0,4}",
    re.IGNORECASE | re.ASCII | re.MULTILINE,
)
_GROUP = re.compile(r"\[([^\[\]]*)\]|\[[^\[\]]*\Z")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|texttt)\{([^{}]*)\}")
_ARGUMENT = re.compile(r"""\s{0,8}(?:([a-z_]{1,32})\s{0,8}[=:]\s{0,8})?("[^"]*"|'[^']*'|[^\s,"'()=]+)\s{0,8}(?:,|\Z)""")
_INTEGER = re.compile(r"[0-9]{1,9}", re.ASCII)
_WORD = re.compile(r"[a-z]+|[0-9]+|[\u2190-\u2193]")


class Answer(NamedTuple):
    """The explicit answer of a reply.

    Attributes:
        value: The content of the form: a string, or for JSON objects and calls a value or a mapping from names to
            values. None if the form is malformed, for example a tag that is not closed.
        text: The content as it was written, for error messages.
        is_exact: Whether it is the only answer in the highest form of the game, which is the form that prompts ask for.
        is_plain: Whether the reply has no form, so that `value` is the whole reply.
    """

    value: Any
    text: str
    is_exact: bool = False
    is_plain: bool = False


Form = Callable[[str], Sequence[tuple[Any, str]]]
"""Finds all answers of one form in a text, in order: their values and texts as in `Answer`."""


def find_answer(reply: str, forms: Sequence[Form], *, takes_first: bool = False) -> Answer | None:
    """Return the explicit answer of a reply, or None if nothing is left of the reply after its reasoning.

    Args:
        reply: Any string.
        forms: The accepted forms, highest rank first.
        takes_first: Whether the first answer in the highest form counts instead of the last, as in the parser of
            another project that a game reproduces.
    """
    return find_in(without_reasoning(reply), forms, takes_first=takes_first)


def find_in(text: str, forms: Sequence[Form], *, takes_first: bool = False) -> Answer | None:
    """Return the explicit answer of a reply whose reasoning has been removed; see `find_answer`."""
    for rank, form in enumerate(forms):
        found = form(text)
        if found:
            value, written = found[0 if takes_first and rank == 0 else -1]
            return Answer(value, written, is_exact=rank == 0 and len(found) == 1)
    return Answer(unwrapped(text), text, is_plain=True) if text else None


def read_answer(
    reply: str, forms: Sequence[Form], read: Callable[[Any], T | None], *, takes_first: bool = False
) -> tuple[Answer | None, T | None]:
    """Return the explicit answer of a reply, and what a game reads in its value: None for nothing.

    Brackets are also common punctuation. A game that asks for brackets therefore reads nothing in a reply that has
    another form as well, whose answer differs.

    Args:
        reply: Any string.
        forms: The accepted forms, highest rank first.
        read: The grammar of the game; takes `Answer.value`.
        takes_first: See `find_answer`.
    """
    text = without_reasoning(reply)
    answer = find_in(text, forms, takes_first=takes_first)
    value = None if answer is None else read(answer.value)
    if value is not None and forms[0] is bracketed and "[" in text:
        other = find_in(text, forms[1:])
        if other is not None and not other.is_plain and read(other.value) != value:
            value = None
    return answer, value


def tag(name: str) -> Form:
    """Return the form `<name>…</name>`; names are matched in any case."""
    opening, closing = f"<{name}>", f"</{name}>"

    def find(text: str) -> list[tuple[Any, str]]:
        if "<" not in text:
            return []
        lowered = ascii_lower(text)
        marks = sorted([*places(lowered, opening), *places(lowered, closing)])
        found, start = list[tuple[Any, str]](), None
        for place in marks:
            is_closing = lowered.startswith(closing, place)
            if not is_closing:
                start = place + len(opening) if start is None else start
            elif start is None:
                found.append((None, text[:place]))
            else:
                content = text[start:place].strip()
                found.append((content, content))
                start = None
        if start is not None:
            found.append((None, text[start:]))
        return found

    return find


def json_object(*names: str) -> Form:
    """Return the form of a JSON object, or of the arguments of a tool call, that has one of some keys.

    The value is the object's entry if it has exactly one of the names, and else a mapping of the entries it has. An
    object that is not JSON, or that has a name twice, is malformed.

    Args:
        *names: The keys, in lower case.
    """
    marker = re.compile(rf"""["'](?:{"|".join(names)})["']\s*:""", re.IGNORECASE)

    def find(text: str) -> list[tuple[Any, str]]:
        if "{" not in text:
            return []
        markers = [mark.start() for mark in marker.finditer(text)]
        if not markers and "\\" not in text:
            return []
        objects = _objects(text)
        if objects is None:
            return [(None, text)] if markers else []
        found = list[tuple[int, Any, str]]()
        for start, end, value in objects:
            entries = _entries(value, names)
            if entries:
                single = next(iter(entries.values())) if len(entries) == 1 else entries
                found.append((start, single, text[start:end]))
        spans = [(start, end) for start, end, _ in objects]
        loose = [place for place in markers if not any(start <= place < end for start, end in spans)]
        found += [(place, None, text[place:]) for place in loose]
        return [(value, written) for _, value, written in sorted(found, key=lambda entry: entry[0])]

    return find


def call(**tools: Sequence[str]) -> Form:
    """Return the form of a call such as `place(row=1, column=2, number=3)`; arguments may also be positional.

    The value is a mapping from the names of the parameters to numbers and strings, and `"tool"` to the tool's name.

    Args:
        **tools: The names of the parameters of each tool, in order.
    """
    opening = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(tools)})\(", re.IGNORECASE | re.ASCII)

    def find(text: str) -> list[tuple[Any, str]]:
        if "(" not in text:
            return []
        found = list[tuple[Any, str]]()
        for begun in opening.finditer(text):
            inside, closing, _ = text[begun.end() : begun.end() + LONGEST].partition(")")
            tool = begun[1].lower()
            given = _arguments(inside, tools[tool]) if closing else None
            found.append((None if given is None else {"tool": tool, **given}, f"{begun[0]}{inside}{closing}"))
            if len(found) > _MOST_OBJECTS:
                return [(None, text)]
        return found

    return find


def boxed(text: str) -> list[tuple[Any, str]]:
    r"""Find the last `\boxed{…}`; one `\text{…}` around its content is left out."""
    start = text.rfind(_BOXED)
    if start < 0:
        return []
    start += len(_BOXED)
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            content = text[start : start + brace.start()].strip()
            wrapped = _LATEX_TEXT.fullmatch(content)
            return [(wrapped[1].strip() if wrapped else content, content)]
    return [(None, text[start:])]


def labeled(text: str) -> list[tuple[Any, str]]:
    """Find the last line `Action: …` or `Answer: …`; the content is on the same line or the next one (ReAct)."""
    if ":" not in text:
        return []
    labels = list(_LABEL.finditer(text))
    if not labels:
        return []
    rest = text[labels[-1].end() :].strip()
    if rest.startswith(_FENCE):
        inside, closing, _ = rest[len(_FENCE) :].partition(_FENCE)
        return fenced(f"{_FENCE}{inside}{closing}")
    content = rest.partition("\n")[0].strip()
    return [(unwrapped(content.strip("*_ ")), content)]


def fenced(text: str) -> list[tuple[Any, str]]:
    """Find the last block between two code fences; its first line may name a language."""
    fences = places(text, _FENCE)
    if not fences:
        return []
    if len(fences) % 2:
        return [(None, text[fences[-1] :])]
    inside = text[fences[-2] + len(_FENCE) : fences[-1]]
    language, newline, rest = inside.partition("\n")
    content = rest.strip() if newline and (language.strip().isalnum() or not language.strip()) else inside.strip()
    return [(content, content)]


def bracketed(text: str) -> list[tuple[Any, str]]:
    """Find all `[…]` without brackets inside, for games that ask for this form; one that is not closed is malformed."""
    return [(group[1] and group[1].strip(), group[0]) for group in _GROUP.finditer(text)] if "[" in text else []


ACTION, ANSWER = tag("action"), tag("answer")

FORMS: tuple[Form, ...] = (ACTION, ANSWER, json_object("action", "actions"), boxed, fenced, labeled)
"""The forms of a game whose prompt asks for `<action>…</action>` and whose answers are strings, in their rank."""


def unwrapped(text: str) -> str:
    """Return a text without the quotation marks, emphasis or brackets around it, and without a final `.` or `!`."""
    for _ in range(_MOST_WRAPPERS):
        text = text.strip()
        if len(text) > 1 and (text[0], text[-1]) in _WRAPPERS:
            text = text[1:-1]
        elif text and text[-1] in ".!":
            text = text[:-1]
        else:
            break
    return text


_WRAPPERS = {*((mark, mark) for mark in "\"'`*_"), ("[", "]"), ("“", "”")}


def whole_number(value: Any) -> int | None:
    """Return a value of a JSON object or tool argument as an integer, or None if it is no whole number.

    Whole floats are integers. Booleans, fractions, strings and all other types are not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 and abs(value) < float("inf") else None


def words_of(text: str) -> list[str]:
    """Return the words of letters a to z (lower-case), the numbers and the arrows ←↑→↓ of a text, in order."""
    return _WORD.findall(text.lower())


def last_phrase(text: str, phrases: Mapping[str, T]) -> T | None:
    """Return the value of the last phrase in a text, or None; for lenient reading only.

    Args:
        text: Prose; its last `LONGEST` characters are searched.
        phrases: Phrases as `words_of` spells them, joined by spaces, such as `"turn left"`. Of phrases that end
            together the longest counts.
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
    """Return the start of a text in quotation marks, on one line, without what can't be printed or encoded."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _EXCERPT])
    short = " ".join(printable.split()).replace('"', "'")
    return f'"{short}"' if len(short) <= _EXCERPT else f'"{short[:_EXCERPT].rstrip()}…"'


def invalid(answer: Answer | None, valid: str, form: str) -> str:
    """Return the error text of an invalid reply.

    Args:
        answer: The answer, or None if there is none.
        valid: What is valid, such as `"up, down, left, right"`.
        form: The form that the prompt asks for, as an example.
    """
    got = "no answer" if answer is None or not answer.text.strip() else excerpt(answer.text)
    return f"expected one of {valid}, got {got}. Reply in this form: {form}."


# JSON and calls.


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = {name.lower(): value for name, value in pairs}
    if len(entries) < len(pairs):
        raise ValueError("an entry occurs twice")
    return entries


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _objects(text: str) -> list[tuple[int, int, dict[str, Any]]] | None:
    """Return start, end and content of the JSON objects that are not inside of others; None if there are too many."""
    starts = places(text, "{")
    if len(starts) > _MOST_OBJECTS:
        return None
    found, end = list[tuple[int, int, dict[str, Any]]](), 0
    for start in starts:
        if start < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):  # no JSON, a number of too many digits, or nested too deeply
            continue
        found.append((start, end, value))
    return found


def _entries(value: Any, names: Sequence[str], depth: int = 3) -> dict[str, Any]:
    """Return the named entries of an object, or else of the arguments in it."""
    if isinstance(value, str):
        objects = _objects(value)
        value = objects[0][2] if objects else None
    if not isinstance(value, dict) or not depth:
        return {}
    found = {name: value[name] for name in names if name in value}
    holders = [value[name] for name in _ARGUMENTS if name in value]
    return found or (_entries(holders[0], names, depth - 1) if holders else {})


def _arguments(inside: str, parameters: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a call by name, or None if they are not one for each parameter."""
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
        given[name] = int(text) if _INTEGER.fullmatch(text) else text.strip("\"'")
        end = argument.end()
    return given if given.keys() == set(parameters) else None
