"""Health of the agent: the number of hits that kill, and the red columns of the health bar.

The original subtracts the damage of each hit in float64. Float32 and closed forms can end a hit earlier or later, so
`make` counts the hits on the host and stores them in tables. If a program changes the options in the parameters, the
tables do not apply, and the same numbers are computed in float32.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.envs.searing_spotlights.scene import HEALTH_BAR_PX

_NEVER = 2**31 - 1
_MOST_HITS = 100_000
"""Maximum number of counted hits; an agent that survives them never dies."""


@struct.dataclass
class HealthTables:
    """Effect of hits for one value of `agent_health` and of `spot_damage`.

    Attributes:
        agent_health: float32 ().
        spot_damage: float32 ().
        fatal_hits: Number of hits that kill, int32 ().
        bar_hits: Number of hits that each column of the health bar takes to turn red, int32 (42,).
    """

    agent_health: jax.Array | np.ndarray
    spot_damage: jax.Array | np.ndarray
    fatal_hits: jax.Array | np.ndarray
    bar_hits: jax.Array | np.ndarray

    @classmethod
    def of(cls, agent_health: float, spot_damage: float) -> "HealthTables":
        """Return the tables, counted in float64 by repeated subtraction."""
        fatal, bar = _NEVER, np.full(HEALTH_BAR_PX, _NEVER, dtype=np.int64)
        left = agent_health
        for num_hits in range(1, _MOST_HITS + 1):
            left -= spot_damage
            red = int(HEALTH_BAR_PX * (1 - left / agent_health))
            bar[:red] = np.minimum(bar[:red], num_hits)
            if left <= 0:
                fatal = num_hits
            if left <= 0 or spot_damage == 0:
                break
        return cls(
            agent_health=np.asarray(agent_health, dtype=np.float32),
            spot_damage=np.asarray(spot_damage, dtype=np.float32),
            fatal_hits=np.asarray(fatal, dtype=np.int32),
            bar_hits=bar.astype(np.int32),
        )

    def apply_to(self, params: Any) -> jax.Array:
        """Return whether the parameters have the values of these tables, bool ()."""
        return (self.agent_health == params.agent_health) & (self.spot_damage == params.spot_damage)


def is_fatal(num_hits: jax.Array, params: Any) -> jax.Array:
    """Return whether this number of hits kills, bool ()."""
    tables = params.health_tables
    computed = _lost_health(num_hits, params) >= params.agent_health
    return jnp.where(tables.apply_to(params), num_hits >= tables.fatal_hits, computed)


def lost_px(num_hits: jax.Array, params: Any) -> jax.Array:
    """Return the number of red columns of the health bar, int32 ()."""
    tables = params.health_tables
    # Products instead of a quotient, because a division is not exact on every device.
    column = np.arange(1, HEALTH_BAR_PX + 1, dtype=np.float32)
    computed = HEALTH_BAR_PX * _lost_health(num_hits, params) >= column * params.agent_health
    return jnp.sum(jnp.where(tables.apply_to(params), num_hits >= tables.bar_hits, computed), dtype=jnp.int32)


def _lost_health(num_hits: jax.Array, params: Any) -> jax.Array:
    return num_hits.astype(jnp.float32) * params.spot_damage
