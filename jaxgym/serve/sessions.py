"""Options and results of sessions."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgym.options import Integer, Option, Real, Word, declared, resolve, static


@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """Values of the options of a session."""

    max_turns: int = static(
        Integer(0, "turns after which an episode is truncated, refused replies included; 0 means no limit", 0)
    )
    refusal_cost: float = static(Real(0.0, "taken off the reward of a turn whose reply is refused", 0.0))
    format_cost: float = static(Real(0.0, "taken off where a move is understood, but not in the form asked for", 0.0))
    step_cost: float = static(Real(0.0, "taken off the reward of every turn", 0.0))
    on_parse_failure: str = static(
        Word(
            "refuse",
            "what a refused reply does: tell why and wait, end the episode, or make the game's fallback move",
            words=("refuse", "end", "fallback"),
        )
    )
    scoring: str = static(
        Word(
            "parts",
            "what is scored, where the game's words score a turn in parts: these, or the environment's reward alone",
            words=("parts", "environment"),
        )
    )

    @classmethod
    def of(cls, env_id: str, given: Mapping[str, Any]) -> "SessionOptions":
        """Validate values and fill in the defaults.

        Raises:
            OptionError: If the value of an option is invalid.
        """
        return cls(**resolve(env_id, SESSION_OPTIONS, given))


SESSION_OPTIONS: Mapping[str, Option] = declared(SessionOptions)
"""The options of a session, beside those of the environment and of its words."""


class Opening(NamedTuple):
    """Start of an episode.

    Attributes:
        id: The session id.
        env_id: The environment id.
        seed: The level seed.
        instructions: The system prompt.
        text: The first observation text; empty if the session has not started.
    """

    id: str
    env_id: str
    seed: int
    instructions: str
    text: str


class Outcome(NamedTuple):
    """Result of a turn.

    Attributes:
        text: The next observation text.
        reward: Reward of this turn, the sum of its components.
        terminated: Whether the rules of the game ended the episode, or an invalid reply if the session ends on these.
        truncated: Whether a limit ended the episode: the environment's time limit, or the session's `max_turns`.
        number: Number of turns in this episode, including this one and invalid replies.
        refusal: Error text of an invalid reply, or None.
        components: Reward components by name; every turn of a session has the same names. They are the components of
            the text interface, and the session's penalties that are not 0, as negative numbers.
        total_reward: Sum of the rewards of this episode.
        is_solved: Whether the episode has ended with success.
        info: The environment's `info` at the end of the episode, as plain Python values; empty before.
    """

    text: str
    reward: float
    terminated: bool
    truncated: bool
    number: int
    refusal: str | None
    components: dict[str, float]
    total_reward: float
    is_solved: bool
    info: dict[str, Any]


class Standing(NamedTuple):
    """Status of a session.

    Attributes:
        env_id: The environment id.
        seed: The level seed.
        has_started: Whether the episode has started; otherwise the first step starts it.
        text: The last observation text.
        number: Number of turns in this episode.
        total_reward: Sum of the rewards of this episode.
        terminated: As in the last `Outcome`.
        truncated: As in the last `Outcome`.
    """

    env_id: str
    seed: int
    has_started: bool
    text: str
    number: int
    total_reward: float
    terminated: bool
    truncated: bool


def repeated(last: Outcome) -> Outcome:
    """Return the result of a turn after the end of an episode: the last result with reward 0."""
    return last._replace(reward=0.0, components=dict.fromkeys(last.components, 0.0))
