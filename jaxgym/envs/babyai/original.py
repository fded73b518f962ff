"""Levels of the original's seeds: a builder on the host, with the original's draws and rejections."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.envs.babyai.builder import CARRIED, Phrases, Room, Rules, kinds_of
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.game import BabyAI
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import (
    ANY_COLOR,
    NUM_THINGS,
    Clause,
    Description,
    MissionVerb,
    Order,
    Place,
    Plan,
    Start,
    Table,
    matching,
    resolve,
)
from jaxgym.envs.babyai.rooms import COLORS, NO_WALL, Rooms
from jaxgym.envs.babyai.validation import names_key_of_lock, put_conflicts
from jaxgym.envs.common.draws import Draws, Stream, by_seed, whole
from jaxgym.envs.common.episode_sequence import EpisodeSequence
from jaxgym.envs.minigrid.world import EMPTY, STEPS, WALL, Direction, Door, Type, color_of, thing, type_of
from jaxgym.spec import Original

UNREACHABLE, NO_ROOM = "a door or object is out of reach", "no free cell"
ALL_REACHABLE, NO_MATCH = "all doors and objects are in reach", "no description matches"
SAME, ADJACENT, LOCKS_KEY = "an object is on both sides", "the objects are adjacent", "a key of a locked door is named"

_MOST_PLACES = 1001
_MOST_DESCRIPTIONS = 101
_NOWHERE = (-1, -1)
_MIN_DISTANCE = 2
_KINDS = (Type.KEY, Type.BALL, Type.BOX)
_STEPS = [tuple(step) for step in STEPS.tolist()]

Cell = tuple[int, int]


class RejectedError(Exception):
    """The original rejects a level, and draws another one."""


class HostBuilder:
    """Builder of one level of the original; it implements `builder.Builder` with Python numbers."""

    def __init__(self, rooms: Rooms, stream: Stream) -> None:
        """Draw the gates of a blank grid."""
        self.rooms, self.stream = rooms, stream
        self.cells: list[list[int]] = rooms.blank.tolist()
        self.gates = list[Cell]()
        self.things = dict[int, int]()
        self.places = dict[int, Cell]()
        self.content = EMPTY
        self.noted = set[tuple[int, int]]()
        self.openings, self.locked = set[int](), set[Room]()
        self.position: Cell = rooms.middle
        self.direction = 0
        self._following = len(rooms.walls)
        for wall in rooms.walls:
            x, y = rooms.corner(wall.room)
            if wall.side == Direction.RIGHT:
                self.gates.append((x + rooms.stride, stream.integer(y + 1, y + rooms.stride)))
            else:
                self.gates.append((stream.integer(x + 1, x + rooms.stride), y + rooms.stride))

    # Draws.

    def integer(self, high: int) -> int:
        """Draw an integer from 0 to `high` - 1."""
        return self.stream.integer(0, high)

    def pick(self, items: Sequence[Any]) -> Any:
        """Draw one of some numbers."""
        return items[self.integer(len(items))]

    def color(self, without: Any = None) -> int:
        """Draw a color, other than `without` if it is not None."""
        return int(self.pick([color for color in COLORS if color != without]))

    def subset(self, items: Sequence[Any], count: int) -> list[Any]:
        """Draw some of the items, without replacement."""
        left = list(items)
        return [left.pop(self.integer(len(left))) for _ in range(count)]

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers, or of two trees of numbers."""
        return yes if condition else no

    def any_room(self) -> Room:
        """Draw a room."""
        return self.integer(self.rooms.columns), self.integer(self.rooms.rows)

    def any_door(self) -> int:
        """Draw one of the doors."""
        rooms = [(i, j) for i in range(self.rooms.columns) for j in range(self.rooms.rows)]
        sides = [int(self.rooms.wall_at[*room, side]) for room in rooms for side in Direction]
        return self.pick([wall for wall in sides if wall in self.things])

    # Things.

    def kind_of(self, number: int) -> int:
        """Return the `Type` of a door or an object."""
        return int(type_of(np.int32(self.things[number])))

    def color_of(self, number: int) -> int:
        """Return the `Color` of a door or an object."""
        return int(color_of(np.int32(self.things[number])))

    def _set(self, number: int, kind: int, color: int, place: Cell, state: int = 0) -> int:
        self.things[number] = thing(kind, color, state, number)
        self.places[number] = place
        self.cells[place[0]][place[1]] = self.things[number]
        return number

    def _free_cell(self, room: Room, *, is_near_allowed: bool = False) -> Cell:
        left, top = self.rooms.corner(room)
        agent_x, agent_y = self.position
        for _ in range(_MOST_PLACES):
            x = self.stream.integer(left, left + self.rooms.size)
            y = self.stream.integer(top, top + self.rooms.size)
            is_far = abs(x - agent_x) + abs(y - agent_y) >= _MIN_DISTANCE
            if self.cells[x][y] == EMPTY and (is_far or is_near_allowed):
                return x, y
        raise RejectedError(NO_ROOM)

    def _next_number(self) -> int:
        self._following += 1
        return self._following - 1

    def add(self, room: Room, kind: Any = None, color: Any = None) -> int:
        """Add an object to a room, draw what is not given, and return its number."""
        kind = self.pick(_KINDS) if kind is None else kind
        color = self.color() if color is None else color
        number = self._set(self._next_number(), kind, color, self._free_cell(room))
        self.noted.add((int(kind), int(color)))
        return number

    def hide_key(self, room: Room, color: int) -> None:
        """Add a box of a drawn color that holds a key."""
        box_color = self.color()
        box = self._next_number()
        self.content = thing(Type.KEY, color, number=self._next_number())
        self._set(box, Type.BOX, box_color, self._free_cell(room))

    def block(self, door: int, kind: int) -> int:
        """Add an object of a drawn color to the cell at the left of a door."""
        x, y = self.gates[door]
        return self._set(self._next_number(), kind, self.color(), (x - 1, y))

    def clutter(self, count: int, room: Room | None = None, *, is_unique: bool = False) -> list[int]:
        """Add objects to a room, or each to a drawn one; if unique, each has another kind or color."""
        numbers = list[int]()
        while len(numbers) < count:
            color, kind = self.color(), int(self.pick(_KINDS))
            if not (is_unique and (kind, color) in self.noted):
                numbers.append(self.add(self.any_room() if room is None else room, kind, color))
        return numbers

    def clutter_all(self, count: int) -> None:
        """Add some objects to each room, column by column."""
        for column in range(self.rooms.columns):
            for row in range(self.rooms.rows):
                self.clutter(count, (column, row))

    def recolor(self, numbers: Sequence[int], color: int) -> None:
        """Change the color of objects."""
        for number in numbers:
            self._set(number, self.kind_of(number), color, self.places[number])

    # The agent.

    def agent(self, room: Room | None = None, without: Room | None = None, avoids: Any = True) -> None:
        """Place the agent in a room; a drawn one if None, which is not the room `without` if `avoids` holds."""
        while True:
            at = self.any_room() if room is None else room
            self._place_agent(at)
            if not (avoids and at == without):
                return

    def _place_agent(self, room: Room) -> None:
        while True:
            self.position = _NOWHERE
            self.position = self._free_cell(room, is_near_allowed=True)
            self.direction = self.integer(len(Direction))
            step = _STEPS[self.direction]
            if self.cells[self.position[0] + step[0]][self.position[1] + step[1]] in (EMPTY, WALL):
                return

    # Doors and walls.

    def _wall_at(self, room: Room, side: int) -> int:
        return int(self.rooms.wall_at[*room, side])

    def _is_taken(self, wall: int) -> bool:
        return wall in self.things or wall in self.openings

    def door(self, room: Room, side: Any = None, color: Any = None, is_locked: Any = None) -> int:
        """Add a door to a room, draw what is not given, and return its number."""
        wall = NO_WALL if side is None else self._wall_at(room, side)
        while side is None and (wall == NO_WALL or self._is_taken(wall)):
            wall = self._wall_at(room, self.integer(len(Direction)))
        color = self.color() if color is None else color
        is_locked = self.integer(2) == 0 if is_locked is None else is_locked
        if is_locked:
            self.locked.add(room)
        else:
            self.locked.discard(room)
        return self._set(wall, Type.DOOR, color, self.gates[wall], Door.LOCKED if is_locked else Door.CLOSED)

    def secret_room(self, probability: float) -> tuple[Room, bool]:
        """Lock one door of a drawn room with some probability, and add its key elsewhere; return both."""
        if self.stream.share() >= probability:
            return (0, 0), False
        room, side, wall = (0, 0), 0, NO_WALL
        while wall == NO_WALL:
            room, side = self.any_room(), self.integer(len(Direction))
            wall = self._wall_at(room, side)
        door = self.door(room, side, is_locked=True)
        other = room
        while other == room:
            other = self.any_room()
        self.add(other, Type.KEY, self.color_of(door))
        return room, True

    def open_wall(self, room: tuple[int, int], side: int) -> None:
        """Remove the wall at a side of a room."""
        wall = self._wall_at(room, side)
        self.openings.add(wall)
        columns, rows = self.rooms.opening(wall)
        for x in range(columns.start, columns.stop):
            self.cells[x][rows] = [EMPTY] * (rows.stop - rows.start)

    def connect(self, without: Any = None, avoids: Any = True) -> None:
        """Add doors until all rooms are connected; no door has the color `without` if `avoids` holds."""
        while not self._is_connected():
            room, side = self.any_room(), self.integer(len(Direction))
            wall = self._wall_at(room, side)
            if wall == NO_WALL or self._is_taken(wall):
                continue
            both = self.rooms.walls[wall]
            if both.room in self.locked or both.other in self.locked:
                continue
            self.door(room, side, self.color(without if avoids else None), is_locked=False)

    def _is_connected(self) -> bool:
        reached, added = {self.rooms.walls[0].room if self.rooms.walls else (0, 0)}, True
        while added:
            added = False
            for number, wall in enumerate(self.rooms.walls):
                if self._is_taken(number) and (wall.room in reached) != (wall.other in reached):
                    reached |= {wall.room, wall.other}
                    added = True
        return len(reached) == self.rooms.rows * self.rooms.columns

    def open_doors(self) -> None:
        """Open all doors."""
        for number in range(len(self.rooms.walls)):
            if number in self.things:
                self._set(number, Type.DOOR, self.color_of(number), self.places[number], Door.OPEN)

    # Rejections.

    def forbid(self, condition: Any, reason: str) -> None:
        """Reject the level if the condition holds."""
        if condition:
            raise RejectedError(reason)

    def require_reachable(self, *, holds: bool = True) -> None:
        """Reject the level unless all doors and objects can be reached, or unless one can't if `holds` is False."""
        entered, waiting = {self.position}, [self.position]
        while waiting:
            x, y = waiting.pop()
            if self.cells[x][y] == EMPTY or self.cells[x][y] & 15 == Type.DOOR:
                found = {(x + dx, y + dy) for dx, dy in _STEPS} - entered
                entered |= found
                waiting += found
        is_reached = entered.issuperset(self.places.values())
        self.forbid(is_reached != holds, UNREACHABLE if holds else ALL_REACHABLE)

    # Random missions.

    def mission(self, rules: Rules, secret: Room, is_locked: bool) -> Plan:
        """Draw a mission; `secret` is the locked room if `is_locked` holds."""
        hidden = secret if is_locked and not rules.implicit_unlock else None
        match self.pick(rules.phrases):
            case Phrases.ONE:
                return Plan((self._clause(rules, hidden), Clause(), Clause(), Clause()))
            case Phrases.BOTH:
                return Plan((self._clause(rules, hidden), self._clause(rules, hidden), Clause(), Clause()))
            case _:
                one, other = self._phrase(rules, hidden), self._phrase(rules, hidden)
        if self.integer(2) == 0:
            return Plan((*one, *other), int(Order.THEN))
        return Plan((*other, *one), int(Order.AFTER))

    def _phrase(self, rules: Rules, hidden: Room | None) -> tuple[Clause, Clause]:
        is_one = self.integer(2) == 0
        first = self._clause(rules, hidden)
        return first, Clause() if is_one else self._clause(rules, hidden)

    def _clause(self, rules: Rules, hidden: Room | None) -> Clause:
        verb = self.pick(rules.verbs)
        first = self._description(rules, kinds_of(verb), hidden)
        is_put = verb == MissionVerb.PUT
        second = self._description(rules, (*CARRIED, Type.DOOR), hidden) if is_put else Description()
        return Clause(int(verb), first, second)

    def _description(self, rules: Rules, kinds: Sequence[int], hidden: Room | None) -> Description:
        for _ in range(_MOST_DESCRIPTIONS):
            color = int(self.pick([ANY_COLOR, *COLORS]))
            kind, place = int(self.pick(kinds)), int(Place.ANYWHERE)
            if rules.has_places and self.integer(2) == 0:
                place = int(self.pick([Place.LEFT, Place.RIGHT, Place.FRONT, Place.BEHIND]))
            description = Description(kind, color, place)
            fits = matching(np, np.asarray([description]), self.table(), self.start(), self.rooms.size)[:, 0]
            if np.any(fits & ~self._is_in(hidden) if hidden else fits):
                return description
        raise RejectedError(NO_MATCH)

    def _is_in(self, room: Room) -> np.ndarray:
        left, top = self.rooms.corner(room)
        table, stride = self.table(), self.rooms.stride
        return (table.x >= left) & (table.x <= left + stride) & (table.y >= top) & (table.y <= top + stride)

    # The finished level.

    def start(self) -> Start:
        """Return the start of the agent."""
        return Start(*self.position, self.direction)

    def table(self) -> Table:
        """Return the doors and objects, as NumPy arrays."""
        things, places = np.full(NUM_THINGS, EMPTY, np.uint16), np.zeros((NUM_THINGS, 2), np.int32)
        for number, each in self.things.items():
            things[number], places[number] = each, self.places[number]
        return Table(things, *places.T)

    def finish(self, plan: Plan, *, unblocking: bool) -> Level:
        """Check the mission, and return the level."""
        table = self.table()
        mission = resolve(np, plan, table, self.start(), self.rooms.size)
        for clause in (2, 3, 0, 1) if plan.order == Order.AFTER else range(4):
            is_same, is_adjacent = put_conflicts(np, mission, table, clause)
            self.forbid(is_same, SAME)
            self.forbid(is_adjacent, ADJACENT)
            self.forbid(unblocking and names_key_of_lock(np, mission, table, clause), LOCKS_KEY)
        return Level(
            cells=whole(np.asarray(self.cells), np.uint16),
            position=whole(np.asarray(self.position)),
            direction=whole(np.asarray(self.direction)),
            content=whole(np.asarray(self.content), np.uint16),
            mission=mission,
        )


def draw_level(level_class: LevelClass, stream: Stream) -> tuple[Level, list[str]]:
    """Draw the level of one stream, and the reasons of the rejected tries before it."""
    reasons = list[str]()
    while True:
        try:
            builder = HostBuilder(level_class.rooms, stream)
            return builder.finish(level_class.draw(builder), unblocking=level_class.unblocking), reasons
        except RejectedError as rejected:
            reasons.append(str(rejected))


def levels(env: BabyAI, options: Mapping[str, Any], draws: Draws) -> Level:
    """Draw a level for each stream."""
    del options
    made = list[Level]()
    for column in range(len(draws)):
        stream = Stream(draws, column)
        made.append(draw_level(env.level_class, stream)[0])
        stream.stop()
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


ORIGINAL = Original(by_seed(levels, num_words=256), partial(EpisodeSequence, levels=levels), package="minigrid")
