"""What goes over the wire of OpenEnv: schemas, checks of what came in, and the text of what goes out.

Nothing here knows a socket or a session; nothing is kept.
"""

import itertools
import json
import math
import reprlib
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jaxgym.serve.web.answers import MOST_ERRORS, MOST_SAID, message_of, quoted

if TYPE_CHECKING:
    from jaxgym.serve.sessions import Opening, Outcome

LONGEST_ID = 255
LONGEST_CALL_ID = 100
"""Maximum length of the id of a call, in bytes of JSON; every answer repeats it."""

_MOST_QUOTED = 40
HIGHEST_SEED = 2**32 - 1
SPLITS = {"train": 0, "test": 2**31}
"""First seeds of the splits: those of training levels and of held-out levels."""

SPLIT_SIZE = 2**31
GAME = -1
"""The sender of what the game says."""

INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR = "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR"
EXECUTION_ERROR, CAPACITY_REACHED, SESSION_ERROR = "EXECUTION_ERROR", "CAPACITY_REACHED", "SESSION_ERROR"

Errors = list[dict[str, Any]]


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # what is wrong is told in JSON, which does not have these
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


_decoder = json.JSONDecoder(parse_float=_number, parse_constant=_number)


def loads(text: str | bytes) -> Any:
    """Returns what JSON says.

    Raises:
        ValueError: If it is none, or has a number that is none, as NaN.
        RecursionError: If it is too deep.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _decoder.decode(text)


class FrameError(ValueError):
    """Something that came in does not have the form that the schema asks for.

    Attributes:
        errors: What is wrong, where, one entry each.
    """

    def __init__(self, errors: Errors):
        """Keep the first few errors, with what they quote cut: an answer is short whatever was sent."""
        self.errors = [_shortened(error) for error in errors[:MOST_ERRORS]]
        super().__init__("; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in self.errors))


def _shortened(error: dict[str, Any]) -> dict[str, Any]:
    given = error["input"]
    text = given if isinstance(given, str) else reprlib.repr(given)
    is_short = len(text) <= _MOST_QUOTED and text.isascii() and text.isprintable() and "..." not in text
    place = [quoted(part, _MOST_QUOTED) if isinstance(part, str) else part for part in error["loc"]]
    return {**error, "loc": place, "input": given if is_short else quoted(text, _MOST_QUOTED)}


def _fault(kind: str, place: tuple[str | int, ...], text: str, given: Any) -> dict[str, Any]:
    return {"type": kind, "loc": list(place), "msg": text, "input": given}


def extra_faults(given: Mapping[str, Any], names: Iterable[str], place: tuple[str | int, ...] = ()) -> Errors:
    """Return what is wrong with an object that has other entries than those with these names."""
    more = itertools.islice((name for name in given if name not in names), MOST_ERRORS)
    return [_fault("extra_forbidden", (*place, name), "Extra inputs are not permitted", given[name]) for name in more]


def object_of(given: Any, place: tuple[str | int, ...]) -> dict[str, Any]:
    """Returns a value that is an object.

    Raises:
        FrameError: If it is none.
    """
    if not isinstance(given, dict):
        raise FrameError([_fault("dict_type", place, "Input should be an object", given)])
    return given


def reply_of(action: Any, place: tuple[str | int, ...] = ()) -> str:
    """Returns the message of an action.

    Args:
        action: An object with the string `message` and perhaps the object `metadata`.
        place: Where the action stands in what came in.

    Raises:
        FrameError: If it has another form.
    """
    action = object_of(action, place)
    errors = extra_faults(action, ("message", "metadata"), place)
    if "message" not in action:
        errors.append(_fault("missing", (*place, "message"), "Field required", action))
    elif not isinstance(action["message"], str):
        errors.append(_fault("string_type", (*place, "message"), "Input should be a string", action["message"]))
    if not isinstance(action.get("metadata", {}), dict):
        errors.append(_fault("dict_type", (*place, "metadata"), "Input should be an object", action["metadata"]))
    if errors:
        raise FrameError(errors)
    return action["message"]


def start_of(given: Any, place: tuple[str | int, ...] = ()) -> tuple[int | None, str | None]:
    """Returns seed and id of an episode that is to start; whatever else stands beside them is not read.

    Args:
        given: An object with `seed`, `split` and `index`, and `episode_id`, all optional. A seed stands beside a split
            and an index only if it is theirs, as in a task; one of another split is likely to be meant as an index.
        place: Where it stands in what came in.

    Raises:
        FrameError: If one of these is not what it should be.
    """
    given = object_of(given, place)
    seed, split, index, episode_id = (given.get(name) for name in ("seed", "split", "index", "episode_id"))
    errors = Errors()
    if split is not None:
        first = seed_of(split, 0 if index is None and seed is not None else index, place)
        end = first + (SPLIT_SIZE if index is None else 1)
        seed = first if seed is None else seed
        if type(seed) is int and not first <= seed < end:
            these = "this split" if index is None else "this split and index"
            wanted = first if index is not None else f"from {first} to {end - 1}"
            text = f"Input should be {wanted} beside {these}: give the seed alone, or {these}"
            errors.append(_fault("value_error", (*place, "seed"), text, seed))
    if seed is not None and (type(seed) is not int or not 0 <= seed <= HIGHEST_SEED):
        errors.append(
            _fault("int_type", (*place, "seed"), f"Input should be an integer from 0 to {HIGHEST_SEED}", seed)
        )
    if episode_id is not None and (not isinstance(episode_id, str) or len(episode_id) > LONGEST_ID):
        text = f"Input should be a string of at most {LONGEST_ID} characters"
        errors.append(_fault("string_type", (*place, "episode_id"), text, episode_id))
    if errors:
        raise FrameError(errors)
    return seed, episode_id


def seed_of(split: Any, index: Any, place: tuple[str | int, ...] = ()) -> int:
    """Returns the seed of a task.

    Raises:
        FrameError: If there is no such split or index.
    """
    if not isinstance(split, str) or split not in SPLITS:
        raise FrameError([_fault("enum", (*place, "split"), f"Input should be one of {', '.join(SPLITS)}", split)])
    if type(index) is not int or not 0 <= index < SPLIT_SIZE:
        raise FrameError([_fault("int_type", (*place, "index"), f"Input should be from 0 below {SPLIT_SIZE}", index)])
    return SPLITS[split] + index


def new_id() -> str:
    """Returns the id of an episode that was given none."""
    return str(uuid.uuid4())


class Shown:
    """What one client has been shown of its episode: it writes what follows.

    Some clients take the first message for all that was said so far and cut off as many characters as they had before,
    if it is longer now. What a longer text adds is put behind the message before, so that they find the newest text.

    Attributes:
        episode_id: The id of the episode, as the client knows it; None before one has started.
        turns: Steps of the client in this episode.
        seed: The level seed of the episode.
    """

    __slots__ = ("_before", "_last", "_prompt", "episode_id", "seed", "turns")

    def __init__(self, instructions: str):
        """Starts with nothing shown."""
        self._prompt = '{"observation":{"prompt":' + json.dumps(instructions) + ',"text":'
        self.episode_id: str | None = None
        self.turns = 0
        self.seed: int | None = None
        self._last = ""

    def opened(self, opening: "Opening", episode_id: str) -> str:
        """Returns the observation of an episode that has started, as JSON."""
        self.episode_id, self.turns, self.seed, self._last = episode_id, 0, opening.seed, opening.text
        said = json.dumps(opening.text)
        info = {"turn": 0, "seed": opening.seed}
        return self._observation(said, said, info, "null", False)

    def stepped(self, outcome: "Outcome") -> str:
        """Returns the observation that follows a step, as JSON."""
        self.turns += 1
        text, before = outcome.text, self._last
        said = json.dumps(text)
        if len(text) > len(before):
            text = f"{before}\n{text}"
            content = json.dumps(text)
        else:
            content = said
        self._last = text
        info = {
            "turn": outcome.number,
            "seed": self.seed,
            "refusal": outcome.refusal,
            "terminated": outcome.terminated,
            "truncated": outcome.truncated,
            "is_solved": outcome.is_solved,
            "total_reward": outcome.total_reward,
            "reward_signals": outcome.components,
        }
        if outcome.info:
            info["episode"] = outcome.info
        return self._observation(
            said, content, info, repr(float(outcome.reward)), outcome.terminated | outcome.truncated
        )

    def _observation(self, said: str, content: str, info: Mapping[str, Any], reward: str, has_ended: bool) -> str:
        return (
            f'{self._prompt}{said},"messages":[{{"sender_id":{GAME},"content":{content},"category":"MESSAGE"}}],'
            f'"info":{json.dumps(info)}}},"reward":{reward},"done":{"true" if has_ended else "false"}}}'
        )


def observation_frame(observation: str) -> str:
    """Returns the frame of an observation that is JSON already."""
    return f'{{"type":"observation","data":{observation}}}'


def error_frame(code: str, message: str, **more: Any) -> str:
    """Returns the frame of an error."""
    return json.dumps({"type": "error", "data": {"message": quoted(message, MOST_SAID), "code": code, **more}})


def fault_frame(error: FrameError) -> str:
    """Returns the frame of something that came in with another form than the schema's."""
    return error_frame(VALIDATION_ERROR, f"Invalid message: {error}", errors=error.errors)


# Schemas.

_NUMBER_OR_NONE = {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}]}
_METADATA = {"type": "object", "additionalProperties": True, "title": "Metadata", "description": "Not read."}

ACTION = {
    "type": "object",
    "title": "Reply",
    "additionalProperties": False,
    "properties": {
        "metadata": _METADATA,
        "message": {"type": "string", "title": "Message", "description": "The reply of the model, as it is."},
    },
    "required": ["message"],
}

_MESSAGE = {
    "type": "object",
    "title": "Message",
    "properties": {
        "sender_id": {"type": "integer", "description": "-1 is the game."},
        "content": {"type": "string", "description": "The newest text, perhaps behind the one before."},
        "category": {"type": "string"},
    },
    "required": ["sender_id", "content", "category"],
}

OBSERVATION = {
    "type": "object",
    "title": "Observation",
    "additionalProperties": False,
    "properties": {
        "done": {"type": "boolean", "default": False, "description": "Whether the episode has ended."},
        "reward": {**_NUMBER_OR_NONE, "default": None, "description": "The reward of this turn."},
        "metadata": _METADATA,
        "prompt": {"type": "string", "description": "The rules and the form of a reply."},
        "text": {"type": "string", "description": "The newest text."},
        "messages": {"type": "array", "items": _MESSAGE, "description": "The newest text as TextArena has it."},
        "info": {
            "type": "object",
            "additionalProperties": True,
            "description": "Turn, seed, refusal, reward signals, and figures of the episode at its end.",
        },
    },
    "required": ["prompt", "text", "messages", "info"],
}

STATE = {
    "type": "object",
    "title": "State",
    "additionalProperties": True,
    "properties": {
        "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "step_count": {"type": "integer", "minimum": 0, "default": 0},
        "env_id": {"type": "string"},
        "seed": {"type": "integer"},
        "total_reward": {"type": "number"},
        "terminated": {"type": "boolean"},
        "truncated": {"type": "boolean"},
    },
}

SCHEMAS = {"action": ACTION, "observation": OBSERVATION, "reset_observation": OBSERVATION, "state": STATE}


# JSON-RPC.

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, SERVER_ERROR = -32602, -32603, -32000


class RpcError(ValueError):
    """What a call answers instead of a result.

    Attributes:
        code: A code of JSON-RPC.
        more: What a machine can read about it, or None.
    """

    def __init__(self, code: int, message: str, more: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.code, self.more = code, more


def rpc_result(call_id: Any, result: Any) -> dict[str, Any]:
    """Returns the answer of a call that succeeded."""
    return {"jsonrpc": "2.0", "id": call_id, "result": result}


def rpc_error(call_id: Any, error: RpcError) -> dict[str, Any]:
    """Returns the answer of a call that failed."""
    more = {} if error.more is None else {"data": dict(error.more)}
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": error.code, "message": message_of(error), **more}}


def id_of(given: Any) -> str | int | float | None:
    """Return the id of a call for its answer; None if it has none that can be repeated."""
    call_id = given.get("id") if isinstance(given, dict) else None
    if not isinstance(call_id, str | int | float) or len(json.dumps(call_id)) > LONGEST_CALL_ID:
        return None
    return call_id


def call_of(given: Any) -> tuple[Any, str, dict[str, Any]]:
    """Returns id, method and parameters of a call.

    Raises:
        RpcError: If it is none.
    """
    is_call = isinstance(given, dict) and given.get("jsonrpc") == "2.0" and isinstance(given.get("method"), str)
    if not is_call or id_of(given) != given.get("id"):
        raise RpcError(INVALID_REQUEST, 'Invalid request: give {"jsonrpc": "2.0", "id": ..., "method": "tools/list"}')
    params = given.get("params")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Params must be an object")
    return given.get("id"), given["method"], params or {}
