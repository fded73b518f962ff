"""Interactive play in a window; it needs pygame and a display."""

import importlib
import os
from typing import Any

import numpy as np

from jaxgym import extras
from jaxgym.human.keys import held_action, struck_action, waits_for_key
from jaxgym.human.stage import Snapshot, Stage
from jaxgym.spaces import Discrete
from jaxgym.spec import Human

FPS, CLUE_FPS = 25, 3
_UNSEEN = ("dummy", "offscreen")
"""Video drivers of SDL without a display."""


class WindowError(RuntimeError):
    """Failure to open a window."""


def play(stage: Stage, human: Human, seed: int) -> dict[str, Any] | None:
    """Play an episode until it ends or the window is closed; return the last `info`, or None if it was closed.

    Page up and page down select the level of the next and the previous seed.

    Raises:
        WindowError: If pygame or a display is missing.
    """
    try:
        pygame: Any = importlib.import_module("pygame")
    except ImportError as error:
        raise WindowError(extras.missing("play", "pygame")) from error
    moment = stage.start(seed)
    try:
        pygame.display.init()
        driver = pygame.display.get_driver()
        if driver in _UNSEEN and "SDL_VIDEODRIVER" not in os.environ:
            raise pygame.error(f"only {driver}")
        screen = pygame.display.set_mode(moment.image.shape[1::-1])
    except pygame.error as error:
        raise WindowError(f"expected a display, got none ({error}).") from error
    try:
        return _Window(pygame, screen, stage, human).run(moment, seed)
    finally:
        pygame.display.quit()


class _Window:
    def __init__(self, pygame: Any, screen: Any, stage: Stage, human: Human) -> None:
        self.pygame, self.screen, self.stage, self.human = pygame, screen, stage, human
        self.clock = pygame.time.Clock()
        flat = isinstance(stage.env.action_space(stage.params), Discrete)
        self.held_action = held_action(human.controls, flat=flat)
        self.key_codes = {name: pygame.key.key_code(name) for name in ("left", "right", "up", "down", "space", *"wasd")}

    def run(self, moment: Snapshot, seed: int) -> dict[str, Any] | None:
        self._show(moment, seed)
        while not moment.has_ended:
            is_clue = bool(self.human.is_clue(moment.state))
            self.clock.tick(CLUE_FPS if is_clue else FPS)
            struck = []
            for event in self.pygame.event.get():
                if event.type == self.pygame.QUIT:
                    return None
                if event.type == self.pygame.KEYDOWN:
                    struck.append(self.pygame.key.name(event.key))
            turned = struck.count("page up") - struck.count("page down")
            if turned:
                seed = max(seed + turned, 0)
                moment = self.stage.start(seed)
            else:
                action = self._action(struck, is_clue=is_clue)
                if action is None:
                    continue
                moment = self.stage.step(moment, action)
            self._show(moment, seed)
        return moment.info

    def _action(self, struck: list[str], *, is_clue: bool) -> Any:
        """Return the action of the keys, or None while the game waits for a key."""
        controls = self.human.controls
        if not waits_for_key(controls):
            pressed = self.pygame.key.get_pressed()
            return self.held_action([name for name, code in self.key_codes.items() if pressed[code]])
        actions = [action for key in struck if (action := struck_action(controls, key)) is not None]
        if actions:
            return actions[0]
        return 0 if is_clue else None

    def _show(self, moment: Snapshot, seed: int) -> None:
        self.pygame.display.set_caption(f"seed {seed}  {self.human.caption(moment.state)}".rstrip())
        self.screen.blit(self.pygame.surfarray.make_surface(np.swapaxes(moment.image, 0, 1)), (0, 0))
        self.pygame.display.flip()
