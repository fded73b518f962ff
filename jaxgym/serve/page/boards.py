"""What a server hands to its page: its games, and which sessions may be watched."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxgym.serve.pool import SessionPool


class Board(NamedTuple):
    """A game that is served.

    Attributes:
        name: How the pool knows it.
        env_id: The environment.
        short_name: Its short name.
        options: What its sessions are played with.
        instructions: The rules and the form of a reply.
    """

    name: str
    env_id: str
    short_name: str
    options: Mapping[str, Any]
    instructions: str


class Served(NamedTuple):
    """What a server lets watch and play.

    Attributes:
        pool: Where the sessions live; it keeps their history.
        boards: The games.
        sessions: Returns the ids of the sessions that whoever brings these words in `Authorization` may watch.
    """

    pool: SessionPool
    boards: Sequence[Board]
    sessions: Callable[[str], Iterable[str]]
