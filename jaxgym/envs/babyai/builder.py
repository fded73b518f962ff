"""Interface of the two builders of levels, which share the level classes of `classes`.

A level class draws rooms, doors and objects from a builder, and returns the plan of the mission. One builder makes the
original's level of a seed on the host, the other one samples a level in a jitted program. Objects and doors are given
by their number, rooms by column and row; all of them can be traced.
"""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any, Protocol

from jaxgym.envs.babyai.mission import Clause, Description, MissionVerb, Plan, only
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.minigrid.world import Type

Room = tuple[Any, Any]


class Phrases(enum.IntEnum):
    """Kinds of missions: one clause, two clauses, or two phrases of one or two clauses."""

    ONE = 0
    BOTH = 1
    SEQUENCE = 2


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of random missions.

    Attributes:
        num_dists: Number of objects.
        locked_room_prob: Probability that a room is locked.
        has_places: Whether descriptions name places.
        unblocking: Whether objects may be out of reach.
        implicit_unlock: Whether a mission may name things that are only in the locked room.
        verbs: Verbs to draw from.
        phrases: Kinds of missions to draw from.
    """

    num_dists: int = 18
    locked_room_prob: float = 0.5
    has_places: bool = True
    unblocking: bool = True
    implicit_unlock: bool = True
    verbs: tuple[MissionVerb, ...] = (MissionVerb.GO_TO, MissionVerb.PICK_UP, MissionVerb.OPEN, MissionVerb.PUT)
    phrases: tuple[Phrases, ...] = tuple(Phrases)


CARRIED = (Type.BOX, Type.BALL, Type.KEY)
"""Types of objects, in the order in which random missions draw them."""


def kinds_of(verb: MissionVerb) -> tuple[Type, ...]:
    """Return the types that the first description of a verb can name, in the order of the original."""
    return {MissionVerb.GO_TO: (*CARRIED, Type.DOOR), MissionVerb.OPEN: (Type.DOOR,)}.get(verb, CARRIED)


class Builder(Protocol):
    """A level in the making, and its random draws."""

    @property
    def rooms(self) -> Rooms:
        """The grid of rooms."""
        ...

    def integer(self, high: int) -> Any:
        """Draw an integer from 0 to `high` - 1."""
        ...

    def pick(self, items: Sequence[Any]) -> Any:
        """Draw one of some numbers."""
        ...

    def subset(self, items: Sequence[Any], count: int) -> list[Any]:
        """Draw some of the items, without replacement."""
        ...

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers, or of two trees of numbers."""
        ...

    def kind_of(self, number: Any) -> Any:
        """Return the `Type` of a door or an object."""
        ...

    def color_of(self, number: Any) -> Any:
        """Return the `Color` of a door or an object."""
        ...

    def agent(self, room: Room | None = None, without: Room | None = None, avoids: Any = True) -> None:
        """Place the agent in a room; a drawn one if None, which is not the room `without` if `avoids` holds."""
        ...

    def add(self, room: Room, kind: Any = None, color: Any = None) -> int:
        """Add an object to a room, draw what is not given, and return its number."""
        ...

    def hide_key(self, room: Room, color: Any) -> None:
        """Add a box of a drawn color that holds a key."""
        ...

    def block(self, door: int, kind: Any) -> int:
        """Add an object of a drawn color to the cell at the left of a door."""
        ...

    def clutter(self, count: int, room: Room | None = None, *, is_unique: bool = False) -> list[int]:
        """Add objects to a room, or each to a drawn one; if unique, each has another kind or color."""
        ...

    def clutter_all(self, count: int) -> None:
        """Add some objects to each room, column by column."""
        ...

    def recolor(self, numbers: Sequence[int], color: int) -> None:
        """Change the color of objects."""
        ...

    def door(self, room: Room, side: Any = None, color: Any = None, is_locked: Any = None) -> Any:
        """Add a door to a room, draw what is not given, and return its number."""
        ...

    def secret_room(self, probability: float) -> tuple[Room, Any]:
        """Lock one door of a drawn room with some probability, and add its key elsewhere; return both."""
        ...

    def open_wall(self, room: tuple[int, int], side: int) -> None:
        """Remove the wall at a side of a room."""
        ...

    def connect(self, without: Any = None, avoids: Any = True) -> None:
        """Add doors until all rooms are connected; no door has the color `without` if `avoids` holds."""
        ...

    def any_room(self) -> Room:
        """Draw a room."""
        ...

    def any_door(self) -> Any:
        """Draw one of the doors."""
        ...

    def forbid(self, condition: Any, reason: str) -> None:
        """Reject the level if the condition holds."""
        ...

    def require_reachable(self, *, holds: bool = True) -> None:
        """Reject the level unless all doors and objects can be reached, or unless one can't if `holds` is False."""
        ...

    def open_doors(self) -> None:
        """Open all doors."""
        ...

    def mission(self, rules: Rules, secret: Room, is_locked: Any) -> Plan:
        """Draw a mission; `secret` is the locked room if `is_locked` holds."""
        ...


def like(b: Builder, number: Any) -> Description:
    """Return the description of a thing by type and color."""
    return Description(b.kind_of(number), b.color_of(number))


def do(b: Builder, verb: MissionVerb, number: Any) -> Plan:
    """Return the plan of one clause about one thing."""
    return only(Clause(int(verb), like(b, number)))
