"""Run by test_train.py: train like a run on disk in a new folder, and kill the process during the second save.

python -m tests.baselines.killed_while_saving RUN NEW_FOLDER
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from baselines import train
from baselines.runs import RunFolder, read_config
from tests.baselines.on_two_devices import recall


def kill_when_begun(checkpoints: Path) -> None:
    while not any("tmp" in path.name for path in checkpoints.iterdir()):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    config, path = read_config(Path(sys.argv[1])), Path(sys.argv[2])
    save = RunFolder.save

    def watched(folder: RunFolder, state: Any, update: int) -> None:
        if folder.last_update is not None:
            threading.Thread(target=kill_when_begun, args=(path / "checkpoints",), daemon=True).start()
        save(folder, state, update)

    RunFolder.save = watched
    with RunFolder.create(path, config) as folder:
        train.run_blocks(config, recall(), folder)


if __name__ == "__main__":
    main()
