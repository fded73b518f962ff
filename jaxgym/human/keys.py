"""Key bindings of the games, by the names of the keys."""

from collections.abc import Callable, Collection
from typing import Literal

from jaxgym.envs.memory_gym.arena import AxisMove, GridAction

Controls = Literal["free", "grid", "course", "steps", "minigrid", "text"]

LEFT, RIGHT, UP, DOWN = ("left", "a"), ("right", "d"), ("up", "w"), ("down", "s")
SPACE = "space"

HELP = {
    "free": "arrow keys or W A S D move; two of them move diagonally",
    "grid": "up or W steps forward, left or A and right or D turn, space waits",
    "course": "arrow keys or W S D move right, up and down",
    "steps": "arrow keys or W A S D step left, down, right and up",
    "minigrid": "up or W steps forward, left or A and right or D turn, P picks up, L drops, space toggles",
}


def free_action(pressed: Collection[str], *, flat: bool) -> int | tuple[int, int]:
    """Return the action of the held keys; of two opposite keys, left and down win."""

    def along(negative: tuple[str, ...], positive: tuple[str, ...], winner: AxisMove) -> AxisMove:
        held = {
            side for side, keys in ((AxisMove.NEGATIVE, negative), (AxisMove.POSITIVE, positive)) if _any(keys, pressed)
        }
        return winner if len(held) > 1 else next(iter(held), AxisMove.STAY)

    pair = int(along(LEFT, RIGHT, AxisMove.NEGATIVE)), int(along(UP, DOWN, AxisMove.POSITIVE))
    return len(AxisMove) * pair[0] + pair[1] if flat else pair


def grid_action(key: str) -> int | None:
    """Return the action of a pressed key, or None for a key without an action."""
    actions = {
        LEFT: GridAction.TURN_LEFT,
        RIGHT: GridAction.TURN_RIGHT,
        UP: GridAction.FORWARD,
        (SPACE,): GridAction.NOTHING,
    }
    return next((int(action) for keys, action in actions.items() if key in keys), None)


def steps_action(key: str) -> int | None:
    """Return the action of a pressed key in a game with the controls "steps", or None for a key without an action."""
    return next((number for number, keys in enumerate((LEFT, DOWN, RIGHT, UP)) if key in keys), None)


def minigrid_action(key: str) -> int | None:
    """Return the action of a pressed key in a MiniGrid environment, or None for a key without an action."""
    bound = (LEFT, RIGHT, UP, ("p",), ("l",), (SPACE,), ("return",))
    return next((number for number, keys in enumerate(bound) if key in keys), None)


def course_action(pressed: Collection[str]) -> int:
    """Return the action of the held keys in a game with the actions right, up and down; 0 without a key."""
    return next((number for number, keys in enumerate((RIGHT, UP, DOWN), start=1) if _any(keys, pressed)), 0)


def held_action(controls: Controls, *, flat: bool) -> Callable[[Collection[str]], int | tuple[int, int]]:
    """Return the function that maps held keys to an action."""
    return course_action if controls == "course" else lambda pressed: free_action(pressed, flat=flat)


def _any(keys: tuple[str, ...], pressed: Collection[str]) -> bool:
    return any(key in pressed for key in keys)
