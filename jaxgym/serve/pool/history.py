"""Last turns of a session's episode, for viewers."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from jaxgym.serve.sessions import TurnResult
from jaxgym.text import InvalidReply

TURNS = 32
"""Maximum number of turns in a history."""

LONGEST = 4096
"""Maximum number of characters of a reply or a text in a history."""

_FIELDS = ("number", "reply", "text", "reward", "invalid_reply")


class History:
    """Last turns of a session's episode, which is number `episode` and begins with the text `opening`."""

    __slots__ = ("_turns", "episode", "opening")

    def __init__(self) -> None:
        self.episode, self.opening = 0, ""
        self._turns: deque[tuple[int, str, str, float, str | None]] = deque(maxlen=TURNS)

    def start(self, text: str) -> None:
        """Start an episode."""
        self.episode += 1
        self.opening = text[:LONGEST]
        self._turns.clear()

    def after(self, episode: int, number: int) -> list[dict[str, Any]]:
        """Return the turns after turn `number` of an episode, by field; all turns if it is not the current episode."""
        first = number if episode == self.episode else 0
        return [dict(zip(_FIELDS, turn, strict=True)) for turn in self._turns if turn[0] > first]

    @staticmethod
    def add_all(
        histories: Iterable["History | None"], replies: Iterable[str | InvalidReply], results: Iterable[TurnResult]
    ) -> None:
        """Add one turn to each of several histories."""
        for history, reply, result in zip(histories, replies, results, strict=True):
            if history is not None:
                said = reply if isinstance(reply, str) else reply.reason
                turn = (result.number, said[:LONGEST], result.text[:LONGEST], result.reward, result.invalid_reply)
                history._turns.append(turn)
