"""Shared parts of the presets of Memory Gym: the options of two papers.

`iclr2023` is Pleines et al., Memory Gym (ICLR 2023); `jmlr2025` is Pleines et al., Memory Gym to Endless Tasks
(JMLR 26(6), 2025). Every preset has the rules of memory-gym 1.0.2. Where the earlier paper used a release with other
rules, its preset is an approximation. Sizes that the earlier paper does not give as numbers are our choice, and the
description of the preset says so.
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
