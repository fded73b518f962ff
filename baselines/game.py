"""Game of a run: the environment, its parameters with the training levels, and the held-out levels."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxgym  # it imports `levels` on first use, which starts a JAX backend, and a command first sets flags
from baselines.config import Config, parse_options
from baselines.encoders import Symbols, check_frames, symbols_of, without_symbols
from baselines.errors import ConfigError
from baselines.helm import LanguageMemory, with_language_memory
from jaxgym.errors import LevelError, OptionError, UnknownIdError, WrapperError
from jaxgym.pytrees import first_frame

PAPER_SEEDS = range(200_000, 200_050)
"""Seeds of memory-gym's levels on which its papers evaluate agents."""

_HOLD_OUT = "--held-out-levels"
_PAPER_PRESETS = ("iclr2023", "jmlr2025")


class TrainingGame(NamedTuple):
    """Environment and levels of a run."""

    env: Any
    params: Any  # with the level buffer of training levels, if there is one
    training_levels: Any  # first levels of the training split, leaves (N, ...); None if they are not evaluated
    held_out_levels: Any  # leaves (N, ...)
    description: str
    stages: Any = None  # parameters of each stage of the curriculum `grow`, leaves (K, ...); None without it


def check_success(flag: str, config: Config, env: Any, params: Any) -> None:
    """Check that episodes of an environment can succeed, which a flag needs.

    Raises:
        ConfigError: if `info` has no success, as in an endless game.
    """

    def first_info(key: jax.Array) -> dict[str, Any]:
        key_reset, key_step, key_action = jax.random.split(key, 3)
        _, state = env.reset(key_reset, params)
        return env.step(key_step, state, env.action_space(params).sample(key_action), params)[5]

    if "success" not in jax.eval_shape(first_info, jax.random.key(0)):
        raise ConfigError(
            f"{flag}: expected an environment with success in its info, got {config.env}. Leave {flag} out."
        )


def success_of(info: dict[str, jax.Array]) -> jax.Array:
    """Return the success of an episode, float32 (...); 0 in an endless game, which has no goal."""
    return info.get("success", jnp.zeros_like(info["episode_length"])).astype(jnp.float32)


def ground_truth_of(env: Any) -> Callable[[Any], jax.Array] | None:
    """Return the function from a state to the auxiliary target, float32 (n,); None without one."""
    tell = getattr(env, "ground_truth", None)
    if tell is not None or not hasattr(env, "inner_state"):
        return tell
    inner = ground_truth_of(env.env)
    return None if inner is None else lambda state: inner(env.inner_state(state))


def make_game(config: Config, flag: str = _HOLD_OUT) -> TrainingGame:
    """Make the environment and the levels of a config.

    Levels that equal a held-out level are removed from the training levels: a short game has few distinct levels, and
    two seeds can give the same one. `flag` sets the number of held-out levels, for the error message.

    Raises:
        ConfigError: if the id is unknown, an option is invalid, the networks have no encoder for the observation, or
            fewer than two distinct training levels are left (fewer than one if `train_levels` is 1).
    """
    with _config_errors():
        return _as_seen(config, _make_game(config, flag))


def make_paper_game(config: Config) -> TrainingGame:
    """Make the environment of a config, with the papers' levels in place of the held-out levels.

    Raises:
        ConfigError: if the id is unknown or not one of the papers, or an option is invalid.
    """
    with _config_errors():
        if not any(name.startswith(_PAPER_PRESETS) for name in jaxgym.presets(config.env)):
            raise ConfigError(
                f"--levels paper: expected a Memory Gym environment, got {config.env}, which is not in the papers. "
                "Pass a number of held-out levels instead, such as --levels 50."
            )
        buffer = jaxgym.levels.original(config.env, PAPER_SEEDS, **config.env_options)
        # With levels=, the environment has capacity for these levels, which need more than its own.
        env, params = jaxgym.make(config.env, levels=buffer, **config.env_options)
        game = TrainingGame(env, params, None, buffer, f"levels of the papers: {jaxgym.levels.num_levels(buffer)}")
        return _as_seen(config, game)


@contextlib.contextmanager
def _config_errors() -> Iterator[None]:
    try:
        yield
    except (UnknownIdError, OptionError, LevelError, WrapperError) as error:
        raise ConfigError(str(error)) from error


def _as_seen(config: Config, game: TrainingGame) -> TrainingGame:
    if config.last_action_reward:
        game = game._replace(env=jaxgym.wrappers.LastActionReward(game.env))
    if config.memory == "helm":
        env, params = with_language_memory(game.env, game.params, config)
        game = game._replace(env=env, params=params)
    return game


def _make_game(config: Config, flag: str) -> TrainingGame:
    env, params = jaxgym.make(config.env, **config.env_options)
    # Before levels are generated, which takes minutes in BabyAI.
    observation = jax.eval_shape(env.reset, jax.random.key(0), params)[0]
    check_frames(observation, config.encoder, symbols_of(env.observation_space(params)))
    plain, ranges, sampled = env, config.option_ranges, None
    held_out = jaxgym.levels.make_level_buffer(env, params, held_out_seeds(config))
    if ranges:
        sampled, params = jaxgym.wrappers.SampledOptions.of(env, dataclasses.replace(params, levels=None), **ranges)
        env, held_out = sampled, sampled.at_params(held_out, params)
    if not config.train_levels:
        training = jaxgym.levels.make_level_buffer(plain, params, jaxgym.levels.train_seeds(config.held_out_levels))
        training = sampled.at_params(training, params) if sampled else training
        params = dataclasses.replace(params, levels=None)
        description = f"training levels: fresh; held-out levels: {config.held_out_levels}"
        return TrainingGame(env, params, training, held_out, description, _stages(config, plain, params))
    buffer = jaxgym.levels.make_level_buffer(env, params, jaxgym.levels.train_seeds(config.train_levels))
    training = _not_held_out(config, buffer, held_out, flag)
    description = (
        f"training levels: {jaxgym.levels.num_levels(training)} of {config.train_levels} seeds, "
        f"{jaxgym.levels.num_distinct(training)} distinct, none of them held out; "
        f"held-out levels: {jaxgym.levels.num_levels(held_out)}, {jaxgym.levels.num_distinct(held_out)} distinct"
    )
    shown = min(config.held_out_levels, jaxgym.levels.num_levels(training))
    sample = jax.tree.map(lambda leaf: leaf[:shown], training)
    return TrainingGame(env, dataclasses.replace(params, levels=training), sample, held_out, description)


def _stages(config: Config, env: Any, params: Any) -> Any:
    """Return the parameters of each stage of the curriculum `grow`, leaves (K, ...); None without it.

    Raises:
        ConfigError: if the stages differ in number or change more than parameters, or episodes can't succeed.
    """
    if config.curriculum != "grow":
        return None
    check_success("--curriculum grow", config, env, params)
    values = parse_options(config.grown_options)
    lengths = {name: len(given) if isinstance(given, list) else 0 for name, given in values.items()}
    if not lengths or min(lengths.values()) < 2 or len(set(lengths.values())) > 1:  # noqa: PLR2004 — stages
        raise ConfigError(
            f"--grown-options: expected NAME=[FIRST,...,LAST] with at least 2 values, the same number for each option, "
            f"got {' '.join(config.grown_options) or 'none'}."
        )
    names = list(values)
    made = [
        jaxgym.make(config.env, levels="fresh", **{**config.env_options, **dict(zip(names, stage, strict=True))})
        for stage in zip(*values.values(), strict=True)
    ]
    if any(other != env for other, _ in made):
        raise ConfigError(
            f"--grown-options: expected options that are parameters, got {', '.join(names)}, which also changes the "
            "environment itself, such as the shape of its arrays. Set the capacity for the hardest stage in --options, "
            "such as max_commands=10."
        )
    return jaxgym.levels.stack_params(*(own for _, own in made))


def held_out_seeds(config: Config) -> Any:
    """Return the seeds of a config's held-out levels, uint32 (N,)."""
    return jaxgym.levels.held_out_seeds(config.held_out_levels)


def without_trained_levels(config: Config, game: TrainingGame, seeds: Any) -> tuple[TrainingGame, Any]:
    """Leave out the held-out levels that equal a training level of a run.

    A run excludes only the levels that it holds out itself, and a game with more of them is asked for here.

    Args:
        config: config of the run.
        game: the game of the run with other held-out levels.
        seeds: their seeds, (N,).

    Returns:
        The game with the remaining levels, and their seeds.
    """
    if not config.train_levels or len(seeds) <= config.held_out_levels:
        return game, seeds
    trained = make_game(config).params.levels
    kept = np.flatnonzero(~jaxgym.levels.contained(game.held_out_levels, trained))
    return game._replace(held_out_levels=jax.tree.map(lambda leaf: leaf[kept], game.held_out_levels)), seeds[kept]


def _not_held_out(config: Config, buffer: Any, held_out: Any, flag: str) -> Any:
    """Return the levels of a level buffer that are not held out."""
    existing = jaxgym.levels.num_distinct(jax.tree.map(lambda *leaves: np.concatenate(leaves), buffer, held_out))
    left = existing - jaxgym.levels.num_distinct(held_out)
    if left > 1 or (left == 1 and config.train_levels == 1):
        return jaxgym.levels.exclude(buffer, held_out)
    # This number is at most a half, so at least two distinct levels are left.
    fewer = [f"hold out {existing // 2} or fewer with {flag}"] if existing // 2 <= existing - 2 else []
    fresh = ["sample fresh training levels with --train-levels 0, which may include held-out ones"]
    advice = fewer + (fresh if flag == _HOLD_OUT else [])
    raise ConfigError(
        f"expected at least 2 different training levels, got {left}: {config.train_levels} training seeds and "
        f"{config.held_out_levels} held-out ones make {existing} different levels. "
        f"To fix this, {', or '.join(advice) or 'choose options that make more'}."
    )


def with_frames(env: Any) -> Any:
    """Return the environment with frames as observations if it has that option; the states stay the same."""
    if isinstance(env, jaxgym.wrappers.Wrapper | LanguageMemory):
        return dataclasses.replace(env, env=with_frames(env.env))
    options = jaxgym.spec_of(env.env_id).all_options if env.env_id in jaxgym.registered_envs() else {}
    is_drawn = "observation" in options and options["observation"].accepts("pixels")
    return dataclasses.replace(env, observation="pixels") if is_drawn else env


def observed_symbols(game: TrainingGame) -> Symbols:
    """Return the arrays of symbols in the observation."""
    return symbols_of(game.env.observation_space(game.params))


def frame_shape(game: TrainingGame) -> tuple[int, ...] | None:
    """Return height, width and channels of the frame in the observation; None without a frame."""
    observation, _ = jax.eval_shape(game.env.reset, jax.random.key(0), game.params)
    frame = first_frame(without_symbols(observation, observed_symbols(game)))
    return None if frame is None else frame.shape
