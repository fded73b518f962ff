"""Player of BabyAI that knows nothing but texts: it draws a map of what it has read and plans on this map.

Positions are (x, y) with x to the east and y to the south; the start is (0, 0).
"""

import dataclasses
import heapq
import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tests.text.babyai_missions import DESCRIPTION, Clause, phrases_of

Cell = tuple[int, int]
Pose = tuple[Cell, Cell]  # position and heading

COMPASS = {"east": (1, 0), "south": (0, 1), "west": (-1, 0), "north": (0, -1)}
HEADINGS = list(COMPASS.values())
FRONT_ROW, MIDDLE = 6, 3
CLEARING = 20
"""Steps that it costs to take an object out of the way."""


@dataclasses.dataclass
class Thing:
    """Door or object; `origin` is where it was first seen."""

    name: str
    origin: Cell

    @property
    def kind(self) -> str:
        return self.name.split()[-1]

    @property
    def color(self) -> str:
        return self.name.split()[-2]

    @property
    def state(self) -> str:
        return self.name.split()[0] if self.kind == "door" else ""


class Way(NamedTuple):
    """First action, which is empty at the end, cells to enter, whether an object lies on one, and the cell to face."""

    action: str
    cells: set[Cell]
    is_blocked: bool
    target: Cell


class Player:
    """Player of one episode; `reply` takes each observation text in turn."""

    def __init__(self) -> None:
        self.position: Cell = (0, 0)
        self.heading: Cell = (0, 0)
        self.start_heading: Cell = (0, 0)
        self.walls, self.floor = set[Cell](), set[Cell]([self.position])
        self.things = dict[Cell, Thing]()
        self.hand: Thing | None = None
        self.place_to_drop: Cell | None = None
        self.room, self.unknown_in_room = set[Cell](), set[Cell]()
        self.phrases = list[list[Clause]]()

    def reply(self, seen: str) -> str:
        self._read(seen)
        action = self._action()
        self._note(action)
        return f"<action>{action}</action>"

    # Reading.

    def _read(self, seen: str) -> None:
        mission = re.search(r"^Mission: (.+)\.$", seen, re.MULTILINE)
        facing = re.search(r"^You face (\w+)\.$", seen, re.MULTILINE)
        assert mission is not None
        assert facing is not None
        drawn = seen[facing.end() + 1 :].splitlines()[:7]
        is_first = self.heading == (0, 0)
        self.heading = COMPASS[facing[1]]
        listed = dict[Cell, str]()
        things = seen.rpartition("Visible things: ")[2].splitlines()[0]
        for item in things.split("; ") if things != "none" else []:
            name, _, where = item.partition(": ")
            offsets = {side: int(count) for count, side in re.findall(r"(\d+) (ahead|left|right)", where)}
            listed[self._at(offsets.get("ahead", 0), offsets.get("right", 0) - offsets.get("left", 0))] = name
        for row, line in enumerate(drawn):
            for column, character in enumerate(line):
                self._see(self._at(FRONT_ROW - row, column - MIDDLE), character, listed)
        carried = re.search(r"^You carry: (.+)$", seen, re.MULTILINE)
        if (carried is None) != (self.hand is None):  # an object can be in the hand from the start
            gone = [thing for thing in self.things.values() if carried and thing.name == carried[1]]
            self.hand = (gone or [Thing(carried[1], self.position)])[0] if carried else None
        self.room, self.unknown_in_room = self._start_room()
        if is_first:
            self.start_heading = self.heading
            self.phrases = phrases_of(mission[1])

    def _at(self, ahead: int, right: int) -> Cell:
        (x, y), (dx, dy) = self.position, self.heading
        return x + dx * ahead - dy * right, y + dy * ahead + dx * right

    def _see(self, cell: Cell, character: str, listed: dict[Cell, str]) -> None:
        if character == "#":
            self.walls.add(cell)
        elif character == ".":
            self.floor.add(cell)
            self.things.pop(cell, None)
        elif character in "KBXDLO":
            self.floor.add(cell)
            known, name = self.things.get(cell), listed[cell]
            if known is None or (known.kind, known.color) != tuple(reversed(name.split()[-2:])):
                self.things[cell] = Thing(name, cell)
            else:
                known.name = name

    # Effects of the player's own actions, also on the mission.

    def _note(self, action: str) -> None:
        front = self._at(1, 0)
        ahead = self.things.get(front)
        dropped = None
        if action in ("turn left", "turn right"):
            index = HEADINGS.index(self.heading) + (1 if action == "turn right" else -1)
            self.heading = HEADINGS[index % 4]
        elif action == "forward" and self._is_free(front):
            self.position = front
        elif action == "pick up" and ahead and ahead.kind != "door" and self.hand is None:
            self.hand = self.things.pop(front)
        elif action == "drop" and self.hand and front in self.floor and ahead is None:
            self.things[front] = dropped = self.hand
            self.hand = self.place_to_drop = None
        elif action == "toggle" and ahead and ahead.kind == "box":
            del self.things[front]
        elif action == "toggle" and ahead and ahead.kind == "door":
            has_key = self.hand is not None and (self.hand.kind, self.hand.color) == ("key", ahead.color)
            if ahead.state == "open":
                ahead.name = ahead.name.replace("open", "closed")
            elif ahead.state == "closed" or has_key:
                ahead.name = re.sub("closed|locked", "open", ahead.name)
        while self.phrases:
            before = len(self.phrases)
            self.phrases[0] = [clause for clause in self.phrases[0] if not self._is_fulfilled(clause, action, dropped)]
            if self.phrases[0]:
                break
            self.phrases.pop(0)
            assert len(self.phrases) < before

    def _is_fulfilled(self, clause: Clause, action: str, dropped: Thing | None) -> bool:
        front = self._at(1, 0)
        ahead = self.things.get(front)
        match clause.verb:
            case "go to":
                return ahead is not None and self._fits(ahead, clause.first)
            case "open":
                is_open = ahead is not None and ahead.state == "open" and self._fits(ahead, clause.first)
                return action == "toggle" and is_open
            case "pick up":
                return action == "pick up" and self.hand is not None and self._fits(self.hand, clause.first)
            case _:
                beside = [self.things.get((front[0] + dx, front[1] + dy)) for dx, dy in HEADINGS]
                is_beside = any(thing and self._fits(thing, clause.second or "") for thing in beside)
                return dropped is not None and self._fits(dropped, clause.first) and is_beside

    def _is_free(self, cell: Cell) -> bool:
        thing = self.things.get(cell)
        return cell in self.floor and (thing is None or thing.state == "open")

    def _fits(self, thing: Thing, description: str) -> bool:
        named = DESCRIPTION.fullmatch(description)
        assert named is not None, description
        color, noun, place = named.groups()
        if (color and thing.color != color) or noun not in (thing.kind, "object"):
            return False
        if not place:
            return True
        (x, y), (dx, dy) = thing.origin, self.start_heading
        ahead, right = x * dx + y * dy, y * dx - x * dy
        sides = {"on your left": right < 0, "on your right": right > 0, "in front of you": ahead > 0}
        return sides.get(place, ahead < 0) and thing.origin in self.room

    def _start_room(self) -> tuple[set[Cell], set[Cell]]:
        """Return the known cells of the room of the start, its doors included, and the unknown cells beside them."""
        room, waiting, unknown = set[Cell]([(0, 0)]), list[Cell]([(0, 0)]), set[Cell]()
        origins = {thing.origin for thing in self.things.values() if thing.kind == "door"}
        while waiting:
            x, y = waiting.pop()
            if (x, y) in origins:
                continue
            for cell in ((x + dx, y + dy) for dx, dy in HEADINGS):
                if cell not in self.floor and cell not in self.walls:
                    unknown.add(cell)
                elif cell in self.floor and cell not in room:
                    room.add(cell)
                    waiting.append(cell)
        return room, unknown

    # Planning: the first rule that returns an action counts.

    def _action(self) -> str:
        clauses = self.phrases[0] if self.phrases else []
        has_places = any(" you" in f"{clause.first} {clause.second}" for phrase in self.phrases for clause in phrase)
        look = self._facing(lambda cell: cell in self.unknown_in_room) if has_places else None
        if look:
            return look
        rules = [*(lambda clause=clause: self._pursue(clause) for clause in clauses), *self._helpers()]
        rules += [lambda clause=clause: self._pursue(clause, is_clearing=True) for clause in clauses]
        rules += [lambda: self._facing(self._is_unknown, is_clearing=True)]
        return next(filter(None, (rule() for rule in rules)), "turn left")

    def _helpers(self) -> Iterator[Callable[[], str | None]]:
        yield lambda: self._facing(self._is_unknown)
        locked = [(cell, thing) for cell, thing in self.things.items() if thing.state == "locked"]
        for cell, door in locked:
            yield lambda cell=cell, door=door: self._unlock(cell, door)
        if locked:
            yield lambda: self._at_thing(self._is_useless_box, "toggle")
        for cell, door in locked:
            yield lambda cell=cell, door=door: self._unlock(cell, door, is_clearing=True)

    def _is_useless_box(self, thing: Thing) -> bool:
        clauses = [clause for phrase in self.phrases for clause in phrase]
        names = [name for clause in clauses for name in (clause.first, clause.second) if name]
        return thing.kind == "box" and not any(self._fits(thing, name) for name in names)

    def _is_unknown(self, cell: Cell) -> bool:
        return cell not in self.floor and cell not in self.walls

    def _pursue(self, clause: Clause, *, is_clearing: bool = False) -> str | None:
        def is_first(thing: Thing) -> bool:
            return self._fits(thing, clause.first)

        match clause.verb:
            case "go to":
                if self.hand and is_first(self.hand):
                    return self._drop()
                return self._at_thing(is_first, "wait", is_clearing=is_clearing)
            case "open":
                for cell, door in self.things.items():
                    if is_first(door) and door.state == "locked":
                        step = self._unlock(cell, door, is_clearing=is_clearing)
                        if step:
                            return step
                return self._at_thing(
                    lambda thing: is_first(thing) and thing.state != "locked", "toggle", is_clearing=is_clearing
                )
            case "pick up":
                return self._take(is_first, is_clearing=is_clearing)
            case _:
                return self._put(is_first, clause.second or "", is_clearing=is_clearing)

    def _put(self, is_wanted: Callable[[Thing], bool], second: str, *, is_clearing: bool) -> str | None:
        targets = [cell for cell, thing in self.things.items() if self._fits(thing, second)]
        if not targets and self.hand and self._fits(self.hand, second):
            return self._drop() if any(map(is_wanted, self.things.values())) else None
        beside = {(x + dx, y + dy) for x, y in targets for dx, dy in HEADINGS}

        def is_place(cell: Cell) -> bool:
            return cell in beside and self._is_bare(cell)

        if self.hand and is_wanted(self.hand):
            return self._facing(is_place, "drop", is_clearing=is_clearing)
        # First find and clear the way to the place, with free hands.
        held, self.hand = self.hand, None
        way = self._way(is_place, is_clearing=False)
        self.hand = held
        if way:
            return self._take(is_wanted, way.cells | {self.position}, is_clearing=is_clearing)
        if not is_clearing or not any(map(is_wanted, self.things.values())):
            return None
        taken = {id(thing) for cell, thing in self.things.items() if cell in beside and thing.kind != "door"}
        return self._facing(is_place, is_clearing=True) or self._take(lambda each: id(each) in taken, is_clearing=True)

    def _is_bare(self, cell: Cell) -> bool:
        return cell in self.floor and cell not in self.things

    def _take(
        self, is_wanted: Callable[[Thing], bool], needed: Collection[Cell] = (), *, is_clearing: bool = False
    ) -> str | None:
        held, self.hand = self.hand, None
        way = self._way(self._holds(is_wanted), is_clearing=is_clearing)
        self.hand = held
        if held and (way or is_wanted(held)):
            return self._drop(way.cells.union(needed) if way else ())
        # With a key in the hand, there may be a way through a locked door.
        return self._at_thing(is_wanted, "pick up", is_clearing=is_clearing)

    def _unlock(self, cell: Cell, door: Thing, *, is_clearing: bool = False) -> str | None:
        def is_key(thing: Thing) -> bool:
            return (thing.kind, thing.color) == ("key", door.color)

        if self.hand and is_key(self.hand):
            return self._facing(lambda front: front == cell, "toggle", is_clearing=is_clearing)
        # First clear the way to the door, with free hands.
        way = self._facing(lambda front: front == cell)
        if way is None:
            return self._facing(lambda front: front == cell, is_clearing=True) if is_clearing else None
        return self._take(is_key, is_clearing=is_clearing)

    def _holds(self, is_wanted: Callable[[Thing], bool]) -> Callable[[Cell], bool]:
        cells = {cell for cell, thing in self.things.items() if is_wanted(thing)}
        return lambda cell: cell in cells

    def _at_thing(self, is_wanted: Callable[[Thing], bool], action: str, *, is_clearing: bool = False) -> str | None:
        return self._facing(self._holds(is_wanted), action, is_clearing=is_clearing)

    def _drop(self, needed: Collection[Cell] = ()) -> str | None:
        """Return the next action of a way to a cell where a dropped thing blocks no path and none of `needed`."""

        def crowd(cell: Cell) -> int:
            around = [(cell[0] + dx, cell[1] + dy) for dx, dy in HEADINGS]
            doors = sum(neighbor in self.things and self.things[neighbor].kind == "door" for neighbor in around)
            return 9 * doors + sum(neighbor in self.things for neighbor in around) + 40 * (cell in needed)

        # A choice stands until it is carried out: a better cell from each next place would lead in circles.
        choices = [lambda cell: cell == self.place_to_drop and self._is_bare(cell)]
        choices += [lambda cell, most=most: self._is_bare(cell) and crowd(cell) <= most for most in (0, 1, 8, 39, 99)]
        way = next(filter(None, (self._way(is_choice, is_clearing=False) for is_choice in choices)), None)
        if way is None:
            return None
        self.place_to_drop = way.target
        return self._cleared(way.action or "drop")

    def _facing(
        self, is_target: Callable[[Cell], bool], action: str = "wait", *, is_clearing: bool = False
    ) -> str | None:
        """Return the next action on the best way to face a target, or `action` there; None without a way."""
        way = self._way(is_target, is_clearing=is_clearing)
        if way is None:
            return None
        if way.is_blocked and self.hand:
            return self._drop(way.cells)
        return self._cleared(way.action or action)

    def _way(self, is_target: Callable[[Cell], bool], *, is_clearing: bool) -> Way | None:
        """Return the best way to face a target; taking an object out of the way costs some steps."""
        start = self.position, self.heading
        came = dict[Pose, tuple[Pose, str]]()  # the pose before each, and the action
        best, queue, number = {start: 0}, [(0, 0, start)], 0
        while queue:
            cost, _, pose = heapq.heappop(queue)
            if cost > best[pose]:
                continue
            position, heading = pose
            front = position[0] + heading[0], position[1] + heading[1]
            if is_target(front):
                return self._way_of(pose, came)
            index = HEADINGS.index(heading)
            left, right = HEADINGS[index - 1], HEADINGS[(index + 1) % 4]
            following = [((position, left), "turn left", 1), ((position, right), "turn right", 1)]
            if self._can_pass(front, is_clearing=is_clearing):
                following.insert(0, ((front, heading), "forward", 1 + CLEARING * self._has_object(front)))
            for after, move, price in following:
                if cost + price < best.get(after, math.inf):
                    number += 1
                    best[after], came[after] = cost + price, (pose, move)
                    heapq.heappush(queue, (cost + price, number, after))
        return None

    def _way_of(self, end: Pose, came: dict[Pose, tuple[Pose, str]]) -> Way:
        """Return the way to a pose."""
        (x, y), (dx, dy) = end
        action, cells, pose = "", set[Cell](), end
        while pose in came:
            cells.add(pose[0])
            pose, action = came[pose]
        cells.discard(self.position)
        return Way(action, cells, any(map(self._has_object, cells)), (x + dx, y + dy))

    def _has_object(self, cell: Cell) -> bool:
        """Return whether there is an object that must be picked up; other boxes can be opened and vanish."""
        thing = self.things.get(cell)
        return thing is not None and thing.kind != "door" and not self._is_useless_box(thing)

    def _can_pass(self, cell: Cell, *, is_clearing: bool) -> bool:
        thing = self.things.get(cell)
        if cell not in self.floor or thing is None:
            return cell in self.floor
        if thing.state == "locked":
            return self.hand is not None and (self.hand.kind, self.hand.color) == ("key", thing.color)
        return thing.kind == "door" or is_clearing

    def _cleared(self, action: str) -> str:
        """Return an action, or the one that first opens the door or takes the object in the way."""
        ahead = self.things.get(self._at(1, 0))
        if action != "forward" or ahead is None or ahead.state == "open":
            return action
        return "toggle" if ahead.kind == "door" or self._is_useless_box(ahead) else "pick up"
