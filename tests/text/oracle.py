r"""Slow and simple reference parser of replies, to check the parsers of the games.

It is written from the parsing policy alone and shares no code with `jaxgym.text`:

    reply ─▶ visible text (reasoning removed) ─▶ the highest form that is present, of these the last ─▶ complete grammar

For a reply it returns the actions that a parser may return; an invalid reply is always allowed. If the policy leaves a
choice (a broken delimiter, a bracket among several), the result has the actions of all choices. A parser is wrong if it
returns an action that is not in the result.
"""

import ast
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Action = tuple[Any, ...]
Actions = set[Action]

REASONING = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>", "<channel|>"),
)
"""Delimiters that the chat templates of open models put around reasoning."""

RANK = ("action", "answer", "json", "call", "boxed", "fence", "line", "bracket")
"""The forms, the highest first."""

_ENDS = " \t\r\n*_\"'`.!,;:"


@dataclasses.dataclass(frozen=True)
class Family:
    """A game, or a dialect of it.

    Attributes:
        name: Its short name.
        read: Function that returns the actions of a whole text.
        rank: Its forms, the highest first.
        fields: Field names of its JSON answers and its call, in order.
        call: Name of its call; empty if the game has no calls.
        asks_brackets: Whether its prompt asks for brackets.
        numbers: Whether a JSON number is an action.
        takes_first: Whether the first answer in the requested form counts instead of the last one, as in the parser of
            the project whose dialect it is.
    """

    name: str
    read: Callable[[str], Actions]
    rank: tuple[str, ...] = RANK
    fields: tuple[str, ...] = ()
    call: str = ""
    asks_brackets: bool = False
    numbers: bool = False
    takes_first: bool = False


def actions_of(family: Family, reply: str) -> Actions:
    """Return the actions that a parser may return for a reply; a parser may always reject the reply."""
    found = Actions()
    for text in visible_texts(reply):
        for is_loose in (False, True):
            found |= _explicit(family, text, is_loose)
    return found


# Reasoning.


def visible_texts(reply: str) -> set[str]:
    """Return what is left of a reply without its reasoning: one text, or two where a delimiter is misspelled."""
    turn = _turn(reply)
    return {_visible(turn, is_loose=False), _visible(turn, is_loose=True)}


_TURN_ENDS = (
    *("<|im_end|>", "<|im_start|>", "<|return|>", "<|eot_id|>", "<|endoftext|>", "</s>", "<end_of_turn>", "<|user|>"),
    *("<|observation|>", "<|end_of_text|>", "<|eom_id|>", "<|start_header_id|>", "[INST]", "<tool_response>"),
    *("<\uff5cend▁of▁sentence\uff5c>", "<\uff5cUser\uff5c>", "<|USER_TOKEN|>"),
)
_TURN_END = re.compile(
    "|".join(map(re.escape, _TURN_ENDS))
    # Harmony: the same turn goes on with another message of the assistant, in a channel.
    + r"|<\|end\|>(?!\s*(?:<\|start\|>\s*assistant[^<]*)?<\|channel\|>)|<\|start\|>(?!\s*assistant[^<]*<\|channel\|>)",
    re.IGNORECASE | re.ASCII,
)


def _turn(reply: str) -> str:
    """Return the reply up to the end of the assistant's turn."""
    reply = re.sub(r"(?ia)\A\s*<\|im_start\|>assistant\s", "", reply)
    ended = _TURN_END.search(reply)
    return reply[: ended.start()] if ended else reply


def _visible(reply: str, *, is_loose: bool) -> str:
    if "<|channel|>" in reply.lower():
        reply = _final_channel(reply)
    while True:
        marks = list(_marks(reply, is_loose))
        opened = next((mark for mark in marks if mark[2]), None)
        closed = next((mark for mark in marks if not mark[2]), None)
        if opened is None:
            # All up to a mark that only closes is reasoning.
            return reply[marks[-1][1] :] if marks else reply
        if closed is not None and closed[0] < opened[0]:
            reply = reply[closed[1] :]
            continue
        end = next((mark[1] for mark in marks if not mark[2] and mark[3] == opened[3] and mark[0] > opened[0]), None)
        # A character in no grammar stands for what was removed, except at the ends.
        reply = (reply[: opened[0]].rstrip() + "\0" + ("" if end is None else reply[end:]).lstrip()).strip("\0")


def _marks(text: str, is_loose: bool) -> Iterator[tuple[int, int, bool, int]]:
    """Yield start, end, kind (opening or not) and family of each delimiter, in the order of the text."""
    found = [
        (match.start(), match.end(), opens, number)
        for pattern, opens, number in _MARKS[is_loose]
        for match in pattern.finditer(text)
    ]
    return iter(sorted(found))


def _loosely(mark: str) -> str:
    return r"\s*".join(map(re.escape, re.findall(r"\w+|\W", mark))).replace(">", "[^<>]*>")


_MARKS = [
    [
        (re.compile(_loosely(mark), re.IGNORECASE) if is_loose else re.compile(re.escape(mark)), opens, number)
        for number, pair in enumerate(REASONING)
        for mark, opens in zip(pair, (True, False), strict=True)
    ]
    for is_loose in (False, True)
]


def _final_channel(reply: str) -> str:
    """Return the last message of the channel `final` of the harmony format."""
    finals = []
    for message in re.split(r"(?ia)<\|channel\|>", reply)[1:]:
        head, sign, content = _apart(message, r"(?ia)<\|message\|>")
        if sign and head.strip().lower() == "final":
            finals.append(_apart(content, r"(?ia)<\|(?:end|return|call|start)\|>")[0])
    return finals[-1] if finals else ""


def _apart(text: str, pattern: str) -> tuple[str, str, str]:
    match = re.search(pattern, text)
    return (text[: match.start()], match[0], text[match.end() :]) if match else (text, "", "")


# Forms.


def _explicit(family: Family, text: str, is_loose: bool) -> Actions:
    for form in family.rank:
        found = list(_FINDERS[form](family, text, is_loose))
        if found:
            is_asked = form == ("bracket" if family.asks_brackets else family.rank[0])
            picked = found[:1] if is_asked and family.takes_first else found[-1:]
            return set().union(*(_content(family, content) for content in picked))
    return family.read(text)


def _content(family: Family, content: Any) -> Actions:
    """Return the actions of the content of a form, as a whole."""
    if isinstance(content, dict):
        return _of_object(family, content)
    if isinstance(content, list):
        return _content(family, ", ".join(map(str, content))) if all(map(_is_plain, content)) else Actions()
    if not isinstance(content, str):
        is_number = _is_plain(content) and family.numbers
        return family.read(str(_whole(content))) if is_number else Actions()
    inner = content.strip()
    found = family.read(inner)
    for form in RANK:
        nested = [part for part in _FINDERS[form](family, inner, False) if _is_all_of(form, inner)]
        if len(nested) == 1 and nested[0] != content:
            found |= _content(family, nested[0])
    return found


_WHOLE = {
    "action": r"(?isa)<\s*action\s*>.*</\s*action\s*>",
    "answer": r"(?isa)<\s*answer\s*>.*</\s*answer\s*>",
    "json": r"(?s)\{.*\}",
    "call": r"(?s)\w+\s*\(.*\)",
    "boxed": r"(?s)\$?\\boxed\s*\{.*\}\$?",
    "fence": r"(?s)```.*```",
    "line": r"(?is)\W*action\W*:[^\n]*\n?[^\n]*",
    "bracket": r"(?s)\[[^\[\]]*\]",
}


def _is_all_of(form: str, text: str) -> bool:
    return re.fullmatch(_WHOLE[form], text) is not None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or _whole(value) is not None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return int(value) if value not in (float("inf"), -float("inf")) and value == int(value) else None


def _tags(name: str) -> Callable[[Family, str, bool], Iterator[Any]]:
    def find(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
        del family
        closed = rf"(?isa)<\s*{name}\s*>(.*?)<\s*/\s*{name}\s*>"
        broken = rf"(?isa)<\s*{name}\b[^<>]*>?(.*?)(?=<|\Z)"
        inner = rf"(?isa)<\s*{name}\s*>([^<>]*)<\s*/\s*{name}\s*>"
        found = re.findall(inner if is_loose else closed, text)
        yield from found or (re.findall(broken, text) if is_loose else [])

    return find


def _objects(text: str) -> Iterator[dict[str, Any]]:
    begin = text.find("{")
    while begin >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin + 1
        else:
            yield {_folded(name): entry for name, entry in value.items()}
        begin = text.find("{", end)


def _json(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    def has_answer(found: dict[str, Any]) -> bool:
        names = {"action", "actions", *family.fields}
        return bool(names & found.keys()) or {"name", "arguments"} <= found.keys()

    known = [found for found in _objects(text) if has_answer(found)]
    yield from known
    if not is_loose or known:
        return
    yield from _objects(text)
    for written in re.findall(r"\{[^{}]*\}", text):
        tidied = re.sub(r",\s*\}", "}", written)
        for load in (json.loads, ast.literal_eval):
            try:
                value = load(tidied)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, dict):
                yield value


def _of_object(family: Family, given: dict[str, Any]) -> Actions:
    if {"name", "arguments"} <= given.keys():
        inner = given["arguments"]
        if isinstance(inner, str):
            inner = next(_objects(inner), None)
        return _of_object(family, inner) if isinstance(inner, dict) else Actions()
    for name in ("action", "actions"):
        if name in given:
            return _content(family, given[name])
    if family.fields and any(name in given for name in family.fields):
        numbers = [_whole(given.get(name)) for name in family.fields]
        return Actions() if None in numbers else family.read(" ".join(map(str, numbers)))
    return set().union(*(_content(family, value) for value in given.values() if isinstance(value, str)))


def _calls(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    if family.call:
        end = r"(?:\)|\Z)" if is_loose else r"\)"
        start = r"\b" if is_loose else r"^[ \t>*`\[-]*"
        for written in re.findall(rf"(?im){start}{family.call}\s*\(([^()]*){end}", text):
            yield _arguments(family, written)
    elif is_loose:
        yield from (
            inner.strip("\"' ").partition("=")[2].strip("\"' ") or inner.strip("\"' ")
            for inner in re.findall(r"\w\s*\(([^()]*)\)", text)
        )


def _arguments(family: Family, written: str) -> dict[str, Any]:
    given = dict[str, Any]()
    for place, part in enumerate(written.split(",")):
        name, sign, value = part.partition("=") if "=" in part else part.partition(":")
        if not sign:
            name, value = (family.fields[place] if place < len(family.fields) else f"value {place}"), part
        value = value.strip()
        name = name.strip(" \t\r\n\"'").lower()
        given[name] = None if name in given or not re.fullmatch(r"[0-9]+(\.0+)?", value) else float(value)
    return given if set(given) == set(family.fields) else {name: None for name in family.fields}


def _boxed(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    del family
    for match in re.finditer(r"\\boxed\s*\{", text, re.IGNORECASE if is_loose else 0):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not depth or is_loose:
            inner = text[match.end() : end - (not depth)].strip()
            text_command = re.fullmatch(r"\\(?:text|mathrm|textbf|texttt)\s*\{(.*)\}", inner, re.DOTALL)
            yield text_command[1] if text_command else inner


def _fences(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    del family
    found = re.findall(r"(?s)```(.*?)```", text) or (re.findall(r"(?s)```(.*)\Z", text) if is_loose else [])
    for inner in found:
        first, line, rest = inner.partition("\n")
        has_language = bool(line) and re.fullmatch(r"[ \t]*\w*[ \t\r]*", first) is not None
        yield rest if has_language else inner


def _lines(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    del family
    label = r"(?:action|answer|move|command|action\s+input)" if is_loose else r"action"
    start = r"(?:^|\b)" if is_loose else r"^"
    pattern = (
        rf"(?ima){start}[ \t>*_#-]*(?:final[ \t]+)?{label}[ \t]*[*_]*[ \t]*:[ \t]*[*_]*([^\n]*)(?=(?:\n\s*([^\n]*))?)"
    )
    for match in re.finditer(pattern, text):
        here, below = match[1], match[2] or ""
        yield here if here.strip(" \t\r*_") else below


def _brackets(family: Family, text: str, is_loose: bool) -> Iterator[Any]:
    contents = re.findall(r"\[([^\[\]]*)\]", text)
    if family.asks_brackets:
        yield from (content for content in contents if not is_loose or family.read(content))
    elif is_loose or re.fullmatch(r"\s*\[[^\[\]]*\]\s*\.?\s*", text):
        yield from (content for content in contents if family.read(content))


_FINDERS: dict[str, Callable[[Family, str, bool], Iterator[Any]]] = {
    "action": _tags("action"),
    "answer": _tags("answer"),
    "json": _json,
    "call": _calls,
    "boxed": _boxed,
    "fence": _fences,
    "line": _lines,
    "bracket": _brackets,
}


# Grammars. Letters are compared as ASCII, digits are 0 to 9, and nothing may be left over.


def _folded(text: str) -> str:
    lowered = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    return " ".join(lowered.strip(_ENDS).split())


_GO = r"(?:i (?:will )?)?(?:go|move|step|walk|turn to|head)? ?(?:to )?(?:the )?"
_LAKE = ("left", "down", "right", "up")


def _lake(short: str) -> Callable[[str], Actions]:
    """Return a grammar of the four directions; `short` has the short form of each, in the order of the actions."""
    names = {name: (number,) for number, name in enumerate(_LAKE)}
    names |= {letter: (number,) for number, letter in enumerate(short)}

    def read(text: str) -> Actions:
        folded = _folded(text)
        return {action for name, action in names.items() if folded == name or re.fullmatch(_GO + name, folded)}

    return read


_FIELD = re.compile(
    r"(?P<field>row|column|col|number|digit|value|r|c|n)? ?[:=]? ?(?P<number>[0-9]+)"
    r"|(?:place|put|write|fill|enter|set|the|a|at|in|into|to|with|and|cell|action|move)(?![a-z])|[,;:.()|]"
)
_KINDS = {"row": 0, "r": 0, "column": 1, "col": 1, "c": 1, "number": 2, "digit": 2, "value": 2, "n": 2}


def _sudoku(text: str) -> Actions:
    folded = _folded(text).strip("[]() ")
    if re.fullmatch(r"[0-9]+(?: ?, ?| )[0-9]+(?: ?, ?| )[0-9]+", folded):
        return _cell([int(number) for number in re.findall(r"[0-9]+", folded)])
    values, rest = dict[int, int](), folded
    while rest := rest.lstrip():
        match = _FIELD.match(rest)
        if match is None:
            return Actions()
        if match["number"]:
            kind = _KINDS[match["field"]] if match["field"] else 2
            if kind in values:
                return Actions()
            values[kind] = int(match["number"])
        rest = rest[match.end() :]
    return _cell([values[kind] for kind in range(3)]) if len(values) == len(_LAKE) - 1 else Actions()


def _cell(numbers: list[int]) -> Actions:
    return {tuple(numbers)} if all(1 <= number <= 9 for number in numbers) else Actions()


_GRID = {
    r"(?:wait|stay|do nothing|no ?-?op|stand still)": 0,
    r"(?:turn[ _-]*)?(?:to )?(?:the )?left": 1,
    r"(?:turn[ _-]*)?(?:to )?(?:the )?right": 2,
    r"(?:go |move |step |walk )?(?:forward|ahead|straight ahead)s?": 3,
}
_APART = re.compile(r"[ ,;.|]*(?:(?:and|then|->|→)[ ,;]*)*")


def _grid(most: int) -> Callable[[str], Actions]:
    """Return the grammar of consecutive actions, each optionally with a count, at most `most` in total."""

    def read(text: str) -> Actions:
        folded = _folded(text).strip("[]() ")
        return {way for way in _ways(folded, most) if way} if len(folded) <= _LONGEST else Actions()

    return read


_LONGEST = 200


@functools.lru_cache(4096)
def _ways(rest: str, most: int) -> frozenset[Action]:
    """Return each reading of a text as at most this number of consecutive actions."""
    if not rest:
        return frozenset({()})
    found = Actions()
    for name, action in _GRID.items():
        for pattern in (rf"{name}(?![a-z]) ?(?:x|\*)? ?([0-9]*)", rf"([0-9]*) ?(?:x|\*|times)? ?{name}(?![a-z])"):
            for times in ("", r"(?: ?(?:x|times|time|steps|step|tiles|tile)(?![a-z]))"):
                match = re.match(pattern + times, rest)
                if match is None:
                    continue
                count = int(match[1] or 1) if len(match[1]) < len("10000") else 0
                apart = _APART.match(rest, match.end())
                after = rest[apart.end() if apart else match.end() :]
                if 0 < count <= most:
                    found |= {(action,) * count + way for way in _ways(after, most - count)}
    return frozenset(found)


def _textcraft(names: tuple[str, ...]) -> Callable[[str], Actions]:
    def fitting(said: str) -> list[str]:
        """Return the item of a name; if there is none, all items that end with the name."""
        said = said.strip()
        return [said] if said in names else [name for name in names if said and name.endswith(f" {said}")]

    def amounts(said: str) -> Iterator[tuple[int, str]]:
        match = re.fullmatch(r"(?:([0-9]{1,3}) )?([a-z' -]+)", said.strip())
        if match:
            yield from ((int(match[1] or 1), name) for name in fitting(match[2]))

    def read(text: str) -> Actions:
        folded = _folded(text)
        folded = re.sub(r"^(?:i (?:will )?)", "", folded).replace(" ,", ",")
        if folded == "inventory" or re.fullmatch(r"(?:check|show|list|look at)? ?(?:my |the )?inventory", folded):
            return {("inventory",)}
        if folded.startswith("get "):
            found = amounts(folded.removeprefix("get "))
            return {("get", count, name) for count, name in found if 1 <= count <= 64}
        head, using, tail = folded.removeprefix("craft ").partition(" using ")
        if not folded.startswith("craft ") or not using:
            return Actions()
        inputs = itertools.product(*(list(amounts(part)) for part in re.split(r",| and ", tail)))
        return {("craft", name, frozenset(way)) for way in inputs for _, name in amounts(head)}

    return read


# No form of these games outranks a tag, brackets included: an answer in a tag is meant more than a bracket in prose.
SWIFT = Family("frozen_lake swift", _lake(""), takes_first=True)
RAGEN = Family("frozen_lake ragen", _lake("1234"), ("answer", "action", *RANK[2:]), numbers=True, takes_first=True)
TEXTARENA = Family("frozen_lake textarena", _lake("asdw"), asks_brackets=True, takes_first=True)
SUDOKU = Family("sudoku", _sudoku, fields=("row", "column", "number"), call="place", asks_brackets=True)
GRID = Family("mystery_path_grid", _grid(4))


def textcraft_family(names: tuple[str, ...]) -> Family:
    """Return the family of TextCraft, given the names of its items."""
    return Family("textcraft", _textcraft(names))
