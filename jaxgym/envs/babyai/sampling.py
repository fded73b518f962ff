"""Levels sampled in a jitted program, with the original's distribution.

The original draws cells, sides and colors again and again until they are admissible. Here they are drawn uniformly from
the admissible ones, which has the same distribution. Whole levels are rejected for the same reasons as in the original.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym.envs.babyai.builder import Room, Rules
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.draft import COLOR_ARRAY, KINDS, PAIRS, Draft
from jaxgym.envs.babyai.flood import columns_of_bits, flood
from jaxgym.envs.babyai.level import Level
from jaxgym.envs.babyai.mission import NUM_CLAUSES, NUM_THINGS, MissionVerb, Plan, Start, Table, resolve
from jaxgym.envs.babyai.random_missions import Bits, draw_plan, uniform_true
from jaxgym.envs.babyai.rooms import NO_WALL, Rooms
from jaxgym.envs.babyai.validation import names_key_of_lock, put_conflicts
from jaxgym.envs.minigrid.world import (
    EMPTY,
    STEPS,
    WALL,
    Door,
    Type,
    color_of,
    coordinates,
    thing,
    type_of,
)

MOST_TRIES = 200
"""Largest number of tries for a level; the original never needed more than 26 for 500 seeds of any id."""

_TRIES_AT_ONCE = 4  # divides MOST_TRIES; on a GPU, four tries take little more time than one
_MIN_DISTANCE = 2
_NUM_BITS = 256


def sample(key: jax.Array, level_class: LevelClass) -> Level:
    """Sample a level; consumes `key`. After 200 rejected tries, it returns the last one."""
    at_once = 1 if jax.default_backend() == "cpu" else _TRIES_AT_ONCE

    def attempt(carry: tuple[jax.Array, Level, jax.Array]) -> tuple[jax.Array, Level, jax.Array]:
        tries = carry[0] + jnp.arange(at_once)
        drawn, accepted = jax.vmap(lambda number: _attempt(jax.random.fold_in(key, number), level_class))(tries)
        chosen = jnp.where(jnp.any(accepted), jnp.argmax(accepted), at_once - 1)
        return carry[0] + at_once, jax.tree.map(lambda leaf: leaf[chosen], drawn), accepted[chosen]

    def is_rejected(carry: tuple[jax.Array, Level, jax.Array]) -> jax.Array:
        return ~carry[2] & (carry[0] < MOST_TRIES)

    shapes = jax.eval_shape(lambda: _attempt(key, level_class)[0])
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.while_loop(is_rejected, attempt, (jnp.int32(0), nothing, jnp.bool_(False)))[1]


def _attempt(key: jax.Array, level_class: LevelClass) -> tuple[Level, jax.Array]:
    """Return a level, and whether it is accepted, bool ()."""
    bits = Bits(jax.random.bits(key, (_NUM_BITS,), jnp.uint32), iter(range(_NUM_BITS)))
    b = TracedBuilder(level_class.rooms, bits, Draft.of(level_class.rooms, bits))
    return b.finish(level_class.draw(b), unblocking=level_class.unblocking)


@dataclasses.dataclass(frozen=True)
class TracedBuilder:
    """Builder of one try at a level in a jitted program; it implements `builder.Builder`.

    Attributes:
        rooms: The grid of rooms.
        bits: The random draws.
        draft: The level in the making.
    """

    rooms: Rooms
    bits: Bits
    draft: Draft

    # Draws.

    def integer(self, high: int) -> jax.Array:
        """Draw an integer from 0 to `high` - 1."""
        return self.bits.integer(high)

    def pick(self, items: Sequence[Any]) -> jax.Array:
        """Draw one of some numbers."""
        return jnp.stack([jnp.asarray(item, jnp.int32) for item in items])[self.integer(len(items))]

    def color(self) -> jax.Array:
        """Draw a color."""
        return jnp.asarray(COLOR_ARRAY)[self.integer(len(COLOR_ARRAY))]

    def subset(self, items: Sequence[Any], count: int) -> list[jax.Array]:
        """Draw some of the items, without replacement."""
        left, taken = jnp.ones(len(items), jnp.bool_), list[jax.Array]()
        values = jnp.stack([jnp.asarray(item, jnp.int32) for item in items])
        for _ in range(count):
            index = uniform_true(left, self.bits.following())[0]
            left &= np.arange(len(items)) != index
            taken.append(values[index])
        return taken

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers, or of two trees of numbers."""
        return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)

    def any_room(self) -> Room:
        """Draw a room."""
        return self.integer(self.rooms.columns), self.integer(self.rooms.rows)

    def any_door(self) -> jax.Array:
        """Draw one of the doors."""
        return uniform_true(self.draft.doors != EMPTY, self.bits.following())[0]

    # Things.

    def _things(self) -> jax.Array:
        return jnp.concatenate(
            [self.draft.doors, jnp.stack([jnp.uint16(EMPTY), *(o for o, _ in self.draft.objects)])[1:]]
        )

    def kind_of(self, number: Any) -> jax.Array:
        """Return the `Type` of a door or an object."""
        return type_of(self._things()[number])

    def color_of(self, number: Any) -> jax.Array:
        """Return the `Color` of a door or an object."""
        return color_of(self._things()[number])

    def _numbered(self, kind: Any, color: Any, number: Any, state: Any = 0) -> jax.Array:
        kind, color, state, number = (jnp.asarray(part, jnp.int32) for part in (kind, color, state, number))
        each = kind + color * thing(0, 1) + state * thing(0, 0, 1) + number * thing(0, 0, 0, 1)
        return each.astype(jnp.uint16)

    def _put(self, place: jax.Array, each: jax.Array, occurs: Any = True) -> None:
        x, y = coordinates(*self.draft.cells.shape)
        draft = self.draft
        draft.cells = jnp.where((x == place[0]) & (y == place[1]) & occurs, each, draft.cells)

    def _free_cell(self, cells: jax.Array, room: Room, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return a free cell of a room that is not next to the agent, int32 (2,), and whether there is one."""
        size, corner = self.rooms.size, jnp.stack([jnp.asarray(part, jnp.int32) for part in self.rooms.corner(room)])
        block = lax.dynamic_slice(cells, corner, (size, size))
        x, y = coordinates(size, size)
        away = corner - self.draft.position
        is_far = jnp.abs(x + away[0]) + jnp.abs(y + away[1]) >= _MIN_DISTANCE
        index, exists = uniform_true((block == EMPTY) & is_far, bits)
        return corner + jnp.stack([index // size, index % size]), exists

    def _number(self) -> int:
        return len(self.rooms.walls) + len(self.draft.objects)

    def _place(self, room: Room, kind: Any, color: Any, occurs: Any = True) -> int:
        draft, number = self.draft, self._number()
        place, exists = self._free_cell(draft.cells, room, self.bits.following())
        draft.is_accepted &= exists | ~jnp.asarray(occurs)
        each = self._numbered(kind, color, number)
        self._put(place, each, occurs)
        draft.objects.append((jnp.where(occurs, each, jnp.uint16(EMPTY)), place))
        return number

    def add(self, room: Room, kind: Any = None, color: Any = None, occurs: Any = True) -> int:
        """Add an object to a room, draw what is not given, and return its number."""
        kind = jnp.asarray(KINDS)[self.integer(len(KINDS))] if kind is None else kind
        color = self.color() if color is None else color
        draft = self.draft
        draft.noted |= (PAIRS[:, 0] == kind) & (PAIRS[:, 1] == color)
        return self._place(room, kind, color, occurs)

    def hide_key(self, room: Room, color: Any) -> None:
        """Add a box of a drawn color that holds a key."""
        self._place(room, int(Type.BOX), self.color())
        draft = self.draft
        draft.content = self._numbered(int(Type.KEY), color, self._number())

    def block(self, door: Any, kind: Any) -> int:
        """Add an object of a drawn color to the cell at the left of a door."""
        number, place = self._number(), self.draft.gates[door] - np.asarray([1, 0], np.int32)
        each = self._numbered(kind, self.color(), number)
        self._put(place, each)
        self.draft.objects.append((each, place))
        return number

    def clutter(self, count: int, room: Room | None = None, *, is_unique: bool = False) -> list[int]:
        """Add objects to a room, or each to a drawn one; if unique, each has another kind or color."""
        rooms = self.rooms
        if room is None and count:
            columns, rows = self.bits.integers(rooms.columns, count), self.bits.integers(rooms.rows, count)
        else:
            columns, rows = (jnp.full(count, part, jnp.int32) for part in room or (0, 0))
        return self._clutter(columns, rows, is_unique=is_unique) if count else []

    def clutter_all(self, count: int) -> None:
        """Add some objects to each room, column by column."""
        columns, rows = np.indices((self.rooms.columns, self.rooms.rows), np.int32).reshape(2, -1)
        self._clutter(np.repeat(columns, count), np.repeat(rows, count), is_unique=False)

    def _clutter(self, columns: Any, rows: Any, *, is_unique: bool) -> list[int]:
        draft, first, count = self.draft, self._number(), len(columns)
        x, y = coordinates(*draft.cells.shape)

        def add(carry: Any, each: Any) -> Any:
            cells, noted, is_accepted = carry
            bits, number, *room = each
            pair = (bits[0] % jnp.uint32(len(PAIRS))).astype(jnp.int32)
            if is_unique:
                pair = uniform_true(~noted, bits[0])[0]
            place, exists = self._free_cell(cells, (room[0], room[1]), bits[1])
            kind, color = jnp.asarray(PAIRS)[pair]
            added = self._numbered(kind, color, number)
            cells = jnp.where((x == place[0]) & (y == place[1]), added, cells)
            noted |= np.arange(len(PAIRS)) == pair
            return (cells, noted, is_accepted & exists), (added, place)

        numbers = np.arange(first, first + count, dtype=np.int32)
        drawn = self.bits.block(count, 2), numbers, columns, rows
        carry, (objects, places) = lax.scan(add, (draft.cells, draft.noted, draft.is_accepted), drawn)
        draft.cells, draft.noted, draft.is_accepted = carry
        draft.objects += [(objects[index], places[index]) for index in range(count)]
        return numbers.tolist()

    def recolor(self, numbers: Sequence[int], color: int) -> None:
        """Change the color of objects."""
        for number in numbers:
            index = number - len(self.rooms.walls)
            old, place = self.draft.objects[index]
            new = self._numbered(type_of(old), color, number)
            self.draft.objects[index] = new, place
            self._put(place, new)

    # The agent.

    def agent(self, room: Room | None = None, without: Room | None = None, avoids: Any = True) -> None:
        """Place the agent in a room; a drawn one if None, which is not the room `without` if `avoids` holds."""
        draft, rooms = self.draft, self.rooms
        if room is None:
            room = self.any_room()
            if without is not None:
                index = uniform_true(~(self._is_room(without) & avoids), self.bits.following())[0]
                room = index // rooms.rows, index % rooms.rows
        corner = jnp.stack([jnp.asarray(part, jnp.int32) for part in rooms.corner(room)])
        padded = jnp.pad(draft.cells, 1, constant_values=WALL)
        is_ahead_clear = (padded == EMPTY) | (padded == WALL)
        size = (rooms.size, rooms.size)
        clear = jnp.stack([lax.dynamic_slice(is_ahead_clear, corner + 1 + step, size) for step in STEPS])
        starts = clear & (lax.dynamic_slice(draft.cells, corner, size) == EMPTY)[None]
        index, exists = uniform_true(starts, self.bits.following())
        draft.is_accepted &= exists
        draft.direction, cell = index // rooms.size**2, index % rooms.size**2
        draft.position = corner + jnp.stack([cell // rooms.size, cell % rooms.size])

    def _is_room(self, room: Room) -> jax.Array:
        column, row = np.indices((self.rooms.columns, self.rooms.rows), np.int32)
        return (column == room[0]) & (row == room[1])

    # Doors and walls.

    def door(self, room: Room, side: Any = None, color: Any = None, is_locked: Any = None, occurs: Any = True) -> Any:
        """Add a door to a room, draw what is not given, and return its number."""
        draft = self.draft
        if side is None:
            walls = jnp.asarray(self.rooms.wall_at)[room]
            is_free = (walls != NO_WALL) & ~self._is_taken()[walls]
            side = uniform_true(is_free, self.bits.following())[0]
        wall = jnp.asarray(self.rooms.wall_at)[*room, side]
        color = self.color() if color is None else color
        is_locked = self.integer(2) == 0 if is_locked is None else is_locked
        draft.locked = jnp.where(self._is_room(room) & occurs, is_locked, draft.locked)
        state = jnp.where(is_locked, int(Door.LOCKED), int(Door.CLOSED))
        each = self._numbered(int(Type.DOOR), color, wall, state)
        draft.doors = jnp.where((np.arange(len(self.rooms.walls)) == wall) & occurs, each, draft.doors)
        self._put(draft.gates[wall], each, occurs)
        return wall

    def _is_taken(self) -> jax.Array:
        return (self.draft.doors != EMPTY) | self.draft.is_open

    def secret_room(self, probability: float) -> tuple[Room, Any]:
        """Lock one door of a drawn room with some probability, and add its key elsewhere; return both."""
        if not probability:
            return (0, 0), False
        rooms, occurs = self.rooms, self.bits.is_likely(probability)
        index = uniform_true(jnp.asarray(rooms.wall_at != NO_WALL), self.bits.following())[0]
        column, row, side = index // (4 * rooms.rows), index // 4 % rooms.rows, index % 4
        color = self.color()
        self.door((column, row), side, color, is_locked=True, occurs=occurs)
        other = uniform_true(~self._is_room((column, row)), self.bits.following())[0]
        self.add((other // rooms.rows, other % rooms.rows), int(Type.KEY), color, occurs)
        return (column, row), occurs

    def open_wall(self, room: tuple[int, int], side: int) -> None:
        """Remove the wall at a side of a room."""
        draft, wall = self.draft, int(self.rooms.wall_at[*room, side])
        draft.is_open = draft.is_open | (np.arange(len(self.rooms.walls)) == wall)
        draft.cells = draft.cells.at[self.rooms.opening(wall)].set(EMPTY)

    def connect(self, without: Any = None, avoids: Any = True) -> None:
        """Add doors until all rooms are connected; no door has the color `without` if `avoids` holds."""
        draft, rooms = self.draft, self.rooms
        if not rooms.walls:
            return
        ends = np.asarray([(wall.room, wall.other) for wall in rooms.walls])
        first, second = (ends[:, end, 0] * rooms.rows + ends[:, end, 1] for end in range(2))
        is_taken, locked, num_walls = self._is_taken(), draft.locked.reshape(-1), len(rooms.walls)
        is_eligible = ~is_taken & ~locked[first] & ~locked[second]
        # First the walls that are open or have a door, then the others in a random order.
        order = jnp.argsort(jnp.where(is_taken, 0, self.bits.block(num_walls) >> 1 | jnp.uint32(1)))

        def join(labels: jax.Array, wall: jax.Array) -> tuple[jax.Array, jax.Array]:
            adds = is_eligible[wall] & jnp.any(labels != labels[0])
            one, other = labels[jnp.asarray(first)[wall]], labels[jnp.asarray(second)[wall]]
            return jnp.where((adds | is_taken[wall]) & (labels == other), one, labels), adds

        labels, adds = lax.scan(join, jnp.arange(rooms.rows * rooms.columns), order)
        draft.is_accepted &= ~jnp.any(labels != labels[0])
        is_added = jnp.zeros(num_walls, jnp.bool_).at[order].set(adds)
        colors = jnp.asarray(COLOR_ARRAY)[self.bits.integers(len(COLOR_ARRAY), num_walls)]
        if without is not None:
            others = jnp.asarray(COLOR_ARRAY)[jnp.argsort(without == COLOR_ARRAY)]  # the color to avoid is the last one
            colors = jnp.where(avoids, others[self.bits.integers(len(COLOR_ARRAY) - 1, num_walls)], colors)
        each = self._numbered(int(Type.DOOR), colors, np.arange(num_walls), int(Door.CLOSED))
        draft.doors = jnp.where(is_added, each, draft.doors)
        x, y = draft.gates.T
        draft.cells = draft.cells.at[x, y].set(jnp.where(is_added, each, draft.cells[x, y]))

    def open_doors(self) -> None:
        """Open all doors."""
        draft = self.draft
        states = 3 * thing(0, 0, 1)
        draft.doors = draft.doors & jnp.uint16(~states & 0xFFFF)
        draft.cells = jnp.where(
            type_of(draft.cells) == Type.DOOR, draft.cells & jnp.uint16(~states & 0xFFFF), draft.cells
        )

    # Rejections.

    def forbid(self, condition: Any, reason: str) -> None:
        """Reject the level if the condition holds."""
        del reason
        draft = self.draft
        draft.is_accepted &= ~condition

    def require_reachable(self, *, holds: bool = True) -> None:
        """Reject the level unless all doors and objects can be reached, or unless one can't if `holds` is False."""
        cells, (x, y) = self.draft.cells, self.draft.position
        is_passable = (cells == EMPTY) | (type_of(cells) == Type.DOOR)
        start = jnp.zeros(len(cells), jnp.uint32).at[x].set(jnp.uint32(1) << y.astype(jnp.uint32))
        reached = flood(start, columns_of_bits(is_passable))
        beside = jnp.pad(reached, 1)
        near = reached | reached << 1 | reached >> 1 | beside[2:] | beside[:-2]
        is_reached = jnp.all(columns_of_bits(type_of(cells) >= Type.DOOR) & ~near == 0)
        self.forbid(is_reached != holds, "")

    # The finished level.

    def mission(self, rules: Rules, secret: Room, is_locked: Any) -> Plan:
        """Draw a mission; `secret` is the locked room if `is_locked` holds."""
        plan, exists = draw_plan(self.bits, rules, self.table(), self.start(), self.rooms, secret, is_locked)
        self.forbid(~exists, "")
        return plan

    def start(self) -> Start:
        """Return the start of the agent."""
        return Start(self.draft.position[0], self.draft.position[1], self.draft.direction)

    def table(self) -> Table:
        """Return the doors and objects."""
        places = jnp.concatenate(
            [self.draft.gates, jnp.stack([jnp.zeros(2, jnp.int32), *(p for _, p in self.draft.objects)])[1:]]
        )
        left = NUM_THINGS - len(places)
        things = jnp.pad(self._things(), (0, left), constant_values=EMPTY)
        return Table(things, *jnp.pad(places, ((0, left), (0, 0))).T)

    def finish(self, plan: Plan, *, unblocking: bool) -> tuple[Level, jax.Array]:
        """Return the level, and whether it is accepted, bool ()."""
        draft, table = self.draft, self.table()
        mission = resolve(jnp, plan, table, self.start(), self.rooms.size)
        for clause in range(NUM_CLAUSES):
            if not isinstance(plan.clauses[clause].verb, int) or plan.clauses[clause].verb == MissionVerb.PUT:
                for conflict in put_conflicts(jnp, mission, table, clause):
                    self.forbid(conflict, "")
            if unblocking:
                self.forbid(names_key_of_lock(jnp, mission, table, clause), "")
        level = Level(draft.cells, draft.position, draft.direction.astype(jnp.int32), draft.content, mission)
        return level, draft.is_accepted
