"""How one environment is put into words: the part that every game shares.

A game's words are pure functions on the host. They read scenes, which hold what a viewer may know, and never a state:

    reply --parse--> Move or Refusal --(the environment steps)--> Turn --respond--> the next text

Words decide no reward and no ending; both come from the environment. Whoever plays (a session pool, a person at a
terminal) keeps the order: `instructions` once, `open` with the first scene, then `parse` and `respond` for each turn.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np

from jaxgym.options import Option, Word

TScene = TypeVar("TScene")

Action = int | tuple[int, ...]
"""One action of the environment; a tuple for an action space with several branches."""


class Move(NamedTuple):
    """What a reply asks for.

    Attributes:
        actions: The actions to make, one after another in one turn; the rest is dropped where the episode ends.
        text: The move as this game words it, such as `"up"`; it parses to this move again.
        is_exact: Whether the reply had the form that the instructions ask for, and was not merely understood.
    """

    actions: tuple[Action, ...]
    text: str
    is_exact: bool = True


class Refusal(NamedTuple):
    """A reply that is no move.

    Attributes:
        reason: One sentence that tells a model what to do about it.
    """

    reason: str


class Turn(NamedTuple, Generic[TScene]):
    """What one reply led to.

    Attributes:
        number: Replies so far in this episode, this one and refused ones included.
        move: What the reply asked for, or why it was refused.
        scene: The scene after it, with NumPy leaves; the one before where the reply was refused.
        reward: Sum of the environment's rewards of this turn.
        terminated: Whether the rules of the game ended the episode.
        truncated: Whether a time limit did.
    """

    number: int
    move: Move | Refusal
    scene: TScene
    reward: float
    terminated: bool
    truncated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Turns(Generic[TScene]):
    """The turns of B sessions of one game that were made together, as columns.

    Attributes:
        numbers, moves: B of each.
        scenes: A scene whose NumPy leaves have a leading axis B.
        rewards: float32 (B,).
        terminated, truncated: bool (B,).
    """

    numbers: Sequence[int]
    moves: Sequence[Move | Refusal]
    scenes: TScene
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    def __len__(self) -> int:
        """B."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[Turn[TScene]]:
        """Yields the turns one by one."""
        leaves, shape = jax.tree.flatten(self.scenes)
        columns = (self.numbers, self.moves, self.rewards.tolist(), self.terminated.tolist(), self.truncated.tolist())
        for scene, number, move, reward, terminated, truncated in zip(zip(*leaves, strict=True), *columns, strict=True):
            yield Turn(number, move, shape.unflatten(scene), reward, terminated, truncated)


class Ledger:
    """What is remembered of one episode to score it: the parts of the reward that need more than the last turn.

    One ledger is made for each episode, from its first scene. This one remembers nothing and has one part, the
    environment's reward.
    """

    def components(self, turn: Turn[Any]) -> dict[str, float]:
        """Takes note of a turn and returns the parts of its reward by name; the names are the same on every turn."""
        return {"environment": turn.reward}


class Changes(Ledger):
    """What the parts of another ledger change by, where these are scores of the whole episode so far.

    Summed up over the turns they are the scores again, so the reward of an episode is its last score.
    """

    def __init__(self, scores: Ledger) -> None:
        """Takes a ledger that is asked by no one else."""
        self._scores = scores
        self._before: dict[str, float] = {}

    def components(self, turn: Turn[Any]) -> dict[str, float]:
        """Takes note of a turn and returns what it changed each part by."""
        scores = self._scores.components(turn)
        changes = {name: score - self._before.get(name, 0.0) for name, score in scores.items()}
        self._before.update(scores)
        return changes


PARSING: Mapping[str, Option] = {
    "parsing": Word(
        "strict",
        "whether a reply counts only if its explicit answer is exactly valid, or prose is searched as well",
        words=("strict", "lenient"),
    ),
}
"""The option that every environment with words has."""


@dataclasses.dataclass(frozen=True)
class Words(Generic[TScene]):
    """The words of one environment.

    Subclasses define `instructions`, `describe` and `parse`; the rest has defaults that fit most games.

    Attributes:
        env_id: The environment.
        parsing: `"strict"`: a reply counts only if its explicit answer is exactly valid. `"lenient"`: a reply without
            an explicit answer is searched for the last action that its prose names, where a game supports it.
    """

    env_id: str
    parsing: str = dataclasses.field(default=PARSING["parsing"].default, kw_only=True)

    @property
    def max_actions(self) -> int:
        """The most actions that a session makes in one program; a longer move is made in several, more slowly."""
        return 1

    def instructions(self, params: Any) -> str:
        """Returns the rules and the form of a reply: a system message."""
        raise NotImplementedError  # Every game has its own.

    def describe(self, scene: TScene, params: Any) -> str:
        """Returns in words what the frame of a scene shows; no more, and nothing else."""
        raise NotImplementedError  # Every game has its own.

    def parse(self, reply: str) -> Move | Refusal:
        """Return the move of a reply, or why it is invalid; accepts any string, in time linear in its length."""
        raise NotImplementedError  # Every game has its own.

    def fallback(self) -> Move:
        """Returns the move that stands in for a refused reply where a session asks for that."""
        raise NotImplementedError  # Every game has its own.

    def reply_of(self, action: Action) -> str:
        """Returns a reply that asks for one action in the form of the instructions: what a scripted player says."""
        raise NotImplementedError  # Every game has its own.

    def open(self, scene: TScene, params: Any) -> str:
        """Returns the first text of an episode."""
        return self.describe(scene, params)

    def respond(self, turn: Turn[TScene], params: Any) -> str:
        """Returns the text that follows a turn."""
        if isinstance(turn.move, Refusal):
            return f"{turn.move.reason}\n{self.describe(turn.scene, params)}"
        return self.describe(turn.scene, params)

    def open_all(self, scenes: TScene, params: Any) -> list[str]:
        """Returns the first texts of the scenes of B sessions."""
        leaves, shape = jax.tree.flatten(scenes)
        return [self.open(shape.unflatten([leaf[row] for leaf in leaves]), params) for row in range(len(leaves[0]))]

    def respond_all(self, turns: Turns[TScene], params: Any) -> list[str]:
        """Returns the texts that follow B turns; a game whose words are on a hot path makes them together."""
        return [self.respond(turn, params) for turn in turns]

    def ledger(self, scene: TScene, params: Any) -> Ledger:
        """Returns the ledger of an episode that starts with `scene`."""
        del scene, params
        return Ledger()

    def is_solved(self, info: Mapping[str, Any]) -> bool:
        """Whether the `info` of the last step, on the host, is that of a success."""
        return bool(info.get("success", False))
