"""Recorded episodes of the classic memory tasks are replayed without a difference, and a difference is noticed."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.parity.classics import __main__ as command
from tests.parity.classics.recordings import Episode, episodes

RECORDINGS = Path(__file__).parents[1] / "data/classics"
FILES = sorted(RECORDINGS.glob("*.npz"))
QUICK = {
    "bossfight_few",
    "endless_tmaze",
    "memory_cards_5",
    "numpad_continuous_eight_ram",
    "numpad_discrete_3x3_L4",
    "tmaze_flag",
    "visual_match",
}


@pytest.fixture(autouse=True)
def as_the_command() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield


def checked(episode: Episode, path: Path) -> None:
    check = command.check_of(path)
    assert check is not None
    check(episode)


@pytest.mark.parametrize(
    "path",
    [path if path.stem in QUICK else pytest.param(path, marks=pytest.mark.slow) for path in FILES],
    ids=lambda path: path.stem,
)
def test_every_recording_is_replayed_without_a_difference(path: Path) -> None:
    for episode in episodes(path):
        checked(episode, path)


@pytest.mark.parametrize("name", ["reward", "action"])
@pytest.mark.parametrize("stem", ["tmaze_flag", "tmaze_passive"])
def test_a_difference_is_noticed(stem: str, name: str) -> None:
    path = RECORDINGS / f"{stem}.npz"
    episode = next(each for each in episodes(path) if len(each["action"]) > 1)
    changed = episode[name].copy()
    changed[0] = 1 if changed[0] == 0 else 0
    with pytest.raises(AssertionError):
        checked(dataclasses.replace(episode, arrays={**episode.arrays, name: changed}), path)


def test_the_smallest_difference_of_one_bullet_is_noticed() -> None:
    path = RECORDINGS / "bossfight_few.npz"
    episode = next(episodes(path))
    changed = episode["dyn_f"].copy()
    changed[-1, 0] = np.nextafter(changed[-1, 0], np.float32(0))
    with pytest.raises(AssertionError, match="places and velocities of bullets"):
        checked(dataclasses.replace(episode, arrays={**episode.arrays, "dyn_f": changed}), path)


def test_games_without_a_replay_are_listed_as_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "color_cubes.npz").touch()
    assert command.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["1 files skipped: color_cubes.npz", "0 passed, 0 failed"]
    np.savez(tmp_path / "other.npz", length=np.zeros(0))
    with pytest.raises(ValueError, match=r"^expected a file whose name starts with one of .*, got other\.npz\.$"):
        command.main([str(tmp_path)])
