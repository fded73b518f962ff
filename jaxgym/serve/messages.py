"""Contents of chat messages, in the formats of clients and endpoints."""

from collections.abc import Mapping
from typing import Any

_TEXTS = ("text", "input_text", "output_text")


def content_text(content: Any) -> str:
    """Return the text of a message's content; empty if it has no text.

    Args:
        content: A string, None, a part or a list of parts. A part is a string, or an object or a mapping with `type`
            and `text`. Parts of other types, such as images, reasoning and tool calls, are ignored.

    >>> content_text([{"type": "thinking", "thinking": "left?"}, {"type": "text", "text": "right"}]), content_text(None)
    ('right', '')
    """
    text = "".join(map(_part_text, content)) if isinstance(content, list | tuple) else _part_text(content)
    # A lone surrogate can't be encoded in the next request.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind, text = (
        (part.get("type", "text"), part.get("text"))
        if isinstance(part, Mapping)
        else (getattr(part, "type", None), getattr(part, "text", None))
    )
    return text if kind in _TEXTS and isinstance(text, str) else ""


def usage_of(choice: Any) -> dict[str, Any]:
    """Return the usage of a completion for the record of a turn, from a choice of jaxgym or ms-swift.

    Returns:
        `finish_reason`, `prompt_tokens` and `completion_tokens`; None if the choice does not have the field.
    """
    tokens = getattr(choice, "token_ids", None)
    count = getattr(choice, "completion_tokens", None)
    return {
        "finish_reason": getattr(choice, "finish_reason", None),
        "prompt_tokens": getattr(choice, "prompt_tokens", None),
        "completion_tokens": len(tokens) if count is None and tokens else count,
    }
