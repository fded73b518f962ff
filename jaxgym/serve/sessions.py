"""Options and results of sessions."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgym.options import Integer, OneOf, Option, Real, declared, static
from jaxgym.serve.images import DEFAULT_SIDE_PX, MOST_SCALE

RANGE = r"(\w+)=(-?\d+):(-?\d+)(?::([1-9]\d*))?"
"""Form of `adapt`: an option, its easiest and its hardest value, and optionally a step."""


@dataclasses.dataclass(frozen=True)
class AdaptiveRange(Option):
    """Option of the environment and the range of its values, or None."""

    @property
    def allowed(self) -> str:
        """Description of the form."""
        return "OPTION=EASIEST:HARDEST, optionally with :STEP, such as 'command_count=1:10', or None"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is None or has the form."""
        return value is None or (isinstance(value, str) and re.fullmatch(RANGE, value) is not None)


@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """Values of the options of a session."""

    max_turns: int = static(
        Integer(0, "turns after which an episode is truncated, invalid replies included; 0 means no limit", 0)
    )
    invalid_reply_penalty: float = static(Real(0.0, "penalty of an invalid reply", 0.0))
    format_penalty: float = static(Real(0.0, "penalty of a valid reply in another form than the prompt asks for", 0.0))
    step_penalty: float = static(Real(0.0, "penalty of every turn", 0.0))
    on_invalid_reply: str = static(
        OneOf(
            "retry",
            "effect of an invalid reply: return the error text, end the episode, or make the game's fallback action",
            values=("retry", "end", "fallback"),
        )
    )
    rewards: str = static(
        OneOf(
            "components",
            "reward of a turn: the components of the text interface, or the environment's reward only",
            values=("components", "environment"),
        )
    )
    observation_mode: str = static(
        OneOf(
            "text",
            "form of the observations: the text, the frame as an image with only the text that the frame lacks, or the "
            "text and the image",
            values=("text", "image", "both"),
        )
    )
    image_scale: int = static(
        Integer(
            0,
            f"width and height of a pixel of the frame in the image; 0 makes images of about {DEFAULT_SIDE_PX} px",
            0,
            MOST_SCALE,
        )
    )

    adapt: str | None = static(
        AdaptiveRange(
            None,
            "option of the environment whose value follows the success of the episodes, with its easiest and its "
            "hardest value",
        )
    )
    adapt_group: int = static(Integer(8, "episodes on one level that have the same adapted value", 1))

    def rules(self, fallback: str) -> str:
        """Return the part of a system prompt that states these options; empty for the defaults.

        Args:
            fallback: The action that replaces an invalid reply, as text.
        """
        penalties = {
            "for each turn": self.step_penalty,
            "for an invalid reply": self.invalid_reply_penalty,
            "for a valid reply that is not in the requested format": self.format_penalty,
        }
        listed = "; ".join(f"-{penalty:g} {event}" for event, penalty in penalties.items() if penalty)
        rules = [f"Further rewards: {listed}."] if listed else []
        if self.on_invalid_reply == "end":
            rules.append("An invalid reply ends the episode.")
        if self.on_invalid_reply == "fallback":
            rules.append(f"An invalid reply counts as {fallback}.")
        if self.max_turns:
            rules.append(f"The episode also ends after {self.max_turns} turns. A turn with an invalid reply counts.")
        return "\n".join(rules)


SESSION_OPTIONS: Mapping[str, Option] = declared(SessionOptions)
"""Options of a session, in addition to those of the environment and of its text interface."""


class Opening(NamedTuple):
    """Start of an episode.

    Attributes:
        id: The session id.
        env_id: The environment id.
        seed: The level seed.
        system_prompt: The system prompt.
        reply_format: The end of the system prompt that describes the form of a reply; empty if it is not separate.
        text: The first observation text; empty if the session has not started.
        text_version: Version of the wording, see `jaxgym.text.TextInterface`.
        image: The first frame as PNG; None without images, or if the session has not started.
        adapted: The adapted option with its value in this session; None without `adapt`.
    """

    id: str
    env_id: str
    seed: int
    system_prompt: str
    reply_format: str
    text: str
    text_version: int
    image: bytes | None = None
    adapted: Mapping[str, Any] | None = None

    @property
    def difficulty(self) -> int | None:
        """The value of the adapted option; None without `adapt`."""
        value = next(iter((self.adapted or {}).values()), None)
        return value[0] if isinstance(value, list) else value


class TurnResult(NamedTuple):
    """Result of a turn.

    Attributes:
        text: The next observation text.
        reward: Reward of this turn, the sum of its components.
        terminated: Whether the rules of the game ended the episode, or an invalid reply if the session ends on these.
        truncated: Whether a limit ended the episode: the environment's time limit, or the session's `max_turns`.
        number: Number of turns in this episode, including this one and invalid replies.
        invalid_reply: Error text of an invalid reply, or None.
        components: Reward components by name; every turn of a session has the same names. They are the components of
            the text interface, and the session's penalties that are not 0, as negative numbers.
        total_reward: Sum of the rewards of this episode.
        is_solved: Whether the episode has ended with success.
        info: The environment's `info` at the end of the episode, as plain Python values; empty before.
        image: The frame as PNG; None without images.
    """

    text: str
    reward: float
    terminated: bool
    truncated: bool
    number: int
    invalid_reply: str | None
    components: dict[str, float]
    total_reward: float
    is_solved: bool
    info: dict[str, Any]
    image: bytes | None = None


def repeated(last: TurnResult) -> TurnResult:
    """Return the result of a turn after the end of an episode: the last result with reward 0."""
    return last._replace(reward=0.0, components=dict.fromkeys(last.components, 0.0))
