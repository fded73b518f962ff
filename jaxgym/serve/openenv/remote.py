"""Episodes on an OpenEnv server, with synchronous calls.

    wrapper = OpenEnvWrapper({"base_url": "http://localhost:8000", "reset_kwargs": {"seed": 3}})
    observation, metadata = wrapper.reset()
    observation, reward, has_ended, metadata = wrapper.step({"message": "<action>right</action>"})
    wrapper.close()

One background thread with an event loop holds all sockets of a process, so calls can come from any thread or event
loop. If the socket of an episode is lost, the client repeats the episode in a new session with the same seed and
actions. It continues only if the server returns the same observation.
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

try:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ModuleNotFoundError as error:
    raise ImportError("missing package: websockets. Install it with: pip install websockets") from error

_log = logging.getLogger(__name__)

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HIGHEST_SEED = 2**31
_FULL = "CAPACITY_REACHED"
_BAD_REQUEST, _SERVER_ERROR = 400, 500
_LATER = (408, 429)  # statuses from 400 to 499 that are retried

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
    """Error of a server.

    Attributes:
        code: The error code, such as `"VALIDATION_ERROR"`, or `"HTTP_401"` if the server opens no socket.
    """

    def __init__(self, message: str, code: str):
        super().__init__(f"Server error: {message} (code: {code})")
        self.code = code


class LostError(ConnectionError):
    """Loss of an episode whose socket is lost and that can't be repeated."""


@functools.cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    del process  # part of the cache key: a forked child needs its own thread and loop
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="openenv", daemon=True).start()
    return loop


def _submit(coroutine: Coroutine[Any, Any, Result]) -> "concurrent.futures.Future[Result]":
    return asyncio.run_coroutine_threadsafe(coroutine, _loop_of(os.getpid()))


async def _closed(sockets: list[Any]) -> None:
    """Close and remove the socket of an episode, if there is one; log failures."""
    while sockets:
        try:
            await sockets.pop().close()
        except Exception:
            _log.debug("a socket could not be closed", exc_info=True)


def _abandon(sockets: list[Any]) -> None:
    _submit(_closed(sockets))


class OpenEnvWrapper:
    """One episode after another on an OpenEnv server; used by one caller at a time.

    `reset`, `step` and `close` wait for their answer, `areset`, `astep` and `aclose` are awaited in any event loop.
    """

    def __init__(self, env_config: Mapping[str, Any]):
        """Make a client; it connects at the first `reset`.

        Args:
            env_config: `base_url` (default `http://localhost:8000`), `reset_kwargs`, `token`, `message_timeout`
                (default 60 s), `tries` (default 3) and `retry_delay` (default 2 s, multiplied by the number of the
                try); other entries are ignored.
        """
        given = {**_DEFAULTS, **{name: value for name, value in env_config.items() if value is not None}}
        self._url, self._token, self._start = given["base_url"].rstrip("/"), given["token"], dict(given["reset_kwargs"])
        self._timeout, self._delay = float(given["message_timeout"]), float(given["retry_delay"])
        self._tries = int(given["tries"])
        self._sockets: list[Any] = []  # the socket of the episode, if it is connected
        self._past: list[tuple[str, dict[str, Any]]] = []  # the calls of this episode
        self._last: Any = None
        # Trainers do not always close episodes, and the background thread would keep the session open forever.
        weakref.finalize(self, _abandon, self._sockets).atexit = False

    def reset(self) -> tuple[Any, Any]:
        """Start an episode, in a new session if the old one is lost; return observation and metadata.

        Raises:
            OpenEnvError: If the server returns an error, or is full.
            OSError: If the server does not respond.
        """
        return _submit(self._reset()).result()

    def step(self, action: Mapping[str, Any]) -> Step:
        """Make a step; return observation, reward, whether the episode has ended, and metadata.

        Raises:
            OpenEnvError: If the server rejects the action; the session continues.
            LostError: If the socket is lost and the server does not repeat the episode.
            OSError: If the server does not respond.
        """
        return _submit(self._step(action)).result()

    def close(self) -> None:
        """End the session; can be called at any time, also repeatedly."""
        _submit(_closed(self._sockets)).result()

    async def areset(self) -> tuple[Any, Any]:
        """Start an episode as `reset` does."""
        return await asyncio.wrap_future(_submit(self._reset()))

    async def astep(self, action: Mapping[str, Any]) -> Step:
        """Make a step as `step` does."""
        return await asyncio.wrap_future(_submit(self._step(action)))

    async def aclose(self) -> None:
        """End the session as `close` does."""
        await asyncio.wrap_future(_submit(_closed(self._sockets)))

    # Coroutines of the background loop.

    async def _reset(self) -> tuple[Any, Any]:
        start = dict(self._start)
        if start.get("seed") is None and "split" not in start:
            start["seed"] = secrets.randbelow(_HIGHEST_SEED)  # sampled here, so that the episode can be repeated
        self._past = []
        answer = await self._call("reset", start)
        return answer.get("observation"), answer.get("metadata") or {}

    async def _step(self, action: Mapping[str, Any]) -> Step:
        if not self._past:
            await self._reset()
        answer = await self._call("step", dict(action))
        reward, has_ended = float(answer.get("reward") or 0.0), bool(answer.get("done"))
        return answer.get("observation"), reward, has_ended, answer.get("metadata") or {}

    async def _call(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Make a call with retries if the socket is lost or the server is full."""
        for left in reversed(range(self._tries)):
            try:
                if not self._sockets:
                    await self._repeat()
                answer = await self._ask(kind, data)
            except (OpenEnvError, OSError, EOFError, TimeoutError) as error:
                if isinstance(error, LostError) or (isinstance(error, OpenEnvError) and error.code != _FULL):
                    raise
                await _closed(self._sockets)
                if not left:
                    raise
                _log.warning("%s: %s; %d more tries", self._url, error, left)
                await asyncio.sleep(self._delay * (self._tries - left))
            else:
                self._past.append((kind, data))
                self._last = answer.get("observation")
                return answer
        raise LostError(f"{self._url}: tries: expected an integer of at least 1, got {self._tries}.")

    async def _repeat(self) -> None:
        """Make the calls of this episode in a new session."""
        answer: dict[str, Any] = {"observation": None}
        for kind, data in self._past:
            answer = await self._ask(kind, data)
        if self._past and answer.get("observation") != self._last:
            await _closed(self._sockets)
            raise LostError(
                f"{self._url}: the connection was lost, and a replay of the episode gave another observation. Reset."
            )

    async def _ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        try:
            if not self._sockets:
                self._sockets.append(await self._connect())
            await self._sockets[0].send(json.dumps({"type": kind, "data": dict(data)}))
            # After a timeout the response can still arrive, so the caller does not use this socket again.
            answer = json.loads(await asyncio.wait_for(self._sockets[0].recv(), self._timeout))
        except InvalidStatus as error:
            response = error.response
            if _BAD_REQUEST <= response.status_code < _SERVER_ERROR and response.status_code not in _LATER:
                reason = bytes(response.body or b"").decode(errors="replace").strip()
                code = f"HTTP_{response.status_code}"
                raise OpenEnvError(reason or "the server does not accept a socket", code) from error
            raise ConnectionError(str(error)) from error
        except (ConnectionClosed, InvalidHandshake) as error:
            raise ConnectionError(str(error)) from error
        if answer.get("type") == "error":
            data = answer.get("data") or {}
            raise OpenEnvError(str(data.get("message")), str(data.get("code")))
        return answer["data"]

    async def _connect(self) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
        return await connect(
            f"{self._url.replace('http', 'ws', 1)}/ws",
            additional_headers=headers,
            proxy=None if urlsplit(self._url).hostname in _LOOPBACK else True,
            max_size=None,
            compression=None,
            ping_timeout=None,
            open_timeout=self._timeout,
        )
