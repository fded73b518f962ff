"""The last turns of a session's episode, kept for viewers."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from jaxgym.serve.sessions import Outcome
from jaxgym.text import Refusal

TURNS = 32
"""Turns of an episode that are kept."""

LONGEST = 4096
"""Characters of a reply or a text that are kept."""

_FIELDS = ("number", "reply", "text", "reward", "refusal")


class History:
    """The last turns of a session's episode.

    Attributes:
        episode: How many episodes have started.
        opening: The first text of this one.
    """

    __slots__ = ("_turns", "episode", "opening")

    def __init__(self) -> None:
        self.episode, self.opening = 0, ""
        self._turns: deque[tuple[int, str, str, float, str | None]] = deque(maxlen=TURNS)

    def start(self, text: str) -> None:
        """Begin an episode."""
        self.episode += 1
        self.opening = text[:LONGEST]
        self._turns.clear()

    def after(self, episode: int, number: int) -> list[dict[str, Any]]:
        """Return the turns that follow one, by field; all that are kept if that one is of another episode."""
        first = number if episode == self.episode else 0
        return [dict(zip(_FIELDS, turn, strict=True)) for turn in self._turns if turn[0] > first]

    @staticmethod
    def add_all(
        histories: Iterable["History | None"], replies: Iterable[str | Refusal], outcomes: Iterable[Outcome]
    ) -> None:
        """Keep a turn of each of some sessions."""
        for history, reply, outcome in zip(histories, replies, outcomes, strict=True):
            if history is not None:
                said = reply if isinstance(reply, str) else reply.reason
                turn = (outcome.number, said[:LONGEST], outcome.text[:LONGEST], outcome.reward, outcome.refusal)
                history._turns.append(turn)
