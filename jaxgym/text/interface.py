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

TRUNCATED = "The episode has ended: a limit on steps or turns was reached."
"""Text of an episode that a limit has ended."""


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

    # Sessions with images; see the session option `observation_mode`.

    def image_prompt(self, params: Any) -> str:
        """Return the system prompt for observations that are images: the rules, `image_legend`, the form of a reply."""
        raise NotImplementedError  # Every game has its own.

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the frame; if text and image are shown, it follows the rules of `system_prompt`."""
        raise NotImplementedError  # Every game has its own.

    def beside(self, scenes: TScene, params: Any, *, is_first: bool) -> list[str]:
        """Return the texts beside the images of B scenes: what the frame lacks, such as a mission; empty by default.

        Args:
            scenes: The scenes, with a leading axis B.
            params: The parameters.
            is_first: Whether the images are the first ones of their episodes.
        """
        return [""] * len(jax.tree.leaves(scenes)[0])

    def open_beside(self, scenes: TScene, params: Any) -> list[str]:
        """Return the texts beside the first images of B sessions."""
        return self.beside(scenes, params, is_first=True)

    def respond_beside(self, turns: Turns[TScene], params: Any) -> list[str]:
        """Return the texts beside the images after B turns: the action or the error, `beside`, and the end."""
        beside = self.beside(turns.scenes, params, is_first=False)
        ends = zip(turns.terminated.tolist(), turns.truncated.tolist(), strict=True)
        return [
            "\n".join(filter(None, (_choice_of(move), text, _ending(terminated=terminated, truncated=truncated))))
            for move, text, (terminated, truncated) in zip(turns.actions, beside, ends, strict=True)
        ]

    def reward_tracker(self, scene: TScene, params: Any) -> RewardTracker:
        """Return the reward tracker of an episode that starts with `scene`."""
        return RewardTracker()

    def is_solved(self, info: Mapping[str, Any]) -> bool:
        """Return whether the `info` of the last step, on the host, reports success."""
        return bool(info.get("success", False))


def _choice_of(move: ParsedAction | InvalidReply) -> str:
    return move.reason if isinstance(move, InvalidReply) else f"You chose: {move.text}."


def _ending(*, terminated: bool, truncated: bool) -> str:
    return "The episode has ended." if terminated else TRUNCATED if truncated else ""


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
