"""Dances: 16 moves each, which end where they begin."""

import enum

import numpy as np


class Wind(enum.IntEnum):
    """Directions of moves, which are the actions too."""

    N = 0
    NE = 1
    E = 2
    SE = 3
    S = 4
    SW = 5
    W = 6
    NW = 7


STEPS = np.asarray([[-1, 0], [-1, 1], [0, 1], [1, 1], [1, 0], [1, -1], [0, -1], [-1, -1]], np.int32)
"""Change of row and column by each direction."""

NUM_MOVES = 16

MOVES = {
    "circle_cw": "N E S S W W N N E E S S W W N E",
    "circle_ccw": "N W S S E E N N W W S S E E N W",
    "up_and_down": " ".join(["N S S N"] * 4),
    "left_and_right": " ".join(["E W W E"] * 4),
    "diagonal_uldr": " ".join(["NW SE SE NW"] * 4),
    "diagonal_urdl": " ".join(["NE SW SW NE"] * 4),
    "plus_cw": " ".join(["N S E W S N W E"] * 2),
    "plus_ccw": " ".join(["N S W E S N E W"] * 2),
    "times_cw": " ".join(["NE SW SE NW SW NE NW SE"] * 2),
    "times_ccw": " ".join(["NW SE SW NE SE NW NE SW"] * 2),
    "zee": "NE W W E E SW NE SW SW E E W W NE SW NE",
    "chevron_down": "NW S SE NE N SW NE SW NE S SW NW N SE NW SE",
    "chevron_up": "SE N NW SW S NE SW NE SW N NE SE S NW SE NW",
}
"""Directions of the moves of each dance, by its name in the original."""

WATCH = "watch"
INSTRUCTIONS = (WATCH, *MOVES)
"""Instructions by number: 0 while the agent has to watch, then the number of the dance, from 1."""


def _places() -> np.ndarray:
    directions = np.asarray([[Wind[name] for name in moves.split()] for moves in MOVES.values()], np.int64)
    return np.pad(STEPS[directions].cumsum(axis=1, dtype=np.int32), ((0, 0), (1, 0), (0, 0)))


PLACES = _places()
"""Row and column, relative to the start, of each dance after each number of moves, int32 (13, 17, 2)."""
