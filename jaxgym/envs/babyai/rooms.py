"""Geometry of levels: a grid of square rooms, and the inner walls between them.

Neighboring rooms share a wall. Each inner wall has one gate, the cell in which a door can stand. The number of a wall
is also the number of its door; objects are numbered after the walls.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from jaxgym.envs.minigrid.world import EMPTY, STEPS, WALL, Color, Direction, coordinates

COLORS = (Color.BLUE, Color.GREEN, Color.GREY, Color.PURPLE, Color.RED, Color.YELLOW)
"""Colors in the order in which the original draws them: by name."""

NO_WALL = -1


class Wall(NamedTuple):
    """Inner wall between two rooms.

    Attributes:
        room: Column and row of the room at its left or above it.
        side: `Direction` in which the other room lies: right or down.
    """

    room: tuple[int, int]
    side: Direction

    @property
    def other(self) -> tuple[int, int]:
        """Column and row of the room at the right or below."""
        dx, dy = STEPS[self.side].tolist()
        return self.room[0] + dx, self.room[1] + dy


@dataclasses.dataclass(frozen=True)
class Rooms:
    """A grid of rooms.

    Attributes:
        size: Side of a room, walls included.
        rows: Number of rows of rooms.
        columns: Number of columns of rooms.
    """

    size: int
    rows: int
    columns: int

    @property
    def stride(self) -> int:
        """Distance between the corners of neighboring rooms."""
        return self.size - 1

    @property
    def width(self) -> int:
        """Columns of cells."""
        return self.stride * self.columns + 1

    @property
    def height(self) -> int:
        """Rows of cells."""
        return self.stride * self.rows + 1

    @property
    def middle(self) -> tuple[int, int]:
        """Provisional cell of the agent, while it is not placed: the middle of the middle room."""
        return self.columns // 2 * self.stride + self.size // 2, self.rows // 2 * self.stride + self.size // 2

    @functools.cached_property
    def walls(self) -> tuple[Wall, ...]:
        """The inner walls, in the order in which their gates are drawn."""
        walls = list[Wall]()
        for row in range(self.rows):
            for column in range(self.columns):
                if column < self.columns - 1:
                    walls.append(Wall((column, row), Direction.RIGHT))
                if row < self.rows - 1:
                    walls.append(Wall((column, row), Direction.DOWN))
        return tuple(walls)

    @functools.cached_property
    def wall_at(self) -> np.ndarray:
        """Number of the inner wall at each side of each room, int32 (columns, rows, 4); -1 for outer walls."""
        numbers = np.full((self.columns, self.rows, len(Direction)), NO_WALL, np.int32)
        for number, wall in enumerate(self.walls):
            numbers[*wall.room, wall.side] = number
            numbers[*wall.other, (wall.side + 2) % len(Direction)] = number
        return numbers

    @functools.cached_property
    def blank(self) -> np.ndarray:
        """Cells with all walls and nothing else, uint16 (W, H)."""
        x, y = coordinates(self.width, self.height)
        return np.where((x % self.stride == 0) | (y % self.stride == 0), WALL, EMPTY).astype(np.uint16)

    def corner(self, room: tuple[int, int]) -> tuple[int, int]:
        """Return x and y of the upper left corner of a room."""
        return room[0] * self.stride, room[1] * self.stride

    def opening(self, wall: int) -> tuple[slice, slice]:
        """Return the cells of an inner wall without its ends, as slices of x and y."""
        (left, top), side = self.corner(self.walls[wall].room), self.walls[wall].side
        if side == Direction.RIGHT:
            return slice(left + self.stride, left + self.size), slice(top + 1, top + self.stride)
        return slice(left + 1, left + self.stride), slice(top + self.stride, top + self.size)
