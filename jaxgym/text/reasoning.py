"""Removal of reasoning and of chat template tokens from a language model's reply."""

import re

LONGEST = 8_000
"""Number of characters at the end of a reply that are searched for an answer."""

_REASONING = (
    # Most open models, such as DeepSeek-R1, Qwen3, GLM-4.5, MiniMax-M2, Nemotron, EXAONE and Reka Flash.
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "thoughts", "reasoning")),
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<mm:think>", "</mm:think>"),  # MiniMax-M3
    ("[think]", "[/think]"),  # Magistral and other Mistral models
    ("◁think▷", "◁/think▷"),  # Kimi-VL-Thinking
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command A Reasoning
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|think:start|>", "<|think:end|>"),  # Solar Open 2
    ("<|think|>", "<|content|>"),  # Solar Open
    ("<|channel>", "<channel|>"),  # Gemma 4
    ("[unused16]", "[unused17]"),  # Pangu
    ("here is my thought process:", "here is my response:"),  # Granite 3.2
    ("here's my thought process:", "here's my response:"),
)
"""Opening and closing delimiters of reasoning in the chat templates of open models, in lower case."""

_SIGNS = (
    *("think>", "think]", "think▷", "thinking", "think:", "think|", "thought>", "thoughts>", "reasoning>", "thought|"),
    *("inner_", "channel", "[unused1", "my thought", "my response:", "|content|"),
)
"""Parts of delimiters, of which every delimiter has at least one."""

_LONGEST_DELIMITER = max(len(delimiter) for pair in _REASONING for delimiter in pair)
_CHANNEL = "<|channel|>"
_FINAL = re.compile(r"<\|channel\|>\s{0,8}final\b(?:[^<]|<\|constrain\|>){0,80}<\|message\|>", re.IGNORECASE)
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>", re.IGNORECASE)
# Harmony after a tokenizer has dropped the special tokens.
_BARE_CHANNELS, _BARE_FINAL = ("analysis", "commentary"), "assistantfinal"
_STARTS = ("<|start_response|>", "<|begin_of_solution|>", "<|content|>")
_ENDS = (
    *("<|im_end|>", "<|end|>", "<|eot|>", "<|eot_id|>", "<|eom_id|>", "<|return|>", "<|endoftext|>", "<|end_of_text|>"),
    *("<|end_response|>", "<|end_of_turn_token|>", "<|end_of_solution|>", "<|user|>", "<|observation|>", "<turn|>"),
    *("<end_of_turn>", "<eos>", "</s>", "<\uff5cend▁of▁sentence\uff5c>"),
)
"""Tokens of chat templates before and after an answer, in lower case."""


def without_reasoning(reply: str) -> str:
    """Return the last `LONGEST` characters of a reply without reasoning and without tokens of the chat template.

    Reasoning that is not closed extends to the end. Reasoning whose opening delimiter is missing, because it belongs to
    the prompt, starts at the beginning of the reply.
    """
    text = reply[-LONGEST:]
    head = reply[: max(len(reply) - LONGEST + _LONGEST_DELIMITER, 0)] if len(reply) > LONGEST else ""
    if _CHANNEL in ascii_lower(text) or _CHANNEL in head:
        head, text = "", _final_channel(head, text)
    elif reply.startswith(_BARE_CHANNELS) and _BARE_FINAL in text:
        head, text = "", text[text.rindex(_BARE_FINAL) + len(_BARE_FINAL) :]
    opened = _unclosed(head) if head else None
    lowered = ascii_lower(text)
    if opened is not None or any(map(lowered.__contains__, _SIGNS)):
        text = _outside(text, lowered, opened)
    return _without_tokens(text)


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
    lowered = head.lower() if head.isascii() else head
    latest, family = -1, None
    for number, (opening, closing) in enumerate(_REASONING):
        place = lowered.rfind(opening)
        if place > latest and lowered.find(closing, place) < 0:
            latest, family = place, number
    return family


def _outside(text: str, lowered: str, opened: int | None) -> str:
    """Return what is outside of reasoning; `opened` is the family that is open at the start, or None."""
    marks = list[tuple[int, int, int, bool]]()
    for number, (opening, closing) in enumerate(_REASONING):
        marks += [(place, place + len(opening), number, True) for place in places(lowered, opening)]
        marks += [(place, place + len(closing), number, False) for place in places(lowered, closing)]
    kept, start = list[str](), 0
    for place, end, family, is_opening in sorted(marks):
        if opened is None and is_opening:
            kept.append(text[start:place])
            opened = family
        elif not is_opening and opened in (None, family):
            if opened is None:
                kept.clear()
            start, opened = end, None
    if opened is None:
        kept.append(text[start:])
    return "".join(kept)


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
    for token in _STARTS if text.startswith("<") else ():
        if ascii_lower(text[: len(token)]) == token:
            text = text[len(token) :].lstrip()
    while text.endswith(">"):
        lowered = ascii_lower(text[-_LONGEST_TOKEN:])
        token = next((token for token in _ENDS if lowered.endswith(token)), None)
        if token is None:
            break
        text = text[: -len(token)].rstrip()
    return text


_LONGEST_TOKEN = max(map(len, _ENDS))
