"""Turns of a text interface: parsed actions, invalid replies, results, and reward trackers."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np

TScene = TypeVar("TScene")

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
