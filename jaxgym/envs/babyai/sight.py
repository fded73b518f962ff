"""Observation texts of AgentGym's BabyAI, and the plans of the actions that it offers.

Everything here is pure Python: it follows from the observed image, the direction and the carried thing. The search for
paths covers a rectangle of cells around the view. Cells are numbered by row and column of that rectangle, as seen by
the agent; a pose is 4 · cell + heading, with the headings ahead, right, back and left.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jaxgym.envs.minigrid.view import OWN, SIZE
from jaxgym.envs.minigrid.world import EMPTY, Color, Direction, Door, MiniGridAction, Type, color_of, state_of, type_of

_CHECK = "check available actions"
_NO_CHANGE = "No change in state."
_UNKNOWN = "The action is not recognized. Please check valid actions."
_BARRIER = "There is a barrier in front of you, you can't move forward."
_EMPTY_HANDS = "You cannot drop the object, as you are not carrying anything."
_NO_ROOM = "You cannot drop the object, as there is already an object in front of you."
_NO_PATH = "as there is no path leading to it."
_LEFT, _RIGHT, _FORWARD = int(MiniGridAction.LEFT), int(MiniGridAction.RIGHT), int(MiniGridAction.FORWARD)
_PICKUP, _DROP, _TOGGLE = int(MiniGridAction.PICKUP), int(MiniGridAction.DROP), int(MiniGridAction.TOGGLE)

_COLUMNS = SIZE + 3
"""Columns of the search grid: those of the view, one more at its right, and a closed border."""

_ROWS = SIZE + 3
"""Rows of the search grid: those of the view, one more behind the agent, and a closed border."""

_AHEAD_OF = (-_COLUMNS, 1, _COLUMNS, -1)
_MOST_CACHED = 4096


class Thing(NamedTuple):
    """Thing that the agent sees.

    Attributes:
        kind: Its `Type`.
        name: Its name, such as "red ball" or "grey locked door".
        ahead: Number of cells ahead of the agent.
        right: Number of cells to the right of the agent; negative to the left.
        cell: Its cell in the search grid.
    """

    kind: int
    name: str
    ahead: int
    right: int
    cell: int


class Sight(NamedTuple):
    """Observation of an agent: its text and the offered actions.

    Attributes:
        text: The description.
        offers: The list of the offered actions, as it follows every text.
        plans: The offered actions; each with the plan that it executes.
        reasons: Why other actions are not offered.
    """

    text: str
    offers: str
    plans: dict[str, tuple[int, ...]]
    reasons: dict[str, str]

    def plan_of(self, action: str) -> tuple[int, ...] | str:
        """Return the plan of an action, or the text that answers an action without one."""
        action = action.lower().strip()
        if "check" in action:
            return f"You can take the following actions: {', '.join(self.plans)}"
        if not action:
            return _NO_CHANGE
        plan = self.plans.get(action)
        if plan is None:
            return self.reasons.get(action, _UNKNOWN)
        return plan or _NO_CHANGE


@functools.lru_cache(maxsize=_MOST_CACHED)
def sight_of(image: bytes, direction: int, carried: int) -> Sight:
    """Return what the agent sees and can do.

    Args:
        image: The things in the cells of the view, uint16 (7, 7), as `Visible.cells` has them.
        direction: The agent's `Direction`.
        carried: The thing that the agent carries, without its number; `EMPTY` for none.
    """
    things = _things_in(image)
    barrier = min(
        ((thing.ahead, thing.name) for thing in things if not thing.right and thing.kind in (Type.WALL, Type.BOX)),
        default=None,
    )
    named = [thing for thing in things if thing.kind != Type.WALL]
    plans, reasons = _plans(things, named, direction, carried, barrier is None or barrier[0] > 1)
    offers = "\nAvailable actions: [" + ", ".join(f'"{action}"' for action in plans) + "]"
    return Sight(_described(things, named, carried, barrier), offers, plans, reasons)


def _described(things: list[Thing], named: list[Thing], carried: int, barrier: tuple[int, str] | None) -> str:
    parts = ["You cannot see any objects within sight."]
    if things:
        parts = ["In front of you in this room, you can see several objects: "]
    counts = dict[str, int]()
    for _, name, ahead, right, _ in named:
        counts[name] = number = counts.get(name, 0) + 1
        if right:
            side = f"{right} steps to your right" if right > 0 else f"{-right} steps to your left"
            parts.append(f"There is a {name} {number} {ahead} steps in front of you and {side}.  ")
        else:
            parts.append(f"There is a {name} {number} right in front of you {ahead} steps away.  ")
    parts.append("The room has walls around you. ")
    if barrier:
        parts.append(f"You are facing a {barrier[1].split()[-1]} {barrier[0]} steps away. ")
    hands = "You are not carrying anything." if carried == EMPTY else f"You are carrying a {_name_of(carried)}."
    return "".join(parts) + hands


# Actions.


def _plans(
    things: list[Thing], named: list[Thing], direction: int, carried: int, is_way_free: bool
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the plans of the offered actions, and the reasons against other actions."""
    plans: dict[str, tuple[int, ...]] = {"turn left": (_LEFT,), "turn right": (_RIGHT,)}
    reasons = dict[str, str]()
    faced, entered = _paths(things, named, direction)
    if is_way_free:
        plans["move forward"] = (_FORWARD,)
    else:
        reasons["move forward"] = _BARRIER
    if carried == EMPTY:
        _offer(plans, reasons, "pickup", [thing for thing in named if thing.kind != Type.DOOR], faced, (_PICKUP,))
        reasons["drop"] = _EMPTY_HANDS
    elif any(thing.cell == _FRONT and thing.kind != Type.DOOR for thing in things):
        reasons["drop"] = _NO_ROOM
    else:
        plans["drop"] = (_DROP,)
    _offer_doors(plans, reasons, [thing for thing in named if thing.kind == Type.DOOR], faced, entered, carried)
    _offer(plans, reasons, "go to", named, faced, ())
    plans[_CHECK] = ()
    return plans, reasons


def _offer(
    plans: dict[str, tuple[int, ...]],
    reasons: dict[str, str],
    verb: str,
    things: list[Thing],
    faced: dict[int, tuple[int, ...]],
    last: tuple[int, ...],
) -> None:
    """Offer an action at each thing; its number counts only the things of its name with a path."""
    counts = dict[str, int]()
    for thing in things:
        path, number = faced.get(thing.cell), counts.get(thing.name, 0) + 1
        action = f"{verb} {thing.name} {number}"
        if path is None:
            reasons[action] = f"You cannot {action}, {_NO_PATH}"
        else:
            counts[thing.name] = number
            plans[action] = path + last


def _offer_doors(
    plans: dict[str, tuple[int, ...]],
    reasons: dict[str, str],
    doors: list[Thing],
    faced: dict[int, tuple[int, ...]],
    entered: dict[int, tuple[int, ...]],
    carried: int,
) -> None:
    counts = dict[str, int]()
    for door in doors:
        counts[door.name] = counts.get(door.name, 0) + 1
        numbered = f"{door.name} {counts[door.name]}"
        through, toggled = f"go through {numbered}", f"toggle and go through {numbered}"
        color, state, _ = door.name.split()
        if state == "open":
            path = entered.get(door.cell)
            if path is None:
                reasons[through] = f"You cannot {through}, {_NO_PATH}"
            else:
                plans[through] = path
            continue
        if state == "closed":
            reasons[through] = f"You cannot {through}, as it is closed. You should toggle it first."
        elif not _is_key(carried):
            reasons[toggled] = f"You cannot {toggled}, as you are not carrying a key."
            continue
        elif _name_of(carried) != f"{color} key":
            reasons[toggled] = (
                f"You cannot {toggled}, as the color of the key you are carrying does not match the color of door."
            )
            continue
        path = faced.get(door.cell)
        if path is None:
            # The original writes its whole table of counts in place of the number.
            reasons[toggled] = f"You cannot toggle and go through {door.name} {counts}, {_NO_PATH}"
            continue
        plans[toggled] = (*path, _TOGGLE, _FORWARD)
        if not path:
            plans["toggle"] = (_TOGGLE,)


# Things in the view.


def _cell(ahead: int, right: int) -> int:
    """Return the cell in the search grid."""
    return (SIZE - ahead) * _COLUMNS + right + OWN[0] + 1


_START, _FRONT = 4 * _cell(0, 0), _cell(1, 0)


def _order() -> Iterator[tuple[int, int, int, int]]:
    """Yield index in the image, cells ahead and to the right, and cell of each view cell: near ones first."""
    cells = [(row, column) for row in range(SIZE) for column in range(SIZE) if (column, row) != OWN]
    places = [(column * SIZE + row, OWN[1] - row, column - OWN[0]) for row, column in cells]
    for index, ahead, right in sorted(places, key=lambda place: place[1] + abs(place[2])):
        yield index, ahead, right, _cell(ahead, right)


_ORDER = tuple(_order())


def _things_in(image: bytes) -> list[Thing]:
    """Return the things in the view, near ones first."""
    values = np.frombuffer(image, np.uint16).tolist()
    found = list[Thing]()
    for index, ahead, right, cell in _ORDER:
        value = values[index]
        if value > EMPTY:
            kind, name = _known(value)
            found.append(Thing(kind, name, ahead, right, cell))
    return found


@functools.cache
def _known(value: int) -> tuple[int, str]:
    """Return the `Type` and the name of a thing."""
    each = np.int32(value)
    kind, color = Type(int(type_of(each))), Color(int(color_of(each))).name.lower()
    state = f"{Door(int(state_of(each))).name.lower()} " if kind == Type.DOOR else ""
    return int(kind), f"{color} {state}{kind.name.lower()}"


def _name_of(value: int) -> str:
    return _known(value)[1]


def _is_key(carried: int) -> bool:
    return carried != EMPTY and _known(carried)[0] == Type.KEY


# Paths.


def _successors() -> tuple[tuple[int, int, int], ...]:
    """Return, for each pose, the poses after forward, left and right."""
    poses = [(cell, heading) for cell in range(_ROWS * _COLUMNS) for heading in range(4)]
    return tuple(
        (4 * (cell + _AHEAD_OF[heading]) + heading, 4 * cell + (heading - 1) % 4, 4 * cell + (heading + 1) % 4)
        for cell, heading in poses
    )


def _free_poses(direction: int) -> bytes:
    """Return 0 for each pose in the search rectangle, and 1 for the others.

    The rectangle is the view. Where the view's axes run against those of the grid, the original searches one more
    column or row: behind the agent if it faces right or down, at the right of the view if it faces down or left.
    """
    closed = bytearray(b"\1" * (4 * _ROWS * _COLUMNS))
    first = -1 if direction in (Direction.RIGHT, Direction.DOWN) else 0
    last = OWN[0] + (direction in (Direction.DOWN, Direction.LEFT))
    for ahead in range(first, SIZE):
        for right in range(-OWN[0], last + 1):
            closed[4 * _cell(ahead, right) : 4 * _cell(ahead, right) + 4] = bytes(4)
    return bytes(closed)


_SUCCESSORS = _successors()
_FREE = tuple(_free_poses(direction) for direction in Direction)
_BLOCKED = b"\1" * 4


def _paths(
    things: list[Thing], named: list[Thing], direction: int
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Return the paths to face each named thing, and to stand on each door, by cell; those that exist.

    It is the original's breadth-first search, including its peculiarity: a pose that is reached again before its own
    turn keeps the last predecessor, so a path can be longer than the shortest one.
    """
    closed = bytearray(_FREE[direction])
    for thing in things:
        if thing.kind != Type.DOOR:
            closed[4 * thing.cell : 4 * thing.cell + 4] = _BLOCKED
    facing, standing = {thing.cell for thing in named}, {thing.cell for thing in named if thing.kind == Type.DOOR}
    faced, entered = dict[int, tuple[int, ...]](), dict[int, tuple[int, ...]]()
    if not facing:
        return faced, entered
    queue, came_from = [_START], dict[int, int]()
    append = queue.append
    for pose in queue:
        ahead, left, right = _SUCCESSORS[pose]
        front, cell = ahead >> 2, pose >> 2
        if front in facing or cell in standing:
            if front in facing:
                facing.remove(front)
                faced[front] = _path_to(pose, came_from)
            if cell in standing:
                standing.remove(cell)
                entered[cell] = _path_to(pose, came_from)
            if not (facing or standing):
                break
        closed[pose] = 1
        # Three times the same lines: this is the inner loop of a server.
        if not closed[ahead]:
            append(ahead)
            came_from[ahead] = pose
        if not closed[left]:
            append(left)
            came_from[left] = pose
        if not closed[right]:
            append(right)
            came_from[right] = pose
    return faced, entered


def _path_to(pose: int, came_from: dict[int, int]) -> tuple[int, ...]:
    path = list[int]()
    while pose != _START:
        before = came_from[pose]
        ahead, left, _ = _SUCCESSORS[before]
        path.append(_FORWARD if pose == ahead else _LEFT if pose == left else _RIGHT)
        pose = before
    return tuple(path[::-1])
