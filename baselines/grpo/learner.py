"""Learning from turns: group advantages, the clipped loss on a model's own tokens, and one gradient step.

Source: Shao et al., *DeepSeekMath* (GRPO), arXiv 2402.03300; its KL penalty is computed over the whole distribution and
not from a sample. As in Yu et al., *DAPO*, arXiv 2503.14476: a wider upper clip, and one mean over all tokens. As in
Feng et al., *GiGPO*, arXiv 2505.10978, turns of a group that answered the same text may be compared with each other;
here this replaces the comparison of episodes.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.grpo.model import Sizes, init
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD

_RISING_STEPS = 20
_SAME = 1e-6


class Reader(Protocol):
    """Constants of a model, hashable, that say how it reads replies."""

    def log_probabilities(self, params: Any, prompts: jax.Array, replies: jax.Array) -> jax.Array:
        """Return the log-probabilities of every next token of replies, float32 (N, reply, vocabulary)."""
        ...


class LearnerState(NamedTuple):
    """State of the learner, as saved in checkpoints.

    Attributes:
        params: Parameters of the model.
        optimizer: State of the optimizer.
        reference: Parameters at the end of the warm start.
    """

    params: Any
    optimizer: Any
    reference: Any


class TurnBatch(NamedTuple):
    """Turns to learn from.

    Attributes:
        prompts: int32 (N, prompt).
        replies: int32 (N, reply); the tokens after a reply's end are `PAD`, and the loss ignores them.
        log_probabilities: Log-probability of each token when it was sampled, float32 (N, reply).
        advantages: Advantage of each turn, float32 (N,).
    """

    prompts: Any
    replies: Any
    log_probabilities: Any
    advantages: Any


def group_advantages(returns: np.ndarray, group_size: int) -> np.ndarray:
    """Compute advantages of episodes relative to their group: consecutive `group_size` of the returns, float (E,).

    Returns:
        Returns minus the group's mean, divided by its standard deviation; 0 where all are equal; float32 (E,).
    """
    groups = returns.reshape(-1, group_size)
    spread = groups.std(axis=1, keepdims=True)
    distance = groups - groups.mean(axis=1, keepdims=True)
    return np.where(spread > _SAME, distance / np.maximum(spread, _SAME), 0.0).astype(np.float32).reshape(-1)


def text_advantages(followed: np.ndarray, group: np.ndarray, contexts: Sequence[str]) -> np.ndarray:
    """Compute advantages of turns relative to the turns of their group that answered the same text.

    Args:
        followed: Discounted return from each turn on, float (N,).
        group: Group of each turn, int (N,).
        contexts: Text that each turn answered.

    Returns:
        Return minus the mean over turns with the same text, divided by the root mean square of all such differences
        that are not 0; 0 where a text was answered once or always with the same return; float32 (N,).
    """
    numbers = dict[tuple[int, str], int]()
    pairs = zip(group.tolist(), contexts, strict=True)
    same = np.asarray([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.intp)
    distance = followed - (np.bincount(same, followed) / np.bincount(same))[same]
    tells = np.abs(distance) > _SAME
    # Normalized over the whole update: in a group with few differences, small ones would be scaled up.
    spread = np.sqrt(np.sum(np.square(distance)) / max(np.sum(tells), 1))
    return np.where(tells, distance / max(spread, _SAME), 0.0).astype(np.float32)


def policy_loss(
    token_log_probabilities: jax.Array, batch: TurnBatch, clip_low: float, clip_high: float
) -> tuple[jax.Array, jax.Array]:
    """Return the clipped loss, a mean over the written tokens, and the share of these tokens that is clipped.

    Args:
        token_log_probabilities: Log-probability of each written token under the current model, float32 (N, reply).
        batch: Turns.
        clip_low: Largest distance of a ratio below 1.
        clip_high: Largest distance of a ratio above 1.
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


def _optimizer(settings: Settings) -> optax.GradientTransformation:
    def rate(step: Any) -> Any:
        return settings.learning_rate * jnp.minimum(step.astype(jnp.float32) / _RISING_STEPS, 1.0)

    return optax.chain(optax.clip_by_global_norm(settings.max_grad_norm), optax.adam(rate, b2=0.99))


@functools.partial(jax.jit, static_argnums=(0, 1))
def initial_state(settings: Settings, sizes: Sizes, key: jax.Array) -> LearnerState:
    """Return the initial state."""
    return state_of(settings, init(sizes, key))


def state_of(settings: Settings, params: Any) -> LearnerState:
    """Return the initial state for given parameters."""
    return LearnerState(params, _optimizer(settings).init(params), jax.tree.map(jnp.copy, params))


def _step(settings: Settings, state: LearnerState, gradient: Any) -> LearnerState:
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of its integer count
        updates, optimizer = _optimizer(settings).update(gradient, state.optimizer, state.params)
    return LearnerState(optax.apply_updates(state.params, updates), optimizer, state.reference)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def imitate(
    settings: Settings, reader: Reader, state: LearnerState, prompts: jax.Array, replies: jax.Array
) -> tuple[LearnerState, jax.Array]:
    """Make one gradient step of imitation learning; return the state and the mean loss per token."""

    def loss_of(params: Any) -> jax.Array:
        own = (replies != PAD).astype(jnp.float32)
        log_probs = _of_tokens(reader.log_probabilities(params, prompts, replies), replies)
        return -jnp.sum(own * log_probs) / jnp.sum(own)

    loss, gradient = jax.value_and_grad(loss_of)(state.params)
    return _step(settings, state, gradient), loss


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def improve(
    settings: Settings, reader: Reader, state: LearnerState, batch: TurnBatch
) -> tuple[LearnerState, dict[str, jax.Array]]:
    """Make one GRPO step; return the state and metrics."""
    own = (batch.replies != PAD).astype(jnp.float32)
    count = jnp.maximum(jnp.sum(own), 1.0)
    reference = reader.log_probabilities(state.reference, batch.prompts, batch.replies)

    def loss_of(params: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        every = reader.log_probabilities(params, batch.prompts, batch.replies)
        log_probs = _of_tokens(every, batch.replies)
        loss, clipped = policy_loss(log_probs, batch, settings.clip_low, settings.clip_high)
        probability = jnp.exp(every)
        entropy = jnp.sum(own * -jnp.sum(probability * every, axis=-1)) / count
        distance = jnp.sum(own * jnp.sum(probability * (every - reference), axis=-1)) / count
        metrics = {"loss": loss, "entropy": entropy, "kl": distance, "clipped": clipped}
        return loss + settings.kl * distance, metrics

    gradient, metrics = jax.grad(loss_of, has_aux=True)(state.params)
    metrics["grad_norm"] = optax.tree.norm(gradient)
    return _step(settings, state, gradient), metrics
