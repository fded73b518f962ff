"""Chats of a pretrained model as tokens: its template, and the texts of all states that can be shown.

    system prompt | END, lake, header | reply | END, lake, header | reply | ...
    prefix          piece                       piece

The template and the tokenizer of the model run once, on the host. A piece starts with the token that ends a message, so
that all turns have the same form. Pieces meet at special tokens: the tokens are those of the whole chat.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from baselines.errors import ConfigError
from baselines.grpo.settings import Settings
from baselines.grpo.tokens import PAD
from baselines.language_model import ModelConfig, forward, logits
from jaxgym import levels, text
from jaxgym.serve.pool import SessionPool

FAR = -1e30
_MARKS = ("@first@", "@reply@", "@second@")


class Chat(NamedTuple):
    """Constants of a model and its chats; hashable, so they are static arguments of jit.

    Attributes:
        config: Config of the model.
        dtype: Type of the computation.
        prefix: Tokens of the system message, without its last one, which is `end`.
        end: Token that ends a message.
        turns: Most turns of an episode.
        piece: Slots between two replies; shorter pieces are padded on the left.
        reply: Most tokens of a reply, including its end.
    """

    config: ModelConfig
    dtype: str
    prefix: tuple[int, ...]
    end: int
    turns: int
    piece: int
    reply: int

    @property
    def slots(self) -> int:
        """Number of slots of a chat."""
        return len(self.prefix) + self.turns * (self.piece + self.reply)

    def cast(self, params: Any) -> Any:
        """Return the parameters in the type of the computation."""
        return jax.tree.map(lambda leaf: leaf.astype(self.dtype), params)

    def log_probabilities(self, params: Any, pieces: jax.Array, replies: jax.Array) -> jax.Array:
        """Return the log-probabilities of every next token of replies, float32 (E * turns, reply, vocabulary).

        Args:
            params: Parameters of the model.
            pieces: The pieces of E chats, each with all its turns, int32 (E * turns, piece).
            replies: int32 (E * turns, reply), padded on the right.
        """
        params, count = self.cast(params), len(pieces) // self.turns
        tokens = jnp.concatenate([pieces, replies], axis=1)
        # The next piece has the end of a reply. A reply without an end is cut by its last token.
        is_token = jnp.concatenate([pieces != PAD, (replies != PAD) & (replies != self.end)], axis=1)
        is_token = is_token.at[:, -1].set(False).reshape(count, -1)
        prefix = jnp.broadcast_to(jnp.asarray(self.prefix, jnp.int32)[None], (count, len(self.prefix)))
        whole = jnp.concatenate([prefix, tokens.reshape(count, -1)], axis=1)
        mask = jnp.concatenate([jnp.ones(prefix.shape, jnp.bool_), is_token], axis=1)
        hidden, _ = forward(self.config, params, whole, None, mask)
        hidden = hidden[:, len(self.prefix) :].reshape(len(pieces), self.piece + self.reply, -1)
        return jax.nn.log_softmax(self.logits(params, hidden[:, self.piece - 1 : -1]))

    def logits(self, params: Any, hidden: jax.Array) -> jax.Array:
        """Return the logits of the next token; `PAD` is never written."""
        return logits(self.config, params, hidden).at[..., PAD].set(FAR)


class Lakes(NamedTuple):
    """Levels of Frozen Lake and their texts.

    Attributes:
        levels: Levels, stacked.
        pieces: Piece of each level with the player in each cell, int32 (levels, cells, piece).
        replies: Reply for each action, int32 (4, reply), padded on the right.
    """

    levels: Any
    pieces: jax.Array
    replies: jax.Array


def template_of(tokenizer: Any, system_prompt: str) -> tuple[list[int], str, str]:
    """Return the tokens of the system message, and the texts before and after a user message.

    Raises:
        ConfigError: if the template writes the turns of a chat in different forms.
    """
    first, reply, second = _MARKS
    roles = ("system", "user", "assistant", "user")
    chat = [
        {"role": role, "content": text} for role, text in zip(roles, (system_prompt, first, reply, second), strict=True)
    ]
    whole = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    try:
        head, rest = whole.split(first)
        header, rest = rest.split(reply)
        before, after = rest.split(second)
        if header != after or not head.endswith(before):
            raise ValueError("turns differ")
    except ValueError as error:
        raise ConfigError(
            f"expected a chat template that writes all turns alike, got {whole!r}. Use another model."
        ) from error
    return encode(tokenizer, [head.removesuffix(before)])[0], before, after


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of texts, without those that a tokenizer adds at the start or the end."""
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]


def prepare(settings: Settings, config: ModelConfig, tokenizer: Any, seeds: np.ndarray) -> tuple[Chat, Any, Any, Lakes]:
    """Return the chat, the environment, its parameters, and the levels of seeds with their texts.

    Raises:
        ConfigError: if the settings, the template or the lengths do not fit.
    """
    options = settings.session_options
    if settings.env != "FrozenLake-v0" or options.get("dialect") != "ragen":
        raise ConfigError(
            f"--model: expected --env FrozenLake-v0 with --options dialect=ragen, got {settings.env} with "
            f"{dict(options)}. Leave out --model for another game."
        )
    own = {name: value for name, value in options.items() if name not in ("max_turns", "levels")}
    env, params, interface = text.make("frozen_lake", **own)
    system_prompt = SessionPool(capacity=1).prepare(settings.env, options)
    prefix, before, after = template_of(tokenizer, system_prompt)
    buffer = levels.make_level_buffer(env, params, seeds)
    boards = _boards(env, params, interface, buffer)
    known, places = np.unique(boards, return_inverse=True)
    pieces = encode(tokenizer, [f"{before}{board}{after}" for board in known])
    end, slots = pieces[0][0], max(map(len, pieces))
    whole = tokenizer.apply_chat_template(
        [{"role": "system", "content": system_prompt}, {"role": "user", "content": str(known[0])}],
        tokenize=False,
        add_generation_prompt=True,
    )
    if encode(tokenizer, [whole])[0] != [*prefix, *pieces[0]]:
        raise ConfigError("expected the tokens of a chat to be those of its messages. Use a model with special tokens.")
    table = np.full((len(known), slots), PAD, np.int32)
    for row, piece in zip(table, pieces, strict=True):
        row[-len(piece) :] = piece
    replies = np.full((env.num_actions, settings.reply_tokens), PAD, np.int32)
    for reply, written in zip(settings.replies, encode(tokenizer, settings.replies), strict=True):
        tokens = [*written, end]
        if len(tokens) > settings.reply_tokens:
            raise ConfigError(f"--reply-tokens: expected at least {len(tokens)}, got {settings.reply_tokens}")
        parsed: Any = interface.parse(reply)  # `Chain.of` has checked that it is valid
        replies[parsed.actions[0], : len(tokens)] = tokens
    chat = Chat(config, settings.dtype, tuple(prefix), end, settings.max_turns, slots, settings.reply_tokens)
    return chat, env, params, Lakes(buffer, jnp.asarray(table[places.reshape(boards.shape)]), jnp.asarray(replies))


def _boards(env: Any, params: Any, interface: Any, buffer: Any) -> np.ndarray:
    """Return the text of each level with the player in each cell, (levels, cells)."""
    cells = np.stack(np.divmod(np.arange(env.size**2, dtype=np.int32), env.size), axis=-1)

    @jax.jit
    def scenes(level: Any) -> Any:
        state = env.initial_state(level, params)
        return jax.vmap(lambda cell: env.scene(dataclasses.replace(state, player_cell=cell), params))(
            jnp.asarray(cells)
        )

    shown = jax.device_get(jax.vmap(scenes)(buffer))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), shown)
    return np.asarray(interface.open_all(flat, params), np.str_).reshape(-1, len(cells))
