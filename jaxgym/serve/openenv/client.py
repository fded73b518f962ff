"""Clients of OpenEnv servers: synchronous episodes, and a scheduler for ms-swift.

The scheduler is a subclass of ms-swift's if ms-swift is installed; otherwise it behaves in the same way.
"""

import asyncio
import importlib
import json
import logging
import threading
import time
import types
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgym.serve.messages import attach, check_history, content_text, image_infos, usage_of
from jaxgym.serve.openenv.remote import LostError, OpenEnvError, OpenEnvWrapper, Step
from jaxgym.serve.swift.history import HistoryHooks

__all__ = ["LostError", "OpenEnvError", "OpenEnvScheduler", "OpenEnvWrapper", "register"]

_log = logging.getLogger(__name__)

_UNFIT = "VALIDATION_ERROR"


class _PlainScheduler:
    """Part of ms-swift's scheduler that its subclasses use."""

    def __init__(self, infer_engine: Any = None, max_turns: int | None = None, **_: Any):
        self.infer_engine, self.max_turns = infer_engine, max_turns


def _base() -> type:
    try:
        return importlib.import_module("swift.rollout.multi_turn").OpenEnvScheduler
    except ImportError:
        return _PlainScheduler


_Scheduler: Any = _base()


class OpenEnvScheduler(_Scheduler):
    """Scheduler of trajectories on an OpenEnv server, with the hooks of ms-swift's scheduler of that name.

    An `env_config` has the entries of `OpenEnvWrapper` and `system_message`; the default system message is the prompt
    of the observation. A trajectory has a session from its start to its end, also if `max_turns` truncates it.

    Attributes:
        max_concurrent_envs: Maximum number of episodes that start at the same time.
        max_trajectories: Maximum number of concurrent trajectories; others wait. None means no limit; the server needs
            a session for each trajectory.
        env_config_defaults: Default entries of `env_config`.
        wait_seconds: Timeout of a waiting trajectory in seconds.
    """

    max_concurrent_envs: int = 64
    max_trajectories: int | None = None
    env_config_defaults: Mapping[str, Any] = types.MappingProxyType({})
    wait_seconds: float = 600.0

    def __init__(self, infer_engine: Any = None, max_turns: int | None = None, **more: Any):
        """Make a scheduler as ms-swift does."""
        super().__init__(infer_engine, max_turns, **more)
        self._envs: dict[str, Any] = {}
        self._total_rewards: dict[str, float] = {}
        self._step_rewards: dict[str, list[float]] = {}
        self._pending_obs: dict[str, str | None] = {}
        self._pending_images: dict[str, str | None] = {}
        self._turns: dict[str, list[dict[str, Any]]] = {}
        self._room = threading.Lock()
        self._taken: set[str] = set()

    # Hooks.

    async def on_trajectory_start(self, requests: Sequence[Any]) -> None:
        """Start an episode for each request, and put its first messages into the request.

        Raises:
            ValueError: If there are more requests than `max_trajectories`.
            OpenEnvError, OSError: If an episode can't be started; then all sessions of these requests are closed.
        """
        if self.max_trajectories is not None and len(requests) > self.max_trajectories:
            raise ValueError(
                f"expected at most {self.max_trajectories} trajectories in one call, got {len(requests)}. Increase "
                "max_trajectories, and start the server with a --max-sessions of at least that number."
            )
        together = asyncio.Semaphore(self.max_concurrent_envs)

        async def start(request: Any) -> None:
            async with together:
                await self._start(request)

        results = await asyncio.gather(*map(start, requests), return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            await asyncio.gather(*(self._close_and_remove(request.uuid) for request in requests))
            raise failed[0]

    async def _start(self, request: Any) -> None:
        uuid = request.uuid
        await self._close_and_remove(uuid)
        row = (getattr(request, "data_dict", None) or {}).get("env_config") or {}
        config = {**self.env_config_defaults, **{name: value for name, value in row.items() if value is not None}}
        await self._take_room(uuid)
        self._envs[uuid] = self._create_env(config)
        self._total_rewards[uuid], self._step_rewards[uuid], self._pending_obs[uuid] = 0.0, [], None
        self._turns[uuid] = []
        observation, _ = await self._envs[uuid].areset()
        request.messages = self._first_messages(uuid, observation, config.get("system_message"))
        image = _image_of(observation)
        if image is not None:
            request.images = []
            attach(request, image)

    async def _take_room(self, uuid: str) -> None:
        until = time.monotonic() + self.wait_seconds
        while True:
            with self._room:  # a thread lock, because trajectories can run in several event loops
                if self.max_trajectories is None or len(self._taken) < self.max_trajectories:
                    self._taken.add(uuid)
                    return
            if time.monotonic() > until:
                raise TimeoutError(
                    f"expected a free trajectory within {self.wait_seconds:g} s, got {self.max_trajectories} running "
                    "ones. Increase max_trajectories."
                )
            await asyncio.sleep(0.02)

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Make the step of a reply; return whether the trajectory has ended, and its rewards."""
        uuid = infer_request.uuid
        if uuid not in self._envs:
            infos = {"total_reward": 0.0, "step_rewards": [], "gym_done": True, "error": "no episode is open."}
            return {"done": True, "rollout_infos": infos}
        self._turns[uuid].append(usage_of(response_choice))
        try:
            has_ended, more = await self._take_turn(uuid, content_text(response_choice.message.content))
        except (OpenEnvError, OSError) as error:
            _log.warning("a trajectory ends early: %s", error)
            self._step_rewards[uuid].append(0.0)
            has_ended, more = True, {"error": str(error)}
        infos = {
            **image_infos(infer_request),
            "total_reward": self._total_rewards[uuid],
            "step_rewards": list(self._step_rewards[uuid]),
            "turns": list(self._turns[uuid]),
            "gym_done": has_ended,
            **more,
        }
        is_cut = bool(self.max_turns) and current_turn >= (self.max_turns or 0)
        if has_ended or is_cut:
            await self._close_and_remove(uuid)
        return {"done": has_ended or is_cut, "rollout_infos": infos}

    async def _take_turn(self, uuid: str, text: str) -> tuple[bool, dict[str, Any]]:
        """Make the step of a reply; store its reward and the next message.

        Returns:
            Whether the episode has ended, and further entries of `rollout_infos`.
        """
        observation, reward, has_ended, _ = await self._act(self._envs[uuid], text)
        self._total_rewards[uuid] += reward
        self._step_rewards[uuid].append(reward)
        self._pending_obs[uuid] = self.format_observation(observation)
        self._pending_images[uuid] = _image_of(observation)
        return has_ended, {}

    async def _act(self, wrapper: Any, text: str) -> Step:
        action = self.parse_action(text)
        try:
            return await wrapper.astep(action)
        except OpenEnvError as error:
            # The JSON object of the model is not an action of OpenEnv, so it is sent as a message.
            if error.code != _UNFIT or action == {"message": text}:
                raise
            return await wrapper.astep({"message": text})

    def step(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Add the observation text and the image to the messages for the next turn."""
        text = self._pending_obs.get(infer_request.uuid)
        image = self._pending_images.pop(infer_request.uuid, None)
        if text is not None:
            infer_request.messages.append({"role": "user", "content": text})
            self._pending_obs[infer_request.uuid] = None
        if image is not None:
            attach(infer_request, image)
        return {"infer_request": infer_request, "rollout_infos": image_infos(infer_request)}

    # Methods that a subclass can override.

    def parse_action(self, text: str) -> dict[str, Any]:
        """Return the action of a reply: a JSON object, also in a code fence; any other reply is the message."""
        inner = text.strip()
        lines = inner.splitlines()
        if len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```":
            inner = "\n".join(lines[1:-1])
        try:
            said = json.loads(inner)
        except (ValueError, RecursionError):
            return {"message": text}
        return said if isinstance(said, dict) else {"message": text}

    def format_observation(self, observation: Any) -> str:
        """Return the text of an observation: `text`, or its first message, or the whole observation as JSON."""
        if isinstance(observation, Mapping):
            if isinstance(observation.get("text"), str):
                return observation["text"]
            messages = observation.get("messages")
            if isinstance(messages, list) and messages and isinstance(messages[0], Mapping):
                return str(messages[0].get("content", ""))
        return json.dumps(observation, ensure_ascii=False, default=str)

    def rules_of(self, observation: Any) -> str:
        """Return the prompt of an observation, the system message; empty if it has none."""
        prompt = observation.get("prompt") if isinstance(observation, Mapping) else None
        return prompt if isinstance(prompt, str) else ""

    def _create_env(self, env_config: dict[str, Any]) -> Any:
        """Return an episode with the coroutines of `OpenEnvWrapper`."""
        return OpenEnvWrapper(env_config)

    def _first_messages(self, uuid: str, observation: Any, system: str | None) -> list[dict[str, str]]:
        """Return the first messages of a trajectory, given the system message of its row."""
        system = system or self.rules_of(observation)
        rules = [{"role": "system", "content": system}] if system else []
        return [*rules, {"role": "user", "content": self.format_observation(observation)}]

    async def _close_and_remove(self, uuid: str) -> None:
        wrapper = self._envs.pop(uuid, None)
        if wrapper is not None:
            await wrapper.aclose()
        with self._room:
            self._taken.discard(uuid)
        for kept in (self._total_rewards, self._step_rewards, self._pending_obs, self._pending_images, self._turns):
            kept.pop(uuid, None)


def _image_of(observation: Any) -> str | None:
    """Return the image of an observation of jaxgym's server, base64; None without one."""
    image = observation.get("image") if isinstance(observation, Mapping) else None
    return image if isinstance(image, str) else None


def register(
    name: str = "jaxgym_openenv_scheduler", *, history_turns: int | None = None, history_images: int | None = None
) -> None:
    """Register the scheduler with ms-swift.

    Args:
        name: The name for `--multi_turn_scheduler`.
        history_turns: See `jaxgym.serve.swift.images.register`.
        history_images: See `jaxgym.serve.swift.images.register`.

    Raises:
        ImportError: If ms-swift can't be imported.
        OptionError: If a number is too small.
    """
    check_history(history_turns, history_images)
    entries = {"__doc__": OpenEnvScheduler.__doc__, "history_turns": history_turns, "history_images": history_images}
    table = importlib.import_module("swift.rollout.multi_turn").multi_turns
    table[name] = type("HistoryOpenEnvScheduler", (HistoryHooks, OpenEnvScheduler), entries)
