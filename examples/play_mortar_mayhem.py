"""Play one level of Mortar Mayhem with a scripted player and write a GIF.

    python examples/play_mortar_mayhem.py OUT.gif

The player reads the target tile from the state, which an agent cannot see. It shows a solved episode. The
example needs `pip install -e ".[cli]"` in a checkout.
"""

import argparse
from pathlib import Path

import imageio.v3 as iio
import jax
import numpy as np

import jaxgym
from jaxgym import levels

NOTHING, TURN_LEFT, TURN_RIGHT, FORWARD = range(4)
TILE_PX = 14
SCALE = 3
FRAME_MS = 250


def choose_action(state, arena_size: int) -> int:
    """Turn towards the target tile and walk there; it is at most one tile away."""
    corner_px = 42 - TILE_PX // 2 * arena_size
    right, down = np.asarray(state.target_tile) - (np.asarray(state.position_px) - corner_px) // TILE_PX
    if not (right or down):
        return NOTHING
    wanted = {(0, -1): 0, (-1, 0): 2, (0, 1): 4, (1, 0): 6}[int(right), int(down)]
    left_turns = (wanted - int(state.heading)) % 8 // 2
    return FORWARD if left_turns == 0 else TURN_RIGHT if left_turns == 3 else TURN_LEFT


def play(num_commands: int, level_seed: int) -> list[np.ndarray]:
    """Return the frames of one episode, uint8 (84, 84, 3), from the first to the last one."""
    env, params = jaxgym.make("MortarMayhem-Grid-v0", command_count=[num_commands], explosion_delay=[4])
    level = levels.level_from_seed(env, level_seed, params)
    key = jax.random.key(0)
    key, key_reset = jax.random.split(key)
    observation, state = env.reset_to_level(key_reset, level, params)
    frames, ended = [np.asarray(observation)], False
    while not ended:
        key, key_step = jax.random.split(key)
        action = choose_action(state, int(params.arena_size))
        _, state, _, terminated, truncated, info = env.step(key_step, state, action, params)
        frames.append(np.asarray(info["final_observation"]))
        ended = bool(terminated | truncated)
    print(f"{len(frames) - 1} steps, commands completed: {float(info['commands_completed']):.0%}")
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--commands", type=int, default=4)
    parser.add_argument("--level-seed", type=int, default=3)
    settings = parser.parse_args()
    frames = np.stack(play(settings.commands, settings.level_seed))
    large = frames.repeat(SCALE, axis=1).repeat(SCALE, axis=2)
    iio.imwrite(settings.out, large, duration=FRAME_MS, loop=0)


if __name__ == "__main__":
    main()
