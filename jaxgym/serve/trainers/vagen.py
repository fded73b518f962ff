"""Environment of VAGEN: a `GymImageEnv` for every text environment, in text and with images.

    env_registry:
      Jaxgym: jaxgym.serve.trainers.vagen.VagenEnv

The `config` of a row has the `name` and the options of the environment. `VagenEnv` is a subclass of `GymImageEnv` if a
checkout of VAGEN is on the path; otherwise it behaves in the same way.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from jaxgym.serve.episodes import Episode
from jaxgym.serve.images import pil_image
from jaxgym.serve.messages import IMAGE_MARK, content_text, with_mark, without_marks
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.serve.swift import info_of
from jaxgym.serve.trainers.rows import episode_of, start_of


class _PlainImageEnv:
    """Part of VAGEN's `GymImageEnv` that its subclass uses."""

    def __init__(self, env_config: Mapping[str, Any]):
        self.config = env_config


try:
    _ImageEnv: Any = importlib.import_module("vagen.envs.gym_image_env").GymImageEnv
except ImportError:
    _ImageEnv = _PlainImageEnv


class VagenEnv(_ImageEnv):
    """Trajectory of a text environment, on the shared session pool of the process.

    No reply raises an exception: the next observation has the error text of an invalid reply.

    Attributes:
        config: The `config` of the row.
    """

    def __init__(self, env_config: Mapping[str, Any]):
        """Store the `config` of a row; `reset` validates it."""
        super().__init__(env_config)
        self._episode: Episode | None = None
        self._opening: Opening | None = None

    async def reset(self, seed: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode.

        Args:
            seed: The level seed; if None, the seed of the `config`, or else a random one.

        Returns:
            The first observation, and a dict with id, seed and text version.

        Raises:
            UnknownIdError, OptionError, RequestError, CapacityError: See `Episode.start`.
        """
        await self.close()
        self._episode = episode_of({"env_config": self.config, "seed": seed}, self)
        opening = self._opening = await self._episode.astart()
        return _observation(opening.text, opening.image), start_of(opening)

    async def system_prompt(self) -> dict[str, Any]:
        """Return the system prompt of the episode, as an observation without an image."""
        if self._opening is None:
            await self.reset(None)
        opening: Any = self._opening
        return _observation(opening.system_prompt, None)

    async def step(self, action_str: str) -> tuple[dict[str, Any], float, bool, dict[str, Any]]:
        """Make a turn.

        Args:
            action_str: The reply of the model.

        Returns:
            The next observation, without an image after the end, because VAGEN drops it; the reward of the turn;
            whether the episode has ended; and the info of the turn, with `success`.
        """
        if self._episode is None:
            await self.reset(None)
        episode: Any = self._episode
        result: TurnResult = await episode.astep(content_text(action_str))
        image = None if episode.has_ended else result.image
        info = {**info_of(result), "success": result.is_solved}
        return _observation(result.text, image), float(result.reward), episode.has_ended, info

    async def close(self) -> None:
        """Close the session; can be called at any time."""
        if self._episode is not None:
            self._episode.close()


def _observation(text: str, image: bytes | None) -> dict[str, Any]:
    """Return an observation of VAGEN, which counts the marks of images in the text."""
    if image is None:
        return {"obs_str": without_marks(text)}
    return {"obs_str": with_mark(text), "multi_modal_input": {IMAGE_MARK: [pil_image(image)]}}
