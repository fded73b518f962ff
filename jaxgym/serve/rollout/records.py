"""What is kept of rollouts: a folder with `completions.jsonl`, one trajectory a line, and `settings.json`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxgym.errors import OptionError

COMPLETIONS, SETTINGS = "completions.jsonl", "settings.json"

Record = dict[str, Any]


class Folder:
    """The trajectories of a run, which may have been killed at any time.

    Attributes:
        path: Where it is.
        records: The trajectories by the number of their row, those that ended with an error left out.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]):
        """Opens a folder, or makes it; lines that are cut off, or of failed trajectories, are dropped from it.

        Args:
            path: The folder.
            settings: What the trajectories depend on, in JSON.

        Raises:
            OptionError: If the folder is of a run with other settings.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        told = json.loads(json.dumps(settings))
        known = path / SETTINGS
        if known.exists():
            before = json.loads(known.read_text())
            differing = sorted(name for name in {*before, *told} if before.get(name) != told.get(name))
            if differing:
                name = differing[0]
                raise OptionError(
                    f"{path} is of a run with {name}={before.get(name)!r} and was given {told.get(name)!r}; "
                    "give the same settings to continue it, or another folder."
                )
        else:
            _write(known, json.dumps(told, indent=1) + "\n")
        self.records: dict[int, Record] = {}
        self._file = path / COMPLETIONS
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                record = _record_of(line)
                if record is not None and record["error"] is None:
                    self.records[record["index"]] = record
            _write(self._file, "".join(json.dumps(record) + "\n" for record in self.records.values()))

    def add(self, record: Record) -> None:
        """Appends a trajectory."""
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.records[record["index"]] = record


def _record_of(line: str) -> Record | None:
    """Returns the trajectory of a line, or None if the line was not written to its end."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _write(path: Path, content: str) -> None:
    """Writes a file whole or not at all."""
    beside = path.with_suffix(".partial")
    beside.write_text(content)
    beside.replace(path)
