"""The ids of the package, told to Gymnasium before anything is imported that takes time."""

import gymnasium

IDS = (
    "MortarMayhem-v0",
    "MortarMayhem-Grid-v0",
    "MortarMayhemB-v0",
    "MortarMayhemB-Grid-v0",
    "Endless-MortarMayhem-v0",
    "SearingSpotlights-v0",
    "Endless-SearingSpotlights-v0",
    "MysteryPath-v0",
    "MysteryPath-Grid-v0",
    "Endless-MysteryPath-v0",
    "FrozenLake-v0",
    "Sudoku-v0",
    "TextCraft-v0",
)
"""Those that `jaxgym.registration` has rows for, in their order."""


def tell_gymnasium(env_id: str) -> None:
    """Makes an id known to `gymnasium.make`, as `jaxgym/<id>`; one that is known stays as it is."""
    name = f"jaxgym/{env_id}"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="jaxgym.gymnasium_api.single:make",
            vector_entry_point="jaxgym.gymnasium_api.vector:make",
            kwargs={"env_id": env_id},
        )
