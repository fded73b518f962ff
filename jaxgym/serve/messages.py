"""Contents of chat messages, in the forms that clients and endpoints send."""

from collections.abc import Mapping
from typing import Any

_TEXTS = ("text", "input_text", "output_text")


def content_text(content: Any) -> str:
    """Return the text of a message's content, empty where it has none.

    Args:
        content: A string, None, or parts, a list of them or one alone. A part is a string, or an object or a mapping
            with `type` and `text`. Parts of other types, such as images, reasoning and tool calls, are no text.

    >>> content_text([{"type": "thinking", "thinking": "left?"}, {"type": "text", "text": "right"}]), content_text(None)
    ('right', '')
    """
    text = "".join(map(_part_text, content)) if isinstance(content, list | tuple) else _part_text(content)
    # Half of a surrogate pair can't be sent on in the next request.
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
    """Return what the record of a turn keeps of a completion, from a choice of ours or of ms-swift's.

    Returns:
        `finish_reason`, `prompt_tokens` and `completion_tokens`; None where the choice does not have one.
    """
    tokens = getattr(choice, "token_ids", None)
    count = getattr(choice, "completion_tokens", None)
    return {
        "finish_reason": getattr(choice, "finish_reason", None),
        "prompt_tokens": getattr(choice, "prompt_tokens", None),
        "completion_tokens": len(tokens) if count is None and tokens else count,
    }
