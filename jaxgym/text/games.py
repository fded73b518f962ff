"""The rows of the table of environments that have words."""

from jaxgym.text import frozen_lake, mortar_mayhem, mystery_path, searing_spotlights, sudoku, textcraft
from jaxgym.text.catalogue import TextSpec, register
from jaxgym.text.memory import moves_option

_BY_TILES, _FREE = moves_option(1), moves_option(8)

for _env_id, _spec in {
    "MortarMayhem-v0": TextSpec(mortar_mayhem.build, "mortar_mayhem", _FREE),
    "MortarMayhem-Grid-v0": TextSpec(mortar_mayhem.build, "mortar_mayhem_grid", _BY_TILES),
    "MortarMayhemB-v0": TextSpec(mortar_mayhem.build, "mortar_mayhem_b", _FREE),
    "MortarMayhemB-Grid-v0": TextSpec(mortar_mayhem.build, "mortar_mayhem_b_grid", _BY_TILES),
    "Endless-MortarMayhem-v0": TextSpec(mortar_mayhem.build, "endless_mortar_mayhem", _FREE),
    "MysteryPath-v0": TextSpec(mystery_path.build, "mystery_path", _FREE),
    "MysteryPath-Grid-v0": TextSpec(mystery_path.build, "mystery_path_grid", _BY_TILES),
    "Endless-MysteryPath-v0": TextSpec(mystery_path.build_endless, "endless_mystery_path", _FREE),
    "SearingSpotlights-v0": TextSpec(searing_spotlights.build, "searing_spotlights", _FREE),
    "Endless-SearingSpotlights-v0": TextSpec(searing_spotlights.build, "endless_searing_spotlights", _FREE),
    "FrozenLake-v0": TextSpec(frozen_lake.build, "frozen_lake", frozen_lake.OPTIONS),
    "Sudoku-v0": TextSpec(sudoku.build, "sudoku", sudoku.OPTIONS),
    "TextCraft-v0": TextSpec(textcraft.build, "textcraft"),
}.items():
    register(_env_id, _spec)
