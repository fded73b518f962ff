"""Key bindings of the games, by the names of the keys."""

from collections.abc import Callable, Collection

from jaxgym.envs.memory_gym.arena import AxisMove
from jaxgym.spec import Controls

LEFT, RIGHT, UP, DOWN = ("left", "a"), ("right", "d"), ("up", "w"), ("down", "s")
SPACE = "space"
_SHIP_REST, _SHIP_FIRE = 4, 9

HELP = {
    "free": "arrow keys or W A S D move; two of them move diagonally",
    "grid": "up or W steps forward, left or A and right or D turn, space waits",
    "path": "arrow keys or W S D move right, up and down",
    "steps": "arrow keys or W A S D step left, down, right and up",
    "clockwise": "arrow keys or W A S D go up, right, down and left; E, C, Q and Z go diagonally where possible",
    "counterclockwise": "arrow keys or W A S D step right, up, left and down",
    "compass": "arrow keys or W A S D step up, down, left and right",
    "winds": "arrow keys or W A S D go up, left, down and right; E, C, Q and Z go diagonally",
    "turns": "up or W steps forward, left or A and right or D turn",
    "ship": "arrow keys or W A S D move, two of them diagonally; space fires while no other key is held",
    "minigrid": "up or W steps forward, left or A and right or D turn, P picks up, L drops, space toggles",
}

_STRUCK = {
    "grid": ((SPACE,), LEFT, RIGHT, UP),
    "steps": (LEFT, DOWN, RIGHT, UP),
    "clockwise": (UP, RIGHT, DOWN, LEFT, ("e",), ("c",), ("q",), ("z",)),
    "counterclockwise": (RIGHT, UP, LEFT, DOWN),
    "compass": (UP, DOWN, LEFT, RIGHT),
    "winds": (UP, ("e",), RIGHT, ("c",), DOWN, ("z",), LEFT, ("q",)),
    "turns": (UP, LEFT, RIGHT),
    "minigrid": (LEFT, RIGHT, UP, ("p",), ("l",), (SPACE,), ("return",)),
}
"""Keys of each action in the games that wait for a key, in the order of the actions."""


def free_action(pressed: Collection[str], *, flat: bool) -> int | tuple[int, int]:
    """Return the action of the held keys; of two opposite keys, left and down win."""
    toward_left, toward_right = (AxisMove.NEGATIVE, LEFT), (AxisMove.POSITIVE, RIGHT)
    toward_up, toward_down = (AxisMove.NEGATIVE, UP), (AxisMove.POSITIVE, DOWN)
    horizontal, vertical = (
        next((int(move) for move, keys in moves if _any(keys, pressed)), int(AxisMove.STAY))
        for moves in ((toward_left, toward_right), (toward_down, toward_up))
    )
    return len(AxisMove) * horizontal + vertical if flat else (horizontal, vertical)


def waits_for_key(controls: Controls) -> bool:
    """Return whether a game with these controls makes a step only when a key is pressed."""
    return controls in _STRUCK


def struck_action(controls: Controls, key: str) -> int | None:
    """Return the action of a pressed key in a game that waits for a key; None for a key without an action."""
    return next((number for number, keys in enumerate(_STRUCK[controls]) if key in keys), None)


def path_action(pressed: Collection[str]) -> int:
    """Return the action of the held keys in a game with the actions right, up and down; 0 without a key."""
    return next((number for number, keys in enumerate((RIGHT, UP, DOWN), start=1) if _any(keys, pressed)), 0)


def ship_action(pressed: Collection[str]) -> int:
    """Return the action of the held keys: 9 fires, and 3 · (horizontal + 1) + vertical + 1 moves the ship."""
    horizontal, vertical = (
        int(_any(forward, pressed)) - int(_any(back, pressed)) for back, forward in ((LEFT, RIGHT), (DOWN, UP))
    )
    move = 3 * (horizontal + 1) + vertical + 1
    return _SHIP_FIRE if SPACE in pressed and move == _SHIP_REST else move


def held_action(controls: Controls, *, flat: bool) -> Callable[[Collection[str]], int | tuple[int, int]]:
    """Return the function that maps held keys to an action."""
    direct = {"path": path_action, "ship": ship_action}
    return direct.get(controls, lambda pressed: free_action(pressed, flat=flat))


def _any(keys: tuple[str, ...], pressed: Collection[str]) -> bool:
    return any(key in pressed for key in keys)
