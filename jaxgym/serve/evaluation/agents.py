"""Agents of an evaluation: an endpoint, a local model, a Python class, or a scripted policy."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.serve.rollout.command import Player
from jaxgym.serve.rollout.policies import Choice, Policy, PolicyError, Request, choice_of_reply
from jaxgym.serve.rollout.scheduler import RolloutSettings


@dataclasses.dataclass(frozen=True)
class Agent(Player):
    """Flags of an agent; exactly one of `model`, `folder` and `make` is given.

    Attributes:
        model, folder, name, temperature, max_tokens: See `jaxgym.serve.rollout.command.Player`.
        top_p: Probability mass of nucleus sampling; None leaves it to the model.
        sampling_seed: Seed of the sampling; None leaves it to the model.
        python: Name of the agent in Python, `module:Class` with its arguments.
        make: Function that makes the agent in Python: a `Policy` for all episodes, or an object with a method `reply`
            for one episode.
    """

    top_p: float | None = None
    sampling_seed: int | None = None
    python: str = ""
    make: Callable[[], Any] | None = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the sampling."""
        super().__post_init__()
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise OptionError(f"--top-p: expected a number above 0 and at most 1, got {self.top_p}.")

    @property
    def sampling(self) -> dict[str, Any]:
        """Arguments of `local_model` and of a completion of an endpoint."""
        more = {"top_p": self.top_p, "seed": self.sampling_seed}
        return {**super().sampling, **{name: value for name, value in more.items() if value is not None}}

    def policy(self, run_settings: RolloutSettings, seed: int) -> Policy:
        """Return the policy.

        Raises:
            OptionError: If the flags do not name exactly one agent.
            ImportError: If a package that the policy needs is missing.
        """
        given = [
            flag
            for flag, value in (("--model", self.model), ("--hf", self.folder), ("--agent", self.make))
            if value is not None and value != ""
        ]
        if len(given) != 1:
            raise OptionError(f"expected one of --model, --hf and --agent, got {' and '.join(given) or 'none'}.")
        if self.make is not None:
            made = self.make()
            return made if isinstance(made, Policy) else EpisodeAgents(self.make, made)
        return super().policy(run_settings, seed)


class EpisodeAgents(Policy):
    """Policy of one Python object for each episode; it calls their method `reply` in threads."""

    def __init__(self, make: Callable[[], Any], *spare: Any):
        """Make a policy.

        Args:
            make: Makes the object of an episode. Its method `reply` takes the messages of the chat, and returns the
                text of the reply or a `Choice`.
            spare: Objects for the first episodes, made before.
        """
        self._make, self._spare, self._agents = make, list(spare), dict[str, Any]()

    async def reply(self, request: Request) -> Choice:
        """Return the reply of the episode's object."""
        agent = self._agents.get(request.uuid)
        if agent is None:
            agent = self._agents[request.uuid] = self._spare.pop() if self._spare else self._make()
        said = await asyncio.to_thread(agent.reply, list(request.messages))
        choice = choice_of_reply(said)
        if isinstance(choice, PolicyError):
            raise choice
        return choice

    def forget(self, request: Request) -> None:
        """Drop the object of an episode that has ended."""
        self._agents.pop(request.uuid, None)
