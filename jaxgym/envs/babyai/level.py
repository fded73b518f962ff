"""Levels of BabyAI."""

import jax
from flax import struct

from jaxgym.envs.babyai.mission import Mission


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        cells: The thing in each cell, uint16 (W, H); an object that the agent carries at the start is on the floor.
        position: x and y of the agent, int32 (2,).
        direction: The agent's `Direction`, int32 ().
        content: What a box contains, uint16 (); `EMPTY` for nothing.
        mission: The mission.
    """

    cells: jax.Array
    position: jax.Array
    direction: jax.Array
    content: jax.Array
    mission: Mission
