"""The game of a run: an environment, its parameters with the training levels inside, and the held-out levels."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from baselines.config import Config
from baselines.errors import ConfigError

PAPER_SEEDS = range(200_000, 200_050)
"""The seeds of memory-gym on which its papers score agents."""

_HOLD_OUT = "--held-out-levels"


class TrainingGame(NamedTuple):
    """What a run is trained and scored on."""

    env: Any
    params: Any  # with the bank of training levels, if there is one
    training_levels: Any  # the first levels of the training split, leaves (N, ...); None if they are not to be scored
    held_out_levels: Any  # leaves (N, ...)
    description: str


def success_of(info: dict[str, jax.Array]) -> jax.Array:
    """Whether an episode reached its goal, float32 (...); 0 in an endless game, which has none."""
    return info.get("success", jnp.zeros_like(info["length"])).astype(jnp.float32)


def ground_truth_of(env: Any) -> Callable[[Any], jax.Array] | None:
    """A function from a state to the hidden truth that an agent may learn to tell, float32 (n,); None without one."""
    tell = getattr(env, "ground_truth", None)
    if tell is not None or not hasattr(env, "inner_state"):
        return tell
    inner = ground_truth_of(env.env)
    return None if inner is None else lambda state: inner(env.inner_state(state))


def make_game(config: Config, flag: str = _HOLD_OUT) -> TrainingGame:
    """The environment and the levels that a config names.

    Held-out levels are left out of the training levels by content: a short game has few distinct levels, and two seeds
    can give the same one.

    Args:
        config: of the run.
        flag: of the command line that set the number of held-out levels, for the error.

    Raises:
        ConfigError: when the id is unknown, the environment refuses an option, or fewer than two different training
            levels are left; one alone is trained on where `train_levels` is 1.
    """
    with _config_errors():
        return _as_seen(config, _make_game(config, flag))


def make_paper_game(config: Config) -> TrainingGame:
    """The environment of a config, with the levels on which the papers score agents in place of the held-out ones.

    Raises:
        ConfigError: when the id is unknown or has no original, or the environment refuses an option.
    """
    with _config_errors():
        import jaxgym
        from jaxgym import levels

        bank = levels.original(config.env, PAPER_SEEDS, **config.env_options)
        # The environment has room for what these levels list, which is more than its own do.
        env, params = jaxgym.make(config.env, levels=bank, **config.env_options)
        game = TrainingGame(env, params, None, bank, f"levels of the papers: {levels.num_levels(bank)}")
        return _as_seen(config, game)


@contextlib.contextmanager
def _config_errors() -> Iterator[None]:
    from jaxgym import errors  # starts a JAX backend, which has to come after the command line has set its flags

    try:
        yield
    except (errors.UnknownIdError, errors.OptionError, errors.LevelError) as error:
        raise ConfigError(str(error)) from error


def _as_seen(config: Config, game: TrainingGame) -> TrainingGame:
    if not config.last_action_reward:
        return game
    from jaxgym.wrappers import LastActionReward

    return game._replace(env=LastActionReward(game.env))


def _make_game(config: Config, flag: str) -> TrainingGame:
    import jaxgym
    from jaxgym import levels

    env, params = jaxgym.make(config.env, **config.env_options)
    held_out = levels.make_bank(env, params, held_out_seeds(config))
    if not config.train_levels:
        training = levels.make_bank(env, params, levels.train_seeds(config.held_out_levels))
        params = dataclasses.replace(params, levels=None)
        return TrainingGame(
            env, params, training, held_out, f"training levels: fresh; held-out levels: {config.held_out_levels}"
        )
    bank = levels.make_bank(env, params, levels.train_seeds(config.train_levels))
    training = _not_held_out(config, bank, held_out, flag)
    description = (
        f"training levels: {levels.num_levels(training)} of {config.train_levels} seeds, "
        f"{levels.num_distinct(training)} distinct, none of them held out; "
        f"held-out levels: {levels.num_levels(held_out)}, {levels.num_distinct(held_out)} distinct"
    )
    shown = min(config.held_out_levels, levels.num_levels(training))
    sample = jax.tree.map(lambda leaf: leaf[:shown], training)
    return TrainingGame(env, dataclasses.replace(params, levels=training), sample, held_out, description)


def held_out_seeds(config: Config) -> Any:
    """Return the level seeds of a config's held-out levels, uint32 (N,)."""
    from jaxgym import levels

    return levels.held_out_seeds(config.held_out_levels)


def _not_held_out(config: Config, bank: Any, held_out: Any, flag: str) -> Any:
    """Return the levels of a bank that are not held out."""
    from jaxgym import levels

    existing = levels.num_distinct(jax.tree.map(lambda *leaves: np.concatenate(leaves), bank, held_out))
    left = existing - levels.num_distinct(held_out)
    if left > 1 or (left == 1 and config.train_levels == 1):
        return levels.exclude(bank, held_out)
    # So few are never more than a half, so at least two different levels are left.
    fewer = [f"hold out {existing // 2} or fewer with {flag}"] if existing // 2 <= existing - 2 else []
    fresh = ["sample fresh training levels with --train-levels 0, held-out ones among them"]
    advice = fewer + (fresh if flag == _HOLD_OUT else [])
    raise ConfigError(
        f"expected at least 2 different training levels, got {left}: the options make {existing} different levels of "
        f"{config.train_levels} training seeds and {config.held_out_levels} held-out ones; "
        f"{', or '.join(advice) or 'choose options that make more'}"
    )


def make_frame_game(config: Config, game: TrainingGame) -> TrainingGame | None:
    """The game as a person sees it: itself when it has frames, else the same one drawn; None without frames."""
    if _has_frames(game):
        return game
    # Only the caller can draw a game of the caller's own.
    if getattr(game.env, "env_id", None) != config.env.rpartition(":")[2]:
        return None
    import jaxgym

    observed = jaxgym.spec_of(config.env).all_options.get("observation")
    if observed is None or not observed.accepts("pixels"):
        return None
    env, params = jaxgym.make(config.env, **{**config.env_options, "observation": "pixels"})
    frame_game = game._replace(env=env, params=dataclasses.replace(params, levels=game.params.levels))
    return frame_game if _has_frames(frame_game) else None


def _has_frames(game: TrainingGame) -> bool:
    observation, _ = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    return any(is_frame(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(observation))


def is_frame(shape: tuple[int, ...], dtype: Any) -> bool:
    """Return whether an array of an observation is a frame, uint8 (H, W, C)."""
    return dtype == jnp.uint8 and len(shape) == len("HWC")


def frame_shape(game: TrainingGame) -> tuple[int, ...] | None:
    """Height, width and channels of the frame that the agent sees; None where it sees no frame."""
    observation, _ = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    return next((leaf.shape for leaf in jax.tree.leaves(observation) if leaf.dtype == jnp.uint8), None)
