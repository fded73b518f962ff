"""Command line of the replay."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax

from tests.parity.babyai import num_failures
from tests.parity.classics import ballet, boss_fight, endless_t_maze, memory_cards, numpad, rooms, t_maze
from tests.parity.classics.recordings import Episode, episodes

CHECKS: dict[str, Callable[[Episode], None]] = {
    "tmaze": t_maze.check,
    "visual_match": rooms.check_visual_match,
    "key_to_door": rooms.check_key_to_door,
    "endless_tmaze": endless_t_maze.check,
    "numpad_discrete": numpad.check_discrete,
    "numpad_continuous": numpad.check_continuous,
    "memory_cards": memory_cards.check,
    "ballet": ballet.check,
    "bossfight": boss_fight.check,
}
"""Checks of an episode, by the start of the name of its file."""

NOT_REPLAYED = ("color_cubes",)


def check_of(path: Path) -> Callable[[Episode], None] | None:
    """Return the check for the episodes of a file; None for a game that is not replayed.

    Raises:
        ValueError: If the name is not that of a recording.
    """
    if path.name.startswith(NOT_REPLAYED):
        return None
    found = [check for start, check in CHECKS.items() if path.name.startswith(start)]
    if not found:
        starts = ", ".join((*CHECKS, *NOT_REPLAYED))
        raise ValueError(f"expected a file whose name starts with one of {starts}, got {path.name}.")
    return found[0]


def checks_of(paths: list[Path]) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return a named check for each episode of files that are replayed."""
    for path in paths:
        check = check_of(path)
        if check is not None:
            for episode in episodes(path):
                yield episode.name, partial(check, episode)


def main(folders: list[str]) -> int:
    """Replay all recordings in folders; print the differences and the counts; return the number of failures."""
    paths = sorted(path for folder in folders for path in Path(folder).glob("**/*.npz"))
    skipped = [path.name for path in paths if check_of(path) is None]
    if skipped:
        print(f"{len(skipped)} files skipped: {', '.join(skipped)}")  # noqa: T201 — a command line speaks.
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return num_failures(checks_of(paths))


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
