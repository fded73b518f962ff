r"""What a language model's reply says: where in it the answer stands, and which words and numbers that holds.

Models think aloud, wrap answers in tags, JSON, code fences or `\boxed{}`, label them, or name a move in prose.
`answers` yields the places an answer may stand, the most deliberate first, and a game tries its vocabulary on each:

    for answer in answers(reply):
        move = vocabulary.get(" ".join(words_of(answer.text)))  # the game's own way
        if move is None and answer.is_prose:
            move = last_phrase(answer.text, vocabulary)

Every string has an answer, no function here raises for one, and all of them take time linear in its length.
"""

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

LONGEST = 16_000
"""Characters that are looked at, from the end, after thoughts are dropped."""

TAGS = ("action", "answer", "move", "message")
"""The tags, and the keys of JSON objects, under which an answer is looked for; the first is the asked one."""

_ARGUMENTS = ("arguments", "parameters", "input", "args")
_MOST_OBJECTS = 16
_MOST_NUMBER_DIGITS = 9
_MOST_BOXED = 2_000
_EXCERPT = 40
_BOXED = "\\boxed{"
_FENCE = "```"

_THOUGHT_TAG = re.compile(r"<(/?)(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE | re.ASCII)
_OBJECT_START = re.compile(r'\{\s{0,40}"')
_LABEL = re.compile(
    r"^[ \t>*_#`-]{0,8}(?:final |next |my |chosen )?(?:action input|action|answer|move)s?[ \t*_`]{0,8}:[*_`]{0,4}",
    re.IGNORECASE | re.ASCII | re.MULTILINE,
)
_LATEX = re.compile(r"\\[A-Za-z]{1,16}|[{}$]", re.ASCII)
_WORD = re.compile(r"[a-z]+|[0-9]+|[\u2190-\u2193]")
_NUMBER = re.compile(r"(?<![0-9])-?[0-9]+", re.ASCII)


class Answer(NamedTuple):
    """A place in a reply where the answer may stand.

    Attributes:
        text: What stands there.
        is_exact: Whether it is the only block in the asked tag, such as `<action>up</action>`.
        is_prose: Whether it is the whole reply, for want of a better place.
    """

    text: str
    is_exact: bool = False
    is_prose: bool = False


def without_thoughts(reply: str) -> str:
    """Returns a reply without `<think>…</think>` and the like.

    A thought that is not closed lasts to the end; where the opening is missing, it began with the reply.
    """
    if "<" not in reply:
        return reply
    kept, start, is_thought = list[str](), 0, False
    for tag in _THOUGHT_TAG.finditer(reply):
        is_close = bool(tag[1])
        if is_close and not is_thought:
            kept.clear()
        elif not is_close and not is_thought:
            kept.append(reply[start : tag.start()])
        start, is_thought = tag.end(), not is_close
    if not is_thought:
        kept.append(reply[start:])
    return "".join(kept)


def answers(reply: str, tags: Sequence[str] = TAGS) -> Iterator[Answer]:
    r"""Yields the places of a reply where the answer may stand, the most deliberate first.

    A tag or a key of a JSON object decides: no other place is yielded beside it. Else, in this order: `\boxed{}`, a
    labelled line such as `Action: up`, the last code fence, the last `[brackets]`, the whole reply. Thoughts are no
    place, and of several blocks, lines or objects the last one counts.

    Args:
        reply: Any string; the last `LONGEST` characters are looked at, thoughts apart.
        tags: Names of tags and keys, lower-case; the first is the one that was asked for.
    """
    text = without_thoughts(reply)[-LONGEST:]
    names = tuple(tags)
    block = _block(text, names) if "<" in text else None
    if block is None and "{" in text:
        value = _of_objects(text, names)
        block = None if value is None else Answer(value)
    if block is not None:
        inner = _of_objects(block.text, names) if "{" in block.text else None
        yield block if inner is None else Answer(inner)
        return
    for place in (_boxed(text), _labelled(text), _fenced(text), _bracketed(text)):
        if place is not None:
            yield Answer(place)
    yield Answer(text, is_prose=True)


def tagged(reply: str, name: str) -> str | None:
    """Returns what stands in the last `<name>…</name>`, thoughts apart, or None; a block may lack its end."""
    block = _block(without_thoughts(reply)[-LONGEST:], (name,))
    return None if block is None else block.text


def objects(reply: str) -> list[dict[str, Any]]:
    """Returns the JSON objects of a reply, thoughts apart, that are not inside of others; at most 16 are tried."""
    return _objects(without_thoughts(reply)[-LONGEST:])


def words_of(text: str) -> list[str]:
    """Returns the words of letters a to z (lower-case), the numbers and the arrows ←↑→↓ of a text, in order."""
    return _WORD.findall(text.lower())


def last_phrase(text: str, phrases: Mapping[str, T]) -> T | None:
    """Returns the value of the phrase that a text says last, or None.

    Args:
        text: Prose; its last `LONGEST` characters are looked at.
        phrases: Phrases as `words_of` spells them, joined by spaces, such as `"turn left"`. Of phrases that end
            together the longest counts.
    """
    said = words_of(text[-LONGEST:])
    longest = max((phrase.count(" ") + 1 for phrase in phrases), default=0)
    for end in range(len(said), 0, -1):
        for start in range(max(end - longest, 0), end):
            phrase = " ".join(said[start:end])
            if phrase in phrases:
                return phrases[phrase]
    return None


def numbers(text: str) -> list[int]:
    """Returns the whole numbers of a text, in order; those of more than nine digits are left out."""
    found = _NUMBER.findall(text[-LONGEST:])
    return [int(number) for number in found if len(number.lstrip("-")) <= _MOST_NUMBER_DIGITS]


def excerpt(text: str) -> str:
    """Returns the start of a text in quotation marks, on one line and free of what can't be printed or encoded."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _EXCERPT])
    short = " ".join(printable.split()).replace('"', "'")
    return f'"{short}"' if len(short) <= _EXCERPT else f'"{short[:_EXCERPT].rstrip()}…"'


@functools.cache
def _tag(name: str) -> re.Pattern[str]:
    return re.compile(f"<(/?){re.escape(name)}>", re.IGNORECASE | re.ASCII)


def _block(text: str, names: tuple[str, ...]) -> Answer | None:
    for name in names:
        marks = list(_tag(name).finditer(text))
        pairs = [pair for pair in itertools.pairwise(marks) if not pair[0][1] and pair[1][1]]
        if pairs:
            opening, closing = pairs[-1]
            is_exact = name == names[0] and marks == [opening, closing]
            return Answer(text[opening.end() : closing.start()].strip(), is_exact)
        unclosed = [text[mark.end() :].partition("<")[0].strip() for mark in marks[-2:] if not mark[1]]
        if unclosed:
            return Answer(unclosed[-1] or unclosed[0])
    return None


def _objects(text: str) -> list[dict[str, Any]]:
    found, end = list[dict[str, Any]](), 0
    for start in itertools.islice(_OBJECT_START.finditer(text), _MOST_OBJECTS):
        if start.start() < end:
            continue
        try:
            value, end = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):  # no JSON, a number of too many digits, or nested too deeply
            continue
        found.append(value)
    return found


@functools.cache
def _entry(names: tuple[str, ...]) -> re.Pattern[str]:
    keys = "|".join(map(re.escape, names))
    return re.compile(rf"""["']?\b(?:{keys})s?["']?\s{{0,8}}:\s{{0,8}}["']([^"'\n]{{1,400}})["']""", re.IGNORECASE)


def _of_objects(text: str, names: tuple[str, ...]) -> str | None:
    for found in reversed(_objects(text)):
        value = _value(found, names)
        if value is not None:
            return value
    # Objects that are nearly JSON, such as Python's.
    entries = _entry(names).findall(text)
    return entries[-1] if entries else None


def _value(found: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Returns what an object, or the arguments of a tool call, have under one of the names."""
    holders = [found]
    for value in (found[key] for key in _ARGUMENTS if key in found):
        holders += [value] if isinstance(value, dict) else _objects(value) if isinstance(value, str) else []
    for holder in holders:
        for key in (*names, *(f"{name}s" for name in names)):
            value = holder.get(key)
            if isinstance(value, list):
                value = ", ".join(str(item) for item in value if isinstance(item, str | int | float))
            if isinstance(value, str | int | float):
                return str(value)
    return None


def _boxed(text: str) -> str | None:
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    depth = 1
    start += len(_BOXED)
    for end in range(start, min(len(text), start + _MOST_BOXED)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return _LATEX.sub(" ", text[start:end]).strip()
    return None


def _labelled(text: str) -> str | None:
    labels = list(_LABEL.finditer(text))
    if not labels:
        return None
    return text[labels[-1].end() :].lstrip().partition("\n")[0].strip()


def _fenced(text: str) -> str | None:
    end = text.rfind(_FENCE)
    start = text.rfind(_FENCE, 0, end) if end >= 0 else -1
    if start < 0:
        return None
    inside = text[start + len(_FENCE) : end]
    language, newline, rest = inside.partition("\n")
    return rest.strip() if newline and language.strip().isalnum() else inside.strip()


def _bracketed(text: str) -> str | None:
    end = text.rfind("]")
    start = text.rfind("[", 0, end) if end >= 0 else -1
    return text[start + 1 : end].strip() if start >= 0 else None
