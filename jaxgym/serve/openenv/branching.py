"""Methods of JSON-RPC that fork, save, load and undo sessions, for servers that are started with `--branching`.

They are no tools: a model that takes moves back does not play the game that its prompt describes.
"""

import base64
import binascii
import copy
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym.serve.errors import RequestError
from jaxgym.serve.openenv.sessions import ClientSession, ClientSessions
from jaxgym.serve.sessions import Opening

UNDO_TURNS = 16
"""Number of turns that a server with branching keeps for `undo`."""


class BranchingMethods:
    """The methods `jaxgym/session/fork`, `save`, `load` and `undo`, by name.

    Data of `save` are signed with a key of this process, so a server loads only what it has saved itself.
    """

    def __init__(self, sessions: ClientSessions):
        """Make the methods of a server."""
        self._sessions, self._pool, self._key = sessions, sessions.hosted.pool, secrets.token_bytes(32)
        self.by_name: dict[str, Callable[[ClientSession | None, Mapping[str, Any]], dict[str, Any]]] = {
            f"jaxgym/session/{name}": method
            for name, method in (("fork", self._fork), ("save", self._save), ("load", self._load), ("undo", self._undo))
        }

    def _fork(self, session: ClientSession | None, params: Mapping[str, Any]) -> dict[str, Any]:
        given = _session_of(session)
        count, reseed, seed = params.get("n", 1), params.get("reseed", False), params.get("seed")
        if not isinstance(reseed, bool):
            raise RequestError(f"reseed: expected true or false, got {reseed!r}.")
        if type(count) is not int or count < 1:
            raise RequestError(f"n: expected an integer of at least 1, got {count!r}.")
        self._sessions.check_room(count)
        copies = []
        for session_id in self._pool.fork(given.id, count, reseed=reseed, seed=seed):
            copied = copy.copy(given)
            copied.id, copied.used, copied.hang_up, copied.is_ending = session_id, time.monotonic(), None, False
            copies.append(copied)
        return {"session_ids": self._sessions.add(copies)}

    def _save(self, session: ClientSession | None, params: Mapping[str, Any]) -> dict[str, Any]:
        del params
        return {"data": base64.b64encode(self._pool.save([_session_of(session).id], self._key)).decode("ascii")}

    def _load(self, session: ClientSession | None, params: Mapping[str, Any]) -> dict[str, Any]:
        del session
        data, hosted = params.get("data"), self._sessions.hosted
        if not isinstance(data, str):
            raise RequestError("data: expected the string of jaxgym/session/save, got something else.")
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RequestError(f"data: expected base64, got {error}.") from error
        self._sessions.check_room(1)
        (session_id,) = self._pool.load(content, self._key)
        played: Any = self._pool.look(session_id)
        prompts = hosted.system_prompt, hosted.reply_format
        made = ClientSession(self._pool, Opening(session_id, hosted.env_id, played.seed, *prompts, "", 0))
        made.go_back(played.number, played.text or "")
        return {"session_ids": self._sessions.add([made])}

    def _undo(self, session: ClientSession | None, params: Mapping[str, Any]) -> dict[str, Any]:
        given = _session_of(session)
        text = self._pool.undo(given.id, params.get("turns", 1))
        played: Any = self._pool.look(given.id)
        given.go_back(played.number, text)
        return {"text": text, "turn": played.number}


def _session_of(session: ClientSession | None) -> ClientSession:
    if session is None:
        raise RequestError("session_id: expected the id of an open session, got none.")
    return session
