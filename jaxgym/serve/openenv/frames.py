"""Frames of OpenEnv's WebSockets, and validation of frames and of actions in HTTP bodies.

An invalid value raises a `FrameError`, whose entries have pydantic's format, as OpenEnv's clients expect.
"""

import json
import reprlib
from collections.abc import Container, Mapping
from typing import Any

from jaxgym.serve.web.answers import MOST_ERRORS, MOST_SAID, quoted

INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR = "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR"
EXECUTION_ERROR, CAPACITY_REACHED, SESSION_ERROR = "EXECUTION_ERROR", "CAPACITY_REACHED", "SESSION_ERROR"

_MOST_QUOTED = 40

Errors = list[dict[str, Any]]


class FrameError(ValueError):
    """Value of a request that does not match the schema; each of its `errors` has type, path, message and input."""

    def __init__(self, errors: Errors):
        """Store the first few errors with truncated inputs, so that a response is short for any request."""
        self.errors = [_shortened(error) for error in errors[:MOST_ERRORS]]
        super().__init__("; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in self.errors))


def _shortened(error: dict[str, Any]) -> dict[str, Any]:
    given = error["input"]
    text = given if isinstance(given, str) else reprlib.repr(given)
    is_short = len(text) <= _MOST_QUOTED and text.isascii() and text.isprintable() and "..." not in text
    place = [quoted(part, _MOST_QUOTED) if isinstance(part, str) else part for part in error["loc"]]
    return {**error, "loc": place, "input": given if is_short else quoted(text, _MOST_QUOTED)}


def fault(kind: str, place: tuple[str | int, ...], text: str, given: Any) -> dict[str, Any]:
    """Return the entry of one error, with its type, path, message and input."""
    return {"type": kind, "loc": list(place), "msg": text, "input": given}


def extra_faults(given: Mapping[str, Any], names: Container[str], place: tuple[str | int, ...] = ()) -> Errors:
    """Return an error for each entry of an object whose name is not in `names`."""
    more = [name for name in given if name not in names][:MOST_ERRORS]
    return [fault("extra_forbidden", (*place, name), "Extra inputs are not permitted", given[name]) for name in more]


def object_of(given: Any, place: tuple[str | int, ...]) -> dict[str, Any]:
    """Return a value that is an object; raise `FrameError` if it is not."""
    if not isinstance(given, dict):
        raise FrameError([fault("dict_type", place, "Input should be an object", given)])
    return given


def reply_of(action: Any, place: tuple[str | int, ...] = ()) -> str:
    """Return the message of an action, whose path in the request is `place`.

    Raises:
        FrameError: If it is not an object with the string `message` and perhaps the object `metadata`.
    """
    action = object_of(action, place)
    errors = extra_faults(action, ("message", "metadata"), place)
    if "message" not in action:
        errors.append(fault("missing", (*place, "message"), "Field required", action))
    elif not isinstance(action["message"], str):
        errors.append(fault("string_type", (*place, "message"), "Input should be a string", action["message"]))
    if not isinstance(action.get("metadata", {}), dict):
        errors.append(fault("dict_type", (*place, "metadata"), "Input should be an object", action["metadata"]))
    if errors:
        raise FrameError(errors)
    return action["message"]


def data_of(frame: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """Return the object `data` of a frame; raise `FrameError` for another value or for unknown entries of the frame."""
    check_keys(frame, "type", "data")
    if required and "data" not in frame:
        raise FrameError([fault("missing", ("data",), "Field required", frame)])
    return object_of(frame.get("data", {}), ("data",))


def check_keys(frame: dict[str, Any], *names: str) -> None:
    """Raise `FrameError` if a frame has an entry whose name is not in `names`."""
    errors = extra_faults(frame, names)
    if errors:
        raise FrameError(errors)


def observation_frame(observation: str) -> str:
    """Return the frame of an observation in JSON."""
    return f'{{"type":"observation","data":{observation}}}'


def error_frame(code: str, message: str, **more: Any) -> str:
    """Return the frame of an error."""
    return json.dumps({"type": "error", "data": {"message": quoted(message, MOST_SAID), "code": code, **more}})
