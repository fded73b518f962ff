"""Lock of a folder: one process at a time writes it."""

import fcntl
import os
from pathlib import Path

from baselines.errors import RunError

_NAME = ".lock"


def hold(folder: Path) -> int:
    """Lock a folder; the operating system releases the lock when the process ends.

    Args:
        folder: an existing, writable folder.

    Returns:
        Descriptor of the lock file; `os.close` releases the lock.

    Raises:
        RunError: if another process holds the lock.
        OSError: if the lock file cannot be opened.
    """
    held = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(held)
        raise RunError(
            f"expected a folder that no other process writes, got {folder}. Wait, or choose another --name."
        ) from error
    except OSError:  # a file system without locks
        pass
    return held
