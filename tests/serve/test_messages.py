"""Contents of chat messages, in the forms that clients and endpoints send."""

from types import SimpleNamespace
from typing import Any

import pytest

from jaxgym.serve.messages import content_text

TEXT = {"type": "text", "text": "right"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("right", "right"),
        ([], ""),
        ([TEXT], "right"),
        (TEXT, "right"),
        ([{"type": "output_text", "text": "right"}], "right"),
        ([{"type": "input_text", "text": "right"}], "right"),
        (["ri", "ght"], "right"),
        ([{"text": "right"}], "right"),
        ([SimpleNamespace(type="text", text="right")], "right"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "left"}]}, TEXT], "right"),
        ([{"type": "reasoning", "text": "left"}, TEXT], "right"),
        ([{"type": "reasoning_text", "text": "left"}, TEXT], "right"),
        ([{"type": "refusal", "refusal": "left"}], ""),
        ([{"type": "image_url", "image_url": {"url": "left"}}, TEXT], "right"),
        ([{"type": "tool_use", "input": {"text": "left"}}], ""),
        ([{"type": "text", "text": None}], ""),
        ([7, None, True], ""),
        (7, ""),
        ({"message": "left"}, ""),
        ("\ud800 é right", "? é right"),
    ],
)
def test_the_text_of_a_content_is_that_of_its_text_parts(content: Any, text: str) -> None:
    assert content_text(content) == text
