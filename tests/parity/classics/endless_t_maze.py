"""Replay of the Endless T-Maze."""

from typing import Any

import jaxgym
from tests.parity.classics.recordings import Episode, equal, equal_rewards, original_level, replay


def check(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    meta = episode.meta
    lengths = meta["lengths"]
    shortest = lengths["min"] if lengths["mode"] == "uniform" else None
    options: dict[str, Any] = {
        "num_corridors": meta["num_corridors"],
        "max_length": lengths["max"],
        "is_uniform": shortest is not None,
        "min_length": shortest or 1,
        "max_steps": meta["max_steps"],
    }
    level = original_level("Endless-TMaze-v0", meta["seed"], **options)
    env, params = jaxgym.make("Endless-TMaze-v0", observation="symbolic", **options)
    played = replay(env, params, level, episode["action"])
    equal(played.observations, episode["obs"], "observation")
    equal(level.lengths[played.states.corridor], episode["len"], "length")
    equal_rewards(played.rewards, episode["reward"])
    equal(played.truncated, episode["trunc"], "truncated")
    # At the time limit, the original reports a truncation only.
    equal(played.terminated & ~played.truncated, episode["term"], "terminated")
    equal(played.info["success"][-1], episode["success"], "success")
