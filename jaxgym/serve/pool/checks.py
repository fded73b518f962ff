"""Arguments of a pool: each is checked before any session is touched."""

import numbers
import reprlib
import secrets
from typing import Any

from jaxgym import levels
from jaxgym.options import is_integer, plain
from jaxgym.serve.errors import RequestError, UnknownSessionError
from jaxgym.text import Refusal


def checked_seed(seed: Any) -> int:
    """Return a level seed; that of a random training level for None.

    Raises:
        RequestError: If it is no seed.
    """
    last = 2 * levels.SPLIT_SIZE - 1
    if type(seed) is int and 0 <= seed <= last:  # the common case, in a tenth of the time
        return seed
    if seed is None:
        return secrets.randbelow(levels.SPLIT_SIZE)
    seed = plain(seed)
    if not is_integer(seed) or not 0 <= seed <= last:
        raise RequestError(f"a seed was given as {seed!r}; give an integer from 0 to {last}, or None for a random one.")
    return seed


def check_reply(reply: object) -> None:
    """Refuse what is neither a string nor a reason why a reply is invalid."""
    if type(reply) is not str and not isinstance(reply, str | Refusal):  # the common case first
        raise RequestError(f"a reply was given as {reprlib.repr(reply)}; give a string.")


def checked_id(session_id: Any) -> str:
    """Return an id; what is none is refused here, since whoever makes calls for others can't trip over it."""
    if not isinstance(session_id, str):
        raise UnknownSessionError(f"there is no session {reprlib.repr(session_id)}; give an id that open returned.")
    return session_id


def check_no_string(name: str, given: object) -> None:
    """Refuse a string where a list is meant."""
    if isinstance(given, str):
        raise RequestError(f"{name} were given as the string {reprlib.repr(given)}; give a list of {name}.")


def is_time(seconds: object) -> bool:
    """Return whether something is a number of seconds above 0."""
    return isinstance(seconds, numbers.Real) and not isinstance(seconds, bool) and float(seconds) > 0
