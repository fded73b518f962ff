"""A scripted player of Frozen Lake that replies in AgentGym's form."""

import importlib
import re
from collections.abc import Callable
from typing import Any


def frozen_lake() -> Callable[[list[Any], int], str]:
    """Returns the harness's own player, put into that form."""
    player = importlib.import_module("policies").frozen_lake

    def reply(messages: list[Any], turn: int) -> str:
        found = re.search(r"<action>(.*)</action>", player(messages, turn))
        return f"Thought:\nOn.\n\nAction:\n{found[1] if found else 'up'}"

    return reply
