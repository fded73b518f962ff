"""Environments of ms-swift: a class of every text environment for its `gym_scheduler`.

    from jaxgym.serve import swift
    swift.register()                      # registers all environments with ms-swift, by short name and id
    swift.env_class("frozen_lake")        # the class of one environment

The classes are subclasses of ms-swift's `Env` if ms-swift is installed; otherwise they behave in the same way. An
`env_config` has `seed` and options of the environment, of its text interface, and of sessions
(`jaxgym.serve.pool.SESSION_OPTIONS`). The entry `name` and entries that are None are ignored.
"""

import functools
import importlib
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from jaxgym import text
from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.messages import content_text
from jaxgym.serve.sessions import Opening, TurnResult

Step = tuple[str, float, bool, dict[str, Any]]


class _Alike:
    """Part of ms-swift's `Env` that its subclasses use."""

    def __init__(self, env_config: Any):
        self.env_config = env_config


try:
    _Env: Any = importlib.import_module("swift.rollout.gym_env").Env
except ImportError:
    _Env = _Alike


class TextEnv(_Env):
    """Trajectory of a text environment.

    It uses the shared session pool of the process. Methods can be called from any thread or event loop. No reply raises
    an exception: the next observation has the error text of an invalid reply.

    Attributes:
        env_config: The entries of the row.
        env_id: The environment id; set in the subclass of each environment.
        image: The last frame as PNG, in sessions with images; `jaxgym.serve.swift.images` passes it to ms-swift.
    """

    env_id: str = ""

    def __init__(self, env_config: Mapping[str, Any] | None):
        """Store the entries of a row; `reset` validates them."""
        super().__init__(env_config)
        self._episode: Episode | None = None
        self.image: bytes | None = None

    async def reset(self, config: Any = None) -> tuple[str, dict[str, Any], str]:
        """Start an episode.

        Args:
            config: ms-swift's request; ignored, because the constructor has the entries of its row.

        Returns:
            The first user message, a dict with id, seed, text version and the value of an adapted option, and the
            system message.

        Raises:
            OptionError: If an entry is not an option or its value is invalid.
            RequestError: If the seed is invalid.
            CapacityError: If the pool is full.
        """
        await self.close()
        entries = {} if self.env_config is None else self.env_config
        if not isinstance(entries, Mapping):
            raise OptionError(
                f'{self.env_id}: env_config: expected a mapping such as {{"seed": 3}}, got {reprlib.repr(entries)}.'
            )
        self._episode = Episode(self.env_id, entries.get("seed"), options_of(entries))
        opening: Opening = await self._episode.astart()
        self.image = opening.image
        info: dict[str, Any] = {"env_id": opening.env_id, "seed": opening.seed, "text_version": opening.text_version}
        if opening.difficulty is not None:
            info["difficulty"] = opening.difficulty
        return opening.text, info, opening.system_prompt

    async def step(self, action: Sequence[Mapping[str, Any]]) -> Step:
        """Make a turn.

        Args:
            action: The whole chat; the content of its last message is the reply.

        Returns:
            The next user message, the reward of the turn, whether the episode has ended, and `info_of` the turn. After
            the end, it returns the last text again with reward 0.
        """
        if self._episode is None:
            await self.reset()
        reply = content_text(action[-1].get("content") if action else None)
        result = await cast(Episode, self._episode).astep(reply)
        self.image = result.image
        has_ended = result.terminated or result.truncated
        return result.text, float(result.reward), has_ended, info_of(result)

    async def close(self) -> None:
        """Close the session; can be called at any time."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None


def info_of(result: TurnResult) -> dict[str, Any]:
    """Return the `info` of a turn."""
    return {
        "step": result.number,
        "invalid_reply": result.invalid_reply,
        "components": dict(result.components),
        "total_reward": result.total_reward,
        "terminated": result.terminated,
        "truncated": result.truncated,
        "is_solved": result.is_solved,
        **({"episode": dict(result.info)} if result.info else {}),
    }


def class_name(env_id: str) -> str:
    """Return the name of the class of an environment.

    >>> class_name("MortarMayhem-Grid-v0"), class_name("FrozenLake-v1")
    ('MortarMayhemGridEnv', 'FrozenLakeV1Env')
    """
    return env_id.removesuffix("-v0").replace("-v", "-V").replace("-", "") + "Env"


def env_class(name: str) -> type[TextEnv]:
    """Return the class of an environment, by its id or its short name; raises `UnknownIdError` for another name."""
    return _env_class(text.text_spec_of(name)[0])


@functools.cache
def _env_class(env_id: str) -> type[TextEnv]:
    name, about = class_name(env_id), f"One trajectory of {env_id}."
    entries = {"env_id": env_id, "__module__": __name__, "__qualname__": name, "__doc__": about}
    return type(name, (TextEnv,), entries)


class EpisodeReturn:
    """Reward function of ms-swift with the name `jaxgym_return`: the sum of an episode's rewards.

    Without vLLM, ms-swift ignores `--use_gym_env`, and needs this reward function instead.
    """

    def __init__(self, args: Any = None, **_: Any):
        """Ignore the settings of the trainer."""

    def __call__(
        self, completions: Sequence[str], rollout_infos: Sequence[Mapping[str, Any]], **columns: Any
    ) -> list[float]:
        """Return the sum of the rewards of each episode."""
        return [float(infos["total_reward"]) for infos in rollout_infos]


def register() -> list[str]:
    """Register the classes of all environments, and `EpisodeReturn`; return the short names and ids."""
    table: dict[str, type] = importlib.import_module("swift.rollout.gym_env").envs
    importlib.import_module("swift.rewards.orm").orms["jaxgym_return"] = EpisodeReturn
    classes = {name: env_class(name) for pair in text.text_envs().items() for name in pair}
    table.update(classes)
    return list(classes)
