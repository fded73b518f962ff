"""Ids as parameters of a test: the first id of each program in every run, similar ones as slow."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import jaxgym

# The same files, the same drawing: what breaks one of these breaks the one that is not named here as well.
TWINS = {
    "MortarMayhem-v0",
    "MortarMayhemB-v0",
    "MortarMayhem-Grid-v0",
    "MysteryPath-v0",
    "Endless-MortarMayhem-v0",
    "Endless-SearingSpotlights-v0",
    "MiniGrid-MemoryS9-v0",
    "MiniGrid-MemoryS11-v0",
    "MiniGrid-MemoryS13-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-MemoryS17Random-v0",
    "BabyAI-OpenRedDoor-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-MiniBossLevel-v0",
    "T-Maze-Active-v0",
    "T-Maze-Lamp-v0",
    "NumpadContinuous-v0",
    "KeyToDoor-v0",
}

CLASSICS = (
    "T-Maze-v0",
    "T-Maze-Active-v0",
    "T-Maze-Lamp-v0",
    "MemoryCards-v0",
    "Numpad-v0",
    "NumpadContinuous-v0",
    "Endless-TMaze-v0",
    "Passive-VisualMatch-v0",
    "BossFight-v0",
    "KeyToDoor-v0",
    "Ballet-v0",
    "ColorCubes-v0",
)
"""Memory tasks of earlier benchmarks."""

BABYAI = "BabyAI-GoToLocalS5N2-v0", "BabyAI-OpenRedDoor-v0", "BabyAI-PutNextS5N2Carrying-v0", "BabyAI-MiniBossLevel-v0"
"""These stand for the ids of BabyAI, which have one program and differ in the levels that they draw."""


def is_babyai(env_id: str) -> bool:
    """Return whether an id is one of BabyAI."""
    return env_id.startswith("BabyAI-")


def families() -> list[str]:
    """Return all ids, except that a few stand for those of BabyAI."""
    return [env_id for env_id in jaxgym.registered_envs() if env_id in BABYAI or not is_babyai(env_id)]


def short_names() -> list[str]:
    """Return the short names of `families`."""
    return [short_name for short_name, env_id in jaxgym.text.text_envs().items() if env_id in families()]


def short_names_of_programs() -> list[str]:
    """Return the short names of the first id of each program."""
    return [short_name for short_name, env_id in jaxgym.text.text_envs().items() if env_id in set(families()) - TWINS]


def memory_gym() -> list[str]:
    """Return the ids whose original is memory-gym."""
    return [
        env_id
        for env_id in jaxgym.registered_envs()
        if (original := jaxgym.spec_of(env_id).original) is not None and original.package == "memory_gym"
    ]


def one_of_each_program(*costly: str) -> list[Any]:
    """Return `families`; those that a quick run skips, including the given ones, are marked slow."""
    return [
        pytest.param(env_id, marks=pytest.mark.slow) if env_id in TWINS or env_id in costly else env_id
        for env_id in families()
    ]


def others_of_babyai() -> list[Any]:
    """Return the ids that are not among `families`, marked slow."""
    return [
        pytest.param(env_id, marks=pytest.mark.slow) for env_id in jaxgym.registered_envs() if env_id not in families()
    ]


@contextlib.contextmanager
def without_new_ids() -> Iterator[None]:
    """Unregister what is registered inside, so that other tests do not see it in the table of all ids."""
    before = set(jaxgym.registered_envs())
    try:
        yield
    finally:
        for env_id in set(jaxgym.registered_envs()) - before:
            jaxgym.unregister(env_id)
