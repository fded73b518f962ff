"""Level buffers in files, so that a slow buffer is made once.

A file contains the arrays of one level buffer. It is written atomically. A file that is damaged, or that contains other
arrays than expected, is made again.
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
    """Return the level buffer of a file; make and write it if the file is missing or damaged.

    Args:
        path: The file; its folder is created if it is missing.
        make: Returns the level buffer, with host arrays.
        expected: A tree with the structure of the level buffer, and the shape and dtype of each array.
    """
    buffer = _load(path, expected)
    if buffer is None:
        buffer = make()
        _write(path, buffer)
    return buffer


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


def _write(path: Path, buffer: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # The temporary file is in the same folder, so that the last step is an atomic rename.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.stem) as folder:
        part = Path(folder) / path.name
        with part.open("wb") as file:
            np.savez(file, **{f"leaf_{index}": leaf for index, leaf in enumerate(jax.tree.leaves(buffer))})
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
