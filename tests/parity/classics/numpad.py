"""Replay of Numpads."""

import dataclasses
from typing import Any

import jax
import numpy as np

import jaxgym
from jaxgym import Transition
from jaxgym.envs.numpad import original
from jaxgym.envs.numpad.continuous import RollingNumpad
from tests.parity.classics.recordings import Episode, equal, equal_levels, original_level, replay

_SHARED = ("numpad_size", "seq_len")
_SIZES = ("tile_size", "spacing_size", "ball_size")


def check_discrete(episode: Episode) -> None:
    """Compare the level and the steps of an episode."""
    meta = episode.meta
    options = {name: meta[name] for name in _SHARED}
    level = original.levels(meta["seed"], meta["numpad_size"], meta["seq_len"], meta["episode"] + 1)
    level = jax.tree.map(lambda leaf: leaf[-1], level)
    if not meta["episode"]:
        equal_levels(original_level("Numpad-v0", meta["seed"], **options), level)
    equal(level.sequence, episode["seq"], "sequence")
    env, params = jaxgym.make("Numpad-v0", observation="symbolic", max_steps=meta["t_max"], **options)
    played = replay(env, params, level, episode["action"])
    equal(played.observations, episode["obs"].reshape(len(played.observations), -1), "observation")
    _check_results(episode, played)


@dataclasses.dataclass(unsafe_hash=True)
class BoxNumpad(RollingNumpad):
    """Numpad whose action is the acceleration, as in `Numpad2DContinuous`."""

    def transition(self, state: Any, action: jax.Array, params: Any) -> Transition:
        """Accelerate the ball by the action."""
        del params
        return self.roll(state, action)


def check_continuous(episode: Episode) -> None:
    """Compare the level and the steps of an episode, with symbols or frames."""
    meta = episode.meta
    options = {name: meta[name] for name in (*_SHARED, *_SIZES) if name in meta}
    is_frame = "rgb" in episode.arrays
    made, params = jaxgym.make(
        "NumpadContinuous-v0",
        observation="pixels" if is_frame else "symbolic",
        max_steps=meta["t_max"],
        **options,
    )
    assert isinstance(made, RollingNumpad)
    generator = np.random.RandomState(meta["seed"])
    threshold = meta.get("task_cue_threshold", 0.8) if meta.get("task_cues") else 1.0
    for _ in range(meta["episode"]):
        original.rolling_level(generator, made.board, made.seq_len, threshold)
    level = original.rolling_level(generator, made.board, made.seq_len, threshold)
    if not meta["episode"]:
        drawn = original_level("NumpadContinuous-v0", meta["seed"], task_cue_threshold=threshold, **options)
        equal_levels(drawn, level)
    equal(level.sequence, episode["seq"], "sequence")
    env = BoxNumpad(**vars(made)) if episode["action"].ndim > 1 else made
    played = replay(env, params, level, episode["action"])
    if is_frame:
        equal(played.observations.transpose(0, 3, 1, 2), episode["rgb"], "frame")
    else:
        equal(played.observations, episode["obs"], "observation")
    states = played.states
    equal(np.concatenate([states.position, states.velocity], axis=1), episode["ball"], "ball")
    equal(states.progress.lights, episode["lights"], "lights")
    _check_results(episode, played)


def _check_results(episode: Episode, played: Any) -> None:
    equal(played.rewards, episode["reward"], "reward")
    equal(played.truncated, episode["done"], "end")
    progress = played.states.progress
    equal(np.stack([progress.count, progress.best], axis=1)[1:], episode["count"], "count")
