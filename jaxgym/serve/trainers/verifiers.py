"""Taskset, environment and harness of verifiers 0.4 (v1) for text environments.

A package for verifiers exports the three classes by `__all__`; `examples/verifiers` is one. `jaxgym dataset --format
verifiers` writes the options of the taskset.
"""

import importlib
from collections.abc import Iterator
from typing import Any

from jaxgym.serve.trainers.dataset import Split, env_configs
from jaxgym.serve.trainers.episode import Observation, play

try:
    _vf: Any = importlib.import_module("verifiers.v1")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"jaxgym.serve.trainers.verifiers: verifiers is not installed ({error}). Install it: pip install "
        "verifiers==0.4.0.",
        name=error.name,
    ) from error
_chat: Any = importlib.import_module("verifiers.v1.dialects.chat")
_http: Any = importlib.import_module("httpx")
_pydantic: Any = importlib.import_module("pydantic")

__all__ = ["GameEnv", "GameHarness", "GameTaskset"]


class GameConfig(_vf.TasksetConfig):
    """Options of the taskset, `--env.taskset.NAME`; see `jaxgym.serve.trainers.dataset.env_configs`."""

    games: list[str] = _pydantic.Field(default_factory=lambda: ["frozen_lake"])  # the flags of verifiers have no tuples
    num_rows: int = 64
    options: dict[str, Any] = _pydantic.Field(default_factory=dict)
    split: Split = "train"
    start: int = 0


class GameData(_vf.TaskData):
    """Data of a task: name of the environment, level seed and options."""

    env_config: dict[str, Any]


class GameTask(_vf.Task[GameData, _vf.State, _vf.TaskConfig]):
    """Task of one level. All rollouts of a task play the same level."""


class GameTaskset(_vf.Taskset[GameTask, GameConfig]):
    """Taskset with one task for each data row."""

    def load(self) -> Iterator[GameTask]:
        """Yield the tasks.

        Raises:
            UnknownIdError, OptionError, LevelError: If the options are invalid.
        """
        config = self.config
        for env_config in env_configs(config.games, config.num_rows, config.options, config.split, config.start):
            name = f"{env_config['name']}#{env_config['seed']}"
            yield GameTask(GameData(name=name, env_config=env_config), config.task)


class GameEnvConfig(_vf.EnvConfig):
    """Configuration of `GameEnv`: the player runs on this machine, not in a remote sandbox."""

    player: _vf.AgentConfig = _vf.AgentConfig(runtime=_vf.SubprocessConfig())  # pyright: ignore[reportInvalidTypeForm]


class GameEnv(_vf.Env[GameEnvConfig]):
    """Environment that plays the episode of a task; the reward is the sum of the episode's rewards."""

    async def run(self, task: GameTask, agents: Any) -> None:
        """Play the episode, and record its reward and metrics."""
        async with agents.player.interaction(task) as interaction:

            async def ask(observation: Observation) -> str | None:
                segment = await interaction.turn(observation.messages())
                return None if segment.terminated else segment.last_reply

            played = await play(task.data.env_config, ask)
            interaction.trace.record_reward("total_reward", played.total_reward)
            for name, value in played.metrics.items():
                interaction.trace.record_metric(name, value)


class GameHarness(_vf.Harness[_vf.HarnessConfig]):
    """Harness that requests a completion of the chat in this process, instead of starting a program for each turn."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: Any,
        data: Any,
        tool_interception_url: str | None = None,
    ) -> Any:
        """Request a completion from verifiers' endpoint, which records it; return the result of the turn."""
        del trace, runtime, mcp_urls, tool_interception_url
        system_prompt, prompt = self.resolve_prompt(data)
        chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(_chat.message_to_wire, prompt)
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        body = {"model": ctx.model, "messages": [*system, *chat]}
        async with _http.AsyncClient(timeout=None) as client:
            headers = {"authorization": f"Bearer {secret}"}
            answer = await client.post(f"{endpoint.rstrip('/')}/chat/completions", json=body, headers=headers)
        return _vf.ProgramResult(0, "", "") if answer.is_success else _vf.ProgramResult(1, "", answer.text)
