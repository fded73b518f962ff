"""What is learned from: group advantages, the clipped loss on a model's own tokens, and one gradient step.

Source: Shao et al., *DeepSeekMath* (GRPO), arXiv 2402.03300, with its penalty for moving away from a reference model,
here the whole distance and not a sample of it. As in Yu et al., *DAPO*, arXiv 2503.14476: a wider upper clip, and one
mean over all tokens. As in Feng et al., *GiGPO*, arXiv 2505.10978, turns of a group that
answered the same text may be compared with each other; here that is all they are compared with.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.grpo.model import Sizes, init, log_probabilities
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD

_RISING_STEPS = 20
_SAME = 1e-6


class LearnerState(NamedTuple):
    """What a checkpoint holds.

    Attributes:
        params: Of the model.
        optimiser: Its state.
        reference: The parameters at the end of the warm start.
    """

    params: Any
    optimiser: Any
    reference: Any


class TurnBatch(NamedTuple):
    """Turns to learn from.

    Attributes:
        prompts: int32 (N, prompt).
        replies: int32 (N, reply); the tokens after a reply's end are `PAD`, and are not learned from.
        log_probabilities: Of each token when it was written, float32 (N, reply).
        advantages: How much better the turn's episode was than others of its level, float32 (N,).
    """

    prompts: Any
    replies: Any
    log_probabilities: Any
    advantages: Any


def group_advantages(returns: np.ndarray, group_size: int) -> np.ndarray:
    """Compare episodes with the others of their group.

    Args:
        returns: float (E,); each `group_size` in a row are episodes of one level.
        group_size: Episodes of a group.

    Returns:
        Distance from the group's mean in its standard deviations, 0 where all are equal, float32 (E,).
    """
    groups = returns.reshape(-1, group_size)
    spread = groups.std(axis=1, keepdims=True)
    distance = groups - groups.mean(axis=1, keepdims=True)
    return np.where(spread > _SAME, distance / np.maximum(spread, _SAME), 0.0).astype(np.float32).reshape(-1)


def text_advantages(followed: np.ndarray, group: np.ndarray, contexts: Sequence[str]) -> np.ndarray:
    """Compare turns with others of their group that answered the same text.

    Args:
        followed: What came of each turn, float (N,).
        group: The group of each turn, int (N,).
        contexts: What each turn answered.

    Returns:
        Distance from the mean of the turns of the same text, in root mean squares of those of these distances that are
        not 0; 0 where a text was answered once or always with the same outcome; float32 (N,).
    """
    numbers = dict[tuple[int, str], int]()
    pairs = zip(group.tolist(), contexts, strict=True)
    same = np.asarray([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.intp)
    distance = followed - (np.bincount(same, followed) / np.bincount(same))[same]
    tells = np.abs(distance) > _SAME
    # Of the whole update, not of a group: where hardly anything happens, the little that does is not blown up.
    spread = np.sqrt(np.sum(np.square(distance)) / max(np.sum(tells), 1))
    return np.where(tells, distance / max(spread, _SAME), 0.0).astype(np.float32)


def policy_loss(
    token_log_probabilities: jax.Array, batch: TurnBatch, clip_low: float, clip_high: float
) -> tuple[jax.Array, jax.Array]:
    """Return the clipped loss, a mean over the tokens written, and the share of them that is clipped.

    Args:
        token_log_probabilities: Of the tokens written, by the model as it is, float32 (N, reply).
        batch: The turns.
        clip_low: How far a ratio may fall below 1.
        clip_high: How far it may rise above 1.
    """
    own = (batch.replies != PAD).astype(jnp.float32)
    count = jnp.maximum(jnp.sum(own), 1.0)
    ratio = jnp.exp(own * (token_log_probabilities - batch.log_probabilities))
    clipped = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    advantage = batch.advantages[:, None]
    gain = jnp.minimum(ratio * advantage, clipped * advantage)
    is_clipped = (ratio * advantage > gain).astype(jnp.float32)
    return -jnp.sum(own * gain) / count, jnp.sum(own * is_clipped) / count


def _of_tokens(values: jax.Array, tokens: jax.Array) -> jax.Array:
    return jnp.take_along_axis(values, tokens[..., None], axis=-1)[..., 0]


def _optimiser(settings: Settings) -> optax.GradientTransformation:
    def rate(step: Any) -> Any:
        return settings.learning_rate * jnp.minimum(step.astype(jnp.float32) / _RISING_STEPS, 1.0)

    return optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate, b2=0.99))


@functools.partial(jax.jit, static_argnums=(0, 1))
def initial_state(settings: Settings, sizes: Sizes, key: jax.Array) -> LearnerState:
    """Return the state before learning."""
    params = init(sizes, key)
    return LearnerState(params, _optimiser(settings).init(params), jax.tree.map(jnp.copy, params))


def _step(settings: Settings, state: LearnerState, gradient: Any) -> LearnerState:
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of its integer count
        updates, optimiser = _optimiser(settings).update(gradient, state.optimiser, state.params)
    return LearnerState(optax.apply_updates(state.params, updates), optimiser, state.reference)


def refer(state: LearnerState) -> LearnerState:
    """Return the state with its own parameters as the reference."""
    return state._replace(reference=jax.tree.map(jnp.copy, state.params))


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def imitate(
    settings: Settings, sizes: Sizes, state: LearnerState, prompts: jax.Array, replies: jax.Array
) -> tuple[LearnerState, jax.Array]:
    """One step towards writing given replies; returns the state and the mean loss of a token of theirs."""

    def loss_of(params: Any) -> jax.Array:
        own = (replies != PAD).astype(jnp.float32)
        told = _of_tokens(log_probabilities(sizes, params, prompts, replies), replies)
        return -jnp.sum(own * told) / jnp.sum(own)

    loss, gradient = jax.value_and_grad(loss_of)(state.params)
    return _step(settings, state, gradient), loss


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def improve(
    settings: Settings, sizes: Sizes, state: LearnerState, batch: TurnBatch
) -> tuple[LearnerState, dict[str, jax.Array]]:
    """One GRPO step; returns the state and metrics."""
    own = (batch.replies != PAD).astype(jnp.float32)
    count = jnp.maximum(jnp.sum(own), 1.0)
    reference = log_probabilities(sizes, state.reference, batch.prompts, batch.replies)

    def loss_of(params: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        every = log_probabilities(sizes, params, batch.prompts, batch.replies)
        told = _of_tokens(every, batch.replies)
        loss, clipped = policy_loss(told, batch, settings.clip_low, settings.clip_high)
        probability = jnp.exp(every)
        entropy = jnp.sum(own * -jnp.sum(probability * every, axis=-1)) / count
        distance = jnp.sum(own * jnp.sum(probability * (every - reference), axis=-1)) / count
        metrics = {"loss": loss, "entropy": entropy, "kl": distance, "clipped": clipped}
        return loss + settings.kl * distance, metrics

    gradient, metrics = jax.grad(loss_of, has_aux=True)(state.params)
    metrics["grad_norm"] = optax.tree.norm(gradient)
    return _step(settings, state, gradient), metrics
