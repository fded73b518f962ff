"""Table of environment ids. It maps each id to the entry point of its spec, which is loaded on first use.

This module imports neither JAX nor a game, so the ids are known right after `import jaxgym`. Entry points are data:
strings of the form `"module:NAME"`, where `NAME` is a `jaxgym.Spec`.
"""

import dataclasses
import importlib
import re
from typing import Any

import gymnasium

from jaxgym.errors import UnknownIdError, nearest, shown


@dataclasses.dataclass
class Entry:
    """Row of the table.

    Attributes:
        spec: A `jaxgym.Spec`, or its entry point `"module:NAME"`.
        short_name: Name of the text interface, such as `"frozen_lake"`, under which frameworks of language models know
            the environment; None if it has none, or if its spec is not loaded yet and no name was given.
    """

    spec: Any
    short_name: str | None = None


_VERSION = re.compile(r"-v[0-9]+$")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.]+")

_MORTAR_MAYHEM = "jaxgym.envs.mortar_mayhem"
_MYSTERY_PATH = "jaxgym.envs.mystery_path"
_SEARING_SPOTLIGHTS = "jaxgym.envs.searing_spotlights"

_entries = {
    "MortarMayhem-v0": Entry(f"{_MORTAR_MAYHEM}:FREE", "mortar_mayhem"),
    "MortarMayhem-Grid-v0": Entry(f"{_MORTAR_MAYHEM}:GRID", "mortar_mayhem_grid"),
    "MortarMayhemB-v0": Entry(f"{_MORTAR_MAYHEM}:ACT_ONLY", "mortar_mayhem_b"),
    "MortarMayhemB-Grid-v0": Entry(f"{_MORTAR_MAYHEM}:ACT_ONLY_GRID", "mortar_mayhem_b_grid"),
    "Endless-MortarMayhem-v0": Entry(f"{_MORTAR_MAYHEM}:ENDLESS", "endless_mortar_mayhem"),
    "SearingSpotlights-v0": Entry(f"{_SEARING_SPOTLIGHTS}:SPEC", "searing_spotlights"),
    "Endless-SearingSpotlights-v0": Entry(f"{_SEARING_SPOTLIGHTS}:ENDLESS", "endless_searing_spotlights"),
    "MysteryPath-v0": Entry(f"{_MYSTERY_PATH}:FREE", "mystery_path"),
    "MysteryPath-Grid-v0": Entry(f"{_MYSTERY_PATH}:GRID", "mystery_path_grid"),
    "Endless-MysteryPath-v0": Entry(f"{_MYSTERY_PATH}:ENDLESS", "endless_mystery_path"),
    "FrozenLake-v0": Entry("jaxgym.envs.frozen_lake:SPEC", "frozen_lake"),
    "Sudoku-v0": Entry("jaxgym.envs.sudoku:SPEC", "sudoku"),
    "TextCraft-v0": Entry("jaxgym.envs.textcraft:SPEC", "textcraft"),
}


def ids() -> tuple[str, ...]:
    """Return the registered ids."""
    return tuple(_entries)


def short_names() -> dict[str, str]:
    """Return the ids with a text interface, by short name; no game is imported."""
    return {entry.short_name: env_id for env_id, entry in _entries.items() if entry.short_name is not None}


def add(env_id: str, entry: Entry) -> None:
    """Add a row, and register the id with Gymnasium as `jaxgym/<id>`.

    Raises:
        ValueError: If the id or the short name is taken.
    """
    if env_id in _entries:
        raise ValueError(f"{env_id!r} is already registered; choose another id.")
    if entry.short_name in short_names():
        raise ValueError(f"the short name {entry.short_name!r} is already registered; choose another one.")
    _entries[env_id] = entry
    if not isinstance(entry.spec, str):
        _name_text(env_id, entry)
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
        UnknownIdError: If the id is not registered.
    """
    entry = _entry_of(env_id)
    if isinstance(entry.spec, str):
        module, _, name = entry.spec.partition(":")
        entry.spec = getattr(importlib.import_module(module), name)
        _name_text(env_id, entry)
    return entry.spec


def _entry_of(env_id: str) -> Entry:
    if not isinstance(env_id, str) or env_id not in _entries:
        known = ", ".join(_entries)
        raise UnknownIdError(f"{shown(env_id)} is no environment id{nearest(env_id, _entries)}; the ids are {known}.")
    return _entries[env_id]


def _name_text(env_id: str, entry: Entry) -> None:
    """Name a text interface that has no short name: `my_game` for `MyGame-v0`, or the id if that is taken."""
    if entry.short_name is None and entry.spec.text is not None:
        name = _BETWEEN_WORDS.sub("_", _VERSION.sub("", env_id)).lower()
        entry.short_name = env_id if name in short_names() else name


def _add_to_gymnasium(env_id: str) -> None:
    name = f"jaxgym/{env_id}"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="jaxgym.gymnasium_api.single:make",
            vector_entry_point="jaxgym.gymnasium_api.vector:make",
            kwargs={"env_id": env_id},
        )


for _env_id in _entries:
    _add_to_gymnasium(_env_id)
