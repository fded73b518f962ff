"""Host data of a session, and its copies as plain data."""

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxgym.serve.sessions import TurnResult
from jaxgym.text import InvalidReply, RewardTracker

TURNS = 32
"""Maximum number of turns in a history."""

LONGEST = 4096
"""Maximum number of characters of a reply or a text in a history."""

_FIELDS = ("number", "reply", "text", "reward", "invalid_reply")

HistoryTurn = tuple[int, str, str, float, str | None]
"""Turn in a history: number, reply, text, reward, and error text of an invalid reply or None."""


class SessionRecord(NamedTuple):
    """Host data of a session at one moment; nothing in it changes later.

    Attributes:
        text, number, total_reward, last: See `Session`.
        tracker: The record of the reward tracker, a tuple of one; None if the game has no tracker of its own.
        history: Number, opening and turns of the history; None without one.
    """

    text: str | None
    number: int
    total_reward: float
    last: TurnResult | None
    tracker: tuple[Any] | None
    history: tuple[int, str, tuple[HistoryTurn, ...]] | None


class SessionSnapshot(NamedTuple):
    """Everything that a session has at one moment.

    Attributes:
        record: The host data.
        state: The row of the table of states.
        output: The row of the latest step output.
    """

    record: SessionRecord
    state: bytes
    output: bytes


class History:
    """Last turns of a session's episode, which is number `episode` and begins with the text `opening`."""

    __slots__ = ("_turns", "episode", "opening")

    def __init__(self) -> None:
        self.episode, self.opening = 0, ""
        self._turns: deque[HistoryTurn] = deque(maxlen=TURNS)

    def start(self, text: str) -> None:
        """Start an episode."""
        self.episode += 1
        self.opening = text[:LONGEST]
        self._turns.clear()

    def after(self, episode: int, number: int) -> list[dict[str, Any]]:
        """Return the turns after turn `number` of an episode, by field; all turns if it is not the current episode."""
        first = number if episode == self.episode else 0
        return [dict(zip(_FIELDS, turn, strict=True)) for turn in self._turns if turn[0] > first]

    def record(self) -> tuple[int, str, tuple[HistoryTurn, ...]]:
        """Return number, opening and turns."""
        return self.episode, self.opening, tuple(self._turns)

    @classmethod
    def of(cls, record: tuple[int, str, tuple[HistoryTurn, ...]]) -> "History":
        """Return the history of a record."""
        made = cls()
        made.episode, made.opening, turns = record
        made._turns.extend(turns)
        return made

    def add(self, reply: str | InvalidReply, result: TurnResult) -> None:
        """Add a turn."""
        said = reply if isinstance(reply, str) else reply.reason
        turn = (result.number, said[:LONGEST], result.text[:LONGEST], result.reward, result.invalid_reply)
        self._turns.append(turn)


@dataclasses.dataclass(slots=True, eq=False)
class Session:
    """Host data of a session; its state is a row of its game's table.

    Attributes:
        game: Its `GameTable`.
        slot: Its row.
        seed: The level seed.
        text: The last observation text; None before the start.
        number: Number of turns in this episode.
        total_reward: Sum of the rewards of this episode.
        reward_tracker: The reward tracker of this episode.
        last: The result that ended the episode, or None.
        used: Time of the last call, in seconds of the pool's clock.
        history: The last turns, if the pool keeps a history.
        past: Snapshots before each of the last turns of this episode, if the pool keeps them for `undo`.
        adapted: The adapted option with its value; None without `adapt`.
        count: Function that adds the success of the episode to its group; None if it does not count, or not anymore.
    """

    game: Any
    slot: int
    seed: int
    used: float
    text: str | None = None
    number: int = 0
    total_reward: float = 0.0
    reward_tracker: RewardTracker = dataclasses.field(default_factory=RewardTracker)
    last: TurnResult | None = None
    history: History | None = None
    past: deque[SessionSnapshot] | None = None
    adapted: Mapping[str, Any] | None = None
    count: Callable[[bool], None] | None = None

    def count_end(self, is_solved: bool) -> None:
        """Add the success of the episode to its group, once."""
        count, self.count = self.count, None
        if count is not None:
            count(is_solved)

    def record(self) -> SessionRecord:
        """Return the host data as plain data."""
        tracker = None if type(self.reward_tracker) is RewardTracker else (self.reward_tracker.record(),)
        history = None if self.history is None else self.history.record()
        return SessionRecord(self.text, self.number, self.total_reward, self.last, tracker, history)

    def restore(self, record: SessionRecord, tracker: RewardTracker) -> None:
        """Set the host data to that of a record; `tracker` is any reward tracker of the game."""
        self.text, self.number, self.total_reward, self.last = record[:4]
        self.reward_tracker = RewardTracker() if record.tracker is None else tracker.restored(*record.tracker)
        self.history = None if record.history is None else History.of(record.history)
