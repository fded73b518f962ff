"""Table of environment ids. It maps each id to the entry point of its spec, which is loaded on first use.

This module imports neither JAX nor a game, so the ids are known right after `import jaxgym`. Entry points are data:
strings of the form `"module:NAME"`, where `NAME` is a `jaxgym.Spec`, or a mapping with the spec of each id.
"""

import dataclasses
import importlib
import importlib.metadata
import operator
import re
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium

from jaxgym.errors import UnknownIdError, listed, nearest, shown


class Declaration:
    """Base class of `jaxgym.Spec`, whose module imports JAX."""

    text: Any


@dataclasses.dataclass
class Entry:
    """Row of the table.

    Attributes:
        spec: A `jaxgym.Spec`, or its entry point `"module:NAME"`.
        short_name: Name of the text interface, such as `"frozen_lake"`, which frameworks for language models use.
        has_text: Whether there is a text interface; None while the spec is not loaded.
    """

    spec: Any
    short_name: str | None = None
    has_text: bool | None = None


GROUP = "jaxgym.envs"
"""Entry-point group in which an installed package declares environments: `"MyGame-v0" = "my_package:SPEC"`."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*-v[0-9]+")
_SHORT_NAME = re.compile(r"[A-Za-z0-9_]+")
_ENTRY_POINT = re.compile(r"[\w.]+:[\w.]+")
_VERSION = re.compile(r"-v[0-9]+$")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.]+")

_BABYAI = """
GoToRedBallGrey-v0 GoToRedBall-v0 GoToRedBallNoDists-v0 GoToObj-v0 GoToObjS4-v0 GoToObjS6-v1 GoToLocal-v0
GoToLocalS5N2-v0 GoToLocalS6N2-v0 GoToLocalS6N3-v0 GoToLocalS6N4-v0 GoToLocalS7N4-v0 GoToLocalS7N5-v0
GoToLocalS8N2-v0 GoToLocalS8N3-v0 GoToLocalS8N4-v0 GoToLocalS8N5-v0 GoToLocalS8N6-v0 GoToLocalS8N7-v0 GoTo-v0
GoToOpen-v0 GoToObjMaze-v0 GoToObjMazeOpen-v0 GoToObjMazeS4R2-v0 GoToObjMazeS4-v0 GoToObjMazeS5-v0
GoToObjMazeS6-v0 GoToObjMazeS7-v0 GoToImpUnlock-v0 GoToSeq-v0 GoToSeqS5R2-v0 GoToRedBlueBall-v0 GoToDoor-v0
GoToObjDoor-v0 Open-v0 OpenRedDoor-v0 OpenDoor-v0 OpenDoorDebug-v0 OpenDoorColor-v0 OpenDoorLoc-v0
OpenTwoDoors-v0 OpenRedBlueDoors-v0 OpenRedBlueDoorsDebug-v0 OpenDoorsOrderN2-v0 OpenDoorsOrderN4-v0
OpenDoorsOrderN2Debug-v0 OpenDoorsOrderN4Debug-v0 Pickup-v0 UnblockPickup-v0 PickupLoc-v0 PickupDist-v0
PickupDistDebug-v0 PickupAbove-v0 PutNextLocal-v0 PutNextLocalS5N3-v0 PutNextLocalS6N4-v0 PutNextS4N1-v0
PutNextS5N2-v0 PutNextS5N1-v0 PutNextS6N3-v0 PutNextS7N4-v0 PutNextS5N2Carrying-v0 PutNextS6N3Carrying-v0
PutNextS7N4Carrying-v0 Unlock-v0 UnlockLocal-v0 UnlockLocalDist-v0 KeyInBox-v0 UnlockPickup-v0
UnlockPickupDist-v0 BlockedUnlockPickup-v0 UnlockToUnlock-v0 ActionObjDoor-v0 FindObjS5-v0 FindObjS6-v0
FindObjS7-v0 KeyCorridor-v0 KeyCorridorS3R1-v0 KeyCorridorS3R2-v0 KeyCorridorS3R3-v0 KeyCorridorS4R3-v0
KeyCorridorS5R3-v0 KeyCorridorS6R3-v0 OneRoomS8-v0 OneRoomS12-v0 OneRoomS16-v0 OneRoomS20-v0
MoveTwoAcrossS5N2-v0 MoveTwoAcrossS8N9-v0 Synth-v0 SynthS5R2-v0 SynthLoc-v0 SynthSeq-v0 MiniBossLevel-v0
BossLevel-v0 BossLevelNoUnlock-v0
"""
"""Ids of BabyAI in minigrid, without the prefix `BabyAI-`."""


def _short_name_of(env_id: str) -> str:
    return _BETWEEN_WORDS.sub("_", _VERSION.sub("", env_id)).lower()


_BUILT_IN = {
    "MortarMayhem-v0": ("mortar_mayhem:FREE", "mortar_mayhem"),
    "MortarMayhem-Grid-v0": ("mortar_mayhem:GRID", "mortar_mayhem_grid"),
    "MortarMayhemB-v0": ("mortar_mayhem:ACT_ONLY", "mortar_mayhem_b"),
    "MortarMayhemB-Grid-v0": ("mortar_mayhem:ACT_ONLY_GRID", "mortar_mayhem_b_grid"),
    "Endless-MortarMayhem-v0": ("mortar_mayhem:ENDLESS", "endless_mortar_mayhem"),
    "SearingSpotlights-v0": ("searing_spotlights:SPEC", "searing_spotlights"),
    "Endless-SearingSpotlights-v0": ("searing_spotlights:ENDLESS", "endless_searing_spotlights"),
    "MysteryPath-v0": ("mystery_path:FREE", "mystery_path"),
    "MysteryPath-Grid-v0": ("mystery_path:GRID", "mystery_path_grid"),
    "Endless-MysteryPath-v0": ("mystery_path:ENDLESS", "endless_mystery_path"),
    "FrozenLake-v0": ("frozen_lake:SPEC", "frozen_lake"),
    "Sudoku-v0": ("sudoku:SPEC", "sudoku"),
    "TextCraft-v0": ("textcraft:SPEC", "textcraft"),
    "MiniGrid-MemoryS7-v0": ("minigrid_memory:S7", "minigrid_memory_s7"),
    "MiniGrid-MemoryS9-v0": ("minigrid_memory:S9", "minigrid_memory_s9"),
    "MiniGrid-MemoryS11-v0": ("minigrid_memory:S11", "minigrid_memory_s11"),
    "MiniGrid-MemoryS13-v0": ("minigrid_memory:S13", "minigrid_memory_s13"),
    "MiniGrid-MemoryS13Random-v0": ("minigrid_memory:S13_RANDOM", "minigrid_memory_s13_random"),
    "MiniGrid-MemoryS17Random-v0": ("minigrid_memory:S17_RANDOM", "minigrid_memory_s17_random"),
    "T-Maze-v0": ("t_maze:PASSIVE", "t_maze"),
    "T-Maze-Active-v0": ("t_maze:ACTIVE", "t_maze_active"),
    "T-Maze-Lamp-v0": ("t_maze:LAMP", "t_maze_lamp"),
    "MemoryCards-v0": ("memory_cards:SPEC", "memory_cards"),
    "Numpad-v0": ("numpad:DISCRETE", "numpad"),
    "NumpadContinuous-v0": ("numpad:CONTINUOUS", "numpad_continuous"),
    "Endless-TMaze-v0": ("endless_t_maze:SPEC", "endless_t_maze"),
    "Passive-VisualMatch-v0": ("visual_match:SPEC", "visual_match"),
    "BossFight-v0": ("boss_fight:SPEC", "boss_fight"),
    "Ballet-v0": ("ballet:SPEC", "ballet"),
    "ColorCubes-v0": ("color_cubes:SPEC", "color_cubes"),
    "KeyToDoor-v0": ("key_to_door:SPEC", "key_to_door"),
    **{f"BabyAI-{name}": ("babyai:SPECS", f"babyai_{_short_name_of(name)}") for name in _BABYAI.split()},
    "BabyAI-PutNext-v0": ("babyai:EXTRA_SPECS", "babyai_put_next"),
    "BabyAI-MixedTrainLocal-v0": ("babyai:EXTRA_SPECS", "babyai_mixed_train_local"),
}
"""Entry point in `jaxgym.envs`, and short name, of each environment of this package."""

_entries = {
    env_id: Entry(f"jaxgym.envs.{entry_point}", short_name, has_text=True)
    for env_id, (entry_point, short_name) in _BUILT_IN.items()
}


def ids() -> tuple[str, ...]:
    """Return the registered ids, those of installed packages included."""
    return tuple(_entries)


def short_names() -> dict[str, str]:
    """Return the ids with a text interface, by short name; import no game.

    An environment that is registered by an entry point is listed once its spec is loaded.
    """
    return {entry.short_name: env_id for env_id, entry in _entries.items() if entry.has_text and entry.short_name}


def id_of(name: str) -> str:
    """Return the id of a short name; return any other name unchanged."""
    return next((env_id for env_id, entry in _entries.items() if entry.short_name == name), name)


def import_module_of(name: str) -> str:
    """Import the module of a name such as `"my_package.module:MyGame-v0"`, and return the id after the colon.

    A name without a colon is returned unchanged. The import runs code: pass names of a program or a command line, never
    a name from a request, a tool argument or a row of a dataset.

    Raises:
        UnknownIdError: If the module can't be imported.
    """
    if not isinstance(name, str) or ":" not in name:
        return name
    module, _, env_id = name.partition(":")
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UnknownIdError(f"{shown(name)}: expected a module that can be imported, got {_cause(error)}.") from error
    return env_id


def add(env_id: str, entry: Entry) -> None:
    """Add a row, and register the id with Gymnasium as `jaxgym/<id>`.

    An entry without a short name gets one: `my_game` for `MyGame-v0`, or the id itself if that is taken.

    Raises:
        ValueError: If the id, the short name or the spec is malformed, or the id or the short name is taken. Nothing is
            registered then.
    """
    if not _matches(_ID, env_id):
        raise ValueError(
            f"expected an id such as 'MyGame-v0', got {shown(env_id)}. "
            "Use ASCII letters, digits, '-', '_' and '.', and end it with a version."
        )
    if entry.short_name is not None and not _matches(_SHORT_NAME, entry.short_name):
        raise ValueError(
            f"{env_id}: expected a short name such as 'my_game', got {shown(entry.short_name)}. "
            "Use ASCII letters, digits and '_'."
        )
    if not isinstance(entry.spec, Declaration) and not _matches(_ENTRY_POINT, entry.spec):
        raise ValueError(
            f"{env_id}: expected a jaxgym.Spec or an entry point such as 'my_package.module:SPEC', "
            f"got {shown(entry.spec)}."
        )
    if env_id in _entries:
        raise ValueError(f"{env_id!r} is already registered. Choose another id.")
    taken = {other.short_name for other in _entries.values()}
    if entry.short_name is None:
        name = _short_name_of(env_id)
        entry.short_name = env_id if name in taken else name
    elif entry.short_name in taken:
        raise ValueError(f"The short name {entry.short_name!r} is already registered. Choose another one.")
    if not isinstance(entry.spec, str):
        entry.has_text = entry.spec.text is not None
    _entries[env_id] = entry
    _add_to_gymnasium(env_id)


def remove(env_id: str) -> None:
    """Remove a row, and the id from Gymnasium.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    _entry_of(env_id)
    del _entries[env_id]
    gymnasium.registry.pop(f"jaxgym/{env_id}", None)


def load(env_id: str) -> Any:
    """Return the `jaxgym.Spec` of an id; the first call imports the module that its entry point names.

    Raises:
        UnknownIdError: If the id is not registered, or its entry point can't be imported.
    """
    entry = _entry_of(env_id)
    if isinstance(entry.spec, str):
        module, _, name = entry.spec.partition(":")
        try:
            found = operator.attrgetter(name)(importlib.import_module(module))
            spec = found[env_id] if isinstance(found, Mapping) else found
        except (Exception, SystemExit) as error:
            raise _not_a_spec(env_id, entry.spec, _cause(error)) from error
        if not isinstance(spec, Declaration):
            raise _not_a_spec(env_id, entry.spec, shown(spec))
        entry.spec, entry.has_text = spec, spec.text is not None
    return entry.spec


def _entry_of(env_id: str) -> Entry:
    if not isinstance(env_id, str) or env_id not in _entries:
        hint = nearest(env_id, _entries)
        known = "See jaxgym.registered_envs()" if hint else f"The ids are {listed(_entries)}"
        raise UnknownIdError(f"Unknown environment id {shown(env_id)}{hint}. {known}.")
    return _entries[env_id]


def _matches(pattern: re.Pattern[str], given: object) -> bool:
    return isinstance(given, str) and pattern.fullmatch(given) is not None


def _not_a_spec(env_id: str, entry_point: str, got: str) -> UnknownIdError:
    return UnknownIdError(
        f"{env_id}: expected its entry point {entry_point!r} to be a jaxgym.Spec, got {got}. "
        "Correct the entry point, or repair the package that declares it."
    )


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(". ")


def _add_to_gymnasium(env_id: str) -> None:
    name = f"jaxgym/{env_id}"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="jaxgym.gymnasium_api.single:make",
            vector_entry_point="jaxgym.gymnasium_api.vector:make",
            kwargs={"env_id": env_id},
        )


def _add_declared() -> None:
    """Add the environments that installed packages declare; a warning names each one that can't be added."""
    try:
        declared = importlib.metadata.entry_points(group=GROUP)
    except Exception as error:  # one malformed file in an installed package
        warnings.warn(f"The entry points of installed packages can't be read: {_cause(error)}.", stacklevel=2)
        return
    for each in declared:
        value = re.sub(r"\s|\[.*", "", each.value)  # without spaces and extras
        if each.name in _entries and _entries[each.name].spec == value:
            continue
        try:
            add(each.name, Entry(value))
        except ValueError as error:
            package = each.dist.name if each.dist else "an installed package"
            warnings.warn(f"The environment {shown(each.name)} of {package} is not added: {error}", stacklevel=2)


for _env_id in _entries:
    _add_to_gymnasium(_env_id)
_add_declared()
