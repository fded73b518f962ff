"""Replay of T-Mazes."""

import numpy as np

import jaxgym
from tests.parity.classics.recordings import Episode, equal, equal_rewards, original_level, replay, with_reals

_REALS = ("goal_reward", "penalty", "distract_reward")


def check(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    meta, has_lamp = episode.meta, episode["obs"].dtype == np.float64
    options = {name: meta[name] for name in ("corridor_length", "oracle_length", "episode_length")}
    if has_lamp:
        env_id, options["noise_length"] = "T-Maze-Lamp-v0", 64
        while options["noise_length"] <= len(episode["action"]):
            options["noise_length"] *= 2
    else:
        env_id = "T-Maze-v0"
        options |= {"ambiguous_position": meta["ambiguous"]}
        options |= {name: meta[name] for name in ("expose_goal", "add_timestep")}
    env, params = jaxgym.make(env_id, observation="symbolic", **options)
    params = with_reals(params, **{name: meta[name] for name in _REALS})
    level = original_level(env_id, meta["seed"], **options)
    equal(level.goal_y, episode["goal"], "goal")
    played = replay(env, params, level, episode["action"])
    equal(played.observations, episode["obs"], "observation")
    equal(np.stack([played.states.x, played.states.y], axis=1), episode["pos"], "position")
    equal_rewards(played.rewards, episode["reward"])
    equal(played.terminated, episode["done"], "end")
