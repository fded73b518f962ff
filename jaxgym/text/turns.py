"""Turns of a text interface: parsed actions, invalid replies, results, and reward trackers."""

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import jax
import numpy as np

TScene = TypeVar("TScene")

_MOST = 2**53

Action = int | tuple[int, ...]
"""Action of the environment; a tuple for an action space with several branches."""


class ParsedAction(NamedTuple):
    """Parsed actions of a reply.

    Attributes:
        actions: The actions of one turn, in order; actions after the end of the episode are dropped.
        text: The canonical spelling, such as `"up"`; it parses to the same actions.
        is_exact: Whether the reply has the form of the system prompt; otherwise the format penalty applies.
    """

    actions: tuple[Action, ...]
    text: str
    is_exact: bool = True


class InvalidReply(NamedTuple):
    """Invalid reply.

    Attributes:
        reason: Error text for the model: the expected and the actual reply, and the correct form.
    """

    reason: str


class Turn(NamedTuple, Generic[TScene]):
    """Result of one reply.

    Attributes:
        number: Number of replies in this episode, including this one and invalid ones.
        action: The parsed actions, or the invalid reply.
        scene: The scene after the turn, with NumPy leaves; unchanged after an invalid reply.
        reward: Sum of the environment's rewards of this turn.
        terminated: Whether the rules of the game ended the episode.
        truncated: Whether a time limit ended the episode.
    """

    number: int
    action: ParsedAction | InvalidReply
    scene: TScene
    reward: float
    terminated: bool
    truncated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Turns(Generic[TScene]):
    """Turns of B sessions of one game, made in one batch, as columns.

    Attributes:
        numbers, actions: Sequences of length B.
        scenes: A scene whose NumPy leaves have a leading axis B.
        rewards: float32 (B,).
        terminated, truncated: bool (B,).
    """

    numbers: Sequence[int]
    actions: Sequence[ParsedAction | InvalidReply]
    scenes: TScene
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    @classmethod
    def of(cls, turn: Turn[TScene]) -> "Turns[TScene]":
        """Return one turn as a batch."""
        flags = (np.asarray([flag]) for flag in (turn.reward, turn.terminated, turn.truncated))
        return cls([turn.number], [turn.action], batch_of_one(turn.scene), *flags)

    def __len__(self) -> int:
        """Return B."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[Turn[TScene]]:
        """Yield the turns."""
        leaves, shape = jax.tree.flatten(self.scenes)
        columns = (self.numbers, self.actions, self.rewards.tolist(), self.terminated.tolist(), self.truncated.tolist())
        for scene, number, action, reward, terminated, truncated in zip(
            zip(*leaves, strict=True), *columns, strict=True
        ):
            yield Turn(number, action, shape.unflatten(scene), reward, terminated, truncated)


def batch_of_one(scene: TScene) -> TScene:
    """Return a scene with a leading axis of length 1, with NumPy leaves."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], scene)


class RewardTracker:
    """Reward tracker of one episode: it computes the reward components of each turn from the turns so far.

    Each episode has its own tracker. The base class has no memory and one component, the environment's reward.
    """

    def components(self, turn: Turn[Any]) -> dict[str, float]:
        """Record a turn and return its reward components by name; every turn has the same names."""
        return {"environment": turn.reward}

    def record(self) -> Any:
        """Return what the tracker has recorded, as plain data that neither side changes afterwards.

        Plain data are numbers, strings, None, and tuples, lists, sets and dicts of these. The default copies the
        attributes, which takes long for large ones.
        """
        return copy.deepcopy(vars(self))

    def restored(self, record: Any) -> Self:
        """Return a tracker of the same game with a record; this tracker does not change."""
        made = copy.copy(self)
        vars(made).update(copy.deepcopy(record))
        return made

    def check_record(self, record: Any) -> None:
        """Raise an exception if plain data, which come from a saved session, are no record of this kind of tracker."""
        if not isinstance(record, dict) or record.keys() != vars(self).keys():
            raise ValueError(f"record: expected the attributes of {type(self).__name__}, got others.")


class RewardChanges(RewardTracker):
    """Reward tracker whose components are the changes of another tracker's components.

    It is for components that rate the whole episode so far: the sum over an episode is then the last rating.
    """

    def __init__(self, totals: RewardTracker) -> None:
        """Wrap a tracker that has no other caller."""
        self._totals = totals
        self._before: dict[str, float] = {}

    def components(self, turn: Turn[Any]) -> dict[str, float]:
        """Record a turn and return the change of each component."""
        totals = self._totals.components(turn)
        changes = {name: total - self._before.get(name, 0.0) for name, total in totals.items()}
        self._before.update(totals)
        return changes

    def record(self) -> Any:
        """Return the record of the other tracker, and its latest components."""
        return self._totals.record(), dict(self._before)

    def restored(self, record: Any) -> Self:
        """Return a tracker with a record."""
        totals, before = record
        made = type(self)(self._totals.restored(totals))
        made._before.update(before)
        return made

    def check_record(self, record: Any) -> None:
        """Raise an exception if plain data are no record of both."""
        totals, before = record
        self._totals.check_record(totals)
        check_numbers("record", before, str)


def check_numbers(name: str, given: Any, kind: type) -> None:
    """Raise `ValueError` if a value is no dict from keys of a class to numbers below 2^53."""
    if type(given) is not dict or not all(type(key) is kind for key in given):
        raise ValueError(f"{name}: expected a dict with keys of class {kind.__name__}, got {type(given).__name__}.")
    if not all(type(number) in (int, float) and abs(number) < _MOST for number in given.values()):
        raise ValueError(f"{name}: expected numbers below 2^53, got other values.")
