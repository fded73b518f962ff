"""What a recorded episode is, and how a family of recordings answers to ours."""

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
    """How a family's recordings become levels, and which of their arrays our states answer.

    `capacities` gives further options of `make`, so that the recorded level fits; `leaks` gives the times of the frames
    in which the original shows what an earlier episode left behind, which are not compared; `derived` gives further
    arrays that follow from the recorded ones.
    """

    level: Callable[[Recording, Any], Any]
    answers: Callable[[Any, Any, Any], dict[str, np.ndarray]]
    capacities: Callable[[Recording], dict[str, Any]] = no_capacities
    leaks: Callable[[Recording], set[int]] = no_leaks
    derived: Callable[[Recording], dict[str, np.ndarray]] = nothing_derived
