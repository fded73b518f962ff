"""Validation of the arguments of a pool, before any session changes."""

import reprlib
import secrets
from typing import Any

from jaxgym import levels
from jaxgym.options import is_integer, plain
from jaxgym.serve.errors import RequestError, UnknownSessionError
from jaxgym.text import InvalidReply


def checked_seed(seed: Any) -> int:
    """Return a level seed; a random training seed for None.

    Raises:
        RequestError: If it is not a level seed.
    """
    last = 2 * levels.SPLIT_SIZE - 1
    if type(seed) is int and 0 <= seed <= last:  # fast path
        return seed
    if seed is None:
        return secrets.randbelow(levels.SPLIT_SIZE)
    seed = plain(seed)
    if not is_integer(seed) or not 0 <= seed <= last:
        raise RequestError(f"seed: expected an integer from 0 to {last}, or None, got {seed!r}.")
    return seed


def check_reply(reply: object) -> None:
    """Raise `RequestError` if a reply is neither a string nor an `InvalidReply`."""
    if type(reply) is not str and not isinstance(reply, str | InvalidReply):  # the common case first
        raise RequestError(f"reply: expected a string, got {reprlib.repr(reply)}.")


def checked_id(session_id: Any) -> str:
    """Return a session id, or raise here, so that the thread that makes the batch never gets an invalid one."""
    if not isinstance(session_id, str):
        raise UnknownSessionError(f"Unknown session {reprlib.repr(session_id)}. Use an id that open returned.")
    return session_id


def check_no_string(name: str, given: object) -> None:
    """Raise `RequestError` if a list argument is a string."""
    if isinstance(given, str):
        raise RequestError(f"{name}: expected a list, got the string {reprlib.repr(given)}.")
