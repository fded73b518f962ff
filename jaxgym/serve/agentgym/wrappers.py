"""Table of wrappers by environment, and the wrapper of TextCraft, which reproduces AgentGym's own server."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import levels, text
from jaxgym.envs.textcraft.game import level_of_task
from jaxgym.envs.textcraft.world import world
from jaxgym.serve.agentgym import babyai
from jaxgym.serve.agentgym.wrapper import AgentGymWrapper
from jaxgym.serve.errors import SessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import SESSION_OPTIONS


class TextCraftWrapper(AgentGymWrapper):
    """TextCraft with the responses of AgentGym's own server.

    The task of an index, any integer, is that index modulo the number of goals that the option `depth` allows. The
    first task of an environment is that of its id.
    """

    title = "TextCraft"
    ROUTES: ClassVar[Mapping[tuple[str, str], str]] = {
        **AgentGymWrapper.ROUTES,
        ("GET", "/commands"): "commands",
        ("GET", "/goal"): "goal",
    }

    def prepare(self) -> None:
        """Make the levels of all tasks and compile the programs."""
        if self._options.get("levels") is None:
            self._options["levels"] = textcraft_tasks(self.name, self._options)
        super().prepare()

    def seed_of(self, data_idx: int) -> int:
        """Return the level seed of a task."""
        return data_idx % levels.num_levels(self._options["levels"])

    async def create(self, owner: str | None, commands: str | None = None, goal: str | None = None) -> Any:
        """Create an environment and start the task of its id; ignore the arguments, as AgentGym's server does."""
        number = await self._create(owner, starts=True)
        return self.reset_answer(number, self._running[number].last)

    def close_answer(self, error: SessionError | None) -> Any:
        """Return whether an environment was open."""
        return error is None

    async def detail(self, owner: str | None, id: int) -> Any:
        """Return the status of an environment."""
        last = self._find(owner, id).last
        return {"observation": last["observation"], "done": last["done"], "reward": last["reward"], "deleted": False}

    async def commands(self, owner: str | None, id: int) -> Any:
        """Return the crafting commands of the task, one on each line."""
        return self._find(owner, id).first.partition("\n\nGoal: craft ")[0].removeprefix("Crafting commands:\n")

    async def goal(self, owner: str | None, id: int) -> Any:
        """Return the item to craft."""
        return self._find(owner, id).first.partition("\n\nGoal: craft ")[2].removesuffix(".")

    def step_answer(self, last: dict[str, Any]) -> Any:
        """Return the response of a step."""
        return {name: entry for name, entry in last.items() if name != "score"}

    def reset_answer(self, number: int, last: dict[str, Any]) -> Any:
        """Return the response of a reset."""
        keys = ("observation", "done", "reward", "image")  # in the order of AgentGym's server
        return {"id": number, **{key: last[key] for key in keys if key in last}}

    def observation_answer(self, last: dict[str, Any]) -> Any:
        """Return the response of an observation request."""
        return last["observation"]


def textcraft_tasks(name: str, options: Mapping[str, Any]) -> Any:
    """Return the levels of TextCraft's tasks in order, for the depths that the options allow."""
    own = {option: value for option, value in options.items() if option not in SESSION_OPTIONS and option != "levels"}
    env, params, _ = text.make_registered(name, **own)
    rows = np.flatnonzero(np.isin(world().depths[world().goals], np.asarray(params.depth.values)))
    return jax.vmap(lambda task: level_of_task(env, params, task))(jnp.asarray(rows))


_wrappers: dict[str, type[AgentGymWrapper]] = {"TextCraft-v0": TextCraftWrapper, babyai.NAME: babyai.BabyAIWrapper}
"""Wrappers by environment id, and that of BabyAI, which is not a registered id."""


def register(env_id: str, wrapper: type[AgentGymWrapper]) -> None:
    """Register a wrapper for an environment; raises `UnknownIdError` as `jaxgym.text.text_spec_of` does."""
    _wrappers[text.text_spec_of(env_id)[0]] = wrapper


def wrap(name: str, pool: SessionPool, options: Mapping[str, Any] | None = None) -> AgentGymWrapper:
    """Make the wrapper of an environment: the registered one, or else `AgentGymWrapper`."""
    known = name if name in _wrappers else text.text_spec_of(name)[0]
    return _wrappers.get(known, AgentGymWrapper)(name, pool, options)
