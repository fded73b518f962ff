"""The 96 ids of BabyAI: their level classes, with sizes and time limits."""

from collections.abc import Callable
from functools import partial
from typing import Any

from jaxgym.envs.babyai import classes
from jaxgym.envs.babyai.builder import Phrases, Rules
from jaxgym.envs.babyai.classes import LevelClass
from jaxgym.envs.babyai.mission import NUM_CLAUSES, MissionVerb
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.minigrid.world import Color

_PUT_UNITS = 2


def _level(
    draw: Callable[..., Any], rooms: tuple[int, int, int], factor: int = 1, *, steps: int = 0, **declared: Any
) -> LevelClass:
    """Return a class with rooms of a size, rows and columns, and a time limit of `factor` times the default one."""
    size, rows, columns = rooms
    return LevelClass(Rooms(*rooms), draw, steps or factor * size**2 * rows * columns, **declared)


def _random(rooms: tuple[int, int, int], **rules: Any) -> LevelClass:
    declared = Rules(**rules)
    most = NUM_CLAUSES if Phrases.SEQUENCE in declared.phrases else 1
    units = most * (_PUT_UNITS if MissionVerb.PUT in declared.verbs else 1)
    return _level(
        partial(classes.level_gen, rules=declared),
        rooms,
        most_units=units if units > 1 else 0,
        unblocking=declared.unblocking,
    )


def _maze(size: int, side: int, **values: Any) -> LevelClass:
    return _level(partial(classes.go_to, **values), (size, side, side))


def _local(size: int, count: int) -> LevelClass:
    return _level(partial(classes.go_to_local, num_dists=count), (size, 1, 1))


def _put_next(size: int, count: int, *, carrying: bool = False) -> LevelClass:
    draw = partial(classes.put_next, objs_per_room=count)
    return _level(draw, (size, 1, 2), steps=8 * size**2, starts_carrying=carrying)


def _put_local(size: int, count: int) -> LevelClass:
    return _level(partial(classes.put_next_local, num_objs=count), (size, 1, 1), _PUT_UNITS)


def _across(size: int, count: int) -> LevelClass:
    return _level(partial(classes.move_two_across, objs_per_room=count), (size, 1, 2), steps=16 * size**2)


def _doors_order(count: int, strict: int = 0) -> LevelClass:
    draw = partial(classes.open_doors_order, num_doors=count)
    return _level(draw, (6, 3, 3), steps=_DOORS_STEPS, num_strict=strict)


def _open_door(select_by: str | None = None, strict: int = 0) -> LevelClass:
    return _level(partial(classes.open_door, select_by=select_by), _MAZE, num_strict=strict)


def _two_doors(strict: int = 0, **colors: Any) -> LevelClass:
    return _level(partial(classes.open_two_doors, **colors), (6, 3, 3), steps=_DOORS_STEPS, num_strict=strict)


def _corridor(size: int, rows: int) -> LevelClass:
    return _level(classes.key_corridor, (size, rows, 3), steps=30 * size**2)


def _find(size: int) -> LevelClass:
    return _level(classes.find_object, (size, 3, 3), steps=20 * size**2)


_MAZE, _ROOM, _BIG_DOORS = (8, 3, 3), (8, 1, 1), (7, 3, 3)
_DOORS_STEPS = 720
_RED_BLUE = {"first_color": int(Color.RED), "second_color": int(Color.BLUE)}
_GO_ONLY = {"locked_room_prob": 0.0, "has_places": False, "unblocking": False, "verbs": (MissionVerb.GO_TO,)}
_EXPLICIT = {"implicit_unlock": False}
_ONE = {"phrases": (Phrases.ONE,)}

LEVELS = {
    "GoToRedBallGrey-v0": _level(partial(classes.go_to_red_ball, is_grey=True), _ROOM),
    "GoToRedBall-v0": _level(classes.go_to_red_ball, _ROOM),
    "GoToRedBallNoDists-v0": _level(partial(classes.go_to_red_ball, num_dists=0), _ROOM),
    "GoToObj-v0": _level(classes.go_to_object, _ROOM),
    "GoToObjS4-v0": _level(classes.go_to_object, (4, 1, 1)),
    "GoToObjS6-v1": _level(classes.go_to_object, (6, 1, 1)),
    "GoToLocal-v0": _local(8, 8),
    "GoToLocalS5N2-v0": _local(5, 2),
    "GoToLocalS6N2-v0": _local(6, 2),
    "GoToLocalS6N3-v0": _local(6, 3),
    "GoToLocalS6N4-v0": _local(6, 4),
    "GoToLocalS7N4-v0": _local(7, 4),
    "GoToLocalS7N5-v0": _local(7, 5),
    "GoToLocalS8N2-v0": _local(8, 2),
    "GoToLocalS8N3-v0": _local(8, 3),
    "GoToLocalS8N4-v0": _local(8, 4),
    "GoToLocalS8N5-v0": _local(8, 5),
    "GoToLocalS8N6-v0": _local(8, 6),
    "GoToLocalS8N7-v0": _local(8, 7),
    "GoTo-v0": _maze(8, 3),
    "GoToOpen-v0": _maze(8, 3, doors_open=True),
    "GoToObjMaze-v0": _maze(8, 3, num_dists=1),
    "GoToObjMazeOpen-v0": _maze(8, 3, num_dists=1, doors_open=True),
    "GoToObjMazeS4R2-v0": _maze(4, 2, num_dists=1),
    "GoToObjMazeS4-v0": _maze(4, 3, num_dists=1),
    "GoToObjMazeS5-v0": _maze(5, 3, num_dists=1),
    "GoToObjMazeS6-v0": _maze(6, 3, num_dists=1),
    "GoToObjMazeS7-v0": _maze(7, 3, num_dists=1),
    "GoToImpUnlock-v0": _level(classes.go_to_behind_lock, _MAZE),
    "GoToSeq-v0": _random(_MAZE, **_GO_ONLY),
    "GoToSeqS5R2-v0": _random((5, 2, 2), num_dists=4, **_GO_ONLY),
    "GoToRedBlueBall-v0": _level(classes.go_to_red_blue_ball, _ROOM),
    "GoToDoor-v0": _level(classes.go_to_door, _BIG_DOORS),
    "GoToObjDoor-v0": _level(classes.go_to_object_or_door, _MAZE),
    "Open-v0": _level(classes.open_any, _MAZE),
    "OpenRedDoor-v0": _level(classes.open_red_door, (5, 1, 2)),
    "OpenDoor-v0": _open_door(),
    "OpenDoorDebug-v0": _open_door(strict=NUM_CLAUSES),
    "OpenDoorColor-v0": _open_door("color"),
    "OpenDoorLoc-v0": _open_door("loc"),
    "OpenTwoDoors-v0": _two_doors(),
    "OpenRedBlueDoors-v0": _two_doors(**_RED_BLUE),
    "OpenRedBlueDoorsDebug-v0": _two_doors(strict=1, **_RED_BLUE),
    "OpenDoorsOrderN2-v0": _doors_order(2),
    "OpenDoorsOrderN4-v0": _doors_order(4),
    "OpenDoorsOrderN2Debug-v0": _doors_order(2, NUM_CLAUSES),
    "OpenDoorsOrderN4Debug-v0": _doors_order(4, NUM_CLAUSES),
    "Pickup-v0": _level(classes.pickup, _MAZE),
    "UnblockPickup-v0": _level(classes.unblock_pickup, _MAZE),
    "PickupLoc-v0": _random(
        _ROOM, num_dists=8, locked_room_prob=0.0, unblocking=False, verbs=(MissionVerb.PICK_UP,), **_ONE
    ),
    "PickupDist-v0": _level(classes.pickup_dist, (7, 1, 1)),
    "PickupDistDebug-v0": _level(classes.pickup_dist, (7, 1, 1), num_strict=NUM_CLAUSES),
    "PickupAbove-v0": _level(classes.pickup_above, (6, 3, 3), steps=288),
    "PutNextLocal-v0": _put_local(8, 8),
    "PutNextLocalS5N3-v0": _put_local(5, 3),
    "PutNextLocalS6N4-v0": _put_local(6, 4),
    "PutNextS4N1-v0": _put_next(4, 1),
    "PutNextS5N2-v0": _put_next(5, 2),
    "PutNextS5N1-v0": _put_next(5, 1),
    "PutNextS6N3-v0": _put_next(6, 3),
    "PutNextS7N4-v0": _put_next(7, 4),
    "PutNextS5N2Carrying-v0": _put_next(5, 2, carrying=True),
    "PutNextS6N3Carrying-v0": _put_next(6, 3, carrying=True),
    "PutNextS7N4Carrying-v0": _put_next(7, 4, carrying=True),
    "Unlock-v0": _level(classes.unlock, _MAZE),
    "UnlockLocal-v0": _level(classes.unlock_local, _MAZE),
    "UnlockLocalDist-v0": _level(partial(classes.unlock_local, distractors=True), _MAZE),
    "KeyInBox-v0": _level(classes.key_in_box, _MAZE),
    "UnlockPickup-v0": _level(classes.unlock_pickup, (6, 1, 2)),
    "UnlockPickupDist-v0": _level(partial(classes.unlock_pickup, distractors=True), (6, 1, 2)),
    "BlockedUnlockPickup-v0": _level(classes.blocked_unlock_pickup, (6, 1, 2), steps=576),
    "UnlockToUnlock-v0": _level(classes.unlock_to_unlock, (6, 1, 3), steps=1080),
    "ActionObjDoor-v0": _level(classes.act_on_object_or_door, _BIG_DOORS),
    "FindObjS5-v0": _find(5),
    "FindObjS6-v0": _find(6),
    "FindObjS7-v0": _find(7),
    "KeyCorridor-v0": _corridor(6, 3),
    "KeyCorridorS3R1-v0": _corridor(3, 1),
    "KeyCorridorS3R2-v0": _corridor(3, 2),
    "KeyCorridorS3R3-v0": _corridor(3, 3),
    "KeyCorridorS4R3-v0": _corridor(4, 3),
    "KeyCorridorS5R3-v0": _corridor(5, 3),
    "KeyCorridorS6R3-v0": _corridor(6, 3),
    "OneRoomS8-v0": _level(classes.one_room, (8, 1, 1)),
    "OneRoomS12-v0": _level(classes.one_room, (12, 1, 1)),
    "OneRoomS16-v0": _level(classes.one_room, (16, 1, 1)),
    "OneRoomS20-v0": _level(classes.one_room, (20, 1, 1)),
    "MoveTwoAcrossS5N2-v0": _across(5, 2),
    "MoveTwoAcrossS8N9-v0": _across(8, 9),
    "Synth-v0": _random(_MAZE, has_places=False, **_EXPLICIT, **_ONE),
    "SynthS5R2-v0": _random((5, 2, 3), has_places=False, **_EXPLICIT, **_ONE),
    "SynthLoc-v0": _random(_MAZE, **_EXPLICIT, **_ONE),
    "SynthSeq-v0": _random(_MAZE, **_EXPLICIT),
    "MiniBossLevel-v0": _random((5, 2, 2), num_dists=7, locked_room_prob=0.25),
    "BossLevel-v0": _random(_MAZE),
    "BossLevelNoUnlock-v0": _random(_MAZE, locked_room_prob=0.0, **_EXPLICIT),
}
"""The level classes of minigrid by id, without the prefix `BabyAI-`."""

PUT_NEXT = _level(classes.put_next_maze, _MAZE, _PUT_UNITS)
"""The level PutNext of the BabyAI paper, which minigrid does not have."""
