"""Scheduler of ms-swift for sessions with images (`observation_mode` "image" or "both"), in the trainer's process.

    --multi_turn_scheduler jaxgym_image_scheduler --gym_env frozen_lake

The images go to the request, each with a mark `<image>` in its user message, and to the rollout infos, from which
ms-swift takes them for training. In sessions without images it is ms-swift's `gym_scheduler`.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from jaxgym.serve.images import as_base64
from jaxgym.serve.messages import attach, check_history, image_infos
from jaxgym.serve.swift.history import HistoryHooks


class ImageHooks:
    """Hooks of the scheduler, to be combined with ms-swift's `GYMScheduler` as the second base class."""

    _envs: dict[str, Any]

    async def on_trajectory_start(self, requests: Sequence[Any]) -> None:
        """Start an episode for each request, and attach the first images."""
        hooks: Any = super()
        await hooks.on_trajectory_start(requests)
        for request in requests:
            request.images = []
            self._attach(request)

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Make the step of a reply, and add the images so far to the rollout infos."""
        hooks: Any = super()
        ended = await hooks.on_turn_end(infer_request, response_choice, current_turn)
        return {**ended, "rollout_infos": {**ended["rollout_infos"], **image_infos(infer_request)}}

    def step(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Add the next text and image to the request."""
        hooks: Any = super()
        stepped = hooks.step(infer_request, response_choice, current_turn)
        self._attach(infer_request)
        return {**stepped, "rollout_infos": {**stepped.get("rollout_infos", {}), **image_infos(infer_request)}}

    def _attach(self, request: Any) -> None:
        """Attach the image of the last observation to the last message."""
        image = getattr(self._envs.get(request.uuid), "image", None)
        if image is not None and request.messages[-1]["role"] == "user":
            attach(request, as_base64(image))


def register(
    name: str = "jaxgym_image_scheduler", *, history_turns: int | None = None, history_images: int | None = None
) -> None:
    """Register the scheduler with ms-swift.

    Args:
        name: The name for `--multi_turn_scheduler`.
        history_turns: Number of the last turns that the model sees, in addition to the first one; None shows all.
            With a number, each turn is a sample of training, and ms-swift needs server mode.
        history_images: Number of the last turns whose images the model sees; None shows those of the last
            `history_turns`.

    Raises:
        ImportError: If ms-swift can't be imported.
        OptionError: If a number is too small.
    """
    check_history(history_turns, history_images)
    swift: Any = importlib.import_module("swift.rollout.multi_turn")
    entries = {"__doc__": __doc__, "history_turns": history_turns, "history_images": history_images}
    swift.multi_turns[name] = type("ImageScheduler", (ImageHooks, HistoryHooks, swift.GYMScheduler), entries)
