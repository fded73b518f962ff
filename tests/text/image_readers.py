"""Readers of images: each turns the PNG of an observation, and the text beside it, into a text for a player.

They are written from the legends in the prompts. The text of `tests.text.players` has the form of the text mode.
"""

import io
import re
from collections.abc import Callable

import numpy as np
from PIL import Image

SCREEN_PX, VIEW_PX, TILE_PX, RADIUS = 84, 56, 8, 6
SKIN, DARK_HAND, CROSS, DEADLY = (250, 204, 153), (50, 50, 50), (255, 0, 0), (81, 18, 26)
TILE = (21, 43, 77)

BAR_PX, HEALTH_PX, YELLOW, GREEN = 4, 42, (255, 255, 0), (0, 255, 0)
ORANGE, CLOSED_DOOR, OPEN_DOOR = (255, 165, 0), (55, 55, 55), (48, 141, 70)
WHOLE_HANDS, WHOLE_BODY, WHOLE_COIN, WHOLE_DOOR = 24, (84, 88, 93, 94), 24, 58  # pixels of what nothing covers

# Views of MiniGrid: gray levels, and places (row, column) in a cell that tell its things apart.
BABYAI = ("GoToLocal", "PickupLoc", "PutNextLocal", "BlockedUnlockPickup", "UnlockToUnlock", "KeyInBox", "SynthS5R2")
VISIBLE, WALL, FLOOR = 60, 146, 76
PLACES = {"corner": (1, 1), "left": (3, 1), "bit": (2, 5), "right": (2, 7), "bottom": (7, 4)}

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
    """Return the frame of a PNG without its enlargement, uint8 (84, 84, 3), or (56, 56, 3) of a view of MiniGrid."""
    opened = Image.open(io.BytesIO(image))
    assert opened.format == "PNG"
    assert opened.size in ((252, 252), (224, 224))
    pixels = np.asarray(opened.convert("RGB"))
    step = len(pixels) // (SCREEN_PX if len(pixels) == 252 else VIEW_PX)
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


def wrapped_agent(screen: np.ndarray) -> tuple[int, int, str] | None:
    """Return what `agent` returns, where the edge of the screen can cut the disc; None if its center is outside."""
    skin, hands = where(screen, SKIN), where(screen, DARK_HAND)
    if not len(skin):
        return None
    ends = [(low, high + 1) for low, high in zip(skin.min(axis=0), skin.max(axis=0), strict=True)]
    at_edge = [low == 0 or high == SCREEN_PX for low, high in ends]
    if not any(at_edge):
        return agent(screen)
    if len(hands):
        y, x = hands.mean(axis=0) - skin.mean(axis=0)
    else:  # beyond the edge
        y, x = (0 if not cut else -1 if low == 0 else 1 for cut, (low, _) in zip(at_edge, ends, strict=True))
    facing = ("up" if y < 0 else "down") if abs(y) > abs(x) else "left" if x < 0 else "right"
    center = []
    for (low, high), front in zip(ends, (("up", "down"), ("left", "right")), strict=True):
        # One end is cut by the edge, or covered by the hands; the other one is a radius away from the center.
        is_from_high = low == 0 or (high < SCREEN_PX and facing == front[0])
        center.append(high - RADIUS if is_from_high else low + RADIUS)
    if min(center) < 0 or max(center) >= SCREEN_PX:
        return None
    return center[0], center[1], facing


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
    found = wrapped_agent(screen)
    if found is None:
        return "You: on no tile"
    (y, x, facing), blue, red = found, where(screen, TILE), where(screen, DEADLY)
    top = min(place.min() for place in (blue, red) if len(place)) - 1
    (row, column), red_tiles = (np.asarray([y, x]) - top) // 14 + 1, "some" if len(red) else "none"
    listed = re.search("Commands: .*", beside)
    commands = listed[0] if listed else f"Command shown: {command(screen)}"
    return f"{commands}\nYou: row {row}, column {column}, facing {facing}\nRed tiles: {red_tiles}"


def spotlights(screen: np.ndarray, beside: str) -> str:
    """Read an arena: the objects that are lit and not covered, the brightness of the floor, and the bar."""
    del beside
    floor, bar = screen.copy(), screen[:BAR_PX]
    floor[:BAR_PX] = 0
    lines = list[str]()
    skin, hands = where(floor, SKIN), where(floor, DARK_HAND)
    if len(hands) == WHOLE_HANDS and len(skin) in WHOLE_BODY:
        ahead = hands.mean(axis=0) - skin.mean(axis=0)
        ends = zip(skin.min(axis=0) + RADIUS, skin.max(axis=0) + 1 - RADIUS, ahead, strict=True)
        y, x = (low if part > 0 else high for low, high, part in ends)  # the hands cover the front
        lines.append(f"You: x {x}, y {y}")
    lines += [f"Coin: x {x}, y {y}" for y, x in whole_things(where(floor, ORANGE), WHOLE_COIN)]
    for state, color in (("closed", CLOSED_DOOR), ("open", OPEN_DOOR)):
        lines += [f"Exit: x {x}, y {y} ({state})" for y, x in whole_things(where(floor, color), WHOLE_DOOR)]
    brightest = floor.max(axis=-1).astype(int).reshape(7, 12, 7, 12).sum(axis=(1, 3))
    pixels = np.full((7, 1), 12 * 12)
    pixels[0] -= 12 * BAR_PX
    lines += ["Light:", *(" ".join(map(str, row)) for row in np.rint(9 * brightest / (255 * pixels)).astype(int))]
    green, was_positive = len(where(bar[:1, :HEALTH_PX], GREEN)), len(where(bar, YELLOW)) > 0
    health = f"Health bar: {green} of {HEALTH_PX} px are green"
    return "\n".join([*lines, f"{health}; previous reward {'' if was_positive else 'not '}positive"])


def whole_things(pixels: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return the centers (y, x) of the groups of adjacent pixels that have a size; smaller ones are partly covered."""
    left, centers = {tuple(place) for place in pixels.tolist()}, []
    while left:
        group, front = set(), [left.pop()]
        while front:
            y, x = front.pop()
            group.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            front += near
        if len(group) == size:
            places = np.array(sorted(group))
            y, x = (places.min(axis=0) + places.max(axis=0) + 1) // 2
            centers.append((int(y), int(x)))
    return sorted(centers)


def mystery_path(screen: np.ndarray, beside: str) -> str:
    """Read a square of 7 x 7 tiles."""
    del beside
    cross = where(screen, CROSS)
    y, x, facing = (*(cross.min(axis=0) + 5), "up") if len(cross) else agent(screen)
    crossed = "\nRed cross: on you" if len(cross) else ""
    return f"You: row {y // 12 + 1}, column {x // 12 + 1}, facing {facing}{crossed}"


def endless_mystery_path(screen: np.ndarray, beside: str) -> str:
    """Read the row of the agent in the part of the world that moves along."""
    del beside
    cross = where(screen, CROSS)
    y, crossed = (cross.min(axis=0)[0] + 5, "\nRed cross: on you") if len(cross) else (agent(screen)[0], "")
    return f"You: (row {y // 12 + 1}){crossed}"


def minigrid(screen: np.ndarray, beside: str) -> str:
    """Read a view of 7 x 7 cells, with the agent in the middle of the bottom row."""
    tiles = screen.reshape(7, TILE_PX, 7, TILE_PX, 3).swapaxes(1, 2).astype(int)
    lines, things = list[str](), list[str]()
    carried = thing_of(tiles[6, 3])[1]
    for row, line in enumerate(tiles):
        characters = ""
        for column, tile in enumerate(line):
            character, name = ("@", "") if (row, column) == (6, 3) else thing_of(tile)
            characters += character
            if name:
                side = "left" if column < 3 else "right"
                things.append(f"{name}: {6 - row} ahead, {abs(column - 3)} {side}")
        lines.append(characters)
    holding = f"\nYou carry: {carried}" if carried else ""
    listed = "; ".join(things) or "none"
    return "\n".join(filter(None, (beside, *lines, f"Visible things: {listed}"))) + holding


def thing_of(tile: np.ndarray) -> tuple[str, str]:
    """Return the character of a cell, uint8 (8, 8, 3), and the name of a thing on it."""
    if tile.max() < VISIBLE:
        return "?", ""
    if (tile == WALL).all():
        return "#", ""
    inked = {name: bool((tile[place] != FLOOR).any()) for name, place in PLACES.items()}
    if inked["right"]:
        state = "open" if not inked["bottom"] else "locked" if inked["corner"] else "closed"
        return {"open": "O", "locked": "L", "closed": "D"}[state], f"{state} {color_of(tile[PLACES['right']])} door"
    for kind, place in (("box", "corner"), ("ball", "left"), ("key", "bit")):
        if inked[place]:
            return {"box": "X", "ball": "B", "key": "K"}[kind], f"{color_of(tile[PLACES[place]])} {kind}"
    return ".", ""


def color_of(pixel: np.ndarray) -> str:
    """Return the color of a thing, from a pixel that mixes it with the floor."""
    ink = pixel - FLOOR
    if ink.max() - ink.min() < 10:
        return "grey"
    strong = tuple(channel for channel, level in zip("rgb", ink, strict=True) if 2 * level > ink.max())
    return {("r",): "red", ("g",): "green", ("b",): "blue", ("r", "g"): "yellow", ("r", "b"): "purple"}[strong]


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
    "SearingSpotlights-v0": spotlights,
    "TextCraft-v0": textcraft,
    "Endless-MortarMayhem-v0": mortar_mayhem,
    "Endless-MysteryPath-v0": endless_mystery_path,
    "MiniGrid-MemoryS17Random-v0": minigrid,
    **dict.fromkeys((f"BabyAI-{name}-v0" for name in BABYAI), minigrid),
}
