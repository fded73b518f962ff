"""Clients of OpenEnv servers: synchronous episodes, and a scheduler for ms-swift.

The scheduler is a subclass of ms-swift's if ms-swift is installed; otherwise it behaves in the same way.
"""

import asyncio
import dataclasses
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


try:
    _Scheduler: Any = importlib.import_module("swift.rollout.multi_turn").OpenEnvScheduler
except ImportError:
    _Scheduler = _PlainScheduler


@dataclasses.dataclass
class RemoteTrajectory:
    """Running trajectory.

    Attributes:
        env: The episode, with the coroutines of `OpenEnvWrapper`; None before its start and after its end.
        total_reward, step_rewards: The rewards so far.
        turns: `usage_of` each completion.
        text, image: The next user message, and its image as base64; None without one.
    """

    env: Any = None
    total_reward: float = 0.0
    step_rewards: list[float] = dataclasses.field(default_factory=list[float])
    turns: list[dict[str, Any]] = dataclasses.field(default_factory=list[dict[str, Any]])
    text: str | None = None
    image: str | None = None


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
        self._envs: dict[str, RemoteTrajectory] = {}
        self._room = threading.Lock()  # of threads, because trajectories can run in several event loops

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
        trajectory = await self._with_room(uuid)
        trajectory.env = self._create_env(config)
        observation, _ = await trajectory.env.areset()
        request.messages = self._first_messages(uuid, observation, config.get("system_message"))
        image = _image_of(observation)
        if image is not None:
            request.images = []
            attach(request, image)

    async def _with_room(self, uuid: str) -> RemoteTrajectory:
        until = time.monotonic() + self.wait_seconds
        while True:
            with self._room:
                if self.max_trajectories is None or len(self._envs) < self.max_trajectories:
                    self._envs[uuid] = trajectory = RemoteTrajectory()
                    return trajectory
            if time.monotonic() > until:
                raise TimeoutError(
                    f"expected a free trajectory within {self.wait_seconds:g} s, got {self.max_trajectories} running "
                    "ones. Increase max_trajectories."
                )
            await asyncio.sleep(0.02)

    async def on_turn_end(self, infer_request: Any, response_choice: Any, current_turn: int) -> dict[str, Any]:
        """Make the step of a reply; return whether the trajectory has ended, and its rewards."""
        uuid = infer_request.uuid
        trajectory = self._envs.get(uuid)
        if trajectory is None or trajectory.env is None:
            infos = {"total_reward": 0.0, "step_rewards": [], "gym_done": True, "error": "no episode is open."}
            return {"done": True, "rollout_infos": infos}
        trajectory.turns.append(usage_of(response_choice))
        try:
            has_ended, more = await self._take_turn(uuid, content_text(response_choice.message.content))
        except (OpenEnvError, OSError) as error:
            _log.warning("a trajectory ends early: %s", error)
            trajectory.step_rewards.append(0.0)
            has_ended, more = True, {"error": str(error)}
        infos = {
            **image_infos(infer_request),
            "total_reward": trajectory.total_reward,
            "step_rewards": list(trajectory.step_rewards),
            "turns": list(trajectory.turns),
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
        trajectory = self._envs[uuid]
        observation, reward, has_ended, _ = await self._act(trajectory.env, text)
        trajectory.total_reward += reward
        trajectory.step_rewards.append(reward)
        trajectory.text, trajectory.image = self.format_observation(observation), _image_of(observation)
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
        trajectory = self._envs.get(infer_request.uuid)
        if trajectory is not None and trajectory.text is not None:
            infer_request.messages.append({"role": "user", "content": trajectory.text})
            if trajectory.image is not None:
                attach(infer_request, trajectory.image)
            trajectory.text = trajectory.image = None
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
        trajectory = self._envs.get(uuid)
        if trajectory is not None and trajectory.env is not None:
            env, trajectory.env = trajectory.env, None
            await env.aclose()
        self._envs.pop(uuid, None)


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
