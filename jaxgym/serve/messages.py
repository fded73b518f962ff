"""Contents of chat messages, in the formats of clients and endpoints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.serve.images import data_url

_TEXTS = ("text", "input_text", "output_text")

OMITTED = "[image omitted]"
"""Text in place of an older image; see `recent`."""

IMAGE_MARK = "<image>"
"""Placeholder of an image in the messages of some trainers."""

_MARKS = re.compile("<(image|video)>")


def user_message(text: str, image: bytes | None = None) -> dict[str, Any]:
    """Return a user message with a text and a PNG; with an image, the content is a list of parts in OpenAI's format.

    >>> user_message("Go!")
    {'role': 'user', 'content': 'Go!'}
    """
    if image is None:
        return {"role": "user", "content": text}
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}}]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}] if text else parts}


def without_marks(text: str) -> str:
    """Return a text without placeholders of images and videos; an error text can quote them from a reply.

    >>> without_marks("Expected an action, got '<image>'.")
    "Expected an action, got '< image >'."
    """
    return _MARKS.sub(r"< \1 >", text)


def with_mark(text: str) -> str:
    """Return a text after the placeholder of its image."""
    return f"{IMAGE_MARK}{without_marks(text)}"


def attach(request: Any, image: Any) -> None:
    """Attach an image to the last message of a request of ms-swift, which counts the marks of its images."""
    message = request.messages[-1]
    message["content"] = with_mark(message["content"])
    request.images.append(image)


def image_infos(request: Any) -> dict[str, Any]:
    """Return the images of a request of ms-swift for the rollout infos, as a copy: ms-swift converts them in place."""
    return {"images": list(request.images)} if getattr(request, "images", None) else {}


def recent(chat: Sequence[dict[str, Any]], turns: int | None, images: int | None) -> list[dict[str, Any]]:
    """Return the part of a chat that a model sees.

    A turn is a user message with the reply to it. The messages before the first turn are always kept. The first turn is
    kept as well, because in some games only its text has the task.

    Args:
        chat: The messages, the oldest first.
        turns: Number of the last turns to keep; None keeps all.
        images: Number of the last turns whose images are kept; None keeps the images of the last `turns`. Other images
            are replaced by the text `OMITTED`.
    """
    starts = [place for place, message in enumerate(chat) if message["role"] == "user"]
    shown = starts if turns is None else starts[-turns:]
    pictured = shown if images is None else shown[-images:] if images else []
    spans = dict(zip(starts, [*starts[1:], len(chat)], strict=True))
    kept = list(chat[: starts[0]]) if starts else list(chat)
    for start in dict.fromkeys([*starts[:1], *shown]):
        first = chat[start] if start in pictured else _without_images(chat[start])
        kept += [first, *chat[start + 1 : spans[start]]]
    return kept


def check_history(turns: int | None, images: int | None) -> None:
    """Raise `OptionError` if a number of turns or of images of a history is too small; None is no limit."""
    for name, low, kept in (("history_turns", 1, turns), ("history_images", 0, images)):
        if kept is not None and kept < low:
            raise OptionError(f"{name}: expected an integer of at least {low}, or None, got {kept}.")


def _without_images(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if not isinstance(content, list) or all(part.get("type") != "image_url" for part in content):
        return message
    return {**message, "content": "\n".join(filter(None, (OMITTED, content_text(content))))}


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
