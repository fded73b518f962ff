"""Rollout of a pretrained model in Frozen Lake: model, key-value cache and environments in one jitted program."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from baselines.grpo.chat import FAR, Chat, Lakes
from baselines.grpo.tokens import PAD
from baselines.language_model import KeyValueCache, empty_cache, forward


class ChatEpisodes(NamedTuple):
    """E episodes of T turns, padded at the end.

    Attributes:
        pieces: Tokens before each reply, int32 (E, T, piece); of turns that were not played, `PAD`.
        replies: As `pieces`, int32 (E, T, reply).
        log_probabilities: Log-probability of each token when it was sampled, float32 (E, T, reply).
        rewards: float32 (E, T).
        places: Cell of the player before each turn, int32 (E, T).
        is_turn: Whether the turn was played, bool (E, T).
        is_invalid: Whether its reply was invalid, bool (E, T).
        is_solved: Whether the player reached the goal, bool (E,).
    """

    pieces: Any
    replies: Any
    log_probabilities: Any
    rewards: Any
    places: Any
    is_turn: Any
    is_invalid: Any
    is_solved: Any


class _Played(NamedTuple):
    turn: jax.Array
    state: Any
    is_over: jax.Array
    cache: Any
    episodes: ChatEpisodes


class _Moved(NamedTuple):
    state: Any
    rewards: jax.Array
    is_invalid: jax.Array
    is_over: jax.Array
    is_solved: jax.Array


@functools.partial(jax.jit, static_argnums=(0, 1))
def play(
    chat: Chat,
    env: Any,
    params: Any,
    env_params: Any,
    lakes: Lakes,
    indices: jax.Array,
    key: jax.Array,
    temperature: jax.Array,
) -> ChatEpisodes:
    """Play an episode on each of some levels.

    Args:
        chat: Constants of the model and its chats.
        env: Frozen Lake.
        params: Parameters of the model; if None, each reply is a random one of `lakes.replies`.
        env_params: Parameters of the environment.
        lakes: Levels.
        indices: The level of each episode, int32 (E,).
        key: PRNG key.
        temperature: Divisor of the logits, float32 (); 0 takes the likeliest token.
    """
    count = len(indices)
    level = jax.tree.map(lambda leaf: leaf[indices], lakes.levels)
    state = jax.vmap(lambda one: env.initial_state(one, env_params))(level)
    if params is not None:
        params = chat.cast(params)
    cache = None if params is None else _prefix_cache(chat, params, count)

    def go_on(played: _Played) -> jax.Array:
        return (played.turn < chat.turns) & ~jnp.all(played.is_over)

    def take_turn(played: _Played) -> _Played:
        key_reply, key_step = jax.random.split(jax.random.fold_in(key, played.turn))
        row, column = played.state.player_cell.T
        place = row * env.size + column
        is_turn = ~played.is_over
        pieces = jnp.where(is_turn[:, None], lakes.pieces[indices, place], PAD)
        if params is None:
            chosen = jax.random.randint(key_reply, (count,), 0, len(lakes.replies))
            cache, replies = None, lakes.replies[chosen]
            log_probabilities = jnp.zeros(replies.shape, jnp.float32)
        else:
            cache, replies, log_probabilities = write(
                chat, params, played.cache, pieces, is_turn, key_reply, temperature
            )
        moved = _move(env, env_params, lakes, played.state, replies, is_turn, key_step)
        replies = jnp.where(is_turn[:, None], replies, PAD)
        made = (pieces, replies, log_probabilities, moved.rewards, place, is_turn, moved.is_invalid)
        kept = [old.at[:, played.turn].set(new) for old, new in zip(played.episodes, made, strict=False)]
        episodes = ChatEpisodes(*kept, is_solved=played.episodes.is_solved | moved.is_solved)
        return _Played(played.turn + 1, moved.state, played.is_over | moved.is_over, cache, episodes)

    is_over = jnp.zeros(count, jnp.bool_)
    start = _Played(jnp.int32(0), state, is_over, cache, _no_turns(chat, count))
    return lax.while_loop(go_on, take_turn, start).episodes


def _move(
    env: Any, env_params: Any, lakes: Lakes, state: Any, replies: jax.Array, is_turn: jax.Array, key: jax.Array
) -> _Moved:
    """Play the actions of replies; an invalid reply, and one in an episode that is over, changes nothing."""
    matches = jnp.all(replies[:, None] == lakes.replies[None], axis=-1)
    is_move = is_turn & jnp.any(matches, axis=1)
    action = jnp.argmax(matches, axis=1).astype(jnp.int32)
    keys = jax.random.split(key, len(replies))
    step = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))  # without auto-reset
    _, stepped, rewards, terminated, info = step(keys, state, action, env_params)
    state = jax.tree.map(
        lambda new, old: jnp.where(jnp.expand_dims(is_move, range(1, new.ndim)), new, old), stepped, state
    )
    rewards = jnp.where(is_move, rewards, 0.0)
    return _Moved(state, rewards, is_turn & ~is_move, is_move & terminated, is_move & (info["success"] > 0))


def _no_turns(chat: Chat, count: int) -> ChatEpisodes:
    shape = (count, chat.turns)
    return ChatEpisodes(
        jnp.full((*shape, chat.piece), PAD, jnp.int32),
        jnp.full((*shape, chat.reply), PAD, jnp.int32),
        jnp.zeros((*shape, chat.reply), jnp.float32),
        jnp.zeros(shape, jnp.float32),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros(shape, jnp.bool_),
        jnp.zeros(shape, jnp.bool_),
        jnp.zeros(count, jnp.bool_),
    )


def _prefix_cache(chat: Chat, params: Any, count: int) -> KeyValueCache:
    """Return a cache with the system message in each row; it is computed once."""
    one = empty_cache(chat.config, 1, chat.slots, chat.dtype)
    prefix = jnp.asarray(chat.prefix, jnp.int32)[None]
    _, one = forward(chat.config, params, prefix, one)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=0), one)


def write(
    chat: Chat,
    params: Any,
    cache: KeyValueCache,
    pieces: jax.Array,
    is_turn: jax.Array,
    key: jax.Array,
    temperature: jax.Array,
) -> tuple[KeyValueCache, jax.Array, jax.Array]:
    """Sample a reply in each chat that has a turn.

    Returns:
        The cache without the last token of the replies, the replies, int32 (E, reply), and the log-probability of each
        token at temperature 1, float32 (E, reply).
    """
    hidden, cache = _extend(chat, params, cache, pieces, pieces != PAD)
    replies = jnp.full((len(pieces), chat.reply), PAD, jnp.int32)
    token, log_probability = _choose(chat, params, hidden, ~is_turn, jax.random.fold_in(key, 0), temperature)
    replies, log_probabilities = replies.at[:, 0].set(token), jnp.zeros(replies.shape, jnp.float32)
    log_probabilities = log_probabilities.at[:, 0].set(log_probability)

    def has_ended(token: jax.Array) -> jax.Array:
        return (token == chat.end) | (token == PAD)

    def go_on(carry: tuple[Any, ...]) -> jax.Array:
        slot, token, *_ = carry
        return (slot < chat.reply) & ~jnp.all(has_ended(token))

    def next_token(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        slot, token, cache, replies, log_probabilities = carry
        ended = has_ended(token)
        hidden, cache = _extend(chat, params, cache, token[:, None], ~ended[:, None])
        key_token = jax.random.fold_in(key, slot)
        token, log_probability = _choose(chat, params, hidden, ended, key_token, temperature)
        return (
            slot + 1,
            token,
            cache,
            replies.at[:, slot].set(token),
            log_probabilities.at[:, slot].set(log_probability),
        )

    start = (jnp.int32(1), token, cache, replies, log_probabilities)
    _, _, cache, replies, log_probabilities = lax.while_loop(go_on, next_token, start)
    return cache, replies, log_probabilities


def _extend(
    chat: Chat, params: Any, cache: KeyValueCache, tokens: jax.Array, is_token: jax.Array
) -> tuple[jax.Array, KeyValueCache]:
    """Return the hidden state after the last token, (E, width), and the cache."""
    hidden, after = forward(chat.config, params, tokens, cache, is_token)
    assert after is not None  # noqa: S101 — a cache was given
    return hidden[:, -1], after


def _choose(
    chat: Chat, params: Any, hidden: jax.Array, has_ended: jax.Array, key: jax.Array, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sample the next tokens; return them and their log-probabilities, `PAD` and 0 after the end."""
    scores = chat.logits(params, hidden)
    noise = jnp.where(scores > FAR, jax.random.gumbel(key, scores.shape), 0.0)
    token = jnp.argmax(scores + temperature * noise, axis=-1).astype(jnp.int32)
    log_probability = jnp.take_along_axis(jax.nn.log_softmax(scores), token[:, None], axis=-1)[:, 0]
    return jnp.where(has_ended, PAD, token), jnp.where(has_ended, 0.0, log_probability)
