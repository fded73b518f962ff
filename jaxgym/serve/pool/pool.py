"""The session pool, the only mutable host object, which all protocols use."""

import asyncio
import numbers
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxgym.levels import SPLIT_SIZE
from jaxgym.options import is_integer, plain
from jaxgym.serve.errors import CapacityError, RequestError
from jaxgym.serve.pool.games import History, Session
from jaxgym.serve.pool.library import Games
from jaxgym.serve.pool.open_sessions import OpenSessions, check_no_string, checked_id, opening_of, with_images
from jaxgym.serve.sessions import Opening

MOST_SESSIONS = 2**20
"""Maximum capacity: each game allocates a row of some hundred bytes for each session of the capacity."""

_REMEMBERED = 4  # number of closed sessions with a stored reason, per session of the capacity

Options = Mapping[str, Any]


class SessionPool(OpenSessions):
    """Run many text episodes in one batched JAX state.

    Each session is one row of a batched state on the device. All methods are thread-safe. Calls for one session
    (`step_one` and the coroutines, in any event loop) that arrive at the same time are grouped and advanced by one
    jitted step of one of a few batch sizes. The programs are compiled when a game's first session is opened, or by
    `prepare`; later calls compile nothing.

    A session's texts and rewards depend only on its game, options, seed and replies, not on other sessions. A call that
    raises a `SessionError` leaves every session unchanged.
    """

    def __init__(
        self,
        capacity: int = 1024,
        idle_seconds: float | None = None,
        device: Any = None,
        *,
        keeps_history: bool = False,
        allows_lenient: bool = False,
    ):
        """Make an empty pool.

        Args:
            capacity: Maximum number of open sessions of all games together, 1 to `MOST_SESSIONS`. Each game allocates
                states for all of them.
            idle_seconds: Time without a call in seconds after which `open`, `open_many` and `close_idle` close a
                session; None disables this.
            device: The JAX device of the states; JAX's default if None.
            keeps_history: Whether sessions keep their last turns, for viewers.
            allows_lenient: Whether sessions can use `parsing="lenient"`, which searches prose for an action. Do not use
                it in training: rewards for accidental actions teach a model to write such replies.

        Raises:
            RequestError: If the capacity is not an integer from 1 to `MOST_SESSIONS`, or the idle time is not positive.
        """
        if not is_integer(capacity) or not 1 <= capacity <= MOST_SESSIONS:
            raise RequestError(f"capacity: expected an integer from 1 to {MOST_SESSIONS}, got {capacity!r}.")
        is_time = isinstance(idle_seconds, numbers.Real) and type(idle_seconds) is not bool and idle_seconds > 0
        if idle_seconds is not None and not is_time:
            raise RequestError(f"idle_seconds: expected a positive number or None, got {idle_seconds!r}.")
        self.capacity, self.idle_seconds, self._keeps_history = capacity, idle_seconds, keeps_history
        self._games = Games(capacity, jax.devices()[0] if device is None else device, allows_lenient=allows_lenient)
        super().__init__()

    def __len__(self) -> int:
        """Return the number of open sessions."""
        return len(self._sessions)

    def __contains__(self, session_id: object) -> bool:
        """Return whether a session is open."""
        return isinstance(session_id, str) and session_id in self._sessions

    # Games.

    def prepare(self, name: str, options: Options | None = None) -> str:
        """Make a game and compile its programs, so that its sessions open at once.

        Args:
            name: Id or short name of an environment with a text interface.
            options: Options of the environment, of its text interface, and of sessions (`SESSION_OPTIONS`). In a pool,
                `levels` is `"fresh"` by default, also in environments where `jaxgym.make` uses a level buffer.

        Returns:
            The system prompt.

        Raises:
            UnknownIdError: If there is no such environment, or it has no text interface.
            OptionError: If an option does not exist or its value is invalid.
            LevelError: See `jaxgym.make`.
        """
        return self._games.get(name, options or {}).system_prompt

    # Sessions.

    def open(
        self, name: str, seed: int | None = None, options: Options | None = None, *, start: bool = True
    ) -> Opening:
        """Open a session; see `open_many`."""
        return self.open_many(name, [seed], options, start=start)[0]

    def open_many(
        self, name: str, seeds: Sequence[int | None], options: Options | None = None, *, start: bool = True
    ) -> list[Opening]:
        """Open one session for each seed.

        Args:
            name: Id or short name of an environment with a text interface.
            seeds: Level seeds: 0 to 2^31 - 1 are training levels, 2^31 to 2^32 - 1 are held out. None samples a
                training seed. If the option `levels` is a level buffer of n levels, seed s starts level s mod n.
            options: See `prepare`.
            start: Whether to start the episodes; otherwise the first step of a session starts its episode.

        Returns:
            Session id, seed, system prompt, first observation text and first image of each session.

        Raises:
            UnknownIdError, OptionError, LevelError: See `prepare`.
            RequestError: If a seed is invalid.
            CapacityError: If the pool is full.
        """
        seeds = [_checked_seed(seed) for seed in seeds]
        game = self._games.get(name, options or {})
        with self._calls:
            used = time.monotonic()
            self._close_idle(used)
            if len(self._sessions) + len(seeds) > self.capacity:
                raise CapacityError(
                    f"expected at most {self.capacity} open sessions, got {len(seeds)} more than the "
                    f"{len(self._sessions)} open ones. Close some, or increase the capacity (--max-sessions)."
                )
            opened = {secrets.token_hex(16): game.take(seed, used) for seed in seeds}
            if self._keeps_history:
                for session in opened.values():
                    session.history = History()
            images: Sequence[Any] = [None] * len(opened)
            if start and opened:
                try:
                    images = game.start(list(opened.values()))
                except BaseException:
                    for session in opened.values():
                        game.give_back(session)
                    raise
            self._sessions.update(opened)
            pairs = zip(opened.items(), images, strict=True)
            openings = [opening_of(session_id, session, image) for (session_id, session), image in pairs]
        return with_images(openings)

    def close(self, ids: Sequence[str]) -> None:
        """Close open sessions.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: If an id is given twice.
        """
        with self._calls:
            self._sessions_of(ids)
            for session_id in ids:
                self._close(session_id, "was closed")

    def close_idle(self) -> int:
        """Close the sessions that have been idle for `idle_seconds`; return their number."""
        with self._calls:
            return self._close_idle(time.monotonic())

    def _close_idle(self, now: float) -> int:
        if self.idle_seconds is None:
            return 0
        idle = [session_id for session_id, session in self._sessions.items() if now - session.used > self.idle_seconds]
        for session_id in idle:
            self._close(session_id, f"was closed after {self.idle_seconds:g} s without a call")
        return len(idle)

    def _close(self, session_id: str, why: str) -> None:
        session = self._sessions.pop(session_id)
        session.game.give_back(session)
        self._closed[session_id] = why
        if len(self._closed) > _REMEMBERED * self.capacity:
            del self._closed[next(iter(self._closed))]

    def reset(self, ids: Sequence[str], seeds: Sequence[int | None]) -> list[Opening]:
        """Start another episode in each of several sessions; the seed None samples a training seed.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: If an id is given twice, a seed is invalid, or the numbers of ids and seeds differ.
        """
        check_no_string("ids", ids)
        if len(ids) != len(seeds):
            raise RequestError(f"seeds: expected one for each of {len(ids)} ids, got {len(seeds)}.")
        seeds = [_checked_seed(seed) for seed in seeds]
        with self._calls:
            openings = self._reset(ids, self._sessions_of(ids), seeds)
        return with_images(openings)

    def reset_one(self, session_id: str, seed: int | None = None) -> Opening:
        """Start another episode in one session, batched with other calls; see `reset`."""
        return with_images([self._calls.wait(checked_id(session_id), None, _checked_seed(seed))])[0]

    async def aopen(
        self, name: str, seed: int | None = None, options: Options | None = None, *, start: bool = True
    ) -> Opening:
        """Open a session as `open` does, without blocking the event loop during compilation."""
        seed = _checked_seed(seed)
        if not self._games.has(name, options or {}):
            await asyncio.to_thread(self.prepare, name, options)
        opening = self.open(name, seed, options, start=False)
        if not start:
            return opening
        try:
            return await self._calls.future(opening.id, None, seed)
        except BaseException:  # the caller does not get the id, so it can't close the session
            if opening.id in self:
                self.close([opening.id])
            raise

    async def areset(self, session_id: str, seed: int | None = None) -> Opening:
        """Start another episode in one session, batched with other calls; see `reset`."""
        return await self._calls.future(checked_id(session_id), None, _checked_seed(seed))

    async def aclose(self, session_id: str) -> None:
        """Close a session; see `close`."""
        self.close([session_id])

    # Views of a session.

    def look(self, session_id: str) -> Session | None:
        """Return an open session, to read only, without resetting its idle time; None if it is not open."""
        return self._sessions.get(session_id)

    def frame(self, session_id: str) -> np.ndarray:
        """Return the frame of a session's state, uint8 (H, W, 3); the first call compiles its program.

        Raises:
            UnknownSessionError: If the session is not open.
            RequestError: If the session's observations are not frames.
        """
        with self._calls:
            session = self._session(session_id)
            session.used = time.monotonic()
            if session.text is None:
                session.game.start([session])
            frame = session.game.frame(session)
        if frame is None:
            raise RequestError(
                f"{session.game.env_id}: expected an observation with a frame, got none. "
                "Open the session with observation='pixels'."
            )
        return frame


def _checked_seed(seed: Any) -> int:
    """Return a level seed; a random training seed for None.

    Raises:
        RequestError: If it is not a level seed.
    """
    last = 2 * SPLIT_SIZE - 1
    if type(seed) is int and 0 <= seed <= last:  # fast path
        return seed
    if seed is None:
        return secrets.randbelow(SPLIT_SIZE)
    seed = plain(seed)
    if not is_integer(seed) or not 0 <= seed <= last:
        raise RequestError(f"seed: expected an integer from 0 to {last}, or None, got {seed!r}.")
    return seed
