"""Bytes of saved sessions: one line with version and signature, then JSON.

    jaxgym sessions 1 SIGNATURE
    {"games": [...], "sessions": [...]}

JSON has no tuples, bytes or arrays, so these are written as objects with one entry, such as `{"tuple": [1, 2]}`.
Nothing in the data names a class or a function, and each value is checked before it is used.
"""

import base64
import hashlib
import hmac
import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgym.levels import SPLIT_SIZE
from jaxgym.options import plain
from jaxgym.serve.errors import RequestError
from jaxgym.serve.images import MOST_SCALE, Frame
from jaxgym.serve.pool.session import TURNS, SessionRecord, SessionSnapshot
from jaxgym.serve.sessions import TurnResult

MOST_SAVED_BYTES = 2**28
"""Maximum size of saved sessions, 256 MiB."""

_VERSION = 1
_NAME = b"jaxgym sessions "
_MOST_GAMES = 64
_NUMBERS = (int, float)
_TEXT, _TUPLE = (str, type(None)), (tuple, type(None))
_SCALARS = (type(None), bool, *_NUMBERS, str)
_ARRAY_KINDS = "biuf"
_IMAGE_AXES = 3


class SavedGame(NamedTuple):
    """Game of saved sessions.

    Attributes:
        env_id: The environment id.
        options: The options.
        text_version: Version of the wording.
        layout: Hash of the layout of a snapshot.
    """

    env_id: str
    options: Mapping[str, Any]
    text_version: int
    layout: str


class SavedSession(NamedTuple):
    """Saved session: the index of its game, its level seed, its snapshot, and those of earlier turns for `undo`."""

    game: int
    seed: int
    now: SessionSnapshot
    past: tuple[SessionSnapshot, ...]


def encode(games: Sequence[SavedGame], sessions: Sequence[SavedSession], key: bytes) -> bytes:
    """Return saved sessions and their games as bytes.

    Raises:
        RequestError: If a value is no plain data, or the result is too large.
    """
    parts = [
        (session.game, session.seed, _snapshot_fields(session.now), tuple(map(_snapshot_fields, session.past)))
        for session in sessions
    ]
    content = {"games": list(map(_game_fields, games)), "sessions": list(map(_to_json, parts))}
    body = json.dumps(content).encode("ascii")
    if len(body) > MOST_SAVED_BYTES:
        raise RequestError(f"ids: expected at most {MOST_SAVED_BYTES} bytes, got {len(body)}. Save fewer sessions.")
    return _header(body, key) + body


def decode(data: bytes, key: bytes) -> tuple[list[SavedGame], list[SavedSession]]:
    """Return the games and the sessions in bytes.

    Raises:
        RequestError: If these are not the bytes of `encode` with this key.
    """
    if not isinstance(data, bytes) or not data.startswith(_NAME):
        raise RequestError("data: expected the result of SessionPool.save, got something else.")
    if len(data) > MOST_SAVED_BYTES + len(_header(b"", key)):
        raise RequestError(f"data: expected at most {MOST_SAVED_BYTES} bytes, got {len(data)}.")
    line, _, body = data.partition(b"\n")
    version = line[len(_NAME) :].partition(b" ")[0]
    if version != b"%d" % _VERSION:
        raise RequestError(
            f"data: expected sessions in version {_VERSION}, got version {version[:16]!r}. "
            "Load them with the version of jaxgym that saved them."
        )
    if not hmac.compare_digest(line + b"\n", _header(body, key)):
        raise RequestError(
            "data: expected a valid signature, got another one: the data are damaged, or the key differs."
        )
    try:
        return _read(json.loads(body))
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise RequestError(f"data: expected saved sessions, got {type(error).__name__}: {error}") from error


def _header(body: bytes, key: bytes) -> bytes:
    if not isinstance(key, bytes):
        raise RequestError(f"key: expected bytes, got {reprlib.repr(key)}.")
    signature = hmac.new(key, body, hashlib.sha256).hexdigest().encode()
    return b"%s%d %s\n" % (_NAME, _VERSION, signature)


# Parts of a save, as tuples of plain data.


def _game_fields(game: SavedGame) -> list[Any]:
    def checked(value: Any) -> Any:
        known = plain(value)
        if known is value:
            raise RequestError(
                f"{game.env_id}: options: expected plain data, got {type(value).__name__}. Sessions with such an "
                "option can't be saved."
            )
        return known

    return [game.env_id, json.loads(json.dumps(dict(game.options), default=checked)), game.text_version, game.layout]


def _snapshot_fields(snapshot: SessionSnapshot) -> tuple[Any, ...]:
    last = snapshot.record.last
    fields = None if last is None else (*last[:-1], None if last.image is None else tuple(last.image))
    return (*snapshot.record._replace(last=fields), snapshot.state, snapshot.output)


def _read(body: Any) -> tuple[list[SavedGame], list[SavedSession]]:
    games = [_read_game(fields) for fields in _checked(body["games"], list)]
    if len(games) > _MOST_GAMES:
        raise ValueError(f"more than {_MOST_GAMES} games")
    sessions = [_read_session(_from_json(fields), len(games)) for fields in _checked(body["sessions"], list)]
    if {session.game for session in sessions} != set(range(len(games))):
        raise ValueError("a game has no session")
    return games, sessions


def _read_game(fields: Any) -> SavedGame:
    return SavedGame(*_each(_checked(fields, list), str, dict, int, str))


def _read_session(fields: Any, num_games: int) -> SavedSession:
    game, seed, now, past = _each(_checked(fields, tuple), int, int, tuple, tuple)
    if game not in range(num_games) or seed not in range(2 * SPLIT_SIZE):
        raise ValueError("a game or a seed is out of range")
    return SavedSession(game, seed, _read_snapshot(now), tuple(map(_read_snapshot, past)))


def _read_snapshot(fields: Any) -> SessionSnapshot:
    kinds = (_TEXT, int, _NUMBERS, _TUPLE, _TUPLE, _TUPLE, bytes, bytes)
    text, number, total, last, tracker, history, state, output = _each(_checked(fields, tuple), *kinds)
    last = None if last is None else _read_result(last)
    history = None if history is None else _read_history(history)
    return SessionSnapshot(SessionRecord(text, number, total, last, tracker, history), state, output)


def _read_history(fields: tuple[Any, ...]) -> tuple[int, str, tuple[Any, ...]]:
    episode, opening, turns = _each(fields, int, str, tuple)
    if len(turns) > TURNS:
        raise ValueError("a history is too long")
    for turn in turns:
        _each(_checked(turn, tuple), int, str, str, _NUMBERS, _TEXT)
    return episode, opening, turns


def _read_result(fields: tuple[Any, ...]) -> TurnResult:
    kinds = (str, _NUMBERS, bool, bool, int, _TEXT, dict, _NUMBERS, bool, dict, _TUPLE)
    result = TurnResult(*_each(fields, *kinds))
    for name, part in result.components.items():
        _each((name, part), str, _NUMBERS)
    for name in result.info:
        _checked(name, str)
    return result._replace(image=None if result.image is None else _read_frame(result.image))


def _read_frame(fields: Any) -> Any:
    pixels, scale = _each(fields, np.ndarray, int)
    is_frame = pixels.dtype == np.uint8 and pixels.ndim == _IMAGE_AXES and pixels.shape[-1] == len("RGB")
    if not is_frame or not pixels.size or scale not in range(1, MOST_SCALE + 1):
        raise ValueError("an image is no frame")
    return Frame(pixels, scale)


def _each(values: Sequence[Any], *kinds: type | tuple[type, ...]) -> Sequence[Any]:
    """Return values, each of which has to be of its kind."""
    for value, kind in zip(values, kinds, strict=True):
        _checked(value, *(kind if isinstance(kind, tuple) else (kind,)))
    return values


def _checked(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, got {type(value).__name__}")
    return value


# Plain data as JSON.


def _to_json(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, np.generic) and value.dtype.kind in _ARRAY_KINDS:
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAY_KINDS:
        return {"array": [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode("ascii")]}
    if isinstance(value, dict):
        return {"dict": [[_to_json(key), _to_json(entry)] for key, entry in value.items()]}
    for name, kind in (("tuple", tuple), ("list", list), ("set", set)):
        if type(value) is kind:
            return {name: list(map(_to_json, value))}
    raise RequestError(
        f"expected plain data, got {type(value).__name__}. Sessions whose reward tracker or `info` has such a value "
        "can't be saved; define the methods record and restored of the tracker."
    )


def _from_json(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    ((name, given),) = _checked(value, dict).items()
    if name == "bytes":
        return base64.b64decode(_checked(given, str), validate=True)
    if name == "array":
        return _read_array(*_checked(given, list))
    entries = _checked(given, list)
    if name == "dict":
        return {_from_json(key): _from_json(entry) for key, entry in entries}
    return {"tuple": tuple, "list": list, "set": set}[name](map(_from_json, entries))


def _read_array(kind: str, shape: Sequence[int], content: str) -> np.ndarray:
    dtype, stored = np.dtype(_checked(kind, str)), base64.b64decode(_checked(content, str), validate=True)
    if dtype.kind not in _ARRAY_KINDS or dtype.itemsize * math.prod(_checked(size, int) for size in shape) != len(
        stored
    ):
        raise ValueError("an array has another size or kind")
    return np.frombuffer(stored, dtype).reshape(shape)
