"""Views for people: images that hide nothing, uint8 (336, 336, 3), row first.

They are drawn by the games' own drawing, of scenes that hide nothing, and enlarged four times. Agents never see them.
"""

import jax
import jax.numpy as jnp

SCALE = 4
"""Pixels of a picture for each pixel of a frame, along each axis."""


def enlarged(frame: jax.Array) -> jax.Array:
    """Return a frame enlarged, uint8 (4 · H, 4 · W, 3)."""
    return jnp.repeat(jnp.repeat(frame, SCALE, axis=0), SCALE, axis=1)
