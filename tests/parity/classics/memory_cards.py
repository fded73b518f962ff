"""Replay of Memory Cards."""

from typing import Any

import numpy as np

import jaxgym
from jaxgym.envs.memory_cards import original
from tests.parity.classics.recordings import Episode, Played, equal, equal_levels, equal_rewards, original_level, replay

_DRAWS_PER_STEP = 64


def check(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    generator = np.random.default_rng(episode.meta["seed"])
    if episode.previous is not None:
        earlier = _play(episode.previous, generator)[1]
        original.skip(generator, episode.meta["num_pairs"], int(earlier.states.num_drawn[-1]))
    level, played = _play(episode, generator)
    if episode.previous is None:
        sizes = {"num_pairs": episode.meta["num_pairs"], "num_draws": len(level.draws)}
        equal_levels(original_level("MemoryCards-v0", episode.meta["seed"], **sizes), level)
    equal(level.cards, episode["cards"], "cards")
    equal(played.observations, episode["obs"], "observation")
    equal_rewards(played.rewards, episode["reward"])
    equal(played.terminated, episode["done"], "end")
    equal(played.info["success"], episode["success"], "success")


def _play(episode: Episode, generator: np.random.Generator) -> tuple[Any, Played]:
    num_pairs, num_draws = episode.meta["num_pairs"], 1024
    while num_draws < _DRAWS_PER_STEP * len(episode["action"]):
        num_draws *= 4
    env, params = jaxgym.make("MemoryCards-v0", observation="symbolic", num_pairs=num_pairs, num_draws=num_draws)
    level = original.level(generator, num_pairs, num_draws)
    return level, replay(env, params, level, episode["action"])
