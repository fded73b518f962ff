"""Shared parts of the presets of Memory Gym: the options of two papers, each set under a name.

`iclr2023` is Pleines et al., Memory Gym (ICLR 2023); `jmlr2025` is Pleines et al., Memory Gym to Endless Tasks
(JMLR 26(6), 2025). The rules are those of memory-gym 1.0.2 under every preset; where the earlier paper used an earlier
release with other rules, an option set can come close to it, no more. Sizes that the earlier paper does not tell in
numbers are chosen here, and their line says so.
"""

from collections.abc import Mapping
from typing import Any

from jaxgym.options import Preset

VARIANTS = "ICLR 2023, the variants of the experiments"
PUBLISHED = "JMLR 2025, the published training configurations"

Options = Mapping[str, Any]

FREE: Options = {"agent_speed": 3.0, "agent_scale": 0.25}


def endless_presets(line: str, recurrent: Options, transformer: Options) -> dict[str, Preset]:
    """Return the two presets of an endless game, whose time limit depends on the memory."""
    return {
        "jmlr2025": Preset(recurrent, f"{line}; the time limit of the recurrent agents", PUBLISHED),
        "jmlr2025-transformer": Preset(transformer, f"{line}; the time limit of the transformers", PUBLISHED),
    }
