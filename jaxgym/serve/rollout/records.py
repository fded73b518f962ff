"""Folder of a rollout, with `completions.jsonl`, one trajectory on each line, and `settings.json`."""

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxgym.errors import OptionError

COMPLETIONS, SETTINGS = "completions.jsonl", "settings.json"

Record = dict[str, Any]


class Folder:
    """Folder of a run that can be continued; `records` are its trajectories without an error, by row index."""

    def __init__(self, path: Path, settings: Mapping[str, Any]):
        """Open or create a folder; drop incomplete lines and failed trajectories.

        Args:
            path: The folder.
            settings: Settings that determine the trajectories, in JSON.

        Raises:
            OptionError: If the folder is of a run with other settings, or its settings file is invalid.
            OSError: If it can't be written.
        """
        self.path = path
        plain = json.loads(json.dumps(settings))
        known = path / SETTINGS
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not known.exists():
                _write(known, json.dumps(plain, indent=1) + "\n")
        except OSError as error:
            raise OSError(f"can't write to {path}: {error.strerror}. Use another folder.") from error
        try:
            before = json.loads(known.read_text())
        except ValueError as error:
            raise OptionError(f"{known}: expected JSON, got {error}. Use another folder.") from error
        differs = _difference("", before, plain)
        if differs is not None:
            name, before, after = differs
            raise OptionError(
                f"{path}: expected {name}={reprlib.repr(before)} as in the run of this folder, got "
                f"{reprlib.repr(after)}. Use the same settings to continue the run, or another --out folder."
            )
        self.records: dict[int, Record] = {}
        self._file = path / COMPLETIONS
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                record = _record_of(line)
                if record is not None and record["error"] is None:
                    self.records[record["index"]] = record
            _write(self._file, "".join(json.dumps(record) + "\n" for record in self.records.values()))

    def add(self, record: Record) -> None:
        """Append a trajectory."""
        with self._file.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.records[record["index"]] = record


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any] | None:
    """Return the path of the first difference of two JSON values, and both values there; None if they are equal."""
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        places = sorted({*before, *after})
        pairs = [(f"{name}[{place!r}]" if name else place, before.get(place), after.get(place)) for place in places]
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            return f"number of {name}", len(before), len(after)
        pairs = [(f"{name}[{place}]", *pair) for place, pair in enumerate(zip(before, after, strict=True))]
    else:
        return name or "settings", before, after
    return next((found for pair in pairs if (found := _difference(*pair)) is not None), (name, before, after))


def _record_of(line: str) -> Record | None:
    """Return the trajectory of a line, or None if the line is incomplete."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) and {"index", "error"} <= record.keys() else None


def _write(path: Path, content: str) -> None:
    """Write a file atomically."""
    beside = path.with_suffix(".partial")
    beside.write_text(content)
    beside.replace(path)
