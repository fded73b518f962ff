"""Replay of Visual Match and Key-to-Door."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import jaxgym
from jaxgym.envs.key_to_door import original as key_original
from jaxgym.envs.key_to_door.game import KeyToDoor
from jaxgym.envs.visual_match import original
from jaxgym.envs.visual_match.game import VisualMatch
from jaxgym.envs.visual_match.rooms import Kind
from tests.parity.classics.recordings import (
    Episode,
    Played,
    equal,
    equal_levels,
    equal_rewards,
    original_level,
    replay,
    with_reals,
)

_FRAMES = {"SR": (15, 60, 10), "CCA": (15, 30, 15)}
LETTERS = {Kind.FLOOR: " ", Kind.WALL: "#", Kind.AGENT: "+", Kind.APPLE: "a", Kind.KEY: "k", Kind.DOOR: "d"}


def options_of(meta: dict[str, Any], frames: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the options of an episode, and those among them that are real numbers."""
    given = meta.get("max_frames", frames)
    if isinstance(given, str):
        given = _FRAMES[given]
    elif isinstance(given, dict):
        given = tuple(given[name] for name in ("explore", "distractor", "reward"))
    options: dict[str, Any] = dict(zip(("explore_frames", "apple_frames", "reward_frames"), given, strict=True))
    options |= {name: meta[name] for name in ("num_apples", "respawn_every") if name in meta}
    options["fix_apple_reward"] = meta.get("fix_apple_reward_in_episode", True)
    apple = meta.get("apple_reward", 1.0)
    low, high = apple if isinstance(apple, list) else (apple, apple)
    reals = {"apple_reward_low": low, "apple_reward_high": high, "final_reward": meta.get("final_reward", 10.0)}
    return options, reals


def check_visual_match(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    meta = episode.meta
    options, reals = options_of(meta, (15, 30, 15))
    options |= {"passive": meta.get("passive", True), "num_draws": 256}
    made, params = jaxgym.make("Passive-VisualMatch-v0", observation="symbolic", **options)
    assert isinstance(made, VisualMatch)
    stream = original.ColorStream(meta["colour_seed"])
    for _ in range(meta["episode"]):
        stream.target()
    target = stream.target()
    thousandths = 1000 * np.eye(3, dtype=np.int64)[stream.colors]
    equal(thousandths, next(values for name, values in episode.arrays.items() if name.startswith("col")), "colors")
    equal(target, episode["target"], "target")
    is_fixed = options["fix_apple_reward"]
    level = original.level(meta["seed"], stream.colors, target, made, options.get("num_apples", 10), is_fixed=is_fixed)
    drawn = original_level("Passive-VisualMatch-v0", meta["seed"], **options)
    equal_levels(dataclasses.replace(drawn, colors=level.colors, target=level.target), level)
    played = replay(made, with_reals(params, **reals), level, episode["action"])
    check_steps(episode, played)
    letters = {**LETTERS, **{Kind.RED + int(color): letter for color, letter in zip(stream.colors, "bce", strict=True)}}
    check_boards(episode, played, made, letters)


def check_key_to_door(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    meta = episode.meta
    options, reals = options_of(meta, _FRAMES["SR"])
    room = meta.get("REWARD_GRID", "SR")
    made, params = jaxgym.make("KeyToDoor-v0", observation="symbolic", reward_room=room, num_draws=256, **options)
    assert isinstance(made, KeyToDoor)
    num_drawn, played = 1, None
    # The original draws the third room after the rewards of apples, whose number depends on the actions.
    while played is None or played.states.num_drawn[-1] != num_drawn:
        num_drawn = 1 if played is None else int(played.states.num_drawn[-1])
        level = key_original.level(
            meta["seed"],
            made,
            options.get("num_apples", 10),
            is_fixed=options["fix_apple_reward"],
            num_drawn=num_drawn,
        )
        if num_drawn == 1:
            drawn = original_level("KeyToDoor-v0", meta["seed"], reward_room=room, num_draws=256, **options)
            equal_levels(drawn, level)
        played = replay(made, with_reals(params, **reals), level, episode["action"])
    check_steps(episode, played)
    check_boards(episode, played, made, LETTERS)


def check_steps(episode: Episode, played: Played) -> None:
    """Compare the steps of an episode."""
    equal(played.observations, episode["obs"].reshape(len(played.observations), -1), "observation")
    states = played.states
    equal(states.phase, episode["phase"], "phase")
    equal(states.position, episode["pos"], "position")
    # In the last step, the phase is over but no other one begins.
    equal(states.frame, episode["frame"], "frame")
    equal_rewards(played.rewards, episode["reward"])
    equal(played.terminated, episode["done"], "end")
    equal(played.info["success"][-1], episode["success"], "success")


def check_boards(episode: Episode, played: Played, env: Any, letters: Mapping[Any, str]) -> None:
    """Compare the whole board in the first frame of each phase."""
    phases = played.states.phase
    for phase, expected in enumerate(episode["boards"]):
        time = int(np.argmax(phases == phase))
        state = dataclasses.replace(
            played.states,
            **{
                field.name: _row(getattr(played.states, field.name), time)
                for field in dataclasses.fields(played.states)
            },
        )
        kinds = np.asarray(env.board(state))
        equal([[ord(letters[kind]) for kind in row] for row in kinds.tolist()], expected, f"board of phase {phase}")


def _row(tree: Any, time: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[time], tree)
