"""The session pool, the only mutable host object, which all protocols use."""

import asyncio
import json
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.options import is_integer
from jaxgym.serve.errors import RequestError
from jaxgym.serve.pool import difficulty
from jaxgym.serve.pool.branches import Branches
from jaxgym.serve.pool.library import Games, game_key
from jaxgym.serve.pool.open_sessions import check_no_string, checked_id, checked_seed, opening_of, with_images
from jaxgym.serve.pool.session import Session
from jaxgym.serve.sessions import Opening

MOST_SESSIONS = 2**20
"""Maximum capacity: each game allocates a row of some hundred bytes for each session of the capacity."""

Options = Mapping[str, Any]


class SessionPool(Branches):
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
        undo_turns: int = 0,
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
            undo_turns: Number of turns that `undo` can take back. Each turn then keeps a copy of the session; 0 costs
                nothing.

        Raises:
            RequestError: If the capacity is not an integer from 1 to `MOST_SESSIONS`, the idle time is not positive, or
                `undo_turns` is no integer of at least 0.
        """
        if not is_integer(capacity) or not 1 <= capacity <= MOST_SESSIONS:
            raise RequestError(f"capacity: expected an integer from 1 to {MOST_SESSIONS}, got {capacity!r}.")
        is_time = isinstance(idle_seconds, numbers.Real) and type(idle_seconds) is not bool and idle_seconds > 0
        if idle_seconds is not None and not is_time:
            raise RequestError(f"idle_seconds: expected a positive number or None, got {idle_seconds!r}.")
        if not is_integer(undo_turns) or undo_turns < 0:
            raise RequestError(f"undo_turns: expected an integer of at least 0, got {undo_turns!r}.")
        device = jax.devices()[0] if device is None else device
        games = Games(capacity, device, allows_lenient=allows_lenient)
        super().__init__(games, capacity, idle_seconds)
        self._keeps_history, self._undo_turns = keeps_history, undo_turns

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
        return self._games.get(name, self._adapted(name, options or {})[0]).system_prompt

    def _adapted(
        self, name: str, options: Options, seed: int | None = None
    ) -> tuple[Options, Mapping[str, Any] | None, Callable[[bool], None] | None]:
        """Return the options of an episode, the adapted one of them, and the function that counts its success.

        Without a seed, the adapted option has the current value of its controller, and the episode does not count.
        """
        if not isinstance(options, Mapping) or options.get("adapt") is None:
            return options, None, None
        key = game_key(name, options)
        controller = self._controllers.get(key)
        if controller is None:
            controller = self._controllers.setdefault(key, difficulty.controller_of(key[0], options))
        group = None if seed is None else controller.start(seed)
        adapted = difficulty.concrete(key[0], controller.option, group.value if group else controller.value)
        count = None if group is None else partial(controller.end, group)
        return {**difficulty.without(options), **adapted}, adapted, count

    def difficulties(self) -> list[dict[str, Any]]:
        """Return the environment, the options, and the state of each adaptive difficulty of this pool.

        The state is the adapted `option`, its current `value`, the mean `success` of the last groups (None before the
        first decision), and the number of complete `groups`.
        """
        pairs = list(self._controllers.items())
        return [{"env_id": key[0], "options": json.loads(key[1]), **each.record()} for key, each in pairs]

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
        seeds = [checked_seed(seed, self.num_seeds) for seed in seeds]
        if not isinstance(options, Mapping) or options.get("adapt") is None:
            return self._open(name, seeds, options or {}, start=start)
        openings: list[Opening] = []
        try:
            for seed in seeds:
                openings += self._open(name, [seed], *self._adapted(name, options or {}, seed), start=start)
        except BaseException:
            self.close([opening.id for opening in openings])
            raise
        return openings

    def _open(
        self,
        name: str,
        seeds: Sequence[int],
        options: Options,
        adapted: Mapping[str, Any] | None = None,
        count: Callable[[bool], None] | None = None,
        *,
        start: bool,
    ) -> list[Opening]:
        game = self._games.get(name, options)
        with self._calls:
            used = time.monotonic()
            self._check_room(len(seeds), used)
            opened = {self._new_id(): game.take(seed, used) for seed in seeds}
            for session in opened.values():
                self._equip(session)
                session.adapted, session.count = adapted, count
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
            for session in self._sessions_of(ids):
                if session.number:  # the caller has stopped the episode
                    session.count_end(False)
            for session_id in ids:
                self._close(session_id, "was closed")

    def close_idle(self) -> int:
        """Close the sessions that have been idle for `idle_seconds`; return their number."""
        with self._calls:
            return self._close_idle(time.monotonic())

    def reset(self, ids: Sequence[str], seeds: Sequence[int | None]) -> list[Opening]:
        """Start another episode in each of several sessions; the seed None samples a training seed.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: If an id is given twice, a seed is invalid, or the numbers of ids and seeds differ.
        """
        check_no_string("ids", ids)
        if len(ids) != len(seeds):
            raise RequestError(f"seeds: expected one for each of {len(ids)} ids, got {len(seeds)}.")
        seeds = [checked_seed(seed, self.num_seeds) for seed in seeds]
        with self._calls:
            openings = self._reset(ids, self._sessions_of(ids), seeds)
        return with_images(openings)

    def reset_one(self, session_id: str, seed: int | None = None) -> Opening:
        """Start another episode in one session, batched with other calls; see `reset`."""
        return with_images([self._calls.wait(checked_id(session_id), None, checked_seed(seed, self.num_seeds))])[0]

    async def aopen(
        self, name: str, seed: int | None = None, options: Options | None = None, *, start: bool = True
    ) -> Opening:
        """Open a session as `open` does, without blocking the event loop during compilation."""
        seed = checked_seed(seed, self.num_seeds)
        options, adapted, count = self._adapted(name, options or {}, seed)
        if not self._games.has(name, options):
            await asyncio.to_thread(self.prepare, name, options)
        opening = self._open(name, [seed], options, adapted, count, start=False)[0]
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
        return await self._calls.future(checked_id(session_id), None, checked_seed(seed, self.num_seeds))

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
