"""Episode whose loop belongs to jaxgym, for trainers that call a coroutine for each episode.

    env_config  ->  play: open a session, ask(observation) -> reply, ... , close it  ->  rewards

The adapters for verl, slime, AReaL and verifiers differ only in `ask`, which gets a reply from the trainer's model.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.messages import user_message
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout.scheduler import MOST_TURNS
from jaxgym.serve.sessions import TurnResult


class Observation(NamedTuple):
    """New content of the chat before a reply.

    Attributes:
        system_prompt: The system prompt in the first turn; empty in later turns.
        text: The observation text.
        image: The frame as PNG; None in sessions without images.
    """

    system_prompt: str
    text: str
    image: bytes | None

    def messages(self, image_part: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the new messages of the chat: a system message in the first turn, and a user message.

        Args:
            image_part: The content part of the image in the format of the trainer; by default a data URL in OpenAI's
                format.
        """
        message = user_message(self.text, self.image)
        if self.image is not None and image_part is not None:
            message["content"][0] = dict(image_part)
        return [{"role": "system", "content": self.system_prompt}, message] if self.system_prompt else [message]


Ask = Callable[[Observation], Awaitable[str | None]]
"""Returns the model's reply, or None to stop the episode, for example at a token limit."""


class Played(NamedTuple):
    """Result of an episode.

    Attributes:
        rewards: Reward of each turn.
        result: Result of the last turn; None if there was no reply.
        invalid_replies: Number of invalid replies.
        difficulty: The value of the adapted option; None without `adapt`.
    """

    rewards: list[float]
    result: TurnResult | None
    invalid_replies: int
    difficulty: int | None = None

    @property
    def total_reward(self) -> float:
        """Sum of the rewards, a Python float."""
        return float(self.result.total_reward) if self.result else 0.0

    @property
    def has_ended(self) -> bool:
        """True if the environment or a session limit has ended the episode."""
        return self.result is not None and (self.result.terminated or self.result.truncated)

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for the log of a trainer, which have the same names in every episode of a game with its options."""
        return {
            "success": float(self.result is not None and self.result.is_solved),
            "turns": float(len(self.rewards)),
            "invalid_replies": float(self.invalid_replies),
            **({} if self.difficulty is None else {"difficulty": float(self.difficulty)}),
        }


async def play(
    env_config: Mapping[str, Any], ask: Ask, max_turns: int = MOST_TURNS, pool: SessionPool | None = None
) -> Played:
    """Play an episode, and close its session at the end, also if `ask` raises or the task is canceled.

    Episodes that run at the same time share batched steps.

    Args:
        env_config: The `name` of the environment, the level `seed`, and options; entries that are None are ignored.
        ask: Coroutine function that returns the model's reply to an observation. It is not called after the end.
        max_turns: Maximum number of replies. The prompt does not state it, unlike the session option `max_turns`.
        pool: The session pool; the shared pool of the process if None, which is made on the first call.

    Raises:
        UnknownIdError, OptionError, LevelError: If the environment can't be made.
        SessionError: If the seed is invalid, or the pool is full.
    """
    episode = Episode(env_config.get("name") or "", env_config.get("seed"), options_of(env_config), pool)
    rewards = list[float]()
    try:
        opening = await episode.astart()
        observation = Observation(opening.system_prompt, opening.text, opening.image)
        while len(rewards) < max_turns and not episode.has_ended:
            reply = await ask(observation)
            if reply is None:
                break
            result = await episode.astep(reply)
            rewards.append(float(result.reward))
            observation = Observation("", result.text, result.image)
        return Played(rewards, episode.result, episode.invalid_replies, episode.difficulty)
    finally:
        episode.close()
