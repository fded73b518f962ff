"""What a session is asked and answers, and how it is scored."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgym.options import Integer, Option, Real, Word, declared, resolve, static


@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """The values of the options of a session."""

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
        """Checks values and fills in the defaults.

        Raises:
            OptionError: If an option does not take the given value.
        """
        return cls(**resolve(env_id, SESSION_OPTIONS, given))


SESSION_OPTIONS: Mapping[str, Option] = declared(SessionOptions)
"""The options of a session, beside those of the environment and of its words."""


class Opening(NamedTuple):
    """The start of an episode.

    Attributes:
        id: The session.
        env_id: Its environment.
        seed: The level seed.
        instructions: The rules and the form of a reply: a system message.
        text: The first text; empty for a session that is yet to start.
    """

    id: str
    env_id: str
    seed: int
    instructions: str
    text: str


class Outcome(NamedTuple):
    """What a reply led to.

    Attributes:
        text: The next text.
        reward: Reward of this turn, the sum of its components.
        terminated: Whether the rules of the game ended the episode, or a refused reply where a session asks for that.
        truncated: Whether a time limit did: the environment's, or the session's `max_turns`.
        number: Turns so far in this episode, this one and refused ones included.
        refusal: Why the reply was no move, one sentence, or None.
        components: The parts of the reward by name, the same names on every turn of a session: those of the game, and
            the session's costs that are not 0, as negative numbers.
        total_reward: Sum of the rewards of this episode.
        is_solved: Whether the episode has ended with a success.
        info: The environment's `info` at the end of the episode, plain values; empty before.
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
    """How a session stands.

    Attributes:
        env_id: Its environment.
        seed: The level seed.
        has_started: Whether it has been reset; its first step does that otherwise.
        text: The last text.
        number: Turns so far in this episode.
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
    """Returns what a reply to an episode that has ended leads to: the same once more, without a reward."""
    return last._replace(reward=0.0, components=dict.fromkeys(last.components, 0.0))
