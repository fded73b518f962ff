"""Placement of sessions on the numbered actors of a pool; it needs no Ray.

A session id is `NUMBER-START-TOKEN`: the number of its actor, a token of the start of the actor, and its own token.
Every process finds the actor of a session in its id.
"""

import random
import reprlib
import secrets
from collections.abc import Sequence
from typing import Any

from jaxgym.serve.errors import UnknownSessionError


def prefix_of_start(number: int) -> str:
    """Return the start of the session ids of an actor; each start of the actor has another one."""
    return f"{number}-{secrets.token_hex(4)}-"


def number_of(session_id: Any, num_actors: int) -> int:
    """Return the number of a session's actor.

    >>> number_of("1-5d1e0c3a-77", 2)
    1

    Raises:
        UnknownSessionError: If it is no session id of a pool with so many actors.
    """
    number = session_id.partition("-")[0] if isinstance(session_id, str) else ""
    if not number.isdecimal() or int(number) >= num_actors:
        raise UnknownSessionError(f"Unknown session {reprlib.repr(session_id)}. Use an id that open returned.")
    return int(number)


def places(ids: Sequence[str], num_actors: int) -> dict[int, list[int]]:
    """Return the indices of the ids of each actor that has one.

    >>> places(["1-a-", "0-a-", "1-b-"], 2)
    {1: [0, 2], 0: [1]}
    """
    found: dict[int, list[int]] = {}
    for index, session_id in enumerate(ids):
        found.setdefault(number_of(session_id, num_actors), []).append(index)
    return found


def shares(count: int, first: int, num_actors: int) -> dict[int, list[int]]:
    """Return the indices of `count` new sessions for each actor that gets one, in turn from actor `first`.

    >>> shares(5, 1, 3)
    {1: [0, 3], 2: [1, 4], 0: [2]}
    """
    return {(first + place) % num_actors: [*range(place, count, num_actors)] for place in range(min(count, num_actors))}


def shares_of_seeds(seeds: Sequence[int | None], num_actors: int) -> dict[int, list[int]]:
    """Return the indices of new sessions for each actor that gets one; equal seeds get the same actor.

    >>> shares_of_seeds([3, 4, 3], 2)
    {1: [0, 2], 0: [1]}
    """
    found: dict[int, list[int]] = {}
    for index, seed in enumerate(seeds):
        found.setdefault(random.randrange(num_actors) if seed is None else seed % num_actors, []).append(index)
    return found


def others(first: int, num_actors: int) -> list[int]:
    """Return the other actors in random order, which spreads the sessions that actor `first` can't take."""
    return random.sample([number for number in range(num_actors) if number != first], num_actors - 1)
