"""Checks of a drawn mission, after which a level is rejected; for NumPy and JAX arrays."""

from typing import Any

import numpy as np

from jaxgym.envs.babyai.mission import Mission, MissionVerb, Table
from jaxgym.envs.minigrid.world import Color, Door, Type, color_of, state_of, type_of


def put_conflicts(xp: Any, mission: Mission, table: Table, clause: int) -> tuple[Any, Any]:
    """Return whether the two descriptions of "put" share a thing, and whether two of their things are adjacent."""
    first = mission.matches >> (2 * clause) & 1 > 0
    second = mission.matches >> (2 * clause + 1) & 1 > 0
    distance = abs(table.x[:, None] - table.x[None]) + abs(table.y[:, None] - table.y[None])
    is_put = mission.verbs[clause].astype(np.int32) == MissionVerb.PUT
    is_adjacent = (distance == 1) & first[:, None] & second[None]
    return is_put & xp.any(first & second), is_put & xp.any(is_adjacent)


def names_key_of_lock(xp: Any, mission: Mission, table: Table, clause: int) -> Any:
    """Return whether a description names a key of the color of a locked door."""
    is_lock = (type_of(table.things) == Type.DOOR) & (state_of(table.things) == Door.LOCKED)
    has_lock = xp.any(is_lock[:, None] & (color_of(table.things)[:, None] == np.arange(len(Color))[None]), axis=0)
    kind, color, _ = mission.descriptions[clause].T.astype(np.int32)
    verb = mission.verbs[clause].astype(np.int32)
    is_used = xp.stack([verb != MissionVerb.NONE, verb == MissionVerb.PUT])
    is_named = xp.any((color[:, None] == np.arange(len(Color))[None]) & has_lock[None], axis=1)
    return xp.any(is_used & (kind == Type.KEY) & is_named)
