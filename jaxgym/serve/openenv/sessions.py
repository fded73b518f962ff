"""Sessions of an OpenEnv server: their observations, and their calls of the pool."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jaxgym.serve.errors import CapacityError, ClosedSessionError
from jaxgym.serve.openenv import frames
from jaxgym.serve.sessions import Opening, TurnResult
from jaxgym.serve.web.http import Hosted
from jaxgym.text import InvalidReply

SPARE = 32
"""Sessions in addition to those of clients: for HTTP calls, which need one for the call, and for the page."""

_GAME = -1  # the sender of a message of the game


class ClientSession:
    """Session of a client.

    Some clients expect the whole conversation in the first message: if it is longer than the last one, they remove as
    many characters as the last one had. A text that is longer than the last message is therefore appended to it.

    Attributes:
        id: The session id, a random string.
        used: Time of the client's last message, in seconds of `time.monotonic`.
        hang_up: Closes the client's socket; None without a socket.
        is_ending: Whether the session ends with its socket.
        version: Version of the Model Context Protocol of the client; empty for a client of OpenEnv.
        episode_id: Id of the episode for the client; None before the first.
        turns: Number of steps of the client in this episode.
        seed: The level seed of the episode.
    """

    __slots__ = ("_last", "_prompt", "episode_id", "hang_up", "id", "is_ending", "seed", "turns", "used", "version")

    def __init__(self, opening: Opening):
        """Wrap a session of the pool that has not started."""
        self.id, self.used = opening.id, time.monotonic()
        self.hang_up: Callable[[], Awaitable[None]] | None = None
        self.is_ending, self.version = False, ""
        self.episode_id: str | None = None
        self.seed, self.turns, self._last = opening.seed, 0, ""
        self._prompt = '{"observation":{"prompt":' + json.dumps(opening.system_prompt) + ',"text":'

    def opened(self, opening: Opening, episode_id: str | None) -> str:
        """Return the first observation of an episode, as JSON."""
        self.episode_id, self.seed, self.turns = episode_id or str(uuid.uuid4()), opening.seed, 0
        self._last = opening.text
        said = json.dumps(opening.text)
        info = {"turn": 0, "seed": opening.seed, "text_version": opening.text_version}
        return self._observation(said, said, info, "null", False)

    def stepped(self, result: TurnResult) -> str:
        """Return the observation after a step, as JSON."""
        self.episode_id = self.episode_id or str(uuid.uuid4())
        self.turns += 1
        text, before = result.text, self._last
        said = content = json.dumps(text)
        if len(text) > len(before):
            text = f"{before}\n{text}"
            content = json.dumps(text)
        self._last = text
        info = {
            "turn": result.number,
            "seed": self.seed,
            "invalid_reply": result.invalid_reply,
            "terminated": result.terminated,
            "truncated": result.truncated,
            "is_solved": result.is_solved,
            "total_reward": result.total_reward,
            "reward_signals": result.components,
        }
        if result.info:
            info["episode"] = result.info
        has_ended = result.terminated | result.truncated
        return self._observation(said, content, info, repr(float(result.reward)), has_ended)

    def _observation(self, said: str, content: str, info: Mapping[str, Any], reward: str, has_ended: bool) -> str:
        return (
            f'{self._prompt}{said},"messages":[{{"sender_id":{_GAME},"content":{content},"category":"MESSAGE"}}],'
            f'"info":{json.dumps(info)}}},"reward":{reward},"done":{"true" if has_ended else "false"}}}'
        )


class ClientSessions:
    """Sessions of the clients of a server; used in one event loop."""

    def __init__(self, hosted: Hosted, max_sessions: int, idle_seconds: float):
        """Make an empty collection; the environment's pool has room for `max_sessions + SPARE` sessions.

        A session is closed if its client sends nothing for `idle_seconds`; 0 means never.
        """
        self.hosted, self.max_sessions, self._idle_seconds = hosted, max_sessions, idle_seconds
        self._pool = hosted.pool
        self._open: dict[str, ClientSession] = {}

    @property
    def room(self) -> dict[str, int]:
        """Number of open sessions, and their maximum number, for a client that is rejected."""
        return {"active_sessions": len(self._open), "max_sessions": self.max_sessions}

    def ids(self) -> list[str]:
        """Return the ids of the open sessions."""
        return list(self._open)

    def open(self) -> ClientSession:
        """Open a session, whose episode its first step or reset starts.

        Raises:
            CapacityError: If the server is full.
        """
        if len(self._open) >= self.max_sessions:
            raise CapacityError(
                f"{len(self._open)} of {self.max_sessions} sessions are open; close one, or serve more of them."
            )
        session = self._new()
        self._open[session.id] = session
        return session

    def _new(self) -> ClientSession:
        opening = self._pool.open(self.hosted.env_id, None, self.hosted.options, start=False)
        return ClientSession(opening)

    def get(self, session_id: object) -> ClientSession | None:
        """Return an open session."""
        return self._open.get(session_id) if isinstance(session_id, str) else None

    def close(self, session: ClientSession) -> None:
        """Close a session if it is open."""
        if self._open.pop(session.id, None) is not None:
            self._pool.close([session.id])

    async def close_idle(self) -> None:
        """Close idle sessions and their sockets, repeatedly."""
        while self._idle_seconds:
            await asyncio.sleep(min(max(self._idle_seconds / 4, 0.1), 5.0))
            last = time.monotonic() - self._idle_seconds
            idle = [session for session in self._open.values() if session.used < last]
            for session in idle:
                self.close(session)
            await asyncio.gather(*(session.hang_up() for session in idle if session.hang_up is not None))

    async def reset(self, session: ClientSession, given: Any) -> str:
        """Start the next episode of a session; return the observation, as JSON.

        Raises:
            FrameError: If the arguments are invalid.
        """
        seed, episode_id = frames.start_of(given)
        return session.opened(await self._pool.areset(session.id, seed), episode_id)

    async def step(self, session: ClientSession, reply: str | InvalidReply) -> str:
        """Make a turn; return the observation, as JSON."""
        return session.stepped(await self._pool.astep(session.id, reply))

    def state(self, session: ClientSession) -> dict[str, Any]:
        """Return the state of a session's episode."""
        played = self._pool.look(session.id)
        if played is None:
            raise ClosedSessionError("The session was closed. Open another one.")
        return {
            "episode_id": session.episode_id,
            "step_count": session.turns,
            "env_id": self.hosted.env_id,
            "seed": played.seed,
            "total_reward": played.total_reward,
            "terminated": played.last is not None and played.last.terminated,
            "truncated": played.last is not None and played.last.truncated,
        }

    async def once(self, call: Callable[[ClientSession], Awaitable[Any]]) -> Any:
        """Make a call in a temporary session.

        Raises:
            CapacityError: If there are too many such calls at the same time.
        """
        session = self._new()
        try:
            return await call(session)
        finally:
            self._pool.close([session.id])
