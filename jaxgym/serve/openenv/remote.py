"""Episodes on an OpenEnv server, with plain calls.

    wrapper = OpenEnvWrapper({"base_url": "http://localhost:8000", "reset_kwargs": {"seed": 3}})
    observation, metadata = wrapper.reset()
    observation, reward, has_ended, metadata = wrapper.step({"message": "<action>right</action>"})
    wrapper.close()

All sockets of a process live in one thread with an event loop of its own: calls come from any thread or event loop,
each time from another, and block none. An episode whose socket is lost is repeated in a new session: the same seed, the
same actions, and only if the server then says the same as before does it go on.
"""

import asyncio
import concurrent.futures
import functools
import json
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HIGHEST_SEED = 2**31
_FULL = "CAPACITY_REACHED"
_REFUSED, _FAILED = 400, 500
_LATER = (408, 429)  # the statuses between these two that ask for another try

_DEFAULTS: Mapping[str, Any] = {
    "base_url": "http://localhost:8000",
    "reset_kwargs": {},
    "token": None,
    "message_timeout": 60.0,
    "tries": 3,
    "retry_delay": 2.0,
}

Result = TypeVar("Result")
Step = tuple[Any, float, bool, Any]


class OpenEnvError(RuntimeError):
    """What a server answers instead of an observation.

    Attributes:
        code: Its code, such as `"VALIDATION_ERROR"`, or `"HTTP_401"` where it opens no socket.
    """

    def __init__(self, message: str, code: str):
        super().__init__(f"Server error: {message} (code: {code})")
        self.code = code


class LostError(ConnectionError):
    """An episode that can't go on: its socket is lost, and it can't be repeated."""


@functools.cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    del process  # a fork has no threads, and makes a loop of its own
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="openenv", daemon=True).start()
    return loop


def _submit(coroutine: Coroutine[Any, Any, Result]) -> "concurrent.futures.Future[Result]":
    return asyncio.run_coroutine_threadsafe(coroutine, _loop_of(os.getpid()))


class _Remote:
    """The socket of one episode; its coroutines run in the loop of the sockets."""

    def __init__(self, config: Mapping[str, Any]):
        config = {**_DEFAULTS, **{name: value for name, value in config.items() if value is not None}}
        self.url, self.token = str(config["base_url"]).rstrip("/"), config["token"]
        self.timeout, self.delay = float(config["message_timeout"]), float(config["retry_delay"])
        self.tries = int(config["tries"])
        self.reset_kwargs: dict[str, Any] = dict(config["reset_kwargs"])
        self._socket: Any = None
        self._past: list[tuple[str, dict[str, Any]]] = []  # the calls of this episode
        self._last: Any = None

    async def reset(self) -> dict[str, Any]:
        """Start an episode, in a new session if the old one is lost."""
        start = dict(self.reset_kwargs)
        if start.get("seed") is None and "split" not in start:
            start["seed"] = secrets.randbelow(_HIGHEST_SEED)  # known, so that the episode can be repeated
        self._past = []
        return await self._call("reset", start)

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Make a step, in a session that has the same past if the old one is lost."""
        if not self._past:
            await self.reset()
        return await self._call("step", dict(action))

    async def _call(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Make a call, again if the socket is lost or the server is full."""
        for left in reversed(range(self.tries)):
            try:
                if self._socket is None:
                    await self._repeat()
                answer = await self._ask(kind, data)
            except LostError:
                raise
            except OpenEnvError as error:
                if error.code != _FULL or not left:
                    raise
                reason: Exception = error
            except (OSError, EOFError, TimeoutError) as error:
                reason = error
                if not left:
                    await self.close()
                    raise
            else:
                self._past.append((kind, data))
                self._last = answer.get("observation")
                return answer
            await self.close()
            _log.warning("%s: %s; %d more tries", self.url, reason, left)
            await asyncio.sleep(self.delay * (self.tries - left))
        raise LostError(f"{self.url}: no try was allowed; give tries from 1 up.")

    async def _repeat(self) -> None:
        """Make the calls of this episode in a new session."""
        answer: dict[str, Any] = {"observation": None}
        for kind, data in self._past:
            answer = await self._ask(kind, data)
        if self._past and answer.get("observation") != self._last:
            await self.close()
            raise LostError(f"{self.url}: the socket was lost, and the server does not repeat the episode.")

    async def _ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

        try:
            if self._socket is None:
                self._socket = await self._connect()
            await self._socket.send(json.dumps({"type": kind, "data": dict(data)}))
            # After a timeout the answer may still come: a socket that was not read to the end is not used again.
            answer = json.loads(await asyncio.wait_for(self._socket.recv(), self.timeout))
        except InvalidStatus as error:
            response = error.response
            if _REFUSED <= response.status_code < _FAILED and response.status_code not in _LATER:
                told = bytes(response.body or b"").decode(errors="replace").strip()
                raise OpenEnvError(told or "no socket is opened here", f"HTTP_{response.status_code}") from error
            raise ConnectionError(str(error)) from error
        except (ConnectionClosed, InvalidHandshake) as error:
            raise ConnectionError(str(error)) from error
        if answer.get("type") == "error":
            data = answer.get("data") or {}
            raise OpenEnvError(str(data.get("message")), str(data.get("code")))
        return answer["data"]

    async def _connect(self) -> Any:
        from websockets.asyncio.client import connect

        headers = {"Authorization": f"Bearer {self.token}"} if self.token else None
        return await connect(
            f"{self.url.replace('http', 'ws', 1)}/ws",
            additional_headers=headers,
            proxy=None if urlsplit(self.url).hostname in _LOOPBACK else True,
            max_size=None,
            compression=None,
            ping_timeout=None,
            open_timeout=self.timeout,
        )

    async def close(self) -> None:
        """Close the socket; whatever goes wrong with that."""
        connection, self._socket = self._socket, None
        if connection is not None:
            try:
                await connection.close()
            except Exception:
                _log.debug("a socket could not be closed", exc_info=True)


def _abandon(remote: _Remote) -> None:
    _submit(remote.close())


class OpenEnvWrapper:
    """One episode after another on an OpenEnv server; used by one caller at a time.

    `reset`, `step` and `close` wait for their answer, `areset`, `astep` and `aclose` are awaited in any event loop.
    """

    def __init__(self, env_config: Mapping[str, Any]):
        """Keep where to connect; nothing is sent before `reset`.

        Args:
            env_config: `base_url` (default `http://localhost:8000`), `reset_kwargs`, `token`, `message_timeout`
                (default 60 s), `tries` (default 3) and `retry_delay` (default 2 s, growing with each try); whatever
                else there is is not read.
        """
        self._remote = _Remote(env_config)
        # Trainers forget to close; the thread of the sockets would keep the session for good.
        weakref.finalize(self, _abandon, self._remote).atexit = False

    def reset(self) -> tuple[Any, Any]:
        """Start an episode; return observation and metadata.

        Raises:
            OpenEnvError: If the server refuses, or has no room for another session.
            OSError: If there is no server, or it does not answer.
        """
        return _opened(_submit(self._remote.reset()).result())

    def step(self, action: Mapping[str, Any]) -> Step:
        """Make a step; return observation, reward, whether the episode has ended, and metadata.

        Raises:
            OpenEnvError: If the server refuses the action; the session goes on.
            LostError: If the socket is lost and the server does not repeat the episode.
            OSError: If there is no server, or it does not answer.
        """
        return _stepped(_submit(self._remote.step(action)).result())

    def close(self) -> None:
        """End the session; it may be called at any time, and again."""
        _submit(self._remote.close()).result()

    async def areset(self) -> tuple[Any, Any]:
        """Start an episode as `reset` does."""
        return _opened(await asyncio.wrap_future(_submit(self._remote.reset())))

    async def astep(self, action: Mapping[str, Any]) -> Step:
        """Make a step as `step` does."""
        return _stepped(await asyncio.wrap_future(_submit(self._remote.step(action))))

    async def aclose(self) -> None:
        """End the session as `close` does."""
        await asyncio.wrap_future(_submit(self._remote.close()))


def _opened(answer: Mapping[str, Any]) -> tuple[Any, Any]:
    return answer.get("observation"), answer.get("metadata") or {}


def _stepped(answer: Mapping[str, Any]) -> Step:
    reward, has_ended = float(answer.get("reward") or 0.0), bool(answer.get("done"))
    return answer.get("observation"), reward, has_ended, answer.get("metadata") or {}
