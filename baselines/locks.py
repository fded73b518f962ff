"""One process at a time writes a folder."""

import fcntl
import os
from pathlib import Path

from baselines.errors import RunError

_NAME = ".lock"


def hold(folder: Path) -> int:
    """A file of a folder, open and locked until it is closed; the system closes what a killed process had open.

    Args:
        folder: that exists and can be written.

    Returns:
        Its descriptor, for `os.close`.

    Raises:
        RunError: when somebody else has it.
        OSError: when it cannot be opened.
    """
    held = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(held)
        raise RunError(
            f"{folder} is being written by another process: wait for its end, or choose another --name"
        ) from error
    except OSError:  # a file system without locks
        pass
    return held
