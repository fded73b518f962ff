"""Icons of TextCraft's items: one shape per kind, and two colors per item."""

import colorsys
import functools

import numpy as np

from jaxgym.envs.textcraft.world import world

ICON_PX = 8
BACKGROUND = (38, 34, 46)

_GOLDEN = 0.61803398875
_SHADES = ((0.62, 0.95), (0.85, 0.80), (0.38, 1.0))
"""Saturation and brightness, used in turn."""

# `#` is the item's first color, `o` its second one
_SHAPES = {
    "log": "..####.. .######. .#oooo#. .#o##o#. .#o##o#. .#oooo#. .######. ..####..",
    "plant": "....#.## .##.###. ..####.. ...#.... .##o.##. ..#o##.. ...o.... ...o....",
    "beast": "o......o oo....oo .######. .#o##o#. .######. ..####.. ..#oo#.. ...##...",
    "produce": ".....oo. ....oo.. ..#o##.. .######. .######. .######. .######. ..####..",
    "earth": "........ ...###.. ..#oo##. .#o####. .#####o# ####oo## ######## .######.",
    "timber": "######## #oo###o# ######## ........ ######## ##o##oo# ######## ........",
    "powder": "........ ........ ...o.... ..o#.... ..###o.. .#####.. ######## ########",
    "yarn": "..####.. .#o##o#. #o##o##o ##o##o## #o##o##o .#o##o#. ..####.. .....###",
    "cloth": "######## #o#o#o## ######## ##o#o#o# ######## #o#o#o## ######## o.o.o.o.",
    "garment": ".##..##. ######## ######## #.####.# ..#oo#.. ..####.. ..#oo#.. ..####..",
    "bar": "........ ........ ..#####. .#ooo##. .#####.. ######## #oooo### ######..",
    "part": "..#..#.. ..####.. ######## .##oo##. .##oo##. ######## ..####.. ..#..#..",
    "jewel": "..oooo.. .o....o. o......o o......o .o....o. ..o##o.. ..####.. ...##...",
    "pot": ".######. ..####.. ..#oo#.. .######. ######## ######## .######. ..####..",
    "masonry": "###o#### ###o#### oooooooo #o####o# #o####o# oooooooo ###o#### ###o####",
    "glass": "oooooooo o##oo##o o#.oo#.o oooooooo o##oo##o o#.oo#.o oooooooo ........",
    "dough": "........ ..oooo.. .######. ######## ######## ######## .######. ........",
    "drink": "######.. #oooo#.. #oooo### #####.## #####..# #####.## ######.. ######..",
    "dish": "..o..o.. ...o..o. ..o..o.. ........ ######## .######. .######. ..####..",
    "tool": ".####... #####... ##oo#... ...oo... ....oo.. .....oo. ......oo .......o",
    "device": "..####.. .#oooo#. #oo#ooo# #oo#ooo# #oo##oo# #oooooo# .#oooo#. ..####..",
    "instrument": "......## .....##. .o..##.. oo.##o.. .####oo. ######.. ##o###.. .####...",
    "furniture": "######## ######## .#....#. .#....#. .#oooo#. .#....#. .#....#. .#....#.",
    "container": "..oooo.. .o....o. ######## ######## #oo##oo# ######## ######## .######.",
    "writing": "######.. #oooo##. ######## #ooooo## ######## #ooooo## ######## ########",
    "craft": "....o... ....##.. ....###. ....#### ....o... ######## .#oooo#. ..####..",
    "building": "...##... ..####.. .######. ######## .#oooo#. .#o##o#. .#o##o#. .#o##o#.",
}


@functools.cache
def colors() -> np.ndarray:
    """Return the two colors of each item, uint8 (N, 2, 3)."""
    rows, counts = list[list[tuple[float, float, float]]](), dict[str, int]()
    for kind in world().kinds:
        number = counts[kind] = counts.get(kind, -1) + 1
        # Kinds start at different hues; the golden ratio spreads any number of items evenly.
        hue = 0.07 * len(counts) + _GOLDEN * number
        saturation, brightness = _SHADES[number % len(_SHADES)]
        first = colorsys.hsv_to_rgb(hue % 1.0, saturation, brightness)
        second = colorsys.hsv_to_rgb((hue + 0.4) % 1.0, 0.3, 0.5 * brightness)
        rows.append([first, second])
    return np.rint(255 * np.asarray(rows)).astype(np.uint8)


@functools.cache
def icons() -> np.ndarray:
    """Return the icon of each item and last the empty background, uint8 (N + 1, 8, 8, 3)."""
    images = np.empty((len(world().names) + 1, ICON_PX, ICON_PX, 3), np.uint8)
    images[:] = BACKGROUND
    for image, kind, pair in zip(images, world().kinds, colors(), strict=False):
        shape = np.asarray([list(row) for row in _SHAPES[kind].split()])
        image[shape == "#"], image[shape == "o"] = pair
    return images
