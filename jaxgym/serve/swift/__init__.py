"""Environments of ms-swift: every game in words as a class for its `gym_scheduler`.

    from jaxgym.serve import swift
    swift.register()                      # all games, by short name and by id, in ms-swift's table
    swift.env_class("frozen_lake")        # the class of one game

The classes are subclasses of ms-swift's `Env` where it can be imported, and behave alike where it can't. An
`env_config` holds `seed` and options of the environment, of its words, and of sessions
(`jaxgym.serve.pool.SESSION_OPTIONS`); `name` is for the scheduler, and entries that are None are as if left out.
"""

import functools
import importlib
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.messages import content_text
from jaxgym.serve.sessions import Opening, Outcome

Step = tuple[str, float, bool, dict[str, Any]]


class _Alike:
    """What ms-swift's `Env` is to its subclasses."""

    def __init__(self, env_config: Any):
        self.env_config = env_config


def _base() -> type:
    try:
        return importlib.import_module("swift.rollout.gym_env").Env
    except ImportError:
        return _Alike


if TYPE_CHECKING:
    _Env = _Alike
else:
    _Env = _base()


class TextEnv(_Env):
    """One trajectory of a game in words.

    Its sessions live in the pool of the process; methods may be called from any thread or event loop, each time from
    another. No reply raises: one that is no move is told why in the next observation.

    Attributes:
        env_config: The row's entries, as they were given.
        env_id: The environment; set in the subclass of each game.
    """

    env_id: str = ""

    def __init__(self, env_config: Mapping[str, Any] | None):
        """Keeps the row's entries; they are checked by `reset`."""
        super().__init__(env_config)
        self._episode: Episode | None = None

    async def reset(self, config: Any = None) -> tuple[str, dict[str, Any], str]:
        """Starts an episode.

        Args:
            config: ms-swift's request; not read, since the entries of its row were given to the constructor.

        Returns:
            The first user message, seed and id, and the system message.

        Raises:
            OptionError: If an entry is no option, or does not take its value.
            RequestError: If the seed is none.
            CapacityError: If there is no room for another session.
        """
        del config
        await self.close()
        entries = {} if self.env_config is None else self.env_config
        if not isinstance(entries, Mapping):
            raise OptionError(
                f"{self.env_id} was given env_config={reprlib.repr(entries)}: give the entries of a row by name, such "
                'as {"seed": 3}.'
            )
        self._episode = Episode(self.env_id, entries.get("seed"), options_of(entries))
        opening: Opening = await self._episode.astart()
        return opening.text, {"env_id": opening.env_id, "seed": opening.seed}, opening.instructions

    async def step(self, action: Sequence[Mapping[str, Any]]) -> Step:
        """Makes a turn.

        Args:
            action: The whole chat; the content of its last message is the reply.

        Returns:
            The next user message, the reward of the turn, whether the episode has ended, and what there is to know.
            After the end the last text comes again, with reward 0.
        """
        if self._episode is None:
            await self.reset()
        reply = content_text(action[-1].get("content") if action else None)
        outcome = await cast(Episode, self._episode).astep(reply)
        has_ended = outcome.terminated or outcome.truncated
        return outcome.text, float(outcome.reward), has_ended, info_of(outcome)

    async def close(self) -> None:
        """Gives the session back; it may be called at any time."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None


def info_of(outcome: Outcome) -> dict[str, Any]:
    """Returns what there is to know about a turn, under names of our own."""
    return {
        "step": outcome.number,
        "refusal": outcome.refusal,
        "components": dict(outcome.components),
        "total_reward": outcome.total_reward,
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
        "is_solved": outcome.is_solved,
        **({"episode": dict(outcome.info)} if outcome.info else {}),
    }


def class_name(env_id: str) -> str:
    """Returns the name of the class of an environment.

    >>> class_name("MortarMayhem-Grid-v0"), class_name("FrozenLake-v1")
    ('MortarMayhemGridEnv', 'FrozenLakeV1Env')
    """
    return env_id.removesuffix("-v0").replace("-v", "-V").replace("-", "") + "Env"


def env_class(name: str) -> type[TextEnv]:
    """Returns the class of a game, by its id or its short name.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    return _env_class(text.text_spec_of(name)[0])


@functools.cache
def _env_class(env_id: str) -> type[TextEnv]:
    name = class_name(env_id)
    entries = {
        "env_id": env_id,
        "__module__": __name__,
        "__qualname__": name,
        "__doc__": f"One trajectory of {env_id}.",
    }
    return type(name, (TextEnv,), entries)


def register() -> list[str]:
    """Puts the classes of all games into ms-swift's table of environments, by short name and id; returns these names.

    Raises:
        ImportError: If ms-swift can't be imported.
    """
    table: dict[str, type] = importlib.import_module("swift.rollout.gym_env").envs
    classes = {name: env_class(name) for pair in text.text_envs().items() for name in pair}
    table.update(classes)
    return list(classes)
