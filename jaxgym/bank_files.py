"""Banks of levels in files, so that what took long to make is made once.

A file holds the arrays of a bank and nothing else. It is written whole or not at all, and one that can't be read, or
that holds other arrays than are asked for, is made again.
"""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np


def load_or_make(path: Path, make: Callable[[], Any], expected: Any) -> Any:
    """Return the bank of a file, which is made and written if it is missing or damaged.

    Args:
        path: The file; its folder is made if it is missing.
        make: Makes the bank, of arrays on the host.
        expected: A tree of the bank's structure, with the shape and dtype of each array.
    """
    bank = _load(path, expected)
    if bank is None:
        bank = make()
        _write(path, bank)
    return bank


def _load(path: Path, expected: Any) -> Any:
    leaves, structure = jax.tree.flatten(expected)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = [archive[f"leaf_{index}"] for index in range(len(archive.files))]
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None
    if [(array.shape, array.dtype) for array in arrays] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
        return None
    return jax.tree.unflatten(structure, arrays)


def _write(path: Path, bank: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that the last step is a rename, which either happens or does not.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.stem) as folder:
        part = Path(folder) / path.name
        with part.open("wb") as file:
            np.savez(file, **{f"leaf_{index}": leaf for index, leaf in enumerate(jax.tree.leaves(bank))})
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
