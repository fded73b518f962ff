"""Turns of the open sessions of a pool."""

import reprlib
import secrets
import time
from collections.abc import Sequence
from typing import Any

from jaxgym.errors import ContractError
from jaxgym.levels import SPLIT_SIZE
from jaxgym.options import is_integer, plain
from jaxgym.serve.errors import (
    CapacityError,
    ClosedSessionError,
    PartialStepError,
    RequestError,
    UnknownSessionError,
)
from jaxgym.serve.images import encode_all
from jaxgym.serve.pool.calls import Calls, PoolCall
from jaxgym.serve.pool.difficulty import Controller
from jaxgym.serve.pool.games import GameTable
from jaxgym.serve.pool.library import Games
from jaxgym.serve.pool.session import Session
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.text import InvalidReply

_REMEMBERED = 4  # number of closed sessions with a stored reason, per session of the capacity


def check_reply(reply: object) -> None:
    """Raise `RequestError` if a reply is neither a string nor an `InvalidReply`."""
    if type(reply) is not str and not isinstance(reply, str | InvalidReply):  # the common case first
        raise RequestError(f"reply: expected a string, got {reprlib.repr(reply)}.")


def checked_id(session_id: Any) -> str:
    """Return a session id, or raise here, so that the thread that makes the batch never gets an invalid one."""
    if not isinstance(session_id, str):
        raise UnknownSessionError(f"Unknown session {reprlib.repr(session_id)}. Use an id that open returned.")
    return session_id


def checked_seed(seed: Any, num_seeds: int = 2 * SPLIT_SIZE) -> int:
    """Return a level seed below `num_seeds`; a random training seed for None.

    Raises:
        RequestError: If it is not a level seed.
    """
    last = num_seeds - 1
    if type(seed) is int and 0 <= seed <= last:  # fast path
        return seed
    if seed is None:
        return secrets.randbelow(SPLIT_SIZE)
    seed = plain(seed)
    if not is_integer(seed) or not 0 <= seed <= last:
        raise RequestError(f"seed: expected an integer from 0 to {last}, or None, got {seed!r}.")
    return seed


def check_no_string(name: str, given: object) -> None:
    """Raise `RequestError` if a list argument is a string."""
    if isinstance(given, str):
        raise RequestError(f"{name}: expected a list, got the string {reprlib.repr(given)}.")


class OpenSessions:
    """Open sessions of any games, and their turns; `SessionPool` opens and closes them.

    Attributes:
        num_seeds: Number of level seeds.
    """

    num_seeds = 2 * SPLIT_SIZE

    def __init__(self, games: Games, capacity: int, idle_seconds: float | None) -> None:
        """Make an empty collection; see `SessionPool` for the arguments."""
        self.capacity, self.idle_seconds, self._games = capacity, idle_seconds, games
        self._calls = Calls(self._make_calls)  # its lock guards the sessions and their states
        self._sessions: dict[str, Session] = {}
        self._closed: dict[str, str] = {}
        self._controllers: dict[Any, Controller] = {}  # of adaptive difficulties, by game

    def step(self, ids: Sequence[str], replies: Sequence[str | InvalidReply]) -> list[TurnResult]:
        """Make one turn in each of several sessions; this is the fastest way.

        A session that has not started is started first. A session whose episode has ended returns its last result again
        with reward 0.

        Args:
            ids: Different sessions, of any games.
            replies: One reply for each session; an `InvalidReply` is an invalid reply, for example a tool call with
                wrong arguments.

        Returns:
            The results of the turns, in the order of the ids.

        Raises:
            UnknownSessionError: If an id is not that of an open session.
            RequestError: If an id is given twice, the numbers of ids and replies differ, or a reply has another type.
            PartialStepError: If the parser of your own text interface fails. All other sessions have made their turn.
        """
        check_no_string("ids", ids)
        check_no_string("replies", replies)
        if len(ids) != len(replies):
            raise RequestError(f"replies: expected one for each of {len(ids)} ids, got {len(replies)}.")
        if set(map(type, replies)) != {str}:
            for reply in replies:
                check_reply(reply)
        with self._calls:
            results = self._step(self._sessions_of(ids), replies)
        results = with_images(results)
        failed = next((result for result in results if isinstance(result, Exception)), None)
        if failed is not None:
            raise PartialStepError(str(failed), dict(zip(ids, results, strict=True))) from failed
        return results

    def step_one(self, session_id: str, reply: str | InvalidReply) -> TurnResult:
        """Make a turn in one session, batched with the calls of other threads and coroutines; see `step`."""
        check_reply(reply)
        return with_images([self._calls.wait(checked_id(session_id), reply, None)])[0]

    async def astep(self, session_id: str, reply: str | InvalidReply) -> TurnResult:
        """Make a turn in one session, batched with the calls of other coroutines and threads; see `step`."""
        check_reply(reply)
        return await self._calls.future(checked_id(session_id), reply, None)

    def _make_calls(self, calls: Sequence[PoolCall]) -> None:
        steps: list[tuple[PoolCall, Session]] = []
        starts: list[tuple[PoolCall, Session]] = []
        for call in calls:
            session = self._sessions.get(call.session_id)
            if session is not None:
                (starts if call.reply is None else steps).append((call, session))
            else:
                call.result = self._unknown(call.session_id)
        try:
            if steps:
                results = self._step([session for _, session in steps], [call.reply or "" for call, _ in steps])
                for (call, _), result in zip(steps, results, strict=True):
                    call.result = result
            if starts:
                sessions = [session for _, session in starts]
                seeds = [session.seed if call.seed is None else call.seed for call, session in starts]
                openings = self._reset([call.session_id for call, _ in starts], sessions, seeds)
                for (call, _), opening in zip(starts, openings, strict=True):
                    call.result = opening
        except BaseException as error:  # every waiting caller needs a result
            for call in calls:
                call.result = error if call.result is None else call.result
            if not isinstance(error, Exception):
                raise

    def _step(
        self, sessions: Sequence[Session], replies: Sequence[str | InvalidReply]
    ) -> list[TurnResult | ContractError]:
        used = time.monotonic()
        for session in sessions:
            session.used = used
        counted = [session for session in sessions if session.count is not None] if self._controllers else ()
        results = per_game("step", [session.game for session in sessions], sessions, replies)
        for session in counted:
            if session.last is not None:
                session.count_end(session.last.is_solved)
        return results

    def _reset(self, ids: Sequence[str], sessions: Sequence[Session], seeds: Sequence[int]) -> list[Opening]:
        used = time.monotonic()
        for session, seed in zip(sessions, seeds, strict=True):
            session.seed, session.used = seed, used
        images = per_game("start", [session.game for session in sessions], sessions)
        return list(map(opening_of, ids, sessions, images))

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

    def _check_room(self, count: int, now: float) -> None:
        """Close idle sessions; raise `CapacityError` if there is no room for `count` more."""
        self._close_idle(now)
        if len(self._sessions) + count > self.capacity:
            raise CapacityError(
                f"expected at most {self.capacity} open sessions, got {count} more than the "
                f"{len(self._sessions)} open ones. Close some, or increase the capacity (--max-sessions)."
            )

    def _new_id(self) -> str:
        return secrets.token_hex(16)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(checked_id(session_id))
        if session is None:
            raise self._unknown(session_id)
        return session

    def _unknown(self, session_id: str) -> UnknownSessionError:
        why = self._closed.get(session_id)
        if why is None:
            return UnknownSessionError(f"Unknown session {session_id!r}. Use an id that open returned.")
        return ClosedSessionError(f"The session {session_id!r} {why}. Open another one.")

    def _sessions_of(self, ids: Sequence[str]) -> list[Session]:
        check_no_string("ids", ids)
        try:
            if len(set(ids)) < len(ids):
                twice = next(session_id for session_id in ids if list(ids).count(session_id) > 1)
                raise RequestError(f"ids: expected different sessions, got {twice!r} twice.")
            return [self._sessions[session_id] for session_id in ids]
        except (KeyError, TypeError):  # an unknown or unhashable id
            return [self._session(session_id) for session_id in ids]


def per_game(method: str, games: Sequence[GameTable], *columns: Sequence[Any]) -> list[Any]:
    """Call a method of each game once, with its entries of the columns; return a result for each entry of `games`."""
    if len(set(games)) == 1:
        return getattr(games[0], method)(*columns)
    indices: dict[GameTable, list[int]] = {}
    for index, game in enumerate(games):
        indices.setdefault(game, []).append(index)
    results: dict[int, Any] = {}
    for game, own in indices.items():
        parts = [[column[index] for index in own] for column in columns]
        results.update(zip(own, getattr(game, method)(*parts), strict=True))
    return [results[index] for index in range(len(games))]


def opening_of(session_id: str, session: Session, image: Any) -> Opening:
    """Return the start of a session's current episode; `image` is the first `Frame`, or None."""
    game = session.game
    prompts = game.system_prompt, game.reply_format
    text, adapted = session.text or "", session.adapted
    return Opening(session_id, game.env_id, session.seed, *prompts, text, game.text_version, image, adapted)


# Frames are encoded without the pool's lock.


def with_images(results: list[Any]) -> list[Any]:
    """Return openings, turn results or errors, with frames encoded as PNG."""
    images = ((index, getattr(result, "image", None)) for index, result in enumerate(results))
    frames = {index: image for index, image in images if image is not None}
    if not frames:
        return results
    encoded = dict(zip(frames, encode_all(list(frames.values())), strict=True))
    return [
        result._replace(image=encoded[index]) if index in encoded else result for index, result in enumerate(results)
    ]
