"""Decoder of the Llama architecture as pure functions: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Sources: Touvron et al., *LLaMA*, arXiv 2302.13971; Ainslie et al., *GQA*, arXiv 2305.13245; Su et al., *RoFormer*,
arXiv 2104.09864, with the two halves of a head as pairs, as in checkpoints of Hugging Face.

`forward` has two equivalent forms: all tokens at once without a cache, for learning, and any number of tokens after
those in a cache. The cache is a ring, so that an endless sequence attends to its newest `window` tokens.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from baselines.language_model.config import ModelConfig

_FAR = -1e30  # attention score of masked slots; finite, so a row without tokens gives no NaN
_INITIAL = 0.02  # standard deviation of initial weights, the default of transformers


class KeyValueCache(NamedTuple):
    """Keys and values of the newest tokens of each row, in a ring of S slots.

    Attributes:
        keys: One array per layer, (B, kv_heads, S, head_dim). The token at position p of its row is in slot p % S. Each
            layer has its own array, so that a loop writes it in place.
        values: As `keys`.
        position: Number of tokens of each row so far, int32 (B,).
    """

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]
    position: jax.Array


def empty_cache(config: ModelConfig, batch: int, slots: int, dtype: Any = jnp.float32) -> KeyValueCache:
    """Return a cache of `slots` slots without tokens; `dtype` is that of the parameters."""
    shape = (batch, config.kv_heads, slots, config.head_dim)
    keys, values = (tuple(jnp.zeros(shape, dtype) for _ in range(config.layers)) for _ in range(2))
    return KeyValueCache(keys, values, jnp.zeros(batch, jnp.int32))


def reset(cache: KeyValueCache, starts: jax.Array) -> KeyValueCache:
    """Remove all tokens of the rows for which `starts`, bool (B,), is true."""
    return cache._replace(position=jnp.where(starts, 0, cache.position))


def shapes(config: ModelConfig) -> dict[str, Any]:
    """Return the shape of each parameter; those of the layers are stacked, and matrices are (inputs, outputs)."""
    width, layers = config.width, config.layers
    queries, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    matrices = {
        "query": (width, queries),
        "key": (width, shared),
        "value": (width, shared),
        "output": (queries, width),
        "gate": (width, config.hidden),
        "up": (width, config.hidden),
        "down": (config.hidden, width),
    }
    stacked = {name: (layers, *shape) for name, shape in matrices.items()}
    norms = dict.fromkeys(("attention_norm", "feed_norm"), (layers, width))
    head = {} if config.tied else {"head": (config.vocabulary, width)}
    return {"embedding": (config.vocabulary, width), "norm": (width,), **head, "layers": stacked | norms}


def initial_params(config: ModelConfig, key: jax.Array, dtype: Any = jnp.float32) -> Any:
    """Sample the parameters of a random model.

    Returns:
        A dictionary with `embedding` (vocabulary, width), `norm` (width,), `head` (vocabulary, width) unless it is tied
        to the embedding, and `layers`, a dictionary of arrays (layers, ...).
    """
    leaves, structure = jax.tree.flatten_with_path(shapes(config), is_leaf=lambda leaf: isinstance(leaf, tuple))
    keys = jax.random.split(key, len(leaves))
    made = [
        jnp.ones(shape, dtype)
        if "norm" in str(path[-1])
        else (_INITIAL * jax.random.normal(key_leaf, shape)).astype(dtype)
        for (path, shape), key_leaf in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, made)


def forward(
    config: ModelConfig,
    params: Any,
    inputs: jax.Array,
    cache: KeyValueCache | None = None,
    is_token: jax.Array | None = None,
    *,
    empty: Literal["masked", "zeros"] = "masked",
    window: int | None = None,
) -> tuple[jax.Array, KeyValueCache | None]:
    """Run the decoder on T inputs of B rows.

    With a cache of at least `window` + T - 1 slots, a loop of calls writes the cache in place. With fewer, each call
    copies it, unless T is 1.

    Args:
        config: Config of the model.
        params: Parameters, whose type is that of the computation. Norms and softmax are computed in float32.
        inputs: Tokens, int32 (B, T), or embeddings, (B, T, width).
        cache: Tokens before these; if None, there are none, and none are kept.
        is_token: Whether an input is a token and no padding, bool (B, T); all are, if None. No token attends to
            padding, and padding takes no position. Its outputs are unspecified.
        empty: Places of the window without a token are `masked`, or attended to as `zeros`: keys and values of 0, as
            in the empty memory of TransformerXL.
        window: Number of tokens that a token attends to, itself included; at most the number of slots of the cache,
            which is the default. It applies with a cache only.

    Returns:
        Hidden states after the last norm, (B, T, width), and the cache with these tokens.
    """
    dtype = params["embedding"].dtype
    x = (params["embedding"][inputs] if inputs.ndim == 2 else inputs).astype(dtype)  # noqa: PLR2004 — (B, T)
    batch, length = x.shape[:2]
    if is_token is None:
        is_token = jnp.ones((batch, length), jnp.bool_)
    order = jnp.cumsum(is_token, axis=1, dtype=jnp.int32)
    past = jnp.zeros(batch, jnp.int32) if cache is None else cache.position
    position = past[:, None] + order - 1  # of padding: that of the token before it
    rotation = _rotation(config, position)
    if cache is None:
        is_seen = (position[:, :, None] >= position[:, None]) & is_token[:, None]
        after = None
        x = _all_layers(config, params["layers"], x, rotation, is_seen)
    else:
        x, after = _cached_layers(config, params["layers"], x, rotation, cache, is_token, position, empty, window)
    return _rms_norm(config, x, params["norm"]), after


def logits(config: ModelConfig, params: Any, hidden: jax.Array) -> jax.Array:
    """Return the logits of the next token, float32 (..., vocabulary), from hidden states (..., width)."""
    head = params["embedding"] if config.tied else params["head"]
    return jnp.einsum("...d,vd->...v", hidden, head, preferred_element_type=jnp.float32)


def _all_layers(
    config: ModelConfig, layers: Any, x: jax.Array, rotation: tuple[jax.Array, jax.Array], is_seen: jax.Array
) -> jax.Array:
    # A scan compiles one layer. The backward pass computes each layer again, so that only its input is kept.
    @jax.checkpoint
    def layer(x: jax.Array, own: Any) -> tuple[jax.Array, None]:
        query, key, value = _project(config, own, x, rotation)
        return _finish(config, own, x, _attend(query, key, value, is_seen)), None

    return lax.scan(layer, x, layers)[0]


def _cached_layers(
    config: ModelConfig,
    layers: Any,
    x: jax.Array,
    rotation: tuple[jax.Array, jax.Array],
    cache: KeyValueCache,
    is_token: jax.Array,
    position: jax.Array,
    empty: str,
    window: int | None,
) -> tuple[jax.Array, KeyValueCache]:
    """Return the outputs of all layers and the cache; the layers are unrolled, since each has its own arrays."""
    batch, length = is_token.shape
    slots = cache.keys[0].shape[2]
    window = window or slots
    count = position[:, -1] + 1  # tokens of each row, with these
    is_kept = is_token & (position >= (count - slots)[:, None])
    target = jnp.where(is_kept, position % slots, slots)  # a write to slot `slots` is dropped
    row = jnp.arange(batch, dtype=jnp.int32)[:, None]
    # Read after writing, so that a loop of calls does not copy the cache, if no token of a window is overwritten.
    is_written_first = slots >= window + length - 1
    newest = ((count if is_written_first else cache.position) - 1)[:, None]
    slot = jnp.arange(slots, dtype=jnp.int32)[None]
    held = newest - (newest - slot) % slots  # position of the token in a slot; negative if there is none
    exists = held >= 0
    if not is_written_first:
        held, exists = jnp.concatenate([held, position], axis=1), jnp.concatenate([exists, is_token], axis=1)
    distance = position[:, :, None] - held[:, None]
    is_seen = exists[:, None] & (distance >= 0) & (distance < window)
    # Zeros fill the window of each token, which holds fewer tokens at the start of a row.
    unfilled = jnp.maximum(window - 1 - position, 0) if empty == "zeros" else None
    keys, values = list[jax.Array](), list[jax.Array]()
    for number, (key_before, value_before) in enumerate(zip(cache.keys, cache.values, strict=True)):
        own = jax.tree.map(lambda leaf: leaf[number], layers)  # noqa: B023 — called at once
        query, key, value = _project(config, own, x, rotation)
        for kept, before, new in ((keys, key_before, key), (values, value_before, value)):
            rows = new.swapaxes(1, 2).astype(before.dtype)
            kept.append(before.at[row, :, target].set(rows, mode="drop"))
        if is_written_first:
            key, value = keys[-1], values[-1]
        else:
            key = jnp.concatenate([key_before, key.astype(key_before.dtype)], axis=2)
            value = jnp.concatenate([value_before, value.astype(value_before.dtype)], axis=2)
        x = _finish(config, own, x, _attend(query, key, value, is_seen, unfilled))
    return x, KeyValueCache(tuple(keys), tuple(values), count)


def _project(
    config: ModelConfig, own: Any, x: jax.Array, rotation: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return queries (B, kv_heads, T, heads / kv_heads, head_dim), and keys and values (B, kv_heads, T, head_dim)."""
    inner = _rms_norm(config, x, own["attention_norm"])
    shape = (*x.shape[:2], config.kv_heads, -1, config.head_dim)
    query, key, value = ((inner @ own[name]).reshape(shape) for name in ("query", "key", "value"))
    query, key = _rotate(query, rotation), _rotate(key, rotation)
    query, key, value = (part.swapaxes(1, 2) for part in (query, key, value))
    return query, key[:, :, :, 0], value[:, :, :, 0]


def _attend(
    query: jax.Array, key: jax.Array, value: jax.Array, is_seen: jax.Array, unfilled: jax.Array | None = None
) -> jax.Array:
    """Return the attended values of each token, (B, T, heads * head_dim).

    Args:
        query: (B, kv_heads, T, heads / kv_heads, head_dim).
        key: (B, kv_heads, S, head_dim).
        value: As `key`.
        is_seen: Whether a token attends to a slot, bool (B, T, S).
        unfilled: Number of further slots with keys and values of 0, int32 (B, T).
    """
    scores = jnp.einsum("bktgd,bksd->bktgs", query, key, preferred_element_type=jnp.float32)
    scores = jnp.where(is_seen[:, None, :, None], scores / query.shape[-1] ** 0.5, _FAR)
    total = jax.nn.logsumexp(scores, axis=-1, keepdims=True)
    if unfilled is not None:
        total = jnp.logaddexp(total, jnp.log(unfilled.astype(jnp.float32))[:, None, :, None, None])
    weights = jnp.exp(scores - total).astype(value.dtype)
    read = jnp.einsum("bktgs,bksd->btkgd", weights, value)
    return read.reshape(*read.shape[:2], -1)


def _finish(config: ModelConfig, own: Any, x: jax.Array, read: jax.Array) -> jax.Array:
    """Return the output of a layer from its input and the attended values."""
    x = x + read @ own["output"]
    inner = _rms_norm(config, x, own["feed_norm"])
    return x + (jax.nn.silu(inner @ own["gate"]) * (inner @ own["up"])) @ own["down"]


def _rms_norm(config: ModelConfig, x: jax.Array, gain: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + config.epsilon)
    return wide.astype(x.dtype) * jnp.expand_dims(gain, range(x.ndim - 1))


def _rotation(config: ModelConfig, position: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return cosines and sines of the angles at positions (B, T), float32 (B, T, 1, 1, head_dim / 2)."""
    powers = jnp.arange(0, config.head_dim, 2, dtype=jnp.float32) / config.head_dim
    angle = position[:, :, None].astype(jnp.float32) * (config.rope_base**-powers)[None, None]
    return jnp.cos(angle)[:, :, None, None], jnp.sin(angle)[:, :, None, None]


def _rotate(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotate each pair of units, one from the first half of a head and one from the second, (B, T, K, G, head_dim)."""
    cosine, sine = rotation
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)
