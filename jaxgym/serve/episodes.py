"""Episodes of one process, which stand on one pool and outlive their sessions.

Trainers forget to close what they open, so the sessions of the shared pool are closed when nobody uses them for a
while. An episode that goes on after that opens another session and repeats its replies there: the same seed and replies
lead to the same texts and rewards.
"""

import threading
from collections.abc import Mapping
from typing import Any

import jax

from jaxgym.serve.errors import UnknownSessionError
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import Opening, Outcome, repeated
from jaxgym.text import Refusal

CAPACITY = 4096
"""Sessions that the shared pool holds at a time."""

IDLE_SECONDS = 600.0
"""After so long without a call the shared pool may close a session."""

_making = threading.Lock()
_pools: list[SessionPool] = []


def shared_pool() -> SessionPool:
    """Return the pool of this process, made at the first call; its states are in the host's memory."""
    with _making:
        if not _pools:
            # An accelerator, where there is one, is the language model's.
            host = jax.local_devices(backend="cpu")[0]
            _pools.append(SessionPool(CAPACITY, IDLE_SECONDS, host))
        return _pools[0]


def options_of(env_config: Mapping[str, Any] | None, apart: tuple[str, ...] = ("name", "seed")) -> dict[str, Any]:
    """Return the options among the entries of a dataset's `env_config`.

    Entries that are None are left out: tables with rows of several games fill the options of the others in that way.

    Args:
        env_config: The entries; None stands for none.
        apart: Names of entries that are no options.
    """
    return {name: value for name, value in (env_config or {}).items() if name not in apart and value is not None}


class Episode:
    """One episode of a game in words. It is used by one caller at a time, from any thread or event loop.

    Attributes:
        name: The game.
        seed: The level seed; None until an episode whose seed is random has started.
        outcome: What the last reply led to; None before the first.
        refusals: Replies so far that were no move.
    """

    def __init__(
        self,
        name: str,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        pool: SessionPool | None = None,
    ):
        """Make an episode that is yet to start.

        Args:
            name: An id that has words, or its short name.
            seed: The level seed, None for a random one of training.
            options: Options of the environment, of its words, and of sessions. Levels are those of their seeds
                (`levels="fresh"`) unless said otherwise.
            pool: Where its sessions live; the shared pool if None.
        """
        self.name, self.seed = name, seed
        self.outcome: Outcome | None = None
        self.refusals = 0
        self._options = {"levels": "fresh", **(options or {})}
        self._pool = shared_pool() if pool is None else pool
        self._session: str | None = None
        self._replies: list[str | Refusal] = []

    @property
    def has_ended(self) -> bool:
        """Whether the last reply ended it."""
        return self.outcome is not None and (self.outcome.terminated or self.outcome.truncated)

    def check(self) -> None:
        """Make the game and compiles its programs; errors are those of `SessionPool.prepare`."""
        self._pool.prepare(self.name, self._options)

    def start(self) -> Opening:
        """Start it, or starts it again on the same level; errors are those of `SessionPool.open`."""
        self.close()
        return self._started(self._pool.open(self.name, self.seed, self._options))

    async def astart(self) -> Opening:
        """Start it as `start` does; the event loop goes on while a game is compiled."""
        self.close()
        return self._started(await self._pool.aopen(self.name, self.seed, self._options))

    def step(self, reply: str | Refusal) -> Outcome:
        """Make a turn, invalid for a `Refusal`; after the end, the last outcome comes again with reward 0."""
        if self.outcome is not None and self.has_ended:
            return repeated(self.outcome)
        if self._session is None:
            self.start()
        try:
            outcome = self._pool.step_one(self._session or "", reply)
        except UnknownSessionError:
            self._session = self._pool.open(self.name, self.seed, self._options).id
            for said in self._replies:
                self._pool.step_one(self._session, said)
            outcome = self._pool.step_one(self._session, reply)
        return self._stepped(reply, outcome)

    async def astep(self, reply: str | Refusal) -> Outcome:
        """Make a turn as `step` does."""
        if self.outcome is not None and self.has_ended:
            return repeated(self.outcome)
        if self._session is None:
            await self.astart()
        try:
            outcome = await self._pool.astep(self._session or "", reply)
        except UnknownSessionError:
            self._session = (await self._pool.aopen(self.name, self.seed, self._options)).id
            for said in self._replies:
                await self._pool.astep(self._session, said)
            outcome = await self._pool.astep(self._session, reply)
        return self._stepped(reply, outcome)

    def close(self) -> None:
        """Give its session back, if it has one, and forgets how far it got."""
        self._give_back()
        self._replies, self.outcome, self.refusals = [], None, 0

    def _give_back(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                self._pool.close([session])
            except UnknownSessionError:  # for idleness
                return

    def _started(self, opening: Opening) -> Opening:
        self._session, self.seed = opening.id, opening.seed
        return opening

    def _stepped(self, reply: str | Refusal, outcome: Outcome) -> Outcome:
        self._replies.append(reply)
        self.outcome = outcome
        self.refusals += outcome.refusal is not None
        if self.has_ended:
            self._give_back()
        return outcome
