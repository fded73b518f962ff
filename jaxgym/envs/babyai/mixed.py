"""BabyAI-MixedTrainLocal: missions of one of five tasks, in one room or in front of a locked room.

Source: package minigrid in the fork of BALROG, of 2024-10-31, which has the level from BabyAI-Text. Rules, levels,
missions and time limits are equal. The original draws the task when the environment is made; here it is an option.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym.envs.babyai import game
from jaxgym.envs.babyai.builder import Builder, do, like
from jaxgym.envs.babyai.classes import BALL, BOX, DOOR, FIRST, KEY, RIGHT, LevelClass
from jaxgym.envs.babyai.mission import ANY_COLOR, Clause, Description, MissionVerb, Order, Plan, in_order, only
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.minigrid.world import Color
from jaxgym.options import Integer, OneOf, static

_SIZE = 8
_MOST_DISTS = 18
_MOST_UNITS = 2
MOST_STEPS = _MOST_UNITS * _SIZE**2
"""The time limit of the task with the longest one."""

_DOOR_COLORS = tuple(int(color) for color in (Color.YELLOW, Color.GREEN, Color.BLUE, Color.PURPLE))
_UNNAMED = ((BOX, Color.YELLOW), (KEY, Color.RED), (BALL, Color.GREEN))
"""Objects that no mission names: BabyAI-Text keeps them for tests of generalization."""


def _objects(b: Builder, count: int) -> list[int]:
    b.agent()
    objects = b.clutter(count)
    b.require_reachable()
    return objects


def _named(b: Builder, number: Any) -> Any:
    """Return an object; reject the level if no mission names such an object."""
    for kind, color in _UNNAMED:
        b.forbid((b.kind_of(number) == kind) & (b.color_of(number) == color), "an object that no mission names")
    return number


def one_object(b: Builder, *, verb: MissionVerb, num_dists: int) -> Plan:
    """Go to an object, or pick it up."""
    return do(b, verb, _named(b, b.pick(_objects(b, num_dists + 1))))


def _two_objects(b: Builder, num_dists: int) -> tuple[Any, Any]:
    """Draw two objects; the second one is the first one again only if another object looks the same."""
    objects = _objects(b, num_dists + 2)
    one, other = b.subset(objects, 2)
    repeats = b.integer(len(objects)) == 0
    kind, color = b.kind_of(one), b.color_of(one)
    twins = ((one != each) & (b.kind_of(each) == kind) & (b.color_of(each) == color) for each in objects)
    has_twin = functools.reduce(operator.or_, twins)
    return _named(b, one), _named(b, b.choose(repeats & has_twin, one, other))


def put_next(b: Builder, *, num_dists: int) -> Plan:
    """Put an object next to another one."""
    one, other = _two_objects(b, num_dists)
    return only(Clause(int(MissionVerb.PUT), like(b, one), like(b, other)))


def pick_up_then_go_to(b: Builder, *, num_dists: int) -> Plan:
    """Pick up an object, then go to another one."""
    one, other = _two_objects(b, num_dists)
    first, second = Clause(int(MissionVerb.PICK_UP), like(b, one)), Clause(int(MissionVerb.GO_TO), like(b, other))
    return in_order(first, second, b.pick([int(Order.THEN), int(Order.AFTER)]))


def open_locked(b: Builder, *, num_dists: int) -> Plan:
    """Open the locked door; the key is in the room."""
    room = b.integer(2), 0
    color = b.pick(_DOOR_COLORS)
    b.door(FIRST, RIGHT, color, is_locked=True)
    b.add(room, KEY, color)
    b.clutter(num_dists, room)
    b.agent(room)
    b.require_reachable()
    return only(Clause(int(MissionVerb.OPEN), Description(DOOR, b.pick([ANY_COLOR, color]))))


_TASKS: Mapping[str, Callable[..., Plan]] = {
    "goto": functools.partial(one_object, verb=MissionVerb.GO_TO),
    "pickup": functools.partial(one_object, verb=MissionVerb.PICK_UP),
    "open": open_locked,
    "putnext": put_next,
    "pick_up_seq_go_to": pick_up_then_go_to,
}
"""Functions that draw a level, by the name that BALROG gives to the task."""


@functools.cache
def level_class_of(task: str, num_dists: int) -> LevelClass:
    """Return the levels of a task; equal arguments return the same object, so that environments are equal."""
    columns = 2 if task == "open" else 1
    rooms = Rooms(_SIZE, 1, columns)
    draw = functools.partial(_TASKS[task], num_dists=num_dists)
    return LevelClass(rooms, draw, _SIZE**2 * columns, most_units=_MOST_UNITS // columns)


@dataclasses.dataclass(unsafe_hash=True)
class MixedTrainLocal(game.BabyAI):
    """BabyAI on the levels of one of five tasks.

    Observation:
        As in `BabyAI`.
    Action:
        As in `BabyAI`.
    Start:
        A random cell of a room of 8 × 8 cells, walls included. In the task `"open"`, a locked door leads to a second
        room, and the key is in the room of the agent. No mission names a yellow box, a red key or a green ball.
    Reward:
        As in `BabyAI`.
    End:
        As in `BabyAI`; the limit is 64 steps for `"goto"` and `"pickup"`, and 128 for the other tasks.
    Info:
        As in `BabyAI`.
    Versions:
        v0: as BALROG's fork of minigrid.
    """

    task: str = static(OneOf("goto", "kind of the missions, by BALROG's name", values=tuple(_TASKS)))
    num_dists: int = static(
        Integer(0, "number of objects that are not needed; BALROG has 0, BabyAI-Text 8", low=0, high=_MOST_DISTS)
    )

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the level class of the task."""
        del env_id
        return {"level_class": level_class_of(values["task"], values["num_dists"])}
