"""Base class of text interfaces, and the types that it uses.

The methods of a text interface are pure functions on the host. They read scenes, and never a state:

    reply --parse--> ParsedAction or InvalidReply --(the environment steps)--> Turn --respond--> the next text

Rewards and endings come from the environment. The caller (a session pool, the terminal interface) calls `system_prompt`
once, `open` with the first scene, and then `parse` and `respond` for each turn.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import numpy as np

from jaxgym.options import OneOf, Option

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


PARSING: Mapping[str, Option] = {
    "parsing": OneOf(
        "strict",
        "whether a reply counts only if its explicit answer is exactly valid, or prose is searched as well",
        values=("strict", "lenient"),
    ),
}
"""The option that every environment with a text interface has."""


@dataclasses.dataclass(frozen=True)
class TextInterface(Generic[TScene]):
    """Text interface of one environment.

    Subclasses define `system_prompt`, `describe` and `parse`; the other methods have defaults for most games.

    Attributes:
        env_id: The environment id.
        rewards: Which rewards the system prompt states: `"environment"` for the environment's, `"components"` for those
            of the reward tracker; see the session option of the same name.
        parsing: `"strict"`: a reply counts only if its explicit answer is exactly valid. `"lenient"`: if a reply has no
            explicit answer, the last action that its prose names counts, for games that support it.
        text_version: Version of the wording, from 1; every change of the game's texts increments it.
    """

    text_version: ClassVar[int] = 1

    env_id: str
    rewards: str = dataclasses.field(default="environment", kw_only=True)
    parsing: str = dataclasses.field(default=PARSING["parsing"].default, kw_only=True)

    @property
    def max_actions(self) -> int:
        """Maximum number of actions of one compiled step; a longer reply takes several steps."""
        return 1

    def system_prompt(self, params: Any) -> str:
        """Return the system prompt: the rules and the form of a reply."""
        raise NotImplementedError  # Every game has its own.

    def reply_format(self) -> str:
        """Return the end of the system prompt that describes the form of a reply; TRL's tools replace it."""
        return ""

    def describe(self, scene: TScene, params: Any) -> str:
        """Return a description of a scene with exactly the information of its frame."""
        raise NotImplementedError  # Every game has its own.

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the actions of a reply, or why it is invalid; takes any string, in time linear in its length."""
        raise NotImplementedError  # Every game has its own.

    def fallback(self) -> ParsedAction:
        """Return the actions that replace an invalid reply in sessions with `on_invalid_reply="fallback"`."""
        raise NotImplementedError  # Every game has its own.

    def reply_of(self, action: Action) -> str:
        """Return the reply for one action in the form of the system prompt, for scripted policies."""
        raise NotImplementedError  # Every game has its own.

    def open(self, scene: TScene, params: Any) -> str:
        """Return the first observation text of an episode."""
        return self.describe(scene, params)

    def respond(self, turn: Turn[TScene], params: Any) -> str:
        """Return the observation text after a turn."""
        if isinstance(turn.action, InvalidReply):
            return f"{turn.action.reason}\n{self.describe(turn.scene, params)}"
        return self.describe(turn.scene, params)

    def open_all(self, scenes: TScene, params: Any) -> list[str]:
        """Return the first observation texts of B sessions."""
        leaves, shape = jax.tree.flatten(scenes)
        return [self.open(shape.unflatten([leaf[row] for leaf in leaves]), params) for row in range(len(leaves[0]))]

    def respond_all(self, turns: Turns[TScene], params: Any) -> list[str]:
        """Return the observation texts after B turns; games override it to make a batch of texts faster."""
        return [self.respond(turn, params) for turn in turns]

    def reward_tracker(self, scene: TScene, params: Any) -> RewardTracker:
        """Return the reward tracker of an episode that starts with `scene`."""
        del scene, params
        return RewardTracker()

    def is_solved(self, info: Mapping[str, Any]) -> bool:
        """Return whether the `info` of the last step, on the host, reports success."""
        return bool(info.get("success", False))
