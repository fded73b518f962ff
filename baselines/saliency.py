"""Gradient saliency over time: how strongly action and value of a step depend on the observation of each earlier step.

The saliency of an observation is the sum of |gradient · input| over its inputs: the numbers of a vector, the pixels of
a frame as shares of 255, and the embeddings of symbols. The gradient flows through the memory as in training, but over
the whole episode. Without the factor, an empty observation would count as much as a cue, because a cue could be there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from baselines.encoders import BYTE_MAX, BlockConv, Impala, SymbolEmbedding
from baselines.losses import log_prob
from baselines.networks import Output
from baselines.ppo import Setup

Changes = dict[str, jax.Array]


class Recording(NamedTuple):
    """Steps of one episode, or of B episodes with a second axis.

    Attributes:
        observation: leaves (T, ...).
        start: whether the observation is the first of an episode, bool (T,).
        action: int32 (T, K).
    """

    observation: Any
    start: jax.Array
    action: jax.Array


class Saliency(NamedTuple):
    """Saliency of the observations of T steps for Q queried steps, float32 (Q, T); 0 for later steps."""

    value: jax.Array
    action: jax.Array


def saliency_of(setup: Setup, params: Any, episode: Recording, queries: jax.Array) -> Saliency:
    """Return the saliency of value and log-probability of the action at each queried step, int32 (Q,)."""
    length = episode.start.shape[0]
    observation = jax.tree.map(lambda leaf: leaf[:, None], episode.observation)

    def outputs(changes: Changes) -> tuple[tuple[jax.Array, jax.Array], Changes]:
        state = setup.network.memory.initial_state(1)
        seen, inputs = _moved(observation, changes)
        with nn.intercept_methods(_interceptor(changes, inputs)):
            applied: Any = setup.network.apply(params, state, seen, episode.start[:, None])
        output: Output = applied[1]
        chosen = log_prob(output.logits[:, 0], episode.action, setup.sizes).sum(axis=-1)
        return (output.value[:, 0].astype(jnp.float32), chosen), inputs

    shapes: dict[str, Any] = {}
    _leaves_of(observation, shapes)
    with nn.intercept_methods(_recorder(shapes)):
        jax.eval_shape(
            lambda: setup.network.apply(
                params, setup.network.memory.initial_state(1), observation, episode.start[:, None]
            )
        )
    zeros = {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
    _, pull, inputs = jax.vjp(outputs, zeros, has_aux=True)

    def at(query: jax.Array) -> Saliency:
        at_query = (jnp.arange(length) == query).astype(jnp.float32)
        nothing = jnp.zeros(length, jnp.float32)
        (value,), (action,) = pull((at_query, nothing)), pull((nothing, at_query))
        return Saliency(_sum(value, inputs, length), _sum(action, inputs, length))

    return lax.map(at, queries)


def shares(saliency: Any) -> Any:
    """Return saliency (..., T) divided by its sums; zeros stay zeros."""
    total = saliency.sum(axis=-1, keepdims=True)
    return saliency / (total + (total == 0))


def _sum(gradients: Changes, inputs: Changes, length: int) -> jax.Array:
    products = [jnp.abs(leaf * inputs[name]).reshape(length, -1).sum(axis=1) for name, leaf in gradients.items()]
    return sum(products, start=jnp.zeros(length, jnp.float32))


def _leaves_of(observation: Any, shapes: dict[str, Any]) -> None:
    for name, leaf in _named(observation).items():
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            shapes[f"input {name}"] = leaf.shape


def _named(observation: Any) -> dict[str, Any]:
    return observation if isinstance(observation, dict) else {"observation": observation}


def _moved(observation: Any, changes: Changes) -> tuple[Any, Changes]:
    """Return the observation with the changes of its vectors, and these vectors without the changes."""
    moved = {
        name: leaf + changes[f"input {name}"].astype(leaf.dtype) if f"input {name}" in changes else leaf
        for name, leaf in _named(observation).items()
    }
    inputs = {f"input {name}": leaf for name, leaf in _named(observation).items() if f"input {name}" in changes}
    return moved if isinstance(observation, dict) else moved["observation"], inputs


def _is_frame_layer(module: Any, inputs: Any) -> bool:
    return isinstance(module, BlockConv | Impala) and inputs.dtype == jnp.uint8


def _recorder(shapes: dict[str, Any]) -> Callable[..., Any]:
    """Return an interceptor that records the shapes of the changes of frames and symbols."""

    def record(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        made = call(*args, **kwargs)
        if context.method_name == "__call__" and context.module.name:
            if _is_frame_layer(context.module, args[0]):
                shapes[context.module.name] = args[0].shape
            elif isinstance(context.module, SymbolEmbedding):
                shapes[context.module.name] = made.shape
        return made

    return record


def _interceptor(changes: Changes, inputs: Changes) -> Callable[..., Any]:
    """Return an interceptor that adds changes to frames and embeddings of symbols, and stores both without them."""

    def change(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name != "__call__" or context.module.name not in changes:
            return call(*args, **kwargs)
        own = changes[context.module.name]
        if not _is_frame_layer(context.module, args[0]):
            made = call(*args, **kwargs)
            inputs[context.module.name] = made.astype(jnp.float32)
            return made + own.astype(made.dtype)
        inputs[context.module.name] = args[0].astype(jnp.float32) / BYTE_MAX
        image = inputs[context.module.name] + own
        # The residual encoder divides every image by 255, the other one only bytes.
        return call(image * BYTE_MAX if isinstance(context.module, Impala) else image, *args[1:], **kwargs)

    return change
