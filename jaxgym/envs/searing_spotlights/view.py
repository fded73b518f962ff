"""Human view of both Searing Spotlights games: enlarged frames that hide nothing, uint8 (336, 336, 3), row first."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxgym.envs.searing_spotlights import scene as spotlights_scene
from jaxgym.rendering.canvas import enlarged


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with agent, coins and exit above the darkness."""
    yes = jnp.bool_(True)
    shown = dataclasses.replace(env.scene(state, params), agent_visible=yes, coins_visible=yes, exit_visible=yes)
    return enlarged(spotlights_scene.draw(shown, env.render_options))
