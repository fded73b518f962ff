"""The pool of sessions: the one mutable object on the host, on which every protocol stands."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxgym.options import is_integer
from jaxgym.serve.errors import CapacityError, ClosedSessionError, RequestError, UnknownSessionError
from jaxgym.serve.pool.calls import Calls, PoolCall
from jaxgym.serve.pool.checks import check_no_string, check_reply, checked_id, checked_seed, is_time
from jaxgym.serve.pool.games import GameTable, Session
from jaxgym.serve.pool.history import History
from jaxgym.serve.pool.library import Games
from jaxgym.serve.sessions import Opening, Outcome, Standing
from jaxgym.text import Refusal

MOST_SESSIONS = 2**20
"""The largest capacity: each game has a row of some hundred bytes for each session, whether it is open or not."""

_REMEMBERED = 4  # closed sessions whose end can be told, per session of the capacity

Options = Mapping[str, Any]


class SessionPool:
    """Sessions of games in words, stepped together.

    A session is one row of a batched state on the device. All calls may come from any thread; those for one session
    (`step_one`, and the coroutines, of any event loop) are made together with others that arrive at the same time, in
    one jitted step of one of a few sizes. Programs are compiled when a game's first session is opened, or ahead by
    `prepare`; after that nothing is compiled any more.

    The same game, options, seed and replies lead to the same texts and rewards, whatever other sessions do.

    A call that raises a `SessionError` has not changed any session.
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
            capacity: The most sessions at a time, over all games: 1 to `MOST_SESSIONS`. Each game that is played sets
                room for all of them aside.
            idle_seconds: Sessions that were not asked for anything for so long are closed when room or time is
                needed: by `open`, `open_many` and `close_idle`. Never if None.
            device: The JAX device of the states; JAX's default if None.
            keeps_history: Whether sessions remember their last turns, for viewers.
            allows_lenient: Whether sessions may be opened with `parsing="lenient"`, which searches prose for an action.
                Off for training: a reply that earns a reward by accident teaches a model to write such replies.

        Raises:
            RequestError: If the capacity is no integer from 1 to `MOST_SESSIONS`, or the idle time no number above 0.
        """
        if not is_integer(capacity) or not 1 <= capacity <= MOST_SESSIONS:
            raise RequestError(f"a pool was given capacity={capacity!r}; give an integer from 1 to {MOST_SESSIONS}.")
        if idle_seconds is not None and not is_time(idle_seconds):
            raise RequestError(
                f"a pool was given idle_seconds={idle_seconds!r}; give a number above 0, or None to close none."
            )
        self.capacity, self.idle_seconds, self._keeps_history = capacity, idle_seconds, keeps_history
        self._games = Games(capacity, jax.devices()[0] if device is None else device, allows_lenient=allows_lenient)
        self._calls = Calls(self._make_calls)  # its lock is that of the sessions and their states
        self._sessions: dict[str, Session] = {}
        self._closed: dict[str, str] = {}

    def __len__(self) -> int:
        """Sessions that are open."""
        return len(self._sessions)

    def __contains__(self, session_id: object) -> bool:
        """Return whether a session is open."""
        return isinstance(session_id, str) and session_id in self._sessions

    # Games.

    def prepare(self, name: str, options: Options | None = None) -> str:
        """Make a game and compiles its programs, so that opening its sessions takes no time.

        Args:
            name: An id that has words, or its short name.
            options: Options of the environment, of its words, and of sessions (`SESSION_OPTIONS`).

        Returns:
            The instructions.

        Raises:
            UnknownIdError: If there is no such environment, or it has no words.
            OptionError: If an option does not exist or does not take the given value.
            LevelError: See `jaxgym.make`.
        """
        return self._games.get(name, options or {}).instructions

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
            name: An id that has words, or its short name.
            seeds: Level seeds (see `jaxgym.levels`): 0 to 2^31 - 1 are training levels, from there to 2^32 - 1 held
                out. With a bank of n levels, seed s starts level s mod n. None stands for a random training seed.
            options: See `prepare`.
            start: Whether to start the episodes; otherwise the first step of a session does.

        Returns:
            For each session its id, seed and first text.

        Raises:
            UnknownIdError, OptionError, LevelError: See `prepare`.
            RequestError: If a seed is none.
            CapacityError: If there is no room for all of them.
        """
        seeds = [checked_seed(seed) for seed in seeds]
        game = self._games.get(name, options or {})
        with self._calls:
            used = time.monotonic()
            self._close_idle(used)
            if len(self._sessions) + len(seeds) > self.capacity:
                raise CapacityError(
                    f"{len(seeds)} more sessions were asked for while {len(self._sessions)} of {self.capacity} are "
                    "open; close some, or make a pool of a larger capacity."
                )
            opened = {secrets.token_hex(16): game.take(seed, used) for seed in seeds}
            if self._keeps_history:
                for session in opened.values():
                    session.history = History()
            if start and opened:
                try:
                    game.start(list(opened.values()))
                except BaseException:
                    for session in opened.values():
                        game.give_back(session)
                    raise
            self._sessions.update(opened)
            return [_opening(session_id, session) for session_id, session in opened.items()]

    def close(self, ids: Sequence[str]) -> None:
        """Close sessions, each of which was open.

        Raises:
            UnknownSessionError: If there is no such session.
            RequestError: If an id is given twice.
        """
        with self._calls:
            self._sessions_of(ids)
            for session_id in ids:
                self._close(session_id, "was closed")

    def close_idle(self) -> int:
        """Close the sessions that were idle for `idle_seconds`; returns how many these were."""
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

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(checked_id(session_id))
        if session is None:
            why = self._closed.get(session_id)
            if why is None:
                raise UnknownSessionError(f"there is no session {session_id!r}; give an id that open returned.")
            raise ClosedSessionError(f"the session {session_id!r} {why}; open another one.")
        return session

    def _sessions_of(self, ids: Sequence[str]) -> list[Session]:
        check_no_string("ids", ids)
        try:
            if len(set(ids)) < len(ids):
                twice = next(session_id for session_id in ids if list(ids).count(session_id) > 1)
                raise RequestError(f"the session {twice!r} was given twice in one call; give each session once a call.")
            return [self._sessions[session_id] for session_id in ids]
        except (KeyError, TypeError):  # of an id that nobody has, or one that can't be looked up
            return [self._session(session_id) for session_id in ids]

    # Turns.

    def step(self, ids: Sequence[str], replies: Sequence[str | Refusal]) -> list[Outcome]:
        """Make a turn in each of some sessions: the fast path.

        A session that has not started is started first; one whose episode has ended answers its last text again,
        with reward 0 and its flags as they were.

        Args:
            ids: Sessions, each once, of any games.
            replies: A reply for each; a `Refusal` for one that is known to be invalid, as a tool call with wrong
                arguments is.

        Returns:
            What the replies led to, in the order of the ids.

        Raises:
            UnknownSessionError: If there is no such session.
            RequestError: If an id is given twice, there are more or fewer replies than ids, or a reply is neither.
        """
        check_no_string("ids", ids)
        check_no_string("replies", replies)
        if len(ids) != len(replies):
            raise RequestError(f"{len(ids)} ids were given with {len(replies)} replies; give a list of one for each.")
        if set(map(type, replies)) != {str}:
            for reply in replies:
                check_reply(reply)
        with self._calls:
            return self._step(self._sessions_of(ids), replies)

    def reset(self, ids: Sequence[str], seeds: Sequence[int | None]) -> list[Opening]:
        """Start another episode in each of some sessions; None stands for a random training seed.

        Raises:
            UnknownSessionError: If there is no such session.
            RequestError: If an id is given twice, a seed is none, or there are not as many of both.
        """
        check_no_string("ids", ids)
        if len(ids) != len(seeds):
            raise RequestError(f"{len(ids)} ids were given with {len(seeds)} seeds; give one for each.")
        seeds = [checked_seed(seed) for seed in seeds]
        with self._calls:
            return self._reset(ids, self._sessions_of(ids), seeds)

    def _step(self, sessions: Sequence[Session], replies: Sequence[str | Refusal]) -> list[Outcome]:
        used = time.monotonic()
        for session in sessions:
            session.used = used
        if len({session.game for session in sessions}) == 1:
            return sessions[0].game.step(sessions, replies)
        outcomes: dict[int, Outcome] = {}
        for game, lanes in _by_game(sessions).items():
            made = game.step([sessions[lane] for lane in lanes], [replies[lane] for lane in lanes])
            outcomes.update(zip(lanes, made, strict=True))
        return [outcomes[lane] for lane in range(len(sessions))]

    def _reset(self, ids: Sequence[str], sessions: Sequence[Session], seeds: Sequence[int]) -> list[Opening]:
        used = time.monotonic()
        for session, seed in zip(sessions, seeds, strict=True):
            session.seed, session.used = seed, used
        for game, lanes in _by_game(sessions).items():
            game.start([sessions[lane] for lane in lanes])
        return [_opening(session_id, session) for session_id, session in zip(ids, sessions, strict=True)]

    # Calls for one session.

    def step_one(self, session_id: str, reply: str | Refusal) -> Outcome:
        """Make a turn in one session, together with what other threads and coroutines ask for; see `step`."""
        check_reply(reply)
        return self._calls.wait(checked_id(session_id), reply, None)

    def reset_one(self, session_id: str, seed: int | None = None) -> Opening:
        """Start another episode in one session, together with what others ask for; see `reset`."""
        return self._calls.wait(checked_id(session_id), None, checked_seed(seed))

    async def aopen(
        self, name: str, seed: int | None = None, options: Options | None = None, *, start: bool = True
    ) -> Opening:
        """Open a session as `open` does; the event loop goes on while a game is compiled."""
        seed = checked_seed(seed)
        if not self._games.has(name, options or {}):
            await asyncio.to_thread(self.prepare, name, options)
        opening = self.open(name, seed, options, start=False)
        if not start:
            return opening
        try:
            return await self._calls.future(opening.id, None, seed)
        except BaseException:  # the caller never learns the id, so nobody else can close the session
            if opening.id in self:
                self.close([opening.id])
            raise

    async def astep(self, session_id: str, reply: str | Refusal) -> Outcome:
        """Make a turn in one session, together with what other coroutines and threads ask for; see `step`."""
        check_reply(reply)
        return await self._calls.future(checked_id(session_id), reply, None)

    async def areset(self, session_id: str, seed: int | None = None) -> Opening:
        """Start another episode in one session, together with what others ask for; see `reset`."""
        return await self._calls.future(checked_id(session_id), None, checked_seed(seed))

    async def aclose(self, session_id: str) -> None:
        """Close a session; see `close`."""
        self.close([session_id])

    def _make_calls(self, calls: Sequence[PoolCall]) -> None:
        known: list[tuple[PoolCall, Session]] = []
        for call in calls:
            try:
                known.append((call, self._session(call.session_id)))
            except UnknownSessionError as error:
                call.result = error
        steps = [pair for pair in known if pair[0].reply is not None]
        starts = [pair for pair in known if pair[0].reply is None]
        try:
            if steps:
                outcomes = self._step([session for _, session in steps], [call.reply or "" for call, _ in steps])
                for (call, _), outcome in zip(steps, outcomes, strict=True):
                    call.result = outcome
            if starts:
                sessions = [session for _, session in starts]
                seeds = [session.seed if call.seed is None else call.seed for call, session in starts]
                openings = self._reset([call.session_id for call, _ in starts], sessions, seeds)
                for (call, _), opening in zip(starts, openings, strict=True):
                    call.result = opening
        except BaseException as error:  # whatever it is, those who wait have to hear of it
            for call in calls:
                call.result = error if call.result is None else call.result
            if not isinstance(error, Exception):
                raise

    # What a session shows.

    def look(self, session_id: str) -> Session | None:
        """Return a session to be looked at, which counts as no use of it; None if there is none that is open."""
        return self._sessions.get(session_id)

    def standing(self, session_id: str) -> Standing:
        """Return how a session stands.

        Raises:
            UnknownSessionError: If there is no such session.
        """
        with self._calls:
            return self._session(session_id).standing()

    def frame(self, session_id: str) -> np.ndarray:
        """Return the frame of a session's state, uint8 (84, 84, 3); its program is compiled when first asked for.

        Raises:
            UnknownSessionError: If there is no such session.
            RequestError: If the session's observations are no frames.
        """
        with self._calls:
            session = self._started(session_id)
            observation = session.game.observe(session)
        frame = observation.get("visual_observation") if isinstance(observation, dict) else observation
        if frame is None or frame.dtype != np.uint8:
            raise RequestError(
                f"a frame of {session.game.env_id} was asked for, whose observations are none; "
                "open it with observation='pixels'."
            )
        return frame

    def scene(self, session_id: str) -> Any:
        """Return what a viewer may know of a session's state, with NumPy leaves.

        Raises:
            UnknownSessionError: If there is no such session.
        """
        with self._calls:
            session = self._started(session_id)
            return session.game.scene(session)

    def _started(self, session_id: str) -> Session:
        session = self._session(session_id)
        session.used = time.monotonic()
        if session.text is None:
            session.game.start([session])
        return session


def _by_game(sessions: Sequence[Session]) -> dict[GameTable, list[int]]:
    lanes: dict[GameTable, list[int]] = {}
    for lane, session in enumerate(sessions):
        lanes.setdefault(session.game, []).append(lane)
    return lanes


def _opening(session_id: str, session: Session) -> Opening:
    game = session.game
    return Opening(session_id, game.env_id, session.seed, game.instructions, session.text or "")
