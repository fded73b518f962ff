"""What clients of OpenEnv do with their sessions, whichever way they came in."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jaxgym.serve import arguments
from jaxgym.serve.errors import CapacityError, SessionError
from jaxgym.serve.openenv import frames
from jaxgym.serve.openenv.frames import FrameError, RpcError, Shown
from jaxgym.serve.openenv.tools import tools_of
from jaxgym.serve.web.answers import quoted
from jaxgym.serve.web.http import Hosted
from jaxgym.text import Refusal

SPARE = 32
"""Sessions beyond those that clients may hold: for calls over HTTP, which hold theirs for one step, and for people."""

BEGIN = "begin"
"""The tool that starts an episode; those that make moves are the game's."""

_BEGIN = {
    "name": BEGIN,
    "description": "Starts the next episode: returns the rules, the form of a reply, and the first text.",
    "inputSchema": {
        "type": "object",
        "properties": {"seed": {"type": "integer", "minimum": 0, "maximum": frames.HIGHEST_SEED}},
        "additionalProperties": False,
    },
}


class Play:
    """A session of a client.

    Attributes:
        id: Its id, which can't be guessed.
        shown: What the client has been shown.
        used: When the client last sent something, in seconds of `time.monotonic`.
        hang_up: Closes the socket of the client; None where there is none.
        is_ending: Whether it ends with its socket.
        version: The version of the Model Context Protocol that its client speaks; empty for one of OpenEnv.
    """

    __slots__ = ("hang_up", "id", "is_ending", "shown", "used", "version")

    def __init__(self, session_id: str, shown: Shown):
        self.id, self.shown, self.used = session_id, shown, time.monotonic()
        self.hang_up: Callable[[], Awaitable[None]] | None = None
        self.is_ending, self.version = False, ""


class Plays:
    """The sessions of the clients of a server; used in one event loop.

    Attributes:
        hosted: What is played.
        max_sessions: The most sessions at a time.
    """

    def __init__(self, hosted: Hosted, max_sessions: int, idle_seconds: float):
        """Starts with none.

        Args:
            hosted: What is played; its pool has room for `SPARE` more than the sessions.
            max_sessions: The most sessions at a time.
            idle_seconds: Sessions whose client sent nothing for so long are closed; 0 means never.
        """
        self.hosted, self.max_sessions, self._idle_seconds = hosted, max_sessions, idle_seconds
        self._pool = hosted.pool
        self._plays: dict[str, Play] = {}
        self._moves = tools_of(hosted.env_id, hosted.options)

    def __len__(self) -> int:
        """Sessions that are open."""
        return len(self._plays)

    def ids(self) -> list[str]:
        """Returns the ids of the sessions that are open."""
        return list(self._plays)

    def open(self) -> Play:
        """Opens a session, whose episode its first step or reset starts.

        Raises:
            CapacityError: If there are as many as there may be.
        """
        if len(self._plays) >= self.max_sessions:
            raise CapacityError(
                f"{len(self._plays)} of {self.max_sessions} sessions are open; close one, or serve more of them."
            )
        play = self._new()
        self._plays[play.id] = play
        return play

    def _new(self) -> Play:
        opening = self._pool.open(self.hosted.env_id, None, self.hosted.options, start=False)
        shown = Shown(self.hosted.instructions)
        shown.seed = opening.seed
        return Play(opening.id, shown)

    def get(self, session_id: object) -> Play | None:
        """Returns an open session."""
        return self._plays.get(session_id) if isinstance(session_id, str) else None

    def close(self, play: Play) -> None:
        """Closes a session; once more does nothing."""
        if self._plays.pop(play.id, None) is not None:
            self._pool.close([play.id])

    async def close_idle(self) -> None:
        """Closes the sessions that were idle for too long, and their sockets."""
        if not self._idle_seconds:
            return
        last = time.monotonic() - self._idle_seconds
        idle = [play for play in self._plays.values() if play.used < last]
        for play in idle:
            self.close(play)
        await asyncio.gather(*(play.hang_up() for play in idle if play.hang_up is not None))

    # Episodes.

    async def reset(self, play: Play, given: Any) -> str:
        """Starts the next episode of a session; returns the observation, as JSON.

        Raises:
            FrameError: If the arguments are not what they should be.
        """
        seed, episode_id = frames.start_of(given)
        opening = await self._pool.areset(play.id, seed)
        return play.shown.opened(opening, episode_id or frames.new_id())

    async def step(self, play: Play, reply: str | Refusal) -> str:
        """Makes a turn; returns the observation, as JSON."""
        outcome = await self._pool.astep(play.id, reply)
        if play.shown.episode_id is None:
            play.shown.episode_id = frames.new_id()
        return play.shown.stepped(outcome)

    def state(self, play: Play) -> dict[str, Any]:
        """Returns how a session stands."""
        standing = self._pool.standing(play.id)
        return {
            "episode_id": play.shown.episode_id,
            "step_count": play.shown.turns,
            "env_id": standing.env_id,
            "seed": standing.seed,
            "total_reward": standing.total_reward,
            "terminated": standing.terminated,
            "truncated": standing.truncated,
        }

    async def once(self, call: Callable[[Play], Awaitable[Any]]) -> Any:
        """Makes a call in a session of its own.

        Raises:
            CapacityError: If too many do that at a time.
        """
        play = self._new()
        try:
            return await call(play)
        finally:
            self._pool.close([play.id])

    # JSON-RPC.

    async def rpc_text(self, text: str | bytes, play: Play | None) -> dict[str, Any]:
        """Answers a call that is yet to be read; see `rpc`."""
        try:
            given = frames.loads(text)
        except (ValueError, RecursionError) as error:
            return frames.rpc_error(None, RpcError(frames.PARSE_ERROR, f"Parse error: {error}"))
        return await self.rpc(given, play)

    async def rpc(self, given: Any, play: Play | None) -> dict[str, Any]:
        """Answers a call of JSON-RPC.

        Args:
            given: The call.
            play: The session of the socket that it came through, or None.
        """
        call_id = frames.id_of(given)
        try:
            call_id, method, params = frames.call_of(given)
            return frames.rpc_result(call_id, await self._method(method, params, play))
        except RpcError as error:
            return frames.rpc_error(call_id, error)
        except FrameError as error:
            return frames.rpc_error(call_id, RpcError(frames.INVALID_PARAMS, str(error), {"errors": error.errors}))
        except CapacityError as error:
            room = {"active_sessions": len(self._plays), "max_sessions": self.max_sessions}
            return frames.rpc_error(call_id, RpcError(frames.SERVER_ERROR, str(error), room))
        except SessionError as error:
            return frames.rpc_error(call_id, RpcError(frames.INTERNAL_ERROR, str(error)))

    async def _method(self, method: str, params: Mapping[str, Any], play: Play | None) -> Any:
        if method == "openenv/session/create":
            return {"session_id": (play or self.open()).id}
        if method == "openenv/session/close":
            return self._end(params.get("session_id"), play)
        if method not in ("tools/list", "tools/call"):
            raise RpcError(frames.METHOD_NOT_FOUND, f"Method not found: {quoted(method)}")
        named = params.get("session_id")
        if play is None and named:
            play = self._known(named)
            play.used = time.monotonic()
        if method == "tools/list":
            moves = [
                {"name": name, "description": tool.description, "inputSchema": tool.schema}
                for name, tool in self._moves.items()
            ]
            return {"tools": [_BEGIN, *moves]}
        if play is None:
            return await self.once(lambda own: self._tool(own, params))
        return await self._tool(play, params)

    def _known(self, session_id: Any) -> Play:
        play = self.get(session_id)
        if play is None:
            raise RpcError(frames.INVALID_PARAMS, f"Unknown session_id: {quoted(session_id)}")
        return play

    def _end(self, session_id: Any, own: Play | None) -> dict[str, Any]:
        if not session_id:
            raise RpcError(frames.INVALID_PARAMS, "Invalid params - 'session_id' is required")
        play = self._known(session_id)
        if play is own:
            raise RpcError(frames.INVALID_REQUEST, "A session ends with its WebSocket; close that one.")
        if play.hang_up is not None:
            play.is_ending = True
            return {"session_id": play.id, "closed": False, "closing": True}
        self.close(play)
        return {"session_id": play.id, "closed": True}

    async def _tool(self, play: Play, params: Mapping[str, Any]) -> dict[str, Any]:
        name, given = params.get("name"), params.get("arguments")
        given = {} if given is None else given
        if not isinstance(name, str) or not name:
            raise RpcError(frames.INVALID_PARAMS, "Missing 'name' in params")
        tool = self._moves.get(name)
        if name != BEGIN and tool is None:
            known = ", ".join([BEGIN, *self._moves])
            raise RpcError(frames.INVALID_PARAMS, f"Tool not found: {quoted(name)}; give {known}")
        if tool is None:
            start = arguments.read(BEGIN, _BEGIN["inputSchema"], given)
            if isinstance(start, str):
                raise RpcError(frames.INVALID_PARAMS, start)
            is_error, observed = False, json.loads(await self.reset(play, start))
            text = f"{observed['observation']['prompt']}\n\n{observed['observation']['text']}"
        else:
            reply = tool.reply(given)
            # Wrong arguments are an invalid turn; the error flag also shows them to the clients of the protocol.
            is_error, observed = not isinstance(reply, str), json.loads(await self.step(play, reply))
            text = observed["observation"]["text"]
        content = [{"type": "text", "text": text}]
        return {"content": content, "structured_content": observed, "data": text, "is_error": is_error}


async def sweep(plays: Plays, idle_seconds: float) -> None:
    """Closes idle sessions for ever."""
    while True:
        await asyncio.sleep(min(max(idle_seconds / 4, 0.1), 5.0))
        await plays.close_idle()
