"""Copy the results of a run in a small form: `python -m baselines.archive runs/NAME docs/results/NAME`.

The copy has the JSON files, the transcripts of GRPO and a metrics log of at most 60 rows, all below 30 kB together. Of
the path of a language model, it keeps the name.
Checkpoints, pictures and videos stay in the run: `baselines.report` draws curves from the copy.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from baselines import exits
from baselines.errors import RunError
from baselines.runs import Row, read_rows
from jaxgym.errors import shown

MAX_ROWS = 60
MAX_BYTES = 30_000
_NAMES = ("config.json", "start.json", "evaluation.json", "evaluation-paper.json", "evaluation-greedy.json")
_TEXTS = ("transcript_before.txt", "transcript_after.txt")
_AT_END = ("update", "steps", "turns", "seconds", "seed", "held_out")  # values of the last row; others are averaged
_DIGITS = 5


@dataclasses.dataclass(frozen=True)
class ArchiveFlags:
    """Copy config, evaluations and a short metrics log of a run."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """New folder of the copy."""


def archive(arguments: ArchiveFlags) -> Path:
    """Write the copy and return its folder.

    Raises:
        RunError: if there is no run, the copy exists or would be too large, or a file cannot be read or written.
    """
    run, out = arguments.run, arguments.out
    if not (run / "config.json").exists():
        raise RunError(f"expected the folder of a run, got {run} without config.json. Name another folder.")
    rows = thinned(read_rows(run / "metrics.jsonl"))
    log = "".join(json.dumps(row) + "\n" for row in rows).encode()
    try:
        contents = {name: (run / name).read_bytes() for name in (*_NAMES, *_TEXTS) if (run / name).exists()}
        contents["config.json"] = _without_folder(run / "config.json", contents["config.json"])
        contents |= {"metrics.jsonl": log} if rows else {}
        size = sum(map(len, contents.values()))
        if size > MAX_BYTES:
            raise RunError(f"expected at most {MAX_BYTES} bytes in {out}, got {size}. Archive fewer seeds per run.")
        out.mkdir(parents=True)
        for name, content in contents.items():
            (out / name).write_bytes(content)
    except OSError as error:
        raise RunError(f"cannot copy {run} to {out} ({error.strerror}). Name a new folder.") from error
    return out


def _without_folder(file: Path, config: bytes) -> bytes:
    """Return the content of config.json with names in place of the paths of other files."""
    names = {}
    try:
        settings = json.loads(config)
        for setting in ("memory_model", "model", "start_from"):
            prefix, is_prefixed, path = str(settings.get(setting, "")).rpartition(":")
            if path:
                names[setting] = prefix + is_prefixed + Path(path).name
    except (ValueError, AttributeError) as error:
        raise RunError(
            f"{file}: expected a JSON object of settings, got {shown(config.decode(errors='replace'))}."
        ) from error
    return (json.dumps({**settings, **names}, indent=2) + "\n").encode() if names else config


def thinned(rows: Sequence[Row], most: int = MAX_ROWS) -> list[Row]:
    """Merge adjacent rows of each seed, so that at most `most` rows remain, each of equally many updates."""
    seeds = sorted({row.get("seed", 0) for row in rows})
    merged: list[Row] = []
    for seed in seeds:
        own = [row for row in rows if row.get("seed", 0) == seed]
        size = -(-len(own) // max(most // len(seeds), 1))
        merged.extend(_merged(own[begin : begin + size]) for begin in range(0, len(own), size))
    return sorted(merged, key=lambda row: row["update"])


def _merged(rows: Sequence[Row]) -> Row:
    """Return one row: sums of episodes, last values of counters, and means weighted by episodes of all others."""
    merged: Row = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        known = [row for row in rows if row.get(name) is not None]
        values = [row[name] for row in known]
        if name == "episodes":
            merged[name] = sum(values)
        elif not values:
            merged[name] = None
        elif name in _AT_END or name.startswith("held_out"):
            merged[name] = values[-1]
        else:
            weights = [row.get("episodes", 1) or 0 for row in known]
            weights = weights if any(weights) else [1] * len(values)
            mean = sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
            merged[name] = float(f"{mean:.{_DIGITS}g}")
    return merged


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(str(archive(tyro.cli(ArchiveFlags, prog="python -m baselines.archive"))))


if __name__ == "__main__":
    main()
