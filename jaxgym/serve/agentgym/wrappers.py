"""Which wrapper serves which environment, and that of TextCraft, which answers as the platform's own server does."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import levels, text
from jaxgym.envs.textcraft.game import level_of_task
from jaxgym.envs.textcraft.world import world
from jaxgym.serve.agentgym.bodies import CallRoute, Field, optional, words
from jaxgym.serve.agentgym.wrapper import ID, AgentGymWrapper
from jaxgym.serve.errors import SessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import SESSION_OPTIONS


class TextCraftWrapper(AgentGymWrapper):
    """TextCraft with the answers of the platform's own server.

    The number of a task, any integer, is taken modulo the number of goals; where the option `depth` allows some goals
    only, modulo the number of these. The first task of an environment is that of its id.
    """

    ROUTES: ClassVar[tuple[CallRoute, ...]] = (
        *(route for route in AgentGymWrapper.ROUTES if route.path != "/create"),
        CallRoute(
            "POST",
            "/create",
            "create",
            (Field("commands", optional(words), None), Field("goal", optional(words), None)),
        ),
        CallRoute("GET", "/commands", "commands", (ID,)),
        CallRoute("GET", "/goal", "goal", (ID,)),
    )

    def prepare(self) -> None:
        """Make the levels of all tasks and compiles what is needed."""
        if self._options.get("levels") is None:
            self._options["levels"] = textcraft_tasks(self.name, self._options)
        super().prepare()

    def seed_of(self, data_idx: int) -> int:
        """Return the level seed of a task."""
        return data_idx % levels.num_levels(self._options["levels"])

    async def hello(self, owner: str | None) -> Any:
        """Say who answers."""
        del owner
        return "This is environment TextCraft."

    async def create(self, owner: str | None, commands: str | None = None, goal: str | None = None) -> Any:
        """Creates an environment and starts the task of its id; what is asked for is not looked at, as there."""
        del commands, goal
        number = await self._create(owner, self._count)
        running = self._running[number]
        await self._start(number, running, number)
        return self.told_of_reset(number, running.last)

    async def close(self, owner: str | None, number: int) -> Any:
        """End an environment; returns whether there was one."""
        try:
            await self._close(owner, number)
        except SessionError:
            return False
        return True

    async def detail(self, owner: str | None, number: int) -> Any:
        """Return how an environment stands."""
        last = self._find(owner, number).last
        return {"observation": last["observation"], "done": last["done"], "reward": last["reward"], "deleted": False}

    async def commands(self, owner: str | None, number: int) -> Any:
        """Return the crafting commands of the task, one a line."""
        return self._find(owner, number).first.partition("\n\nGoal: craft ")[0].removeprefix("Crafting commands:\n")

    async def goal(self, owner: str | None, number: int) -> Any:
        """Return the item to craft."""
        return self._find(owner, number).first.partition("\n\nGoal: craft ")[2].removesuffix(".")

    def told_of_step(self, last: dict[str, Any]) -> Any:
        """Return what is answered to a step."""
        return {"observation": last["observation"], "reward": last["reward"], "done": last["done"]}

    def told_of_reset(self, number: int, last: dict[str, Any]) -> Any:
        """Return what is answered to a reset."""
        return {"id": number, "observation": last["observation"], "done": last["done"], "reward": last["reward"]}

    def told_of_observation(self, last: dict[str, Any]) -> Any:
        """Return what is answered to the question for the observation."""
        return last["observation"]


def textcraft_tasks(name: str, options: Mapping[str, Any]) -> Any:
    """Return the levels of TextCraft's tasks in their order, those of depths that the options allow."""
    own = {option: value for option, value in options.items() if option not in SESSION_OPTIONS and option != "levels"}
    env, params, _ = text.make_registered(name, **own)
    rows = np.flatnonzero(np.isin(world().depths[world().goals], np.asarray(params.depth.values)))
    return jax.vmap(lambda task: level_of_task(env, params, task))(jnp.asarray(rows))


_wrappers: dict[str, type[AgentGymWrapper]] = {"TextCraft-v0": TextCraftWrapper}


def register(env_id: str, wrapper: type[AgentGymWrapper]) -> None:
    """Have an environment served by a wrapper of its own.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    _wrappers[text.text_spec_of(env_id)[0]] = wrapper


def wrap(name: str, pool: SessionPool, options: Mapping[str, Any] | None = None) -> AgentGymWrapper:
    """Make the wrapper of an environment: the one that was registered for it, else that of AgentGym's guide.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    return _wrappers.get(text.text_spec_of(name)[0], AgentGymWrapper)(name, pool, options)
