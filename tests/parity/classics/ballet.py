"""Replay of Ballet."""

import jax
import numpy as np

import jaxgym
from jaxgym.envs.ballet import original
from jaxgym.envs.ballet.game import Ballet, Params
from tests.parity.classics.recordings import Episode, equal, equal_levels, original_level, replay

_UNUSED = -1


def check(episode: Episode) -> None:
    """Compare the level, the frames, the instructions and the steps of an episode."""
    meta, count = episode.meta, episode.meta["dancers"]
    env, params = jaxgym.make(
        "Ballet-v0", num_dancers=count, light=meta["light"], delay=meta["delay"], max_steps=meta["max_steps"]
    )
    assert isinstance(env, Ballet)
    generator = np.random.default_rng(meta["seed"])
    for _ in range(meta["episode"]):
        original.level(generator, env)
    level = original.level(generator, env)
    if not meta["episode"]:
        equal_levels(original_level("Ballet-v0", meta["seed"], num_dancers=count), level)
    is_target = np.arange(count) == level.target
    columns = (*level.squares.T, level.dances, level.shapes, level.colors, is_target)
    equal(count, episode["n"], "number of dancers")
    equal(np.stack(columns, axis=1), episode["dancers"][:count], "dancers")
    equal(episode["dancers"][count:], _UNUSED, "unused dancers")
    played = replay(env, params, level, episode["action"])
    tiles = episode["tiles"][episode["cells"]]
    frames = tiles.transpose(0, 1, 3, 2, 4, 5).reshape(len(tiles), 99, 99, 3)
    equal(played.observations["image"], frames, "frame")
    equal(played.observations["instruction"], episode["instr"], "instruction")
    equal(played.states.position, episode["agent"], "agent")
    assert isinstance(params, Params)
    places = jax.vmap(env.dancers, (0, None))(played.states, params)
    equal(places, episode["dancer_pos"][:, :count], "places of dancers")
    equal(played.rewards, episode["reward"], "reward")
    equal(played.terminated | played.truncated, episode["last"], "end")
    # MIKASA-Base has no discount, and marks every end as a termination.
    equal(np.nan if meta["source"] == "mikasa" else ~played.terminated, episode["discount"], "discount")
