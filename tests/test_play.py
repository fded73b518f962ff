"""Playing with the keyboard in `jaxgym play`: real keys in a window of a virtual display.

Needs Xvfb and xdotool (Debian: `apt-get install xvfb xdotool`) and pygame.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxgym
from jaxgym.human import window
from jaxgym.human.stage import Snapshot, Stage

MISSING = [name for name in ("Xvfb", "xdotool") if shutil.which(name) is None]
MISSING += ["pygame"] * (importlib.util.find_spec("pygame") is None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")]

SIDE_PX = 336
GRID, FREE = "MysteryPath-Grid-v0", "SearingSpotlights-v0"
DARK_STEPS = 60
"""After so many steps with a key held the agent is at the wall, and the light is off."""


class Screen:
    """Virtual display of the size of a window, its keys, and its content."""

    def __init__(self, folder: Path) -> None:
        reader, writer = os.pipe()
        geometry = ["-screen", "0", f"{SIDE_PX}x{SIDE_PX}x24", "-fbdir", str(folder)]
        self.server = subprocess.Popen(["Xvfb", "-displayfd", str(writer), *geometry], pass_fds=[writer])
        os.close(writer)
        with os.fdopen(reader) as lines:
            self.environment = {**os.environ, "DISPLAY": f":{lines.readline().strip()}", "SDL_VIDEODRIVER": "x11"}
        self.file = folder / "Xvfb_screen0"

    def press(self, *argv: str) -> None:
        """Send keys, given as arguments of xdotool."""
        subprocess.run(["xdotool", *argv], env=self.environment, check=True)

    def image(self) -> np.ndarray:
        """Return the content of the display, uint8 (336, 336, 3), read from a file in XWD format."""
        raw = self.file.read_bytes()
        header = np.frombuffer(raw, ">u4", 25)
        size, row_bytes, num_colors = (int(header[place]) for place in (0, 12, 19))
        pixels = np.frombuffer(raw, np.uint8, row_bytes * SIDE_PX, size + 12 * num_colors)
        return pixels.reshape(SIDE_PX, -1)[:, : 4 * SIDE_PX].reshape(SIDE_PX, SIDE_PX, 4)[..., 2::-1]

    def wait_for(self, expected: np.ndarray, game: subprocess.Popen[str]) -> None:
        """Wait for an image; fail after two minutes, or if the game has ended."""
        for _ in range(1200):
            if np.array_equal(self.image(), expected):
                return
            assert game.poll() is None, "the game has ended"
            time.sleep(0.1)
        raise AssertionError("the image never came")


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    screen = Screen(tmp_path)
    yield screen
    screen.server.terminate()
    screen.server.wait()


def started(screen: Screen, env_id: str, *argv: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jaxgym", "play", env_id, *argv, "--ground-truth", "--seed", "3"]
    return subprocess.Popen(command, env=screen.environment, stdout=subprocess.PIPE, text=True)


def after(stage: Stage, moment: Snapshot, action: Any, steps: int = 1) -> Snapshot:
    for _ in range(steps):
        moment = stage.step(moment, action)
    return moment


def test_struck_keys_turn_step_change_the_level_and_end_the_episode(screen: Screen) -> None:
    stage = Stage(GRID, {"max_steps": 3}, ground_truth=True)
    with started(screen, GRID, "max_steps=3") as game:
        moment = stage.start(3)
        screen.wait_for(moment.image, game)
        for key, action in (("Right", 2), ("w", 3)):
            screen.press("key", key)
            moment = stage.step(moment, action)
            screen.wait_for(moment.image, game)
        for key, seed in (("Prior", 4), ("Prior", 5), ("Next", 4)):
            screen.press("key", key)
            moment = stage.start(seed)
            screen.wait_for(moment.image, game)
        for key, action in (("a", 1), ("Left", 1)):
            screen.press("key", key)
            moment = stage.step(moment, action)
            screen.wait_for(moment.image, game)
        screen.press("key", "space")
        received, _ = game.communicate(timeout=120)
    assert game.returncode == 0
    assert "length: 3\n" in received
    assert "success: 0\n" in received


def test_held_keys_move_the_agent_to_the_wall_and_none_lets_it_stay(screen: Screen) -> None:
    options = {"initial_spawns": 0, "num_spawns": 0, "max_steps": 0}
    stage = Stage(FREE, options, ground_truth=True)
    with started(screen, FREE, *(f"{name}={value}" for name, value in options.items())) as game:
        # The window comes up before the first step.
        screen.wait_for(after(stage, stage.start(3), (0, 0), DARK_STEPS).image, game)
        moment = stage.start(3)
        for key, action in (("Right", (2, 0)), ("a", (1, 0)), ("Up", (0, 1))):
            screen.press("keydown", key)
            moment = after(stage, moment, action, DARK_STEPS)
            screen.wait_for(moment.image, game)
            screen.press("keyup", key)
            moment = after(stage, moment, (0, 0), 2)
            screen.wait_for(moment.image, game)
        screen.press("keydown", "d", "keydown", "s")
        corner = after(stage, moment, (2, 2), DARK_STEPS)
        screen.wait_for(corner.image, game)
        game.terminate()
        game.communicate(timeout=120)


def test_a_closed_window_ends_the_game_without_an_info(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame: Any = importlib.import_module("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    human = jaxgym.spec_of(GRID).human
    assert human is not None
    make = pygame.display.set_mode

    def closing(size: tuple[int, int]) -> Any:
        made = make(size)
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        return made

    monkeypatch.setattr(pygame.display, "set_mode", closing)
    assert window.play(Stage(GRID, {}), human, 3) is None
