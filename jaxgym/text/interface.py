"""Base class of text interfaces.

The methods of a text interface are pure functions on the host. They read scenes, and never a state:

    reply --parse--> ParsedAction or InvalidReply --(the environment steps)--> Turn --respond--> the next text

Rewards and endings come from the environment. The caller (a session pool, the terminal interface) calls `system_prompt`
once, `open` with the first scene, and then `parse` and `respond` for each turn.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import jax

from jaxgym.options import OneOf, Option
from jaxgym.text.turns import Action, InvalidReply, ParsedAction, RewardTracker, TScene, Turn, Turns, batch_of_one

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
        return RewardTracker()

    def is_solved(self, info: Mapping[str, Any]) -> bool:
        """Return whether the `info` of the last step, on the host, reports success."""
        return bool(info.get("success", False))


class BatchTextInterface(TextInterface[TScene]):
    """Text interface that makes the texts of a batch at once: subclasses define `open_all` and `respond_all`."""

    def describe(self, scene: TScene, params: Any) -> str:
        """Return the first observation text."""
        return self.open(scene, params)

    def open(self, scene: TScene, params: Any) -> str:
        """Return the first observation text of an episode."""
        return self.open_all(batch_of_one(scene), params)[0]

    def respond(self, turn: Turn[TScene], params: Any) -> str:
        """Return the observation text after a turn."""
        return self.respond_all(Turns.of(turn), params)[0]
