"""Readers of images: each turns the PNG of an observation, and the text beside it, into a text for a player.

They are written from the legends in the prompts. The text of `tests.text.players` has the form of the text mode.
"""

import io
import re
from collections.abc import Callable

import numpy as np
from PIL import Image

SCREEN_PX = 84
SKIN, DARK_HAND, CROSS, DEADLY = (250, 204, 153), (50, 50, 50), (255, 0, 0), (81, 18, 26)
TILE = (21, 43, 77)
DISC, ICE, SAND, GREEN = (214, 60, 52), (198, 226, 243), (226, 196, 140), (84, 176, 96)

# The digits of Sudoku, as a reader sees them.
DIGITS = """
..#. .##. ###. ..#. #### .##. #### .##. .##.
.##. #..# ...# .##. #... #... ...# #..# #..#
..#. ...# .##. #.#. ###. ###. ..#. .##. #..#
..#. ..#. ...# #### ...# #..# ..#. #..# .###
..#. .#.. ...# ..#. ...# #..# .#.. #..# ...#
.### #### ###. ..#. ###. .##. .#.. .##. .##.
"""


def pixels_of(image: bytes) -> np.ndarray:
    """Return the screen of a PNG, uint8 (84, 84, 3), without its enlargement."""
    opened = Image.open(io.BytesIO(image))
    assert opened.format == "PNG"
    assert opened.size == (252, 252)
    pixels = np.asarray(opened.convert("RGB"))
    step = len(pixels) // SCREEN_PX
    screen = pixels[::step, ::step]
    np.testing.assert_array_equal(screen.repeat(step, axis=0).repeat(step, axis=1), pixels)
    return screen


def where(screen: np.ndarray, color: tuple[int, ...]) -> np.ndarray:
    """Return the positions (y, x) of the pixels of a color."""
    return np.argwhere((screen == color).all(axis=-1))


def frozen_lake(screen: np.ndarray, beside: str) -> str:
    """Read a lake of 4 x 4 cells."""
    del beside
    lines = []
    for cells in screen.reshape(4, 21, 4, 21, 3).swapaxes(1, 2):
        kinds = []
        for cell in cells:
            has_disc = len(where(cell, DISC)) > 0
            is_ice = len(where(cell, ICE)) > 200
            kind = "P" if has_disc else "G" if len(where(cell, GREEN)) else "S" if len(where(cell, SAND)) else "H"
            kinds.append("F" if is_ice and kind == "H" else kind)
        lines.append(" ".join(kinds))
    return "\n".join(lines)


def sudoku(screen: np.ndarray, beside: str) -> str:
    """Read a board."""
    del beside
    rows = [line.split() for line in DIGITS.split("\n") if line]
    shapes = ["".join(row[digit] for row in rows) for digit in range(9)]
    lines = []
    for row in range(9):
        top = 3 + 9 * row + row // 3
        digits = []
        for column in range(9):
            left = 4 + 9 * column + column // 3
            cell = screen[top : top + 6, left : left + 4].astype(int)
            is_red = cell[..., 0].max() > cell[..., 1].max() + 40
            ink = "".join("#" if level > 250 else "." for level in cell.max(axis=-1).ravel())
            digits.append("." if is_red or ink not in shapes else str(shapes.index(ink) + 1))
        lines.append(f"R{row + 1} {' '.join(digits)}")
    return "\n".join(lines)


def agent(screen: np.ndarray) -> tuple[int, int, str]:
    """Return the center (y, x) of the skin-colored disc, and the direction of its hands, which cover its front."""
    skin, hands = where(screen, SKIN), where(screen, DARK_HAND)
    (top, left), (bottom, right) = skin.min(axis=0), skin.max(axis=0) + 1
    y, x = hands.mean(axis=0) - skin.mean(axis=0)
    if abs(y) > abs(x):
        radius = (right - left) // 2
        return (bottom - radius if y < 0 else top + radius), left + radius, "up" if y < 0 else "down"
    radius = (bottom - top) // 2
    return top + radius, (right - radius if x < 0 else left + radius), "left" if x < 0 else "right"


def command(screen: np.ndarray) -> str:
    """Return the command of the white symbol in the center; "none" without one."""
    symbol = where(screen, (255, 255, 255))
    if not len(symbol):
        return "none"
    # Most pixels of an arrow are in its head.
    y, x = symbol.mean(axis=0) - (symbol.min(axis=0) + symbol.max(axis=0)) / 2
    names = ["left" if x < 0 else "right"] * int(abs(x) > 1) + ["up" if y < 0 else "down"] * int(abs(y) > 1)
    return "-".join(names) or "stay"


def mortar_mayhem(screen: np.ndarray, beside: str) -> str:
    """Read an arena; the commands of the act-only games are beside it."""
    y, x, facing = agent(screen)
    blue, red = where(screen, TILE), where(screen, DEADLY)
    top = min(place.min() for place in (blue, red) if len(place)) - 1
    (row, column), red_tiles = (np.asarray([y, x]) - top) // 14 + 1, "some" if len(red) else "none"
    listed = re.search("Commands: .*", beside)
    commands = listed[0] if listed else f"Command shown: {command(screen)}"
    return f"{commands}\nYou: row {row}, column {column}, facing {facing}\nRed tiles: {red_tiles}"


def mystery_path(screen: np.ndarray, beside: str) -> str:
    """Read a square of 7 x 7 tiles."""
    del beside
    cross = where(screen, CROSS)
    y, x, facing = (*(cross.min(axis=0) + 5), "up") if len(cross) else agent(screen)
    crossed = "\nRed cross: on you" if len(cross) else ""
    return f"You: row {y // 12 + 1}, column {x // 12 + 1}, facing {facing}{crossed}"


def textcraft(screen: np.ndarray, beside: str) -> str:
    """Return the crafting commands and the goal, which are beside the first image."""
    del screen
    return beside


READERS: dict[str, Callable[[np.ndarray, str], str]] = {
    "FrozenLake-v0": frozen_lake,
    "Sudoku-v0": sudoku,
    **dict.fromkeys((f"MortarMayhem{kind}-v0" for kind in ("", "-Grid", "B", "B-Grid")), mortar_mayhem),
    "MysteryPath-v0": mystery_path,
    "MysteryPath-Grid-v0": mystery_path,
    "TextCraft-v0": textcraft,
}
