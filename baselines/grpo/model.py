"""Causal transformer over tokens with two equivalent forms: all positions at once, and token by token with a cache.

Prompts are padded on the left, so replies always start at the same slot and learned positions give the distance to it.
The last layer is computed only where a next token is needed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from baselines.grpo.tokens import END, PAD

_FAR = -1e9  # attention score of masked slots
_WIDER = 2  # units of the dense layer per unit of the residual stream


class Sizes(NamedTuple):
    """Sizes that determine the shapes of a model and of its texts."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    prompt: int  # slots of a prompt
    reply: int  # most tokens of a reply, including its end

    def log_probabilities(self, params: Any, prompts: jax.Array, replies: jax.Array) -> jax.Array:
        """Return the log-probabilities of every next token of replies; see the function of this name."""
        return log_probabilities(self, params, prompts, replies)


class Cache(NamedTuple):
    """Keys and values for later tokens; lists have one entry per layer."""

    keys: list[jax.Array]  # float32 (B, slots, heads, width / heads)
    values: list[jax.Array]
    is_token: jax.Array  # bool (B, slots)


class DecoderBlock(nn.Module):
    """Attention and two dense layers, each with a residual connection."""

    sizes: Sizes

    @nn.compact
    def __call__(
        self, x: jax.Array, past: tuple[jax.Array, jax.Array] | None, is_seen: jax.Array, start: jax.Array, last: int
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        """Return the outputs of the last tokens, and keys and values of all slots.

        Args:
            x: Inputs of T tokens, float32 (B, T, width).
            past: Keys and values of all slots, to which those of the T tokens are added; None if there are no others.
            is_seen: Whether each of the last tokens attends to each slot, bool (B, last, slots).
            start: Slot of the first of the T tokens, int32 ().
            last: Number of tokens, from the end, that need an output.
        """
        width, heads = self.sizes.width, self.sizes.heads
        inner = nn.RMSNorm(name="norm_attention")(x)
        shape = (*x.shape[:2], heads, width // heads)
        key = nn.Dense(width, use_bias=False, name="key")(inner).reshape(shape)
        value = nn.Dense(width, use_bias=False, name="value")(inner).reshape(shape)
        query = nn.Dense(width, use_bias=False, name="query")(inner[:, -last:])
        query = query.reshape(len(x), last, heads, width // heads)
        if past is not None:
            key = lax.dynamic_update_slice_in_dim(past[0], key, start, axis=1)
            value = lax.dynamic_update_slice_in_dim(past[1], value, start, axis=1)
        score = jnp.einsum("bqhd,bkhd->bhqk", query, key) / (width // heads) ** 0.5
        weight = nn.softmax(jnp.where(is_seen[:, None], score, _FAR))
        read = jnp.einsum("bhqk,bkhd->bqhd", weight, value).reshape(len(x), last, width)
        depth = nn.initializers.variance_scaling(0.5 / self.sizes.layers, "fan_in", "truncated_normal")
        x = x[:, -last:] + nn.Dense(width, use_bias=False, name="read", kernel_init=depth)(read)
        inner = nn.relu(nn.Dense(_WIDER * width, name="wide")(nn.RMSNorm(name="norm_dense")(x)))
        return x + nn.Dense(width, name="narrow", kernel_init=depth)(inner), (key, value)


class LanguageModel(nn.Module):
    """Decoder-only transformer."""

    sizes: Sizes

    @nn.compact
    def __call__(self, tokens: jax.Array, cache: Cache | None, start: jax.Array, last: int) -> tuple[jax.Array, Cache]:
        """Return the logits of the token after each of the last tokens, float32 (B, last, vocabulary), and the cache.

        Args:
            tokens: int32 (B, T); in the prompt, `PAD` marks empty slots.
            cache: Cache of the tokens before these; None if there are none, and then the new cache has T slots.
            start: Slot of the first token, int32 ().
            last: Number of tokens, from the end, whose next token is predicted.
        """
        sizes, length = self.sizes, tokens.shape[1]
        place = start + jnp.arange(length, dtype=jnp.int32)
        small = nn.initializers.normal(0.5)
        embedding = nn.Embed(sizes.vocabulary, sizes.width, embedding_init=small, name="words")(tokens)
        slots = nn.Embed(sizes.prompt + sizes.reply, sizes.width, embedding_init=small, name="slots")(place)
        gains = nn.Embed(
            sizes.prompt + sizes.reply, sizes.width, embedding_init=nn.initializers.normal(1.0), name="gains"
        )
        # A product, so that a sum over all slots still has the word at each position.
        x = embedding * (1.0 + gains(place)[None]) + slots[None]
        # A reply has no padding before its end, and the loss ignores the tokens after its end.
        is_token = (tokens != PAD) | (place >= sizes.prompt)[None]
        if cache is not None:
            is_token = lax.dynamic_update_slice_in_dim(cache.is_token, is_token, start, axis=1)
        slot = jnp.arange(is_token.shape[1], dtype=jnp.int32)
        is_seen = is_token[:, None] & (slot[None, None] <= place[None, :, None])
        keys, values = list[jax.Array](), list[jax.Array]()
        for layer in range(sizes.layers):
            asked = last if layer == sizes.layers - 1 else length
            past = None if cache is None else (cache.keys[layer], cache.values[layer])
            block = DecoderBlock(sizes, name=f"block_{layer}")
            x, (key, value) = block(x, past, is_seen[:, -asked:], start, asked)
            keys.append(key)
            values.append(value)
        head = nn.Dense(sizes.vocabulary, kernel_init=nn.initializers.normal(0.02), name="head")
        return head(nn.RMSNorm(name="norm_head")(x)), Cache(keys, values, is_token)


def init(sizes: Sizes, key: jax.Array) -> Any:
    """Return initial parameters."""
    tokens = jnp.full((1, sizes.prompt), END, jnp.int32)
    return LanguageModel(sizes).init(key, tokens, None, jnp.int32(0), 1)["params"]


def log_probabilities(sizes: Sizes, params: Any, prompts: jax.Array, replies: jax.Array) -> jax.Array:
    """Return the log-probabilities of every next token of replies, float32 (B, reply, vocabulary).

    Prompts are int32 (B, prompt), padded on the left; replies are int32 (B, reply). Tokens after the end of a reply do
    not affect those before it.
    """
    tokens = jnp.concatenate([prompts, replies[:, :-1]], axis=1)
    logits = LanguageModel(sizes).apply({"params": params}, tokens, None, jnp.int32(0), sizes.reply)[0]
    return nn.log_softmax(logits)


def sample(
    sizes: Sizes, params: Any, prompts: jax.Array, key: jax.Array, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sample a reply to each prompt, token by token.

    Args:
        sizes: Sizes of the model.
        params: Parameters of the model.
        prompts: int32 (B, prompt), padded on the left.
        key: PRNG key.
        temperature: Divisor of the logits, float32 (); 0 takes the likeliest token.

    Returns:
        Replies, int32 (B, reply), with `PAD` after their end, and the log-probability of each token at temperature 1,
        float32 (B, reply).
    """
    model = LanguageModel(sizes)
    batch, room = prompts.shape[0], sizes.reply - 1

    def choose(logits: jax.Array, has_ended: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        noise = jax.random.gumbel(key, logits.shape)
        token = jnp.argmax(logits + temperature * noise, axis=-1).astype(jnp.int32)
        log_probability = jnp.take_along_axis(nn.log_softmax(logits), token[:, None], axis=-1)[:, 0]
        token = jnp.where(has_ended, PAD, token)
        return token, jnp.where(has_ended, 0.0, log_probability), has_ended | (token == END)

    def go_on(
        carry: tuple[Any, jax.Array, jax.Array], step: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[Any, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        (cache, token, has_ended), (slot, key) = carry, step
        logits, cache = model.apply({"params": params}, token[:, None], cache, slot, 1)
        token, log_probability, has_ended = choose(logits[:, 0], has_ended, key)
        return (cache, token, has_ended), (token, log_probability)

    keys = jax.random.split(key, sizes.reply)
    logits, cache = model.apply({"params": params}, prompts, None, jnp.int32(0), 1)
    first, log_probability, has_ended = choose(logits[:, 0], jnp.zeros(batch, jnp.bool_), keys[0])
    cache = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, 0), (0, room)] + [(0, 0)] * (leaf.ndim - 2)), cache)
    slots = sizes.prompt + jnp.arange(room, dtype=jnp.int32)
    _, (tokens, rest) = lax.scan(go_on, (cache, first, has_ended), (slots, keys[1:]))
    replies = jnp.concatenate([first[:, None], tokens.T], axis=1)
    return replies, jnp.concatenate([log_probability[:, None], rest.T], axis=1)
