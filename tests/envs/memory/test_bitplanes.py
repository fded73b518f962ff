"""Planes of bits cover the pixels that the shapes and sprites of `jaxgym.rendering` cover."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym.agent import agent_sprites
from jaxgym.envs.searing_spotlights import bitplanes
from jaxgym.envs.searing_spotlights.spotlights import LARGEST_RADIUS_PX, SMALLEST_RADIUS_PX
from jaxgym.rendering.canvas import TRANSPARENT, draw_sprite
from jaxgym.rendering.sprites import disc, ring


def pixels(planes: jax.Array) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(bitplanes.spread))(planes)).reshape(-1, 84, 84)


def test_discs_and_their_insides_are_those_of_the_midpoint_circle() -> None:
    radius = jnp.arange(SMALLEST_RADIUS_PX, LARGEST_RADIUS_PX + 1)
    center = jnp.stack([radius * 2 % 84, 84 - radius], axis=1)

    def planes(center: jax.Array, radius: jax.Array) -> tuple[jax.Array, ...]:
        half, inside = bitplanes.disc_half_widths(center[1], radius)
        whole = bitplanes.interval(center[0], half)
        return whole, whole & ~bitplanes.interval(center[0], jnp.maximum(inside, 0))

    discs, rings = (pixels(plane) for plane in jax.jit(jax.vmap(planes))(center, radius))
    for (x, y), r, found, outline in zip(center.tolist(), radius.tolist(), discs, rings, strict=True):
        # The surface is larger than the screen, for a ring has no outline where the screen cuts it.
        window = np.s_[84:168, 84:168]
        np.testing.assert_array_equal(found, disc(252, (84 + x, 84 + y), r)[window])
        np.testing.assert_array_equal(outline, ring(252, (84 + x, 84 + y), r, 1)[window])


def test_runs_cover_what_a_sprite_draws() -> None:
    sheet = agent_sprites(1.0)
    runs = bitplanes.Runs.of([sheet])
    index = jnp.arange(8)
    position = jnp.stack([index * 12, 90 - index * 12], axis=1)
    blank = jnp.full((84, 84, 3), TRANSPARENT, jnp.uint8)
    on_canvas = np.asarray(jax.jit(jax.vmap(lambda i, p: draw_sprite(blank, sheet, i, p)))(index, position))
    planes = jax.jit(jax.vmap(runs.planes))(index, position)
    for place in range(runs.colors.shape[1]):
        color = runs.colors[:, place]
        channels = np.stack([color & 255, color >> 8 & 255, color >> 16], axis=-1)[:, None, None]
        np.testing.assert_array_equal(pixels(planes[:, place]), (on_canvas == channels).all(axis=-1))
