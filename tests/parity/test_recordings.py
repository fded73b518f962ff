"""Every recorded episode replays, and the replay detects differences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parity import memory_gym

TRACES = Path(__file__).parents[1] / "data" / "traces"
RECORDED = memory_gym.recordings([TRACES], None)
MORTAR_MAYHEM = {"mm", "mmg", "mmb", "mmbg"}
# A short episode of a grid game, with a check passed, a check failed, and all frames.
SHORT = TRACES / "mmg__cmd9_short__s6__failatm1.npz"


def marked(path: Path) -> Any:
    """Mark large games with unusual options as slow."""
    is_slow = path.name.split("__")[0] not in MORTAR_MAYHEM and "__default__" not in path.name
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize("path", [marked(path) for path in RECORDED])
def test_a_recorded_episode_replays(path: Path) -> None:
    assert not list(memory_gym.differences(memory_gym.Recording.load(path)))


def test_there_are_recordings_of_all_four_games_of_mortar_mayhem() -> None:
    assert {path.name.split("__")[0] for path in RECORDED} >= MORTAR_MAYHEM


# The harness.


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the short recording with a change to its arrays, and returns the folder."""

    def copy(change: Callable[[dict[str, Any]], None], name: str = "mmg__changed.npz") -> Path:
        with np.load(SHORT) as archive:
            arrays = {key: archive[key] for key in archive.files}
        change(arrays)
        np.savez(tmp_path / name, **arrays)
        return tmp_path

    return copy


def change_meta(arrays: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    meta = json.loads(str(arrays["meta"]))
    place = meta
    for key in path[:-1]:
        place = place[key]
    assert place[path[-1]] != value
    place[path[-1]] = value
    arrays["meta"] = np.asarray(json.dumps(meta))


def leave(arrays: dict[str, Any]) -> None:
    del arrays


def verdict(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = memory_gym.main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


def test_an_unchanged_recording_passes(changed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = verdict(capsys, changed(leave))
    assert (code, said) == (0, "ok     mmg__changed.npz\n1 passed, 0 failed\n")


def change_pixel(arrays: dict[str, Any]) -> None:
    arrays["frames"][5, 83, 0, 2] ^= 1


def change_last_pixel(arrays: dict[str, Any]) -> None:
    arrays["frames"][-1, 0, 83, 0] ^= 1


def change_entry(name: str, t: int) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name][t] = ~arrays[name][t] if arrays[name].dtype == np.bool_ else arrays[name][t] + 1

    return change


def change_info(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda arrays: change_meta(arrays, ("final_info", name), value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (change_pixel, "t=5: 1 pixels differ, first at x=83, y=0: [0, 0, 0], recorded [0, 0, 1]"),
        (change_last_pixel, "1 pixels differ, first at x=0, y=83"),
        (lambda arrays: arrays["reward"].__setitem__(3, 0.01), "t=4: reward is 0.0, recorded 0.01"),
        (change_entry("terminated", 2), "t=3: ended is False, recorded True"),
        (change_entry("agent_pos", 0), "t=0: agent_pos is"),
        (change_entry("agent_rot", 7), "t=7: agent_rot is"),
        (change_entry("agent_tile", 7), "t=7: agent_tile is"),
        (change_entry("target_tile", 7), "t=7: target_tile is"),
        (change_entry("current_command", 7), "t=7: current_command is"),
        (change_entry("num_commands", 7), "t=7: num_commands is"),
        (change_entry("command_steps", 7), "t=7: command_steps is"),
        (change_entry("verify_step", 7), "t=7: verify_step is"),
        (change_entry("tiles_on", 7), "t=7: tiles_on is"),
        (change_entry("tile_red", 7), "t=7: tile_red is"),
        (change_entry("glyph", 2), "t=2: glyph is"),
        (change_info("success", 0), "final info: success is 1, recorded 0"),
        (change_info("commands_completed", 0.5), "final info: commands_completed is 1.0, recorded 0.5"),
        (change_info("reward", 0.9), "final info: episode_return is"),
        (change_info("length", 3), "final info: episode_length is"),
    ],
)
def test_one_changed_entry_fails(
    changed: Any, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    code, said = verdict(capsys, changed(change))
    assert code == 1
    assert said.startswith("FAILED mmg__changed.npz: ")
    assert sentence in said
    assert said.endswith("0 passed, 1 failed\n")


def test_an_info_entry_that_we_lack_fails(changed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def change(arrays: dict[str, Any]) -> None:
        meta = json.loads(str(arrays["meta"]))
        meta["final_info"]["num_fails"] = 0
        arrays["meta"] = np.asarray(json.dumps(meta))

    code, said = verdict(capsys, changed(change))
    assert (code, "final info has no 'num_fails'" in said) == (1, True)


def test_another_level_than_the_recorded_fails(changed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = verdict(capsys, changed(lambda arrays: change_meta(arrays, ("layout", "explosion_delay"), 5)))
    assert code == 1


def test_a_game_that_does_not_exist_fails_unless_it_is_not_asked_for(
    changed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(leave)
    folder = changed(lambda arrays: change_meta(arrays, ("env",), "chess"), name="chess__a.npz")
    code, said = verdict(capsys, folder)
    assert (code, "FAILED chess__a.npz: the game 'chess' does not exist" in said) == (1, True)
    assert said.endswith("1 passed, 1 failed\n")
    assert verdict(capsys, folder, "--family", "mmg", "mm") == (0, "ok     mmg__changed.npz\n1 passed, 0 failed\n")
    assert verdict(capsys, folder, "--family", "chess")[0] == 1


def test_layouts_are_not_episodes(changed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = changed(leave, name="layouts__mmg.npz")
    assert memory_gym.recordings([folder], None) == []
    # Nothing to compare is no success.
    assert verdict(capsys, folder) == (1, "0 passed, 0 failed\n")


def test_several_folders_are_read(changed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed(leave)
    (tmp_path / "more").mkdir()
    changed(change_pixel, name="more/mmg__second.npz")
    code, said = verdict(capsys, tmp_path, tmp_path / "more")
    assert (code, said.splitlines()[-1]) == (1, "1 passed, 1 failed")


def test_a_folder_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        memory_gym.main([str(tmp_path / "nowhere")])
    assert raised.value.code == 2
    expected, folder = "DIR: expected a folder with recorded episodes (*.npz), got ", tmp_path / "nowhere"
    assert f"{expected}{folder}, which is not a folder." in " ".join(capsys.readouterr().err.split())
