"""The level classes of BabyAI: what each draws, in the order of the original, and its mission."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxgym.envs.babyai.builder import Builder, Rules, do, like
from jaxgym.envs.babyai.mission import (
    ANY_COLOR,
    ANY_KIND,
    Clause,
    Description,
    MissionVerb,
    Order,
    Place,
    Plan,
    in_order,
    only,
)
from jaxgym.envs.babyai.rooms import COLORS, Rooms
from jaxgym.envs.minigrid.world import Color, Direction, Type

RIGHT, DOWN, LEFT, UP = (int(side) for side in Direction)
DOOR, KEY, BALL, BOX = (int(kind) for kind in (Type.DOOR, Type.KEY, Type.BALL, Type.BOX))
MIDDLE, FIRST, SECOND = (1, 1), (0, 0), (1, 0)
A_DOOR, A_BALL, A_BOX = (Description(kind) for kind in (DOOR, BALL, BOX))


def go_to_red_ball(b: Builder, *, num_dists: int = 7, is_grey: bool = False) -> Plan:
    """Go to the red ball."""
    b.agent()
    ball = b.add(FIRST, BALL, int(Color.RED))
    others = b.clutter(num_dists)
    if is_grey:
        b.recolor(others, int(Color.GREY))
    b.require_reachable()
    return do(b, MissionVerb.GO_TO, ball)


def go_to_object(b: Builder) -> Plan:
    """Go to the only object."""
    b.agent()
    return do(b, MissionVerb.GO_TO, b.clutter(1)[0])


def go_to_local(b: Builder, *, num_dists: int = 8) -> Plan:
    """Go to an object of the only room."""
    b.agent()
    objects = b.clutter(num_dists)
    b.require_reachable()
    return do(b, MissionVerb.GO_TO, b.pick(objects))


def go_to(b: Builder, *, num_dists: int = 18, doors_open: bool = False) -> Plan:
    """Go to an object of a maze."""
    plan = do(b, MissionVerb.GO_TO, b.pick(_maze(b, num_dists)))
    if doors_open:
        b.open_doors()
    return plan


def _maze(b: Builder, num_dists: int, *, is_reachable: bool = True) -> list[int]:
    b.agent()
    b.connect()
    objects = b.clutter(num_dists)
    b.require_reachable(holds=is_reachable)
    return objects


def go_to_behind_lock(b: Builder) -> Plan:
    """Go to an object in a locked room."""
    locked, _ = _locked_room(b)
    b.connect()
    b.clutter_all(2)
    b.agent(without=locked)
    b.require_reachable()
    return do(b, MissionVerb.GO_TO, b.clutter(1, locked)[0])


def _locked_room(b: Builder) -> tuple[Any, Any]:
    """Lock a room, and add its key to a drawn room, which may be the same; return the room and its door."""
    locked = b.any_room()
    door = b.door(locked, is_locked=True)
    b.add(b.any_room(), KEY, b.color_of(door))
    return locked, door


def go_to_red_blue_ball(b: Builder) -> Plan:
    """Go to a red or a blue ball."""
    b.agent()
    others = b.clutter(7)
    for other in others:
        color = b.color_of(other)
        is_taken = (b.kind_of(other) == BALL) & ((color == Color.RED) | (color == Color.BLUE))
        b.forbid(is_taken, "a red or blue ball among the others")
    ball = b.add(FIRST, BALL, b.pick([int(Color.RED), int(Color.BLUE)]))
    b.require_reachable()
    return do(b, MissionVerb.GO_TO, ball)


def go_to_door(b: Builder) -> Plan:
    """Go to a door of the middle room."""
    doors = [b.door(MIDDLE) for _ in Direction]
    b.agent(MIDDLE)
    return do(b, MissionVerb.GO_TO, b.pick(doors))


def go_to_object_or_door(b: Builder) -> Plan:
    """Go to an object or a door of the middle room."""
    b.agent(MIDDLE)
    things = b.clutter(8, MIDDLE)
    things += [b.door(MIDDLE) for _ in Direction]
    b.require_reachable()
    return do(b, MissionVerb.GO_TO, b.pick(things))


def open_any(b: Builder) -> Plan:
    """Open a door of a maze."""
    _maze(b, 18)
    return do(b, MissionVerb.OPEN, b.any_door())


def open_red_door(b: Builder) -> Plan:
    """Open the red door."""
    door = b.door(FIRST, RIGHT, int(Color.RED), is_locked=False)
    b.agent(FIRST)
    return do(b, MissionVerb.OPEN, door)


def open_door(b: Builder, *, select_by: str | None = None) -> Plan:
    """Open a door of the middle room, given by its color or its location."""
    colors = b.subset(COLORS, len(Direction))
    doors = [b.door(MIDDLE, side, color, is_locked=False) for side, color in enumerate(colors)]
    colored = Description(DOOR, b.color_of(doors[RIGHT]))
    by_color: Any = select_by == "color"
    if select_by is None:
        by_color = b.integer(2) == 0
    if by_color is not True:  # on the host, a door that is given by its color takes no draw of a place
        place = b.pick([int(place) for place in Place if place != Place.ANYWHERE])
        colored = b.choose(by_color, colored, Description(DOOR, ANY_COLOR, place))
    b.agent(MIDDLE)
    return only(Clause(int(MissionVerb.OPEN), colored))


def open_two_doors(b: Builder, *, first_color: int | None = None, second_color: int | None = None) -> Plan:
    """Open the left door, then the right one."""
    drawn = b.subset(COLORS, 2)
    colors = [drawn[0] if first_color is None else first_color, drawn[1] if second_color is None else second_color]
    doors = [b.door(MIDDLE, side, color, is_locked=False) for side, color in zip((LEFT, RIGHT), colors, strict=True)]
    b.agent(MIDDLE)
    first, second = (Clause(int(MissionVerb.OPEN), Description(DOOR, b.color_of(door))) for door in doors)
    return in_order(first, second)


def open_doors_order(b: Builder, *, num_doors: int) -> Plan:
    """Open one door, or two doors in a given order."""
    doors = [b.door(MIDDLE, None, color, is_locked=False) for color in b.subset(COLORS, num_doors)]
    b.agent(MIDDLE)
    one, other = (Clause(int(MissionVerb.OPEN), like(b, door)) for door in b.subset(doors, 2))
    order = b.integer(3)
    first, second = b.choose(order == Order.AFTER, (other, one), (one, other))
    return in_order(first, b.choose(order == Order.SINGLE, Clause(), second), order)


def pickup(b: Builder) -> Plan:
    """Pick up an object of a maze."""
    return do(b, MissionVerb.PICK_UP, b.pick(_maze(b, 18)))


def unblock_pickup(b: Builder) -> Plan:
    """Pick up an object of a maze in which things block the way."""
    return do(b, MissionVerb.PICK_UP, b.pick(_maze(b, 20, is_reachable=False)))


def pickup_dist(b: Builder) -> Plan:
    """Pick up an object, given by its type, its color or both."""
    objects = b.clutter(5, is_unique=True)
    b.agent(FIRST)
    chosen, selected = b.pick(objects), b.integer(3)
    kind = b.choose(selected == 1, ANY_KIND, b.kind_of(chosen))
    color = b.choose(selected == 0, ANY_COLOR, b.color_of(chosen))
    return only(Clause(int(MissionVerb.PICK_UP), Description(kind, color)))


def pickup_above(b: Builder) -> Plan:
    """Pick up the object in the room above."""
    chosen = b.add((1, 0))
    b.door(MIDDLE, UP, None, is_locked=False)
    b.agent(MIDDLE)
    b.connect()
    return do(b, MissionVerb.PICK_UP, chosen)


def put_next_local(b: Builder, *, num_objs: int = 8) -> Plan:
    """Put an object of the only room next to another one."""
    b.agent()
    objects = b.clutter(num_objs, is_unique=True)
    b.require_reachable()
    one, other = b.subset(objects, 2)
    return only(_put(b, one, other))


def _put(b: Builder, moved: Any, fixed: Any) -> Clause:
    return Clause(int(MissionVerb.PUT), like(b, moved), like(b, fixed))


def put_next_maze(b: Builder) -> Plan:
    """Put an object of a maze next to another one."""
    one, other = b.subset(_maze(b, 18), 2)
    return only(_put(b, one, other))


def put_next(b: Builder, *, objs_per_room: int) -> Plan:
    """Put an object of one room next to an object of the other room."""
    left, right = _two_rooms(b, objs_per_room)
    one, other = b.pick(left), b.pick(right)
    swaps = b.integer(2) == 0
    return only(b.choose(swaps, _put(b, other, one), _put(b, one, other)))


def _two_rooms(b: Builder, objs_per_room: int) -> tuple[list[int], list[int]]:
    b.agent(FIRST)
    left = b.clutter(objs_per_room, FIRST, is_unique=True)
    right = b.clutter(objs_per_room, SECOND, is_unique=True)
    b.open_wall(FIRST, RIGHT)
    return left, right


def move_two_across(b: Builder, *, objs_per_room: int) -> Plan:
    """Put an object of each room next to an object of the other room."""
    left, right = _two_rooms(b, objs_per_room)
    one, fourth = b.subset(left, 2)
    second, third = b.subset(right, 2)
    return in_order(_put(b, one, second), _put(b, third, fourth))


def unlock(b: Builder) -> Plan:
    """Open a locked door of a maze."""
    locked, door = _locked_room(b)
    b.connect(without=b.color_of(door), avoids=b.integer(2) == 0)
    b.clutter_all(3)
    b.agent(without=locked)
    b.require_reachable()
    return do(b, MissionVerb.OPEN, door)


def unlock_local(b: Builder, *, distractors: bool = False) -> Plan:
    """Open the locked door; the key is in the room."""
    door = b.door(MIDDLE, is_locked=True)
    b.add(MIDDLE, KEY, b.color_of(door))
    if distractors:
        b.clutter(3, MIDDLE, is_unique=True)
    b.agent(MIDDLE)
    return only(Clause(int(MissionVerb.OPEN), A_DOOR))


def key_in_box(b: Builder) -> Plan:
    """Open the locked door; the key is in a box."""
    b.hide_key(MIDDLE, b.color_of(b.door(MIDDLE, is_locked=True)))
    b.agent(MIDDLE)
    return only(Clause(int(MissionVerb.OPEN), A_DOOR))


def unlock_pickup(b: Builder, *, distractors: bool = False) -> Plan:
    """Pick up the box behind a locked door."""
    box = b.add(SECOND, BOX)
    door = b.door(FIRST, RIGHT, is_locked=True)
    b.add(FIRST, KEY, b.color_of(door))
    if distractors:
        b.clutter(4, is_unique=True)
    b.agent(FIRST)
    return do(b, MissionVerb.PICK_UP, box)


def blocked_unlock_pickup(b: Builder) -> Plan:
    """Pick up the box behind a locked door, which a ball blocks."""
    b.add(SECOND, BOX)
    door = b.door(FIRST, RIGHT, is_locked=True)
    b.block(door, BALL)
    b.add(FIRST, KEY, b.color_of(door))
    b.agent(FIRST)
    return only(Clause(int(MissionVerb.PICK_UP), A_BOX))


def unlock_to_unlock(b: Builder) -> Plan:
    """Pick up the ball behind a locked door, whose key is behind another one."""
    one, other = b.subset(COLORS, 2)
    b.door(FIRST, RIGHT, one, is_locked=True)
    b.add((2, 0), KEY, one)
    b.door(SECOND, RIGHT, other, is_locked=True)
    b.add(SECOND, KEY, other)
    b.add(FIRST, BALL)
    b.agent(SECOND)
    return only(Clause(int(MissionVerb.PICK_UP), A_BALL))


def act_on_object_or_door(b: Builder) -> Plan:
    """Go to, open or pick up a thing of the middle room."""
    things = b.clutter(5, MIDDLE, is_unique=True)
    things += [b.door(MIDDLE, is_locked=False) for _ in Direction]
    b.agent(MIDDLE)
    chosen = b.pick(things)
    manipulates = b.choose(b.kind_of(chosen) == DOOR, int(MissionVerb.OPEN), int(MissionVerb.PICK_UP))
    return only(Clause(b.choose(b.integer(2) == 0, int(MissionVerb.GO_TO), manipulates), like(b, chosen)))


def find_object(b: Builder) -> Plan:
    """Pick up an object in some room, given by its type."""
    chosen = b.add((b.integer(b.rooms.rows), b.integer(b.rooms.columns)))
    b.agent(MIDDLE)
    b.connect()
    return only(Clause(int(MissionVerb.PICK_UP), Description(b.kind_of(chosen))))


def key_corridor(b: Builder) -> Plan:
    """Pick up the ball in a locked room at the right of a hallway; the key is in a room at its left."""
    rows = b.rooms.rows
    for row in range(rows - 1):
        b.open_wall((1, row), DOWN)
    locked = (2, b.integer(rows))
    door = b.door(locked, LEFT, is_locked=True)
    b.add(locked, BALL)
    b.add((0, b.integer(rows)), KEY, b.color_of(door))
    b.agent((1, rows // 2))
    b.connect()
    return only(Clause(int(MissionVerb.PICK_UP), A_BALL))


def one_room(b: Builder) -> Plan:
    """Pick up the ball."""
    b.add(FIRST, BALL)
    b.agent()
    return only(Clause(int(MissionVerb.PICK_UP), A_BALL))


def level_gen(b: Builder, *, rules: Rules) -> Plan:
    """Fulfill a random mission."""
    secret, is_locked = b.secret_room(rules.locked_room_prob)
    b.connect()
    b.clutter(rules.num_dists)
    b.agent(without=secret, avoids=is_locked)
    if not rules.unblocking:
        b.require_reachable()
    return b.mission(rules, secret, is_locked)


@dataclasses.dataclass(frozen=True)
class LevelClass:
    """Declaration of the levels of an id.

    Attributes:
        rooms: The grid of rooms.
        draw: Draws a level from a builder, and returns the plan of its mission.
        steps: The time limit; of each unit of the mission (see `mission.num_units`) if `is_per_unit` holds.
        most_units: The most units of a mission; 0 if the time limit does not depend on the mission.
        num_strict: Number of clauses, from the first on, that fail on a wrong door or object.
        starts_carrying: Whether the agent starts with the object to put in its hand.
        unblocking: Whether missions must not name keys of the colors of locked doors.
    """

    rooms: Rooms
    draw: Callable[[Builder], Plan]
    steps: int
    most_units: int = 0
    num_strict: int = 0
    starts_carrying: bool = False
    unblocking: bool = False

    @property
    def is_per_unit(self) -> bool:
        """Return whether the time limit depends on the mission."""
        return self.most_units > 0

    @property
    def most_steps(self) -> int:
        """The time limit of the mission with the longest one."""
        return self.steps * max(self.most_units, 1)
