"""Human views: images that hide nothing, uint8 (336, 336, 3), row first.

The games draw scenes without hidden parts, and enlarge the frames four times. Agents never observe them.
"""

import jax
import jax.numpy as jnp

SCALE = 4
"""Enlargement of a frame along each axis."""


def enlarged(frame: jax.Array) -> jax.Array:
    """Return the enlarged frame, uint8 (4 · H, 4 · W, 3)."""
    return jnp.repeat(jnp.repeat(frame, SCALE, axis=0), SCALE, axis=1)
