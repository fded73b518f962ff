"""Play memory-gym 1.0.2 and its stand-in side by side, and compare all their outputs.

    make parity
    python -m tests.parity.against_original --ids MortarMayhem-v0 --seeds 5

Both get the same seeds, options and actions. When an episode ends, both are reset without a seed, so the next one
continues with the generator. Every second seed plays at random, the others mostly with the original's hidden
information. Human views are compared too, except walls and clues. One line per id has the number of equal seeds, or the
first difference. The exit code is 1 if there is a difference.
"""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ.update(SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy", PYGAME_HIDE_SUPPORT_PROMPT="1")

import gymnasium
import memory_gym  # in an environment of its own, since its pins exclude those of gymnax
import numpy as np

import jaxgym

gymnasium.register_envs(memory_gym)

IDS = tuple(
    env_id
    for env_id in jaxgym.registered_envs()
    if env_id in gymnasium.registry and str(gymnasium.registry[env_id].entry_point).startswith("memory_gym")
)
MORTAR = {"command_count": [1, 2, 3], "arena_size": 4, "explosion_duration": [2, 5], "reward_command_failure": -0.25}
CLUES = {"command_show_duration": [1, 2], "command_show_delay": [0, 1]}
LIGHTS = {"coins_visible": True, "agent_visible": True, "spot_max_speed": 0.02, "reward_outside_spotlight": 0.01}
OPTIONS: dict[str, dict[str, Any]] = {
    "MortarMayhem-v0": {**MORTAR, **CLUES, "agent_speed": 4.0},
    "MortarMayhem-Grid-v0": {**MORTAR, **CLUES, "allowed_commands": 9, "visual_feedback": False},
    "MortarMayhemB-v0": {**MORTAR, "agent_scale": 0.5},
    "MortarMayhemB-Grid-v0": {**MORTAR, "reward_episode_success": 1.0},
    "Endless-MortarMayhem-v0": {**CLUES, "initial_command_count": 2, "allowed_commands": 5, "max_steps": 90},
    "SearingSpotlights-v0": {**LIGHTS, "num_coins": [2, 3], "max_steps": 120, "reward_max_steps": -1.0},
    "Endless-SearingSpotlights-v0": {**LIGHTS, "steps_per_coin": 60, "spawn_interval": 10},
    "MysteryPath-v0": {"show_origin": True, "show_goal": True, "reward_step": -0.01, "max_steps": 70},
    "MysteryPath-Grid-v0": {"cardinal_origin_choice": [1, 2], "reward_path_progress": 0.1, "visual_feedback": False},
    "Endless-MysteryPath-v0": {"show_stamina": True, "show_background": True, "stamina_level": 12},
}
GUIDED_SHARE = 0.85
TOLERANCE = 1e-6
RED, WHITE, BLACK = (255, 0, 0), (255, 255, 255), (0, 0, 0)
REACH_PX = 3


def along(here: Any, there: Any, reach: int = 0) -> list[int]:
    """Return the action of a free agent from one position to another."""
    apart = [int(target) - int(place) for place, target in zip(here, there, strict=True)]
    return [0 if abs(way) <= reach else 1 if way < 0 else 2 for way in apart]


def by_tiles(original: Any, there: Any) -> Any:
    """Return the action that moves an agent nearer to a tile, in the grid games and in the others."""
    action = along(original.normalized_agent_position, there)
    if isinstance(original.action_space, gymnasium.spaces.MultiDiscrete):
        return action
    if action == [0, 0]:
        return 0
    wanted = (90, 270)[action[0] - 1] if action[0] else (0, 180)[action[1] - 1]
    turn = (wanted - original.agent.rotation) % 360
    return 3 if turn == 0 else 2 if turn == 270 else 1


def guided(original: Any) -> Any:
    """Return an action that uses the original's hidden information."""
    if hasattr(original, "_target_pos"):
        return by_tiles(original, original._target_pos)
    if hasattr(original, "target_direction"):
        return 1 + int(np.argmax(original.target_direction))
    if hasattr(original, "mystery_path"):
        here = tuple(original.normalized_agent_position)
        path = [(node.x, node.y) for node in original.mystery_path.path]
        path = path if path[-1] == tuple(original.end) else path[::-1]
        return by_tiles(original, path[min(path.index(here) + 1, len(path) - 1)] if here in path else here)
    coins = [original.coin] if hasattr(original, "coin") else [*original.coins, original.exit]
    return along(original.agent.rect.center, coins[0].location, REACH_PX)


def differences(stepped: Any, expected: Any, where: str = "") -> Iterator[str]:
    """Yield the differences of two observations or infos: integers and frames exactly, reals as float32."""
    if isinstance(expected, dict):
        if set(stepped) != set(expected):
            yield f"{where} has {sorted(stepped)} for {sorted(expected)}"
            return
        for name in expected:
            yield from differences(stepped[name], expected[name], f"{where} {name}")
    elif np.shape(stepped) != np.shape(expected):
        yield f"{where} has shape {np.shape(stepped)} for {np.shape(expected)}"
    elif np.asarray(expected).dtype == np.uint8:
        if (count := int((stepped != expected).any(axis=-1).sum())) or stepped.dtype != np.uint8:
            yield f"{where} differs in {count} pixels"
    elif not np.allclose(stepped, expected, rtol=0, atol=TOLERANCE):
        yield f"{where} is {stepped} for {expected}"


def forget(original: Any) -> None:
    """Make the original draw like a new one.

    The first clues of an endless episode, and every first human view, show the agent of the previous episode; no level
    and no rule depends on it.
    """
    original.rotated_agent_surface = original.rotated_agent_rect = None


def unlike(ours: Any, original: Any) -> Iterator[str]:
    """Return the differences of two human views, except those that only the original shows."""
    shown, expected = ours.render(), original.render()
    differ = (shown != expected).any(axis=-1)
    if hasattr(original, "mystery_path"):  # Walls are no part of our levels.
        differ &= ~((expected == RED).all(axis=-1) & (shown == BLACK).all(axis=-1))
    if hasattr(original, "_target_pos"):  # It shows clues early or not at all: each image uses one up.
        differ &= (shown != WHITE).any(axis=-1) & (expected != WHITE).any(axis=-1)
    if count := int(differ.sum()):
        yield f"what is hidden differs in {count} pixels"


def compare(ours: Any, original: Any, seed: int, options: dict[str, Any], steps: int) -> tuple[int, str | None]:
    """Play one seed on both; return the number of ended episodes, and the first difference or None."""
    generator = np.random.default_rng([seed, steps])
    endings, again = 0, seed
    for t in range(steps):
        if again is not None:
            forget(original)
            given = None if again < 0 else again
            pair = [env.reset(seed=given, options=options) for env in (ours, original)]
            found = [*differences(pair[0][0], pair[1][0], "frame"), *differences(pair[0][1], pair[1][1], "info")]
            found += unlike(ours, original)
            if ours.max_episode_steps != original.max_episode_steps:
                found.append(f"max_episode_steps is {ours.max_episode_steps} for {original.max_episode_steps}")
            if found:
                return endings, f"step {t}, reset: {found[0]}"
        is_random = seed % 2 == 0 or generator.random() > GUIDED_SHARE
        action = original.action_space.sample() if is_random else guided(original)
        stepped, expected = (env.step(action) for env in (ours, original))
        found = [*differences(stepped[0], expected[0], "frame"), *differences(stepped[4], expected[4], "info")]
        if np.float32(stepped[1]) != np.float32(expected[1]):
            found.append(f"reward is {stepped[1]} for {expected[1]}")
        if stepped[2:4] != (bool(expected[2]), expected[3]):
            found.append(f"endings are {stepped[2:4]} for {expected[2:4]}")
        found += unlike(ours, original)
        if found:
            return endings, f"step {t + 1}: {found[0]}"
        again = -1 if expected[2] else None
        endings += bool(expected[2])
    return endings, None


def compare_spaces(ours: Any, original: Any) -> str | None:
    """Return the declared spaces or attributes that differ."""
    names = ["observation_space", "action_space"]
    names += ["ground_truth_space"] if original.has_ground_truth_info else []
    if ours.has_ground_truth_info != original.has_ground_truth_info:
        return "has_ground_truth_info differs"
    if ours.metadata["render_fps"] != original.metadata["render_fps"]:
        return "render_fps differs"
    return next((f"{name} differs" for name in names if getattr(ours, name) != getattr(original, name)), None)


def main() -> int:
    """Compare the chosen ids; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ids", nargs="+", default=IDS, choices=IDS)
    parser.add_argument("--seeds", type=int, default=20, help="seeds 0 to n - 1")
    parser.add_argument("--steps", type=int, default=200, help="steps a seed, over as many episodes as they fill")
    arguments = parser.parse_args()
    names = ("memory-gym", "pygame", "gymnasium", "numpy", "jax")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    print(f"{versions}; {arguments.seeds} seeds of {arguments.steps} steps")  # noqa: T201 — a command line speaks.
    passed = failed = 0
    for env_id in arguments.ids:
        for named, options in (("default", {}), ("other options", OPTIONS[env_id])):
            drawn = {"render_mode": "debug_rgb_array", "disable_env_checker": True}
            ours = gymnasium.make(f"jaxgym/{env_id}", memory_gym_layout=True, **drawn).unwrapped
            original = gymnasium.make(env_id, **drawn).unwrapped
            first, endings, equal = compare_spaces(ours, original), 0, 0
            failed += first is not None
            for seed in range(arguments.seeds):
                original.action_space.seed(seed)
                ended, difference = compare(ours, original, seed, options, arguments.steps)
                endings, equal = endings + ended, equal + (difference is None)
                first = first or (difference and f"seed {seed}, {difference}")
            passed, failed = passed + equal, failed + arguments.seeds - equal
            verdict = first or "equal"
            print(f"{env_id:28} {named:13} {equal:3} of {arguments.seeds}, {endings:4} endings: {verdict}", flush=True)  # noqa: T201
    print(f"{passed} passed, {failed} failed")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
