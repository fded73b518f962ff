"""Health of the agent of Searing Spotlights, counted in hits."""

import numpy as np

from jaxgym.envs.searing_spotlights import scene as seen

_NEVER = 2**31 - 1
_MOST_HITS = 100_000
"""Maximum number of counted hits; an agent that survives them never dies."""


def health_tables(agent_health: float, spot_damage: float) -> dict[str, np.ndarray]:
    """Return the tables of `SpotlightParams`.

    The tables are counted in float64 by repeated subtraction; float32 and closed forms end a hit earlier or later.
    """
    fatal, bar = _NEVER, np.full(seen.HEALTH_BAR_PX, _NEVER, dtype=np.int64)
    health = agent_health
    for num_hits in range(1, _MOST_HITS + 1):
        health -= spot_damage
        red = int(seen.HEALTH_BAR_PX * (1 - health / agent_health))
        bar[:red] = np.minimum(bar[:red], num_hits)
        if health <= 0:
            fatal = num_hits
        if health <= 0 or spot_damage == 0:
            break
    return {"fatal_hits": np.asarray(fatal, dtype=np.int32), "bar_hits": bar.astype(np.int32)}
