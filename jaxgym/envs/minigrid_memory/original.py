"""Random draws of minigrid's Memory levels."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from jaxgym.envs.common.draws import Draws, by_seed, whole
from jaxgym.envs.common.episode_sequence import EpisodeSequence
from jaxgym.envs.minigrid.world import Type
from jaxgym.envs.minigrid_memory.game import AFTER_END, SHORTEST_END, Level, MiniGridMemory
from jaxgym.spec import Original


def levels(env: MiniGridMemory, options: Mapping[str, Any], draws: Draws) -> Level:
    """Draw a level for each stream."""
    del options
    end = np.full(len(draws), env.size - AFTER_END)
    if env.random_length:
        end = draws.integers(SHORTEST_END, env.size - AFTER_END + 1)
    start = draws.integers(1, end + 1)
    room = draws.choice([Type.KEY, Type.BALL])
    upper = draws.choice([Type.BALL, Type.KEY])
    return Level(*map(whole, (end, start, room, upper)))


ORIGINAL = Original(by_seed(levels, num_words=4), partial(EpisodeSequence, levels=levels), package="minigrid")
