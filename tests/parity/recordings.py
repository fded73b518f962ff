"""Recorded episodes, and the correspondence of a family's recordings and our states."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recorded episode."""

    path: Path
    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> "Recording":
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return cls(path, arrays, json.loads(str(arrays.pop("meta"))))


def no_capacities(_: Recording) -> dict[str, Any]:
    return {}


def no_leaks(_: Recording) -> set[int]:
    return set()


def nothing_derived(_: Recording) -> dict[str, np.ndarray]:
    return {}


@dataclasses.dataclass(frozen=True)
class Family:
    """Functions that make levels of a family's recordings, and compare their arrays with our states.

    `capacities` returns further options of `make`, so that the recorded level fits. `leaks` returns the times of frames
    that show leftovers of an earlier episode, which are not compared. `derived` returns further arrays that follow from
    the recorded ones.
    """

    level: Callable[[Recording, Any], Any]
    answers: Callable[[Any, Any, Any], dict[str, np.ndarray]]
    capacities: Callable[[Recording], dict[str, Any]] = no_capacities
    leaks: Callable[[Recording], set[int]] = no_leaks
    derived: Callable[[Recording], dict[str, np.ndarray]] = nothing_derived
