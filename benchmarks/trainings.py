"""Run several trainings side by side: each is one process of `python -m baselines.train`, resumed if interrupted."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Several processes share one GPU.
_ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def train(folder: Path, flags: Sequence[str], end: float) -> None:
    """Train an agent into a folder, unless it has been evaluated or the time is over; its output goes to FOLDER.log.

    Args:
        folder: folder of the run.
        flags: flags of `baselines.train`; environment options last.
        end: value of `time.monotonic()` after which no training starts.
    """
    if (folder / "evaluation.json").is_file() or time.monotonic() > end:
        return
    place = ["--runs-dir", str(folder.parent), "--name", folder.name]
    resume = ["--resume"] if (folder / "config.json").is_file() else []
    run(folder, ["-m", "baselines.train", *place, *resume, *flags])


def run(folder: Path, words: Sequence[str]) -> None:
    """Run Python with some arguments; append its output to FOLDER.log, and print the exit code."""
    begin = time.monotonic()
    with folder.with_name(f"{folder.name}.log").open("a") as log:
        environment = {**os.environ, **_ENVIRONMENT}
        process = subprocess.run(
            [sys.executable, *words], stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
        )
    print(f"{folder.name}: exit code {process.returncode} after {time.monotonic() - begin:.0f} s", flush=True)


def held_out(folder: Path) -> dict[str, Any] | None:
    """Return the results of a run on held-out levels; None if it has not been evaluated."""
    path = folder / "evaluation.json"
    return json.loads(path.read_text())["held_out"] if path.is_file() else None
