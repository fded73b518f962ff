"""Run of an evaluation: play the suite with an agent, and write the card, the table and the chats into a folder."""

import dataclasses
import json
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from jaxgym.errors import OptionError
from jaxgym.serve.evaluation.agents import Agent
from jaxgym.serve.evaluation.context import ContextGuard, estimated_tokens, tokenizer_tokens
from jaxgym.serve.evaluation.report import card_of, markdown_of
from jaxgym.serve.evaluation.suite import SUITE_VERSION, rows_for
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.rollout.command import play_with_bar
from jaxgym.serve.rollout.policies import Chat, Request
from jaxgym.serve.rollout.runs import Blend, Folder, check
from jaxgym.serve.rollout.scheduler import RolloutSettings, Scheduler

CARD, REPORT, PLOT = "card.json", "report.md", "success"
"""Files of an evaluation, in addition to those of a rollout; the plot is written as PNG and SVG."""

IMAGE_TOKENS = 256
"""Default number of tokens of an image in the context guard."""


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation.

    Attributes:
        tasks: Names of tasks of the suite.
        episodes: Number of episodes of each difficulty.
        numbers: Numbers of the difficulties; all if empty.
        observation_mode: "text", "image" or "both".
        rollout: Settings of the rollout.
        context_tokens: Tokens of the model's context, for the context guard; None means no limit.
        image_tokens: Tokens of an image in the context guard.
        tokenizer: Folder of the tokenizer that counts tokens; None uses that of a local model, or else an estimate.
        prices: US dollars for a million tokens of prompts, and of replies; None leaves the costs out.
    """

    tasks: tuple[str, ...] = ("mortar_mayhem",)
    episodes: int = 20
    numbers: tuple[int, ...] = ()
    observation_mode: str = "text"
    rollout: RolloutSettings = dataclasses.field(default_factory=lambda: RolloutSettings(concurrency=16))
    context_tokens: int | None = None
    image_tokens: int = IMAGE_TOKENS
    tokenizer: Path | None = None
    prices: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Validate the settings."""
        if self.context_tokens is not None and self.context_tokens < 1:
            raise OptionError(f"context_tokens: expected an integer of at least 1, got {self.context_tokens}.")
        if self.image_tokens < 0:
            raise OptionError(f"image_tokens: expected an integer of at least 0, got {self.image_tokens}.")
        if self.prices is not None and not all(0 <= price < float("inf") for price in self.prices):
            raise OptionError(f"prices: expected two numbers of at least 0, got {self.prices}.")

    @property
    def of_replies(self) -> dict[str, Any]:
        """The settings that determine the replies and results, in JSON."""
        rollout = ("max_turns", "history_turns", "history_images")
        return {
            "observation_mode": self.observation_mode,
            **{name: getattr(self.rollout, name) for name in rollout},
            "context_tokens": self.context_tokens,
            "image_tokens": self.image_tokens,
            "tokenizer": None if self.tokenizer is None else str(self.tokenizer),
        }


class EvaluationScheduler(Scheduler):
    """Scheduler whose records have the time, the shortened requests and the model of a trajectory as well."""

    def __init__(self, guard: ContextGuard, settings: RolloutSettings, pool: SessionPool | None = None):
        """Make a scheduler of a guarded policy."""
        super().__init__(guard, settings, pool)
        self._guard = guard

    async def run(self, request: Request) -> dict[str, Any]:
        """Run a trajectory to its end; see `Scheduler.run`."""
        begun = time.monotonic()
        infos = await super().run(request)
        return {
            **infos,
            "seconds": time.monotonic() - begun,
            "num_shortened": self._guard.shortened.pop(request.uuid, 0),
            "model": getattr(self._guard.policy, "model", None),
        }


def evaluate(agent: Agent, settings: EvaluationSettings, out: Path, pool: SessionPool | None = None) -> dict[str, Any]:
    """Play the episodes that are not yet in a folder, write the report, and return the card.

    Args:
        agent: The agent.
        settings: The settings.
        out: The folder. An evaluation with the same agent and settings continues.
        pool: The session pool; if None, a new one, for as many sessions as episodes are played at a time.

    Raises:
        OptionError: If the agent or a setting is invalid, or the folder is of another evaluation.
        ImportError: If a package that the agent needs is missing.
        OSError: If the folder can't be written.
    """
    if agent.folder is not None and settings.observation_mode != "text":
        raise OptionError(
            f"--hf: expected --observation text, got {settings.observation_mode}. Serve the model, for example with "
            "vLLM, and use --model."
        )
    if settings.context_tokens is not None and settings.context_tokens <= agent.max_tokens:
        raise OptionError(
            f"--context-tokens: expected more than --max-tokens ({agent.max_tokens}), got {settings.context_tokens}."
        )
    rows = rows_for(
        settings.tasks, settings.episodes, numbers=settings.numbers, observation_mode=settings.observation_mode
    )
    guard = ContextGuard(
        agent.policy(settings.rollout, 0), settings.context_tokens, agent.max_tokens, _counter(agent, settings)
    )
    if pool is None:  # on the CPU, because a model may need the accelerators
        pool = SessionPool(settings.rollout.concurrency, device=jax.local_devices(backend="cpu")[0])
    scheduler = EvaluationScheduler(guard, settings.rollout, pool)
    check(rows, scheduler)  # before anything is written
    about = {
        "suite_version": SUITE_VERSION,
        "package_version": metadata.version("jaxgym"),
        "agent": agent.settings,
        **settings.of_replies,
    }
    records = play_with_bar(rows, scheduler, Blend(), Folder(out, {**about, "rows": rows}))
    card = card_of(records, about, settings.prices)
    (out / CARD).write_text(json.dumps(card, indent=1) + "\n")
    (out / REPORT).write_text(markdown_of(card))
    return card


def _counter(agent: Agent, settings: EvaluationSettings) -> Callable[[Chat], int]:
    folder = settings.tokenizer or agent.folder
    if folder is not None and settings.context_tokens is not None:
        return tokenizer_tokens(folder, settings.image_tokens)
    return lambda chat: estimated_tokens(chat, settings.image_tokens)
