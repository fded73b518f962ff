"""Removal of reasoning, of other roles' turns and of chat template tokens from a language model's reply."""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from jaxgym.text.chat_templates import ENDS, INSIDE, LEADING, REASONING, STRUCK

LONGEST = 8_000
"""Number of characters at the end of a reply in which answers are searched."""

_OPENINGS, _CLOSINGS = ({pair[side]: number for number, pair in enumerate((*REASONING, *STRUCK))} for side in (0, 1))

_MOST_LEADING = 8
_MOST_SIGNS = 500
_TOKEN = re.compile(r"<[^<>]{1,60}>")
_BLANKS = (*((f"{sign} ", sign) for sign in "<|/\uff5c"), *((f" {sign}", sign) for sign in ">|/\uff5c"))
_TILDE_FENCE = re.compile(r"~~~(?<![^\n]~~~)~{0,5}(?=[^~\n]{0,40}$)", re.MULTILINE)  # at the start of a line
_DELIMITERS = (*_OPENINGS, *_CLOSINGS, *ENDS)
_BY_MARK = {
    mark: {sign: tuple(token for token in _DELIMITERS if sign in token and mark in token) for sign in signs}
    for mark, signs in {
        "[": ("think]", "[unused1", "[|", "inst]", "final response]", "_prompt]", "_results]"),
        ":": ("thought process:", "reasoning steps:", "my response:"),
        "<": ("<|sep|>",),
        "~": ("e~[", "]~b]", "]~!b["),
    }.items()
}
"""The delimiters that are not a single token in angle brackets, by a character and by a substring of each."""

_BARS = "|\uff5c"
_BOX_START, _BOX_END = (re.compile(rf"<\|{side}_of_box\|>", re.IGNORECASE) for side in ("begin", "end"))  # GLM-V

_CHANNEL, _END, _START = "<|channel|>", "<|end|>", "<|start|>"
_FINAL = re.compile(r"<\|channel\|>\s{0,8}final\b(?:[^<]|<\|constrain\|>){0,80}<\|message\|>")
_ASSISTANT = re.compile(r"\s{0,8}assistant\b[^<]{0,80}(?:<\|channel\|>|\Z)")
_NEXT_MESSAGE = re.compile(rf"\s{{0,8}}(?:<\|channel\|>|<\|start\|>{_ASSISTANT.pattern})")
_IN_CHANNEL = -1
# A tokenizer may drop the special tokens of the harmony format: the channel's name and its text become one word.
_BARE_CHANNEL = re.compile(r"(?:analysis|commentary)(?: to=|(?=[^\s:;,.!?/)'\u2019=_\u2013\u2014-]))")
_BARE_FINAL = "assistantfinal"

GAP = "\0"
"""Character that replaces removed text; no form and no grammar matches across it."""

_NO_ANSWER = {"<!--": "-->", "~~": "~~", '"""': '"""', "'''": "'''"}
"""Opening and closing marks of comments, struck-through text and string literals, which are not answers."""


class VisibleText(NamedTuple):
    """Part of a reply that can contain its answer.

    Attributes:
        text: The text, without tokens of the chat template at its start.
        is_cut: Whether the text is truncated to its last `LONGEST` characters.
        unknown: The first unknown token of a chat template, which makes the reply invalid; empty for none.
    """

    text: str
    is_cut: bool
    unknown: str = ""


def without_reasoning(reply: str) -> VisibleText:
    """Return the last `LONGEST` characters of the assistant's turn, without its reasoning.

    The turn ends at the first token that ends it or begins the turn of another role. Reasoning that is not closed
    extends to the end. Reasoning without an opening delimiter, which can be part of the prompt, starts at the beginning
    of the reply. HTML comments, struck-through text and text in triple quotes are removed, too.
    """
    text = _without_leading(reply)
    if _BARE_CHANNEL.match(text):
        _, final, text = text.rpartition(_BARE_FINAL)
        text = text if final else ""
    lowered = _ascii(text).lower()
    marks = sorted(_marks(text, lowered))
    unknown = ""
    if marks:
        text, unknown = _outside(text, lowered, marks)
    # A single character is found many times faster than two.
    if "~" in text and text.count("~~~") <= _MOST_SIGNS:
        text = _TILDE_FENCE.sub("```", text)
    if "_of_box|>" in lowered:
        text = _BOX_END.sub("}", _BOX_START.sub(r"\\boxed{", text))
    comments = [mark for mark in _NO_ANSWER if mark[0] in text and mark in text]
    if comments:
        signs = {*comments, *(_NO_ANSWER[mark] for mark in comments)}
        text = _without_comments(text, comments) if sum(map(text.count, signs)) <= _MOST_SIGNS else ""
    is_cut = len(text) > LONGEST
    return VisibleText(_without_leading(text[-LONGEST:].strip()), is_cut, unknown)


def ascii_lower(text: str) -> str:
    """Return a text in lower case with the same length; no letter outside of A to Z becomes one of a to z."""
    if not text.isascii():
        # The Kelvin sign becomes k in lower case, and the dotted I becomes two characters.
        text = text.replace("\u212a", "\ufffd").replace("\u0130", "\ufffd")
    return text.lower()


def places(text: str, part: str) -> list[int]:
    """Return the start of each occurrence of a part in a text."""
    found, place = list[int](), text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + len(part))
    return found


def _ascii(text: str) -> str:
    """Return a text of the same length with a question mark in place of each non-ASCII character."""
    return text if text.isascii() else text.encode("ascii", "replace").decode("ascii")


def _marks(text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and key of each delimiter of reasoning and each token that can end the turn."""
    present = [delimiters for mark, delimiters in _BY_MARK.items() if mark in lowered]
    signs = itertools.chain.from_iterable(present)
    found_signs = {sign: lowered.count(sign) for sign in signs if all(map(lowered.__contains__, sign))}
    if lowered.count("<") + text.count("◁") + sum(found_signs.values()) > _MOST_SIGNS:
        yield 0, len(text), _UNREADABLE
        return
    for found in _TOKEN.finditer(lowered):
        written = found[0]
        if "?" in written:
            written = text[found.start() : found.end()].lower()
        is_plain = written.isprintable() and " " not in written
        token = written if is_plain else _without_blanks(written)
        if token in _TOKENS or (token[1] in _BARS and _is_unknown(token)):
            yield found.start(), found.end(), token
    for sign, delimiters in itertools.chain.from_iterable(delimiters.items() for delimiters in present):
        for delimiter in delimiters if found_signs.get(sign) else ():
            yield from ((place, place + len(delimiter), delimiter) for place in places(lowered, delimiter))
    for place in places(text, "◁"):
        for delimiter in ("◁think▷", "◁/think▷"):
            written = text[place : place + len(delimiter)]
            if written.lower() == delimiter:
                yield place, place + len(delimiter), delimiter


def _without_blanks(token: str) -> str:
    """Return a token without blanks beside its signs; a blank inside of a name makes another name."""
    token = " ".join(token.split())
    for marked, sign in _BLANKS:
        token = token.replace(marked, sign)
    return token


_UNREADABLE = "<eos>"
_CONTROLS = {_CHANNEL, _END, _START, *ENDS}
_TOKENS = {*_OPENINGS, *_CLOSINGS, *_CONTROLS}


def _is_unknown(token: str) -> bool:
    """Return whether a token has the shape of a chat template's token but is unknown."""
    return token[1] in _BARS and token[-2] in _BARS and token not in INSIDE


def _outside(text: str, lowered: str, marks: list[tuple[int, int, str]]) -> tuple[str, str]:
    """Return the text outside of reasoning up to the end of the turn, and the first unknown token in it.

    Of harmony channels, only the last `final` is kept.
    """
    kept, start, end, opened = list[str](), 0, len(text), None
    is_harmony = has_final = False
    unknown = ""
    for place, after, token in marks:
        if place < start:
            continue
        if token in _OPENINGS:
            if opened is None:
                kept.append(text[start:place])
                opened = _OPENINGS[token]
        elif token in _CLOSINGS:
            if opened in (None, _CLOSINGS[token]):
                if opened is None:
                    kept.clear()
                    unknown = ""
                start, opened = after, None
        elif token == _CHANNEL or (
            token in (_END, _START) and (_NEXT_MESSAGE if token == _END else _ASSISTANT).match(lowered, after)
        ):
            if opened in (None, _IN_CHANNEL):
                is_harmony = True
                if opened is None:
                    kept.append(text[start:place])
                final = _FINAL.match(lowered, place)
                if final or not has_final:
                    kept.clear()
                    unknown = ""
                has_final = has_final or final is not None
                start, opened = (final.end(), None) if final else (after, _IN_CHANNEL)
        elif token in _CONTROLS:
            end = place
            break
        elif opened is None:
            unknown = unknown or token
    if opened is None:
        kept.append(text[start:end])
    # Text around an unknown token can be reasoning or another role's turn.
    is_answer = not unknown and (has_final or not is_harmony)
    return GAP.join(part for part in kept if part.strip()) if is_answer else "", unknown


def _without_leading(text: str) -> str:
    """Return a text without the tokens of chat templates at its start."""
    text = text.lstrip()
    for _ in range(_MOST_LEADING):
        found = LEADING.match(text)
        if found is None:
            break
        text = text[found.end() :]
    return text


def _without_comments(text: str, openings: list[str]) -> str:
    """Return a text without what some opening marks of `_NO_ANSWER` open, such as comments."""
    signs = {*openings, *(_NO_ANSWER[opening] for opening in openings)}
    marks = sorted((place, sign) for sign in signs for place in places(text, sign))
    kept, start, begun, closing = list[str](), 0, 0, ""
    for place, sign in marks:
        if place < start:
            continue
        if not closing and sign in _NO_ANSWER:
            kept.append(text[start:place])
            begun, start, closing = place, place + len(sign), _NO_ANSWER[sign]
        elif sign == closing:
            start, closing = place + len(sign), ""
    if not closing:
        kept.append(text[start:])
    elif closing == "~~":  # a single mark does not strike text through
        others = [opening for opening in openings if opening != "~~"]
        kept.append(text[begun:start] + _without_comments(text[start:], others))
    return GAP.join(part for part in kept if part.strip())
