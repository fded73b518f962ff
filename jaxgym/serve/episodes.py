"""Episodes on the shared session pool of the process, which survive the end of their sessions.

Trainers do not always close episodes, so the shared pool closes idle sessions. If an episode continues after that, it
opens another session and repeats its replies: the same seed and replies give the same texts and rewards.
"""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

import jax

from jaxgym.errors import OptionError
from jaxgym.serve.errors import UnknownSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.pool.difficulty import without
from jaxgym.serve.sessions import Opening, TurnResult, repeated
from jaxgym.text import InvalidReply

CAPACITY = 4096
"""Capacity of the shared pool in sessions."""

IDLE_SECONDS = 600.0
"""Time without a call in seconds after which the shared pool can close a session."""


_making = threading.Lock()
_pools: list[Any] = []


def use_pool(pool: Any) -> None:
    """Make a `SessionPool` or `RayPool` the shared pool of this process; episodes that have been made keep theirs."""
    with _making:
        _pools[:] = [pool]


def shared_pool() -> SessionPool:
    """Return the shared pool of this process; by default one with states on the CPU, made on the first call."""
    with _making:
        if not _pools:
            # Accelerators are left to the language model.
            host = jax.local_devices(backend="cpu")[0]
            _pools.append(SessionPool(CAPACITY, IDLE_SECONDS, host))
        return _pools[0]


def options_of(env_config: Mapping[str, Any] | None, apart: tuple[str, ...] = ("name", "seed")) -> dict[str, Any]:
    """Return the options in the `env_config` of a dataset row.

    Entries that are None are ignored: in a table with rows of several games, they are the options of other games.

    Args:
        env_config: The entries; None means no entries.
        apart: Names of entries that are not options.
    """
    return {name: value for name, value in (env_config or {}).items() if name not in apart and value is not None}


def check_row_options(options: Mapping[str, Any]) -> None:
    """Raise `OptionError` if the options of rows contain the name or the seed, which each row has already."""
    for entry in ("name", "seed"):
        if entry in options:
            raise OptionError(
                f"expected an option, got {entry!r}. Each row has its own {entry}; choose the levels by their first "
                "number or split."
            )


class Episode:
    """Episode of a text environment. It supports one caller at a time, from any thread or event loop.

    Attributes:
        name: The environment.
        seed: The level seed; None if it is random and the episode has not started.
        result: Result of the last reply; None before the first.
        invalid_replies: Number of invalid replies.
        opening: Start of the episode; None before it.
    """

    def __init__(
        self,
        name: str,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        pool: SessionPool | None = None,
    ):
        """Make an episode without starting it.

        Args:
            name: Id or short name of an environment with a text interface.
            seed: The level seed; None samples a training seed.
            options: Options of the environment, of its text interface, and of sessions; `levels="fresh"` by default.
            pool: The session pool; the shared pool if None.
        """
        self.name, self.seed = name, seed
        self.result: TurnResult | None = None
        self.invalid_replies = 0
        self._options = {"levels": "fresh", **(options or {})}
        self._pool = shared_pool() if pool is None else pool
        self._session: str | None = None
        self.opening: Opening | None = None
        self._replies: list[str | InvalidReply] = []

    @property
    def has_ended(self) -> bool:
        """True if the last reply has ended the episode."""
        return self.result is not None and (self.result.terminated or self.result.truncated)

    @property
    def played_options(self) -> dict[str, Any]:
        """The options of the episode that has started, with the adapted value in place of `adapt`."""
        if self.opening is None or self.opening.adapted is None:
            return self._options
        return {**without(self._options), **self.opening.adapted}

    @property
    def difficulty(self) -> int | None:
        """The value of the adapted option; None without `adapt`."""
        return None if self.opening is None else self.opening.difficulty

    def check(self) -> None:
        """Make the environment and compile its programs; raises the errors of `SessionPool.prepare`."""
        self._pool.prepare(self.name, self._options)

    def start(self) -> Opening:
        """Start the episode, or restart it on the same level; raises the errors of `SessionPool.open`."""
        self.close()
        return self._started(self._pool.open(self.name, self.seed, self._options))

    async def astart(self) -> Opening:
        """Start the episode as `start` does, without blocking the event loop during compilation."""
        self.close()
        return self._started(await self._pool.aopen(self.name, self.seed, self._options))

    def step(self, reply: str | InvalidReply) -> TurnResult:
        """Make a turn by a reply or an `InvalidReply`; after the end, return the last result with reward 0."""
        if self.result is not None and self.has_ended:
            return repeated(self.result)
        if self._session is None:
            self.start()
        try:
            result = self._pool.step_one(self._session or "", reply)
        except UnknownSessionError:
            self._session = self._pool.open(self.name, self.seed, self.played_options).id
            result = [self._pool.step_one(self._session, said) for said in (*self._replies, reply)][-1]
        return self._stepped(reply, result)

    async def astep(self, reply: str | InvalidReply) -> TurnResult:
        """Make a turn as `step` does, without blocking the event loop."""
        if self.result is not None and self.has_ended:
            return repeated(self.result)
        if self._session is None:
            await self.astart()
        try:
            result = await self._pool.astep(self._session or "", reply)
        except UnknownSessionError:
            self._session = (await self._pool.aopen(self.name, self.seed, self.played_options)).id
            result = [await self._pool.astep(self._session, said) for said in (*self._replies, reply)][-1]
        return self._stepped(reply, result)

    def close(self) -> None:
        """Close the session and reset the episode."""
        self._give_back()
        self._replies, self.result, self.invalid_replies = [], None, 0

    def _give_back(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(UnknownSessionError):  # the pool has closed it because it was idle
                self._pool.close([session])

    def _started(self, opening: Opening) -> Opening:
        self._session, self.seed, self.opening = opening.id, opening.seed, opening
        return opening

    def _stepped(self, reply: str | InvalidReply, result: TurnResult) -> TurnResult:
        self._replies.append(reply)
        self.result = result
        self.invalid_replies += result.invalid_reply is not None
        if self.has_ended:
            self._give_back()
        return result
