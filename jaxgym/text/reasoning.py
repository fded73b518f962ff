"""Removal of reasoning and of chat template tokens from a language model's reply."""

import re
from typing import NamedTuple

LONGEST = 8_000
"""Number of characters at the end of a reply that are searched for an answer."""

_REASONING = (
    # Most open models, such as DeepSeek-R1, Qwen3, GLM-4.5, MiniMax-M2, Nemotron, EXAONE and Reka Flash.
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "thoughts", "reasoning")),
    *((f"<{name}>", f"</{name}>") for name in ("think_fast", "think_faster")),  # K2-V2
    *((f"<ifm|{name}>", f"</ifm|{name}>") for name in ("think", "think_fast", "think_faster")),  # K2 Horizon
    ("<think:opensource>", "</think:opensource>"),  # Hunyuan 3
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<mm:think>", "</mm:think>"),  # MiniMax-M3
    ("[think]", "[/think]"),  # Magistral and other Mistral models
    ("◁think▷", "◁/think▷"),  # Kimi-VL-Thinking
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command A Reasoning
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|think:start|>", "<|think:end|>"),  # Solar Open 2
    ("<|think|>", "<|content|>"),  # Solar Open
    ("<|content_thinking|>", "<|content_text|>"),  # Inkling
    ("<|channel>", "<channel|>"),  # Gemma 4
    ("[unused16]", "[unused17]"),  # Pangu
    ("here is my thought process:", "here is my response:"),  # Granite 3.2
    ("here's my thought process:", "here's my response:"),
    ("here are my reasoning steps:", "[begin final response]"),  # Apriel
)
"""Opening and closing delimiters of reasoning in the chat templates of open models, in lower case."""

_SIGNS = (
    *("think>", "think]", "think▷", "think<", "thinking", "think:", "think|", "think_", "thought>", "thoughts>"),
    *("thought|", "reasoning>", "inner_", "channel", "[unused1", "my thought", "my reasoning", "response"),
    *("|content|>", "|content_text|>"),
)
"""Parts of delimiters, of which every delimiter has at least one."""

_LONGEST_DELIMITER = max(len(delimiter) for pair in _REASONING for delimiter in pair)
_CHANNEL = "<|channel|>"
_FINAL = re.compile(r"<\|channel\|>\s{0,8}final\b(?:[^<]|<\|constrain\|>){0,80}<\|message\|>", re.IGNORECASE)
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>", re.IGNORECASE)
# Harmony after a tokenizer has dropped the special tokens: the name of the channel and its text are one word.
_BARE_CHANNEL, _BARE_FINAL = re.compile(r"(?:analysis|commentary)(?=[^\s:;,.!?-])"), "assistantfinal"
_STARTS = (
    *(
        "<|start_response|>",
        "<|begin_of_solution|>",
        "<|content|>",
        "<|content_text|>",
        "<|begin_of_box|>",
        "<response>",
    ),
    *("<|im_start|>assistant", "<|open|>response<|sep|>", "\ufeff"),
)
_ENDS = (
    *("<|im_end|>", "<|end|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|endoftext|>", "<|end_of_text|>"),
    *("<|end_response|>", "<|end_of_turn_token|>", "<|end_of_solution|>", "<|user|>", "<|observation|>", "<turn|>"),
    *("<|assistant_end|>", "<|end_of_box|>", "<|close|>response<|sep|>", "[|endofturn|]", "[end final response]"),
    *("<end_of_turn>", "<eos>", "</s>", "</response>", "<\uff5cend▁of▁sentence\uff5c>"),
)
"""Tokens of chat templates before and after an answer, in lower case."""
_MOST_TOKENS = 8


class Visible(NamedTuple):
    """The part of a reply outside its reasoning.

    Attributes:
        text: The text, without tokens of the chat template at its start and end.
        is_cut: Whether the text is only the end of what is left, which has more than `LONGEST` characters.
    """

    text: str
    is_cut: bool


def without_reasoning(reply: str) -> Visible:
    """Return what is left of a reply without its reasoning, its last `LONGEST` characters at most.

    Reasoning that is not closed extends to the end. Reasoning whose opening delimiter is missing, because it belongs to
    the prompt, starts at the beginning of the reply.
    """
    text = reply[-LONGEST:]
    head = reply[: len(reply) - LONGEST + _LONGEST_DELIMITER] if len(reply) > LONGEST else ""
    is_cut = bool(head)
    if _CHANNEL in ascii_lower(text) or _CHANNEL in head:
        is_cut = is_cut and _CHANNEL not in ascii_lower(text)
        head, text = "", _final_channel(head, text)
    elif _BARE_CHANNEL.match(reply):
        _, final, text = text.rpartition(_BARE_FINAL)
        head, text, is_cut = "", text if final else "", False
    opened = _unclosed(head) if head else None
    lowered = ascii_lower(text)
    if opened is not None or any(map(lowered.__contains__, _SIGNS)):
        text, begins_inside = _outside(text, lowered, opened)
        is_cut = is_cut and not begins_inside
    return Visible(_without_tokens(text), is_cut)


def ascii_lower(text: str) -> str:
    """Return a text of the same length in lower case, in which no other letter has become one of a to z."""
    if not text.isascii():
        # The Kelvin sign becomes k in lower case, and the dotted I becomes two characters.
        text = text.replace("\u212a", "\ufffd").replace("\u0130", "\ufffd")
    return text.lower()


def places(text: str, part: str) -> list[int]:
    """Return where a part starts in a text, each time that it occurs."""
    found, place = list[int](), text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + len(part))
    return found


def _unclosed(head: str) -> int | None:
    """Return the number of the family whose reasoning is open at the end of a text, or None."""
    lowered = ascii_lower(head)
    begun = {start: start in lowered for start in _STARTS_OF_OPENINGS}
    opened = list[tuple[int, int]]()
    for number, (opening, closing) in enumerate(_REASONING):
        place = lowered.rfind(opening) if begun[opening[:2]] else -1
        if place >= 0 and lowered.find(closing, place) < 0:
            opened.append((lowered.find(opening, lowered.rfind(closing) + 1), number))
    return min(opened)[1] if opened else None


_STARTS_OF_OPENINGS = {opening[:2] for opening, _ in _REASONING}


def _outside(text: str, lowered: str, opened: int | None) -> tuple[str, bool]:
    """Return what is outside of reasoning, and whether the text began inside of it.

    Args:
        text: The text.
        lowered: The text in lower case.
        opened: The family of reasoning that is known to be open at the start, or None.
    """
    marks = list[tuple[int, int, int, bool]]()
    for number, (opening, closing) in enumerate(_REASONING):
        marks += [(place, place + len(opening), number, True) for place in places(lowered, opening)]
        marks += [(place, place + len(closing), number, False) for place in places(lowered, closing)]
    kept, start, begins_inside = list[str](), 0, opened is not None
    for place, end, family, is_opening in sorted(marks):
        if opened is None and is_opening:
            kept.append(text[start:place])
            opened = family
        elif not is_opening and opened in (None, family):
            if opened is None:
                kept.clear()
                begins_inside = True
            start, opened = end, None
    if opened is None:
        kept.append(text[start:])
    return "".join(kept), begins_inside


def _final_channel(head: str, text: str) -> str:
    """Return the content of the last `final` channel of a reply in the harmony format; nothing if it has none."""
    finals = list(_FINAL.finditer(text))
    if finals:
        text = text[finals[-1].end() :]
    elif _CHANNEL in ascii_lower(text) or not _FINAL.match(head, head.rfind(_CHANNEL)):
        return ""
    return _CHANNEL_END.split(text, maxsplit=1)[0]


def _without_tokens(text: str) -> str:
    """Return a text without the tokens of chat templates at its start and end."""
    text = text.strip()
    for _ in range(_MOST_TOKENS):
        lowered = ascii_lower(text[:_LONGEST_TOKEN])
        token = next((token for token in _STARTS if lowered.startswith(token)), None)
        if token is None:
            break
        text = text[len(token) :].lstrip()
    for _ in range(_MOST_TOKENS):
        lowered = ascii_lower(text[-_LONGEST_TOKEN:])
        token = next((token for token in _ENDS if lowered.endswith(token)), None)
        if token is None:
            break
        text = text[: -len(token)].rstrip()
    return text


_LONGEST_TOKEN = max(map(len, (*_STARTS, *_ENDS)))
