"""What is remembered of a session for those who watch it: the last turns of its episode, and no more."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from jaxgym.serve.sessions import Outcome
from jaxgym.text import Refusal

TURNS = 32
"""Turns that are remembered of an episode."""

LONGEST = 4096
"""Characters that are remembered of a reply or a text."""


class Remembered(NamedTuple):
    """One turn.

    Attributes:
        number: Turns so far, this one included.
        reply: The reply, cut off at `LONGEST` characters.
        text: What the game said to it, cut off as well.
        reward: The reward.
        refusal: Why the reply was no move, or None.
    """

    number: int
    reply: str
    text: str
    reward: float
    refusal: str | None


class History:
    """The last turns of a session's episode.

    Attributes:
        episode: How many episodes have started.
        opening: The first text of this one.
        turns: Its last turns.
    """

    __slots__ = ("episode", "opening", "turns")

    def __init__(self) -> None:
        self.episode, self.opening = 0, ""
        self.turns: deque[tuple[int, str, str, float, str | None]] = deque(maxlen=TURNS)

    def start(self, text: str) -> None:
        """Takes note of the start of an episode."""
        self.episode += 1
        self.opening = text[:LONGEST]
        self.turns.clear()

    def after(self, episode: int, number: int) -> list[Remembered]:
        """Returns the turns that follow one; all that are remembered where that one is of another episode."""
        first = number if episode == self.episode else 0
        return [Remembered(*turn) for turn in self.turns if turn[0] > first]


def remember(
    histories: Iterable[History | None], replies: Iterable[str | Refusal], outcomes: Iterable[Outcome]
) -> None:
    """Takes note of a turn in each of some sessions; it is on the way of every step."""
    for history, reply, outcome in zip(histories, replies, outcomes, strict=True):
        if history is not None:
            # A plain tuple: the constructor of a NamedTuple takes thrice as long.
            said = reply if isinstance(reply, str) else reply.reason
            history.turns.append((outcome[4], said[:LONGEST], outcome[0][:LONGEST], outcome[1], outcome[5]))
