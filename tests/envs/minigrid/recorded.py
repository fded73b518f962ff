"""Recordings of the package minigrid; tests/data/minigrid/README.md describes their arrays."""

import json
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[2] / "data" / "minigrid"


def names(*starts: str) -> list[str]:
    """Return the names of the recordings that begin in one of these ways."""
    found = sorted(path.stem for path in FOLDER.glob("*__*.npz"))
    return [name for name in found if name.startswith(starts)]


def load(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the meta data of a recording."""
    with np.load(FOLDER / f"{name}.npz") as archive:
        arrays = {key: archive[key] for key in archive.files}
    return arrays, json.loads(str(arrays.pop("meta")))


def layouts() -> dict[str, np.ndarray]:
    """Return how often a door, key, ball, box or the agent is in each cell, (W, H, 5) by id."""
    with np.load(FOLDER / "memory_layouts.npz") as archive:
        return {key: archive[key] for key in archive.files}
