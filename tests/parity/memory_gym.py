"""Replay episodes recorded from the original Memory Gym and compare everything that was recorded.

    python -m tests.parity.memory_gym DIR... [--family mm mmg ...]

Each file becomes a level, and its actions are played in our environment. Rewards, endings, the state of the game, the
final info and every stored frame must be equal. One line per file has the first difference. The exit code is 1 if any
file fails.
"""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxgym
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.mortar_mayhem import game as mortar_mayhem
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.commands import command_code
from tests.parity import endless_mortar_mayhem, endless_mystery_path, mystery_path, searing_spotlights
from tests.parity.recordings import Family, Recording

REWARD_TOLERANCE = 1e-5
# Shares are float32, recorded in float64.
INFO_TOLERANCE = 1e-6
OUR_NAMES = {"reward": "episode_return", "length": "episode_length"}


def mortar_mayhem_level(recording: Recording, env: mortar_mayhem.MortarMayhem) -> mortar_mayhem.Level:
    layout, arrays = recording.meta["layout"], recording.arrays
    commands = np.full(env.max_commands, -1, dtype=np.int32)
    commands[: len(arrays["commands"])] = arrays["commands"]
    start_tile = arrays["start_tile"].astype(np.int32)
    center = np.asarray(seen.tile_center_px(start_tile, layout["arena_size"]))
    return mortar_mayhem.Level(
        start_tile=start_tile,
        start_offset_px=arrays["start_pos"].astype(np.int32) - center.astype(np.int32),
        commands=commands,
        **{
            name: np.int32(layout.get(name, 0))
            for name in (
                "command_count",
                "command_show_duration",
                "command_show_delay",
                "explosion_duration",
                "explosion_delay",
            )
        },
    )


@functools.partial(jax.jit, static_argnames=("env",))
def mortar_mayhem_answers(env: Any, state: mortar_mayhem.State, params: Any) -> dict[str, jax.Array]:
    scene = env.scene(state, params)
    columns, rows = np.meshgrid(np.arange(seen.LARGEST_ARENA), np.arange(seen.LARGEST_ARENA), indexing="ij")
    is_safe = (columns == scene.safe_tile[0]) & (rows == scene.safe_tile[1])
    answers = {
        "agent_pos": state.position_px,
        "agent_rot": state.heading * arena.HEADING_DEGREES,
        "agent_tile": seen.tile_at(state.position_px, params.arena_size),
        "target_tile": state.target_tile,
        "current_command": state.num_checks,
        "num_commands": state.level.command_count,
        "command_steps": state.command_steps,
        "verify_step": state.verify_step,
        "tiles_on": state.tiles_on,
        "tile_red": (scene.safe_tile[0] >= 0) & ~is_safe,
        "glyph": jax.numpy.where(mortar_mayhem.is_clue_phase(state), mortar_mayhem.clue_at(state), -1),
    }
    if scene.commands is not None:
        answers["vector_obs"] = command_code(scene.commands)
    return answers


MORTAR_MAYHEM = Family(mortar_mayhem_level, mortar_mayhem_answers)
FAMILIES = {
    **dict.fromkeys(("mm", "mmg", "mmb", "mmbg"), MORTAR_MAYHEM),
    **endless_mortar_mayhem.FAMILIES,
    **endless_mystery_path.FAMILIES,
    **mystery_path.FAMILIES,
    **searing_spotlights.FAMILIES,
}


@functools.partial(jax.jit, static_argnames=("env",))
def step(env: Any, state: Any, action: Any, params: Any) -> Any:
    """Return the state before any auto-reset, and all other results of the public step."""
    key = jax.random.key(0)
    stepped = env.step_env(key, state, action, params)[1]
    _, _, reward, terminated, truncated, info = env.step(key, state, action, params)
    return stepped, reward, terminated | truncated, info


def differences(recording: Recording) -> Iterator[str]:
    """Yield a sentence for each difference, in the order of time."""
    meta, arrays = recording.meta, recording.arrays
    if meta["env"] not in FAMILIES:
        yield f"the game {meta['env']!r} does not exist"
        return
    family = FAMILIES[meta["env"]]
    recording = dataclasses.replace(recording, arrays={**arrays, **family.derived(recording)})
    env, params = jaxgym.make(meta["env_id"], **meta["options"], **family.capacities(recording))
    observation, state = env.reset_to_level(jax.random.key(0), family.level(recording, env), params)
    frames = dict(zip(arrays["frame_t"].tolist(), arrays["frames"], strict=True))
    frames = {t: frame for t, frame in frames.items() if t not in family.leaks(recording)}
    yield from compare_moment(recording, 0, family.answers(env, state, params), frames, observation)
    info: dict[str, Any] = {}
    entries = None
    for t, action in enumerate(arrays["actions"].astype(np.int32), start=1):
        state, reward, ended, info = jax.device_get(step(env, state, action, params))
        observation = info.pop("final_observation")
        if abs(reward - arrays["reward"][t - 1]) > REWARD_TOLERANCE:
            yield f"t={t}: reward is {reward}, recorded {arrays['reward'][t - 1]}"
        if ended != arrays["terminated"][t - 1]:
            yield f"t={t}: ended is {ended}, recorded {arrays['terminated'][t - 1]}"
        if entries not in (None, info.keys()):
            yield f"t={t}: info has the entries {sorted(info)}, before {sorted(entries or ())}"
        entries = info.keys()
        yield from compare_moment(recording, t, family.answers(env, state, params), frames, observation)
    yield from compare_final_info(meta["final_info"] or {}, info)


def compare_moment(
    recording: Recording, t: int, answers: dict[str, Any], frames: dict[int, np.ndarray], observation: Any
) -> Iterator[str]:
    for name, ours in jax.device_get(answers).items():
        recorded = recording.arrays[name][t]
        # Tiles beyond the arena are not recorded.
        ours = ours[tuple(slice(n) for n in recorded.shape)] if name == "tile_red" else ours
        if not np.array_equal(ours, recorded):
            yield f"t={t}: {name} is {ours.tolist()}, recorded {recorded.tolist()}"
    if t in frames:
        frame = observation["visual_observation"] if isinstance(observation, dict) else observation
        differing = np.argwhere((np.asarray(frame) != frames[t].swapaxes(0, 1)).any(axis=-1))
        if len(differing):
            y, x = differing[0]
            yield (
                f"t={t}: {len(differing)} pixels differ, first at x={x}, y={y}: "
                f"{np.asarray(frame)[y, x].tolist()}, recorded {frames[t][x, y].tolist()}"
            )


def compare_final_info(recorded: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    for original, value in recorded.items():
        name = OUR_NAMES.get(original, original)
        tolerance = REWARD_TOLERANCE if original == "reward" else INFO_TOLERANCE
        if name not in ours:
            yield f"final info has no {name!r}"
        elif not np.allclose(ours[name], value, rtol=0.0, atol=tolerance):
            yield f"final info: {name} is {ours[name]}, recorded {value}"


def recordings(folders: list[Path], families: list[str] | None) -> list[Path]:
    """Return the recorded episodes in the folders, by name; layouts are not episodes."""
    paths = sorted(path for folder in folders for path in folder.glob("*.npz") if not path.name.startswith("layouts__"))
    return [path for path in paths if families is None or path.name.split("__")[0] in families]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.memory_gym", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with recorded episodes")
    parser.add_argument("--family", nargs="+", help="only files with these prefixes, such as mm mmg")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"DIR: expected a folder with recorded episodes (*.npz), got {folder}, which is not a folder.")
    passed = failed = 0
    for path in recordings(options.folders, options.family):
        difference = next(differences(Recording.load(path)), None)
        passed, failed = passed + (difference is None), failed + (difference is not None)
        verdict = f"ok     {path.name}" if difference is None else f"FAILED {path.name}: {difference}"
        print(verdict, flush=True)  # noqa: T201 — a command line speaks to its user.
    print(f"{passed} passed, {failed} failed")  # noqa: T201 — likewise.
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
