"""Replay of recordings of Endless Mortar Mayhem."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mortar_mayhem import endless as game
from jaxgym.envs.mortar_mayhem import scene as seen
from tests.parity.recordings import Family, Recording

DURATIONS = ("command_count", "command_show_duration", "command_show_delay", "explosion_duration", "explosion_delay")


def level(recording: Recording, env: game.EndlessMortarMayhem) -> game.EndlessMortarMayhemLevel:
    layout, arrays = recording.meta["layout"], recording.arrays
    commands = np.full(env.max_given_commands, -1, dtype=np.int32)
    commands[: len(arrays["commands"])] = arrays["commands"]
    start_tile = arrays["start_tile"].astype(np.int32)
    center = np.asarray(seen.tile_center_px(start_tile, seen.LARGEST_ARENA))
    return game.EndlessMortarMayhemLevel(
        start_tile=start_tile,
        start_offset_px=arrays["start_pos"].astype(np.int32) - center.astype(np.int32),
        commands=commands,
        seed=np.uint32(0),
        **{name: np.int32(layout[name]) for name in DURATIONS},
    )


@functools.partial(jax.jit, static_argnames=("env",))
def answers(env: Any, state: game.EndlessMortarMayhemState, params: Any) -> dict[str, jax.Array]:
    scene = env.scene(state, params)
    columns, rows = np.meshgrid(np.arange(seen.LARGEST_ARENA), np.arange(seen.LARGEST_ARENA), indexing="ij")
    is_safe = (columns == scene.safe_tile[0]) & (rows == scene.safe_tile[1])
    return {
        "agent_pos": state.position_px,
        "agent_rot": state.heading * arena.HEADING_DEGREES,
        "agent_tile": seen.tile_at(state.position_px, jnp.int32(seen.LARGEST_ARENA)),
        "target_tile": state.target_tile,
        "current_command": state.num_checks,
        "num_commands": state.sequence_length,
        "command_steps": state.command_steps,
        "verify_step": state.verify_step,
        "tiles_on": state.tiles_on,
        "tile_red": (scene.safe_tile[0] >= 0) & ~is_safe,
        "glyph": jnp.where(game.is_clue_seen(state), game.clue_at(state, params), -1),
        "total_commands_completed": state.commands_completed,
    }


def capacities(recording: Recording) -> dict[str, Any]:
    # Rounded up, so that most recordings share one compilation.
    return {"max_given_commands": 64 * -(-len(recording.arrays["commands"]) // 64)}


def leaks(recording: Recording) -> set[int]:
    """Return the frames that show an earlier agent: clue frames of a second episode of one object (quirk Q12)."""
    if "pre_actions" not in recording.arrays:
        return set()
    return set(range(1, recording.meta["layout"]["clue_frames"]))


FAMILIES = {"emm": Family(level, answers, capacities, leaks)}
