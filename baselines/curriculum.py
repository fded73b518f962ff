"""Curricula: how often each training level is drawn, and how difficult it is, inside the jitted program.

The state of a curriculum is part of the train state, so that checkpoints contain it, and each seed of a run has its
own.

- `plr`: Prioritized Level Replay (Jiang et al., 2021, arXiv 2010.03934). The score of a level is the mean absolute
  advantage over its steps in the newest rollout that contains it. Levels are replayed by the rank of their scores, and
  by how long ago they were played. In the paper, a probability is proportional to rank^-10; here it is rank^-1, because
  hundreds of environments draw with the same weights.
- `sfl`: Sampling for Learnability (Rutherford et al., 2024, arXiv 2408.15099). `baselines.learnability` plays some
  levels and chooses those that the agent solves in about half of the episodes.
- `grow`: each environment starts with the first values of some options, and goes on to the next ones when it succeeds
  in 80 % of its episodes.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

import jaxgym  # it imports `levels` on first use, which starts a JAX backend
from baselines.errors import ConfigError

CurriculumName = Literal["none", "plr", "sfl", "grow"]

SHARE = 0.5
"""Share of the draws that the chosen levels get; the others are drawn from unseen levels (plr) or all levels (sfl)."""
_STALE_SHARE = 0.1
"""Share of replayed levels that are drawn by the time since they were played, as in the paper."""
_WINDOW, _GOOD = 8, 0.8
"""An environment goes to the next stage if at least this share of at least so many episodes succeeded."""


class LevelScores(NamedTuple):
    """State of a curriculum for N training levels.

    Attributes:
        weights: Relative probability of each level in draws, float32 (N,).
        score: Newest score of each level, float32 (N,); 0 if it was never played.
        update: Number of the newest update whose rollout contains the level, int32 (N,); -1 if there is none.
    """

    weights: jax.Array
    score: jax.Array
    update: jax.Array


class Growth(NamedTuple):
    """State of the curriculum `grow`, leaves (B,) for B environments.

    Attributes:
        stage: Current stage of each environment, from 0, int32.
        episodes: Number of episodes since the last decision, int32.
        successes: Number of these episodes that succeeded, float32.
    """

    stage: jax.Array
    episodes: jax.Array
    successes: jax.Array


CurriculumState = LevelScores | Growth | tuple[()]


def check_curriculum(config: Any) -> None:
    """Check the settings of a run with a curriculum.

    Raises:
        ConfigError: if the settings do not go together.
    """
    if config.grown_options and config.curriculum != "grow":
        raise ConfigError(
            f"--grown-options: expected --curriculum grow, got {config.curriculum}. Set it, or leave the options out."
        )
    if config.curriculum == "none":
        return
    flag = f"--curriculum {config.curriculum}"
    if config.memory == "helm":
        raise ConfigError(f"{flag}: expected another memory than helm. Choose another --memory or --curriculum none.")
    if config.curriculum != "plr" and config.devices > 1:
        raise ConfigError(f"{flag}: expected one device, got {config.devices}. Use --devices 1 or --curriculum plr.")
    if config.curriculum == "grow":
        if config.train_levels:
            raise ConfigError(
                f"{flag}: expected --train-levels 0, which samples a fresh level for each episode, got "
                f"{config.train_levels}: a level buffer has one difficulty. Use --train-levels 0."
            )
        return
    if config.train_levels < 2:  # noqa: PLR2004 — one level leaves no choice
        raise ConfigError(
            f"{flag}: expected at least 2 training levels, got --train-levels {config.train_levels}. Use "
            "--train-levels 10000."
        )


def initial(config: Any, env_params: Any) -> CurriculumState:
    """Return the state of a run's curriculum before the first update; () without a curriculum."""
    match config.curriculum:
        case "none":
            return ()
        case "grow":
            zeros = jnp.zeros(config.num_envs, jnp.int32)
            return Growth(zeros, zeros, zeros.astype(jnp.float32))
        case _:
            return initial_scores(jaxgym.levels.num_levels(env_params.levels))


def applied(env_params: Any, state: CurriculumState, stages: Any) -> Any:
    """Return the environment parameters for a rollout: with weights of levels, or with those of each stage, (B, ...).

    Args:
        env_params: Parameters of the run.
        state: State of the curriculum.
        stages: Parameters of each stage, leaves (K, ...); None for other curricula.
    """
    if isinstance(state, Growth):
        stage = state.stage

        def own(axis: int | None, leaf: Any) -> Any:
            return leaf if axis is None else jnp.asarray(leaf)[stage]

        return jax.tree.map(own, jaxgym.levels.params_axes(stages), stages, is_leaf=lambda axis: axis is None)
    return dataclasses.replace(env_params, level_weights=state.weights) if state else env_params


def measured(state: CurriculumState) -> dict[str, jax.Array]:
    """Return the metrics of a curriculum, float32 ()."""
    if isinstance(state, Growth):
        return {"stage": state.stage.astype(jnp.float32).mean()}
    return {"effective_levels": effective_levels(state.weights)} if state else {}


def counted(state: CurriculumState, ended: jax.Array, success: jax.Array) -> CurriculumState:
    """Return the state after a step: `grow` counts the episodes that ended, bool (B,), and their success, (B,)."""
    if not isinstance(state, Growth):
        return state
    return state._replace(
        episodes=state.episodes + ended.astype(jnp.int32),
        successes=state.successes + jnp.where(ended, success, 0.0),
    )


def grown(growth: Growth, stages: Any) -> Growth:
    """Return the state of `grow` after an update: environments that succeed often go to the next stage."""
    last = jax.tree.leaves(stages)[0].shape[0] - 1
    is_decided = growth.episodes >= _WINDOW
    is_good = growth.successes >= _GOOD * growth.episodes.astype(jnp.float32)
    stage = jnp.minimum(growth.stage + (is_decided & is_good).astype(jnp.int32), last)
    episodes, successes = (jnp.where(is_decided, jnp.zeros_like(leaf), leaf) for leaf in growth[1:])
    return Growth(stage, episodes, successes)


def initial_scores(count: int) -> LevelScores:
    """Return the state before the first update: all levels have the same weight."""
    return LevelScores(jnp.ones(count, jnp.float32), jnp.zeros(count, jnp.float32), jnp.full(count, -1, jnp.int32))


def after_rollout(
    state: CurriculumState, stages: Any, level: Any, advantage: jax.Array, update: jax.Array, axis: str | None
) -> CurriculumState:
    """Return the state of a curriculum after a rollout; see `grown` and `replayed`, whose `level` is () in others."""
    if isinstance(state, Growth):
        return grown(state, stages)
    if isinstance(state, LevelScores) and isinstance(level, jax.Array):
        return replayed(state, level, advantage, update, axis)
    return state


def replayed(
    scores: LevelScores, level: jax.Array, advantage: jax.Array, update: jax.Array, axis: str | None = None
) -> LevelScores:
    """Return the state of `plr` after a rollout.

    Args:
        scores: State before.
        level: Index of each step's level, int32 (T, B); negative if it is not from the level buffer.
        advantage: Advantage of each step, float32 (T, B).
        update: Number of the update, int32 ().
        axis: Axis of devices, each of which has some of the environments; None for one device.
    """
    count = scores.weights.shape[0]
    index = jnp.where(level < 0, count, level)
    sums, steps = (
        jnp.zeros(count, jnp.float32).at[index].add(values, mode="drop")
        for values in (jnp.abs(advantage), jnp.ones_like(advantage))
    )
    if axis is not None:
        sums, steps = lax.psum((sums, steps), axis)
    is_new = steps > 0
    score = jnp.where(is_new, sums / jnp.maximum(steps, 1), scores.score)
    newest = jnp.where(is_new, update, scores.update)
    return LevelScores(replay_weights(score, newest, update), score, newest)


def replay_weights(score: jax.Array, newest: jax.Array, update: jax.Array) -> jax.Array:
    """Return the probability of each level in `plr`, float32 (N,), which sum to 1.

    Args:
        score: Score of each level, float32 (N,).
        newest: Update in which each level was played last, int32 (N,); -1 if it never was.
        update: Number of the newest update, int32 ().
    """
    is_seen = newest >= 0
    order = jnp.argsort(jnp.where(is_seen, -score, jnp.inf))
    place = jnp.arange(1, len(score) + 1, dtype=jnp.float32)
    by_rank = jnp.zeros_like(score).at[order].set(1 / place)
    by_age = (update - newest).astype(jnp.float32)
    replay = (1 - _STALE_SHARE) * _shares(by_rank, is_seen) + _STALE_SHARE * _shares(by_age, is_seen)
    replay = _shares(replay, is_seen)
    share = jnp.where(is_seen.all(), 1.0, jnp.where(is_seen.any(), SHARE, 0.0))
    return share * replay + (1 - share) * _shares(jnp.ones_like(score), ~is_seen)


def _shares(values: jax.Array, is_kept: jax.Array) -> jax.Array:
    """Return the values of some entries, divided by their sum; 0 for the others, or for all if the sum is 0."""
    kept = jnp.where(is_kept, values, 0.0)
    total = kept.sum()
    return jnp.where(total > 0, kept / jnp.maximum(total, jnp.finfo(jnp.float32).tiny), 0.0)


def learnable_weights(count: int, candidates: jax.Array, success: jax.Array, kept: int) -> jax.Array:
    """Return the probability of each level in `sfl`, float32 (N,), which sum to 1.

    Args:
        count: Number of levels, N.
        candidates: Index of each level that was played, int32 (M,), all different.
        success: Share of the episodes of each candidate that succeeded, float32 (M,).
        kept: Number of candidates to choose: those with the largest p (1 - p), where p is the share.
    """
    learnability = success * (1 - success)
    _, best = lax.top_k(learnability, kept)
    share = jnp.where(learnability[best] > 0, SHARE / kept, 0.0)  # of each chosen level
    uniform = jnp.full(count, (1 - share.sum()) / count, jnp.float32)
    return uniform.at[candidates[best]].add(share)


def effective_levels(weights: jax.Array) -> jax.Array:
    """Return the number of equally likely levels with the same entropy as the draws, float32 ()."""
    share = weights / weights.sum()
    return jnp.exp(-jnp.sum(jax.scipy.special.xlogy(share, share)))
