"""Scripted agent with a known memory, which measures the measure: it plays Mortar Mayhem on a grid from the chat alone.

It reads the commands of the first observations, as text or from the image, and walks from target to target by
counting its own replies. Give it the complete chat.
"""

import base64
import functools
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgym.errors import OptionError
from jaxgym.serve.images import pil_image
from jaxgym.serve.messages import content_text
from jaxgym.serve.rollout.policies import Chat

_HEADINGS = ("up", "right", "down", "left")
_TURNS = ((), ("turn right",), ("turn right", "turn right"), ("turn left",))
_SCREEN_PX = 84
_WHITE = 255


class Recall:
    """Agent that remembers the first commands of a sequence, and waits for the rest of the episode.

    Without the command "stay", an agent that waits fails the next command. So it has success on a sequence of n
    commands with probability (1 - `forget`) ** n if n is at most `items`, and else with probability 0.
    """

    def __init__(self, items: int, forget: float = 0.0):
        """Make an agent.

        Args:
            items: Number of commands that it remembers.
            forget: Probability to forget each of them. It depends on the level and the command's place only, so a
                level always has the same result.

        Raises:
            OptionError: If a number is out of range.
        """
        is_number = isinstance(items, int) and isinstance(forget, int | float)
        if not is_number or items < 0 or not 0 <= forget <= 1:
            raise OptionError(f"expected an integer items >= 0 and forget from 0 to 1, got {items!r} and {forget!r}.")
        self._items, self._forget = items, forget

    def reply(self, messages: Chat) -> str:
        """Return the reply to a chat."""
        prompt = content_text(messages[0]["content"])
        count, shown, blank, actions = (
            int(_found(pattern, prompt))
            for pattern in (
                r"sequence of (\d+) command",
                r"visible in (\d+) observation",
                r"followed by (\d+) observation",
                r"You have (\d+) actions",
            )
        )
        stay = re.search(r"Stay on the target tile for (\d+) more", prompt)
        number = sum(message["role"] == "assistant" for message in messages) - count * (shown + blank) + 1
        if number < 0:  # the commands are still being shown
            return _act("wait")
        observations = [message["content"] for message in messages if message["role"] == "user"]
        commands = [command_of(content) for content in observations[: count * (shown + blank) : shown + blank]]
        plan = _plan(self._remembered(str(observations[0]), commands), actions + (int(stay[1]) if stay else 0))
        return _act(plan[number] if number < len(plan) else "wait")

    def _remembered(self, first: str, commands: Sequence[str]) -> Sequence[str]:
        """Return the commands before the first one that is forgotten."""
        for place, _ in enumerate(commands):
            draw = random.Random(f"{first} {commands} {place}").random()
            if place >= self._items or draw < self._forget:
                return commands[:place]
        return commands


def command_of(content: Any) -> str:
    """Return the command that an observation shows, read from its text, or else from its image."""
    text = re.search(r"Command shown: (\S+)", content_text(content))
    if text is not None:
        return text[1]
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return _command_in(urls[0])


@functools.lru_cache(4096)
def _command_in(url: str) -> str:
    """Return the direction of the white arrow in the image of a data URL; most of its pixels are in its head."""
    pixels = np.asarray(pil_image(base64.b64decode(url.partition(",")[2])))
    white = np.argwhere((pixels == _WHITE).all(axis=-1))
    if not len(white):
        return "none"
    down, right = (white.mean(axis=0) - (white.min(axis=0) + white.max(axis=0)) / 2) * _SCREEN_PX / len(pixels)
    if max(abs(down), abs(right)) < 1:
        return "stay"
    if abs(down) > abs(right):
        return "down" if down > 0 else "up"
    return "right" if right > 0 else "left"


def _plan(commands: Sequence[str], actions: int) -> list[str]:
    """Return the actions that complete commands, `actions` for each; the agent faces up first."""
    heading, plan = 0, list[str]()
    for command in commands:
        moves = list[str]()
        if command in _HEADINGS:
            turned = _HEADINGS.index(command)
            moves = [*_TURNS[(turned - heading) % len(_HEADINGS)], "forward"]
            heading = turned
        plan += [*moves, *["wait"] * (actions - len(moves))]
    return plan


def _found(pattern: str, prompt: str) -> str:
    found = re.search(pattern, prompt)
    if found is None:
        raise ValueError(f"expected the prompt of Mortar Mayhem on a grid with {pattern!r}, got {prompt[:80]!r}.")
    return found[1]


def _act(action: str) -> str:
    return f"<action>{action}</action>"
