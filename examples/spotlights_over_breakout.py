"""Draw spotlights over gymnax's Breakout and write frames as a PNG.

    python examples/spotlights_over_breakout.py OUT.png

MinAtar's Breakout has no frames; here each of its 10 × 10 cells is a square of one color. The example needs
`pip install -e ".[cli]"` in a checkout.
"""

import argparse
from pathlib import Path

import gymnax
import imageio.v3 as iio
import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.wrappers import FromGymnax, SpotlightPerturbation

CELL_PX = 12
SHOWN_STEPS = (0, 3, 70, 90, 110)
GAP_PX = 4
FLOOR = (110, 125, 150)
COLORS = ((255, 255, 255), (250, 220, 60), (160, 150, 90), (225, 85, 75))
"""Colors of paddle, ball, trail and bricks."""


def draw_breakout(observation: jax.Array) -> jax.Array:
    """Return the frame, uint8 (120, 120, 3), of an observation of Breakout-MinAtar, float32 (10, 10, 4)."""
    image = jnp.broadcast_to(jnp.asarray(FLOOR, jnp.uint8), (*observation.shape[:2], 3))
    for channel, color in enumerate(COLORS):
        image = jnp.where(observation[:, :, channel, None] > 0, jnp.asarray(color, jnp.uint8), image)
    return image.repeat(CELL_PX, axis=0).repeat(CELL_PX, axis=1)


def make(**options):
    """Return Breakout as frames with spotlights over them, and its parameters."""
    env = FromGymnax(gymnax.make("Breakout-MinAtar")[0], draw=draw_breakout)
    return SpotlightPerturbation.of(env, initial_spawns=8, **options)


def follow(breakout) -> jax.Array:
    """Return the action that moves the paddle below the ball: 0 nothing, 1 left, 2 right."""
    away = breakout.ball_x - breakout.pos
    return jnp.where(away < 0, 1, jnp.where(away > 0, 2, 0))


def play(env, params, num_steps: int) -> list[np.ndarray]:
    """Return the frames of the first steps of an episode."""
    observation, state = env.reset(jax.random.key(2), params)
    frames = [np.asarray(observation)]
    for key in jax.random.split(jax.random.key(1), num_steps):
        observation, state, *_ = env.step(key, state, follow(state.inner.inner), params)
        frames.append(np.asarray(observation))
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the PNG to write")
    frames = play(*make(), max(SHOWN_STEPS))
    strip = [np.pad(frames[step], [(GAP_PX,) * 2, (GAP_PX,) * 2, (0, 0)], constant_values=255) for step in SHOWN_STEPS]
    iio.imwrite(parser.parse_args().out, np.concatenate(strip, axis=1))


if __name__ == "__main__":
    main()
