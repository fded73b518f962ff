"""The game of a run: an environment, its parameters with the training levels inside, and the held-out levels."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from baselines.config import Config

# Entries of `info` between 0 and 1, best first. `commands_completed` is the return divided by the largest return, since
# each command of Mortar Mayhem pays the same.
SCORES = ("commands_completed", "success")


class Game(NamedTuple):
    """What a run is trained and scored on."""

    env: Any
    params: Any  # with the bank of training levels, if there is one
    training_levels: Any  # the first levels of the training split, leaves (N, ...)
    held_out_levels: Any  # leaves (N, ...)
    description: str


def score_of(info: dict[str, jax.Array]) -> jax.Array:
    """How much of an episode was achieved, 0 to 1: the first entry of `SCORES` that the environment reports."""
    return info[next(name for name in SCORES if name in info)]


def make_game(config: Config) -> Game:
    """The environment and the levels that a config names.

    Held-out levels are left out of the training levels by content: a short game has few distinct levels, and two seeds
    can give the same one.

    Raises:
        ConfigError: when an option is not of the form NAME=VALUE.
        jaxgym.errors.UnknownIdError: when the id is unknown.
        jaxgym.errors.OptionError: when the environment refuses an option.
    """
    import jaxgym  # starts a JAX backend, which has to come after the command line has set its flags
    from jaxgym import levels

    env, params = jaxgym.make(config.env, **config.env_options)
    held_out = levels.make_bank(env, params, levels.held_out_seeds(config.held_out_levels))
    if not config.train_levels:
        training = levels.make_bank(env, params, levels.train_seeds(config.held_out_levels))
        params = dataclasses.replace(params, levels=None)
        return Game(
            env, params, training, held_out, f"training levels: fresh; held-out levels: {config.held_out_levels}"
        )
    bank = levels.make_bank(env, params, levels.train_seeds(config.train_levels))
    training = levels.exclude(bank, held_out)
    description = (
        f"training levels: {levels.num_levels(training)} of {config.train_levels} seeds, "
        f"{levels.num_distinct(training)} distinct, none of them held out; "
        f"held-out levels: {levels.num_levels(held_out)}, {levels.num_distinct(held_out)} distinct"
    )
    shown = min(config.held_out_levels, levels.num_levels(training))
    sample = jax.tree.map(lambda leaf: leaf[:shown], training)
    return Game(env, dataclasses.replace(params, levels=training), sample, held_out, description)


def make_frame_game(config: Config, game: Game) -> Game | None:
    """The game as it looks to a person: itself when the agent sees frames, else the same one drawn; None without frames."""
    if _has_frames(game):
        return game
    options = {name: value for name, value in config.env_options.items() if name != "observation"}
    if len(options) == len(config.env_options):
        return None
    import jaxgym

    env, params = jaxgym.make(config.env, **options)
    frame_game = game._replace(env=env, params=dataclasses.replace(params, levels=game.params.levels))
    return frame_game if _has_frames(frame_game) else None


def _has_frames(game: Game) -> bool:
    observation, _ = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    return any(leaf.dtype == jnp.uint8 for leaf in jax.tree.leaves(observation))
