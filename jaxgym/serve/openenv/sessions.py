"""Sessions of an OpenEnv server: their tasks (level seeds), their observations, and their calls of the pool."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic
from pydantic_core import PydanticCustomError

from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.errors import CapacityError, ClosedSessionError
from jaxgym.serve.images import as_base64
from jaxgym.serve.pool import SessionPool
from jaxgym.serve.sessions import Opening
from jaxgym.serve.web.http import Hosted
from jaxgym.text import InvalidReply

SPLITS = {"train": 0, "test": SPLIT_SIZE}
"""First seeds of the splits: training levels and held-out levels."""

HIGHEST_SEED = 2 * SPLIT_SIZE - 1

Split = Literal["train", "test"]


class ResetOptions(pydantic.BaseModel):
    """Arguments of a reset; other entries are ignored.

    A seed with a split or an index must belong to them, as in a task; another seed is probably an index.
    """

    model_config = pydantic.ConfigDict(strict=True)

    split: Split | None = None
    index: Annotated[int, pydantic.Field(ge=0, lt=SPLIT_SIZE)] | None = None
    seed: Annotated[int, pydantic.Field(ge=0, le=HIGHEST_SEED)] | None = pydantic.Field(None, validate_default=True)
    episode_id: Annotated[str, pydantic.Field(max_length=255)] | None = None

    @pydantic.field_validator("seed")
    @classmethod
    def _of_the_task(cls, seed: int | None, info: pydantic.ValidationInfo) -> int | None:
        split, index = info.data.get("split"), info.data.get("index")
        if split is None or "index" not in info.data:
            return seed
        first = SPLITS[split] + (index or 0)
        if seed is None and index is not None:
            return first
        end = first + (SPLIT_SIZE if index is None else 1)
        if seed is None or not first <= seed < end:
            these = "this split" if index is None else "this split and index"
            wanted = first if index is not None else f"from {first} to {end - 1}"
            text = f"Input should be {wanted} to match {these}: pass only the seed, or only split and index"
            raise PydanticCustomError("value_error", "{text}", {"text": text})
        return seed


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

    def __init__(self, pool: SessionPool, opening: Opening):
        """Wrap a session of the pool that has not started."""
        self._pool, self._env_id = pool, opening.env_id
        self.id, self.used = opening.id, time.monotonic()
        self.hang_up: Callable[[], Awaitable[None]] | None = None
        self.is_ending, self.version = False, ""
        self.episode_id: str | None = None
        self.seed, self.turns, self._last = opening.seed, 0, ""
        self._prompt = '{"observation":{"prompt":' + json.dumps(opening.system_prompt) + ',"text":'

    async def reset(self, given: ResetOptions) -> str:
        """Start the next episode; return the observation, as JSON."""
        opening = await self._pool.areset(self.id, given.seed)
        self.episode_id, self.seed, self.turns = given.episode_id or str(uuid.uuid4()), opening.seed, 0
        self._last = opening.text
        said = json.dumps(opening.text)
        info = {"turn": 0, "seed": opening.seed, "text_version": opening.text_version}
        return self._observation(said, said, opening.image, info, "null", False)

    async def step(self, reply: str | InvalidReply) -> str:
        """Make a turn; return the observation, as JSON."""
        result = await self._pool.astep(self.id, reply)
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
        return self._observation(said, content, result.image, info, repr(float(result.reward)), has_ended)

    def _observation(
        self, said: str, content: str, image: bytes | None, info: Mapping[str, Any], reward: str, has_ended: bool
    ) -> str:
        """Return an observation as JSON; its text, the content of its message and its reward are JSON already."""
        shown = "" if image is None else f',"image":"{as_base64(image)}"'
        return (
            f'{self._prompt}{said}{shown},"messages":[{{"sender_id":{_GAME},"content":{content},"category":"MESSAGE"}}],'
            f'"info":{json.dumps(info)}}},"reward":{reward},"done":{"true" if has_ended else "false"}}}'
        )

    def go_back(self, turns: int, text: str) -> None:
        """Continue after a number of turns and a text, which `undo` or `load` has restored."""
        self.turns, self._last = turns, text

    def state(self) -> dict[str, Any]:
        """Return the state of the episode."""
        played = self._pool.look(self.id)
        if played is None:
            raise ClosedSessionError("The session was closed. Open another one.")
        return {
            "episode_id": self.episode_id,
            "step_count": self.turns,
            "env_id": self._env_id,
            "seed": played.seed,
            "total_reward": played.total_reward,
            "terminated": played.last is not None and played.last.terminated,
            "truncated": played.last is not None and played.last.truncated,
        }


SPARE = 32
"""Sessions in addition to those of clients: for HTTP calls, which need one for the call, and for the page."""


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
        self.check_room(1)
        session = self._new()
        self._open[session.id] = session
        return session

    def check_room(self, count: int) -> None:
        """Raise `CapacityError` if there is no room for so many more sessions."""
        if len(self._open) + count > self.max_sessions:
            raise CapacityError(
                f"expected at most {self.max_sessions} open sessions, got {count} more than the {len(self._open)} open "
                "ones. Close some, or start the server with a larger --max-sessions."
            )

    def add(self, sessions: Sequence[ClientSession]) -> list[str]:
        """Add sessions of the pool; return their ids."""
        self._open.update({session.id: session for session in sessions})
        return [session.id for session in sessions]

    def _new(self) -> ClientSession:
        opening = self._pool.open(self.hosted.env_id, None, self.hosted.options, start=False)
        return ClientSession(self._pool, opening)

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

    @contextlib.contextmanager
    def once(self) -> Iterator[ClientSession]:
        """Yield a temporary session, for one call.

        Raises:
            CapacityError: If there are too many such calls at the same time.
        """
        session = self._new()
        try:
            yield session
        finally:
            self._pool.close([session.id])
