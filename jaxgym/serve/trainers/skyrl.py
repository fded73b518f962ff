"""Environment of SkyRL: a `BaseTextEnv` for every text environment, in text and with images.

    import skyrl_gym
    skyrl_gym.register(id="jaxgym", entry_point="jaxgym.serve.trainers.skyrl:SkyRLEnv")

A row has `prompt` (any chat; the environment replaces it), `"env_class": "jaxgym"`, `seed`, and `env_config` with the
`name` and the options of the environment. `SkyRLEnv` is a subclass of `BaseTextEnv` if `skyrl_gym` is installed;
otherwise it behaves in the same way.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgym.serve.episodes import Episode
from jaxgym.serve.messages import content_text, user_message
from jaxgym.serve.sessions import TurnResult
from jaxgym.serve.swift import info_of
from jaxgym.serve.trainers.rows import episode_of, start_of


class _PlainEnv:
    """Part of SkyRL's `BaseTextEnv` that its subclass uses."""

    def __init__(self) -> None:
        self.turns, self.max_turns = 0, 1


try:
    _Base: Any = importlib.import_module("skyrl_gym.envs.base_text_env").BaseTextEnv
except ImportError:
    _Base = _PlainEnv


class SkyRLEnv(_Base):
    """Trajectory of a text environment, on the shared session pool of the process.

    SkyRL calls the methods in threads. No reply raises an exception: the next observation has the error text of an
    invalid reply.

    Attributes:
        turns: Number of turns so far.
        max_turns: Turns after which the trajectory is truncated; 0 means no limit. The generator does not count turns.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None):
        """Store the columns of a row; `init` validates them.

        Args:
            env_config: SkyRL's settings of the environment class; ignored, because SkyRL has none for other packages.
            extras: The columns of the row except `prompt`, and `max_turns` of the generator.
        """
        super().__init__()
        del env_config
        self._row: Mapping[str, Any] = extras or {}
        self.max_turns = int(self._row.get("max_turns") or 0)
        self._episode: Episode | None = None
        self._metrics: dict[str, float] = {}

    def init(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Start the episode.

        Args:
            prompt: The chat of the row; replaced.

        Returns:
            The system prompt and the first user message, and a dict with id, seed and text version.

        Raises:
            UnknownIdError: If there is no such environment, or it has no text interface.
            OptionError: If an entry is not an option or its value is invalid.
            RequestError: If the seed is invalid.
            CapacityError: If the pool is full.
        """
        del prompt
        self.close()
        self.turns, self._metrics = 0, {}
        self._episode = episode_of(self._row, self)
        opening = self._episode.start()
        chat = [{"role": "system", "content": opening.system_prompt}, user_message(opening.text, opening.image)]
        return chat, start_of(opening)

    def step(self, action: str) -> dict[str, Any]:
        """Make a turn.

        Args:
            action: The reply of the model.

        Returns:
            `observations`, a list with the next user message, which is empty after the end; `reward`, that of the turn;
            `done`; and `metadata`, the info of the turn.
        """
        if self._episode is None:
            self.init([])
        episode: Any = self._episode
        self.turns += 1
        result: TurnResult = episode.step(content_text(action))
        has_ended = episode.has_ended or 0 < self.max_turns <= self.turns
        self._metrics = {
            "total_reward": float(result.total_reward),
            "is_solved": float(result.is_solved),
            "num_turns": float(result.number),
            "num_invalid_replies": float(episode.invalid_replies),
            **({} if episode.difficulty is None else {"difficulty": float(episode.difficulty)}),
        }
        if has_ended:
            self.close()
        return {
            "observations": [] if has_ended else [user_message(result.text, result.image)],
            "reward": float(result.reward),
            "done": has_ended,
            "metadata": info_of(result),
        }

    def close(self) -> None:
        """Close the session; can be called at any time."""
        if self._episode is not None:
            self._episode.close()

    def get_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode, of which SkyRL logs the means."""
        return self._metrics
