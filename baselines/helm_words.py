"""Words for what a frame shows: the input of HELM's language model in place of the frame.

Semantic HELM (Paischer et al., 2023, arXiv 2306.09312) finds words for a frame with CLIP. Here they are exact, from the
facts of the text interface (`visible` of an environment), so results are an upper bound. Each step has the same number
of words, and each word is one token. The tokens are looked up on the device.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from baselines.errors import ConfigError
from baselines.language_model import load_tokenizer

# The last tokens of "right-down" and "left-down" are equal, so diagonals are points of the compass.
_DIAGONALS = ("southeast", "northeast", "southwest", "northwest")
_COMMANDS = ("right", "down", "left", "up", "stay", *_DIAGONALS, "nothing")
_ROWS = (*map(str, range(1, 8)), "none")
_COLUMNS = (*"ABCDEFG", "none")
_SQUARE_PX = 12  # the screen has 7 x 7 squares
_LEFT_OUT = len(_ROWS) - 1

Facts = Any


class StepWords(NamedTuple):
    """Words of one step.

    Attributes:
        choices: Possible words at each of K places.
        indices: Function from the facts of a frame to the index of the word at each place, int32 (K,).
    """

    choices: tuple[tuple[str, ...], ...]
    indices: Callable[[Facts], jax.Array]


def words_of(env: Any, params: Any) -> StepWords:
    """Return the words that a step can have: in Mortar Mayhem, Mystery Path or Searing Spotlights.

    Raises:
        ConfigError: if the environment is another one, or lists all commands in each observation.
    """
    facts: Any = None
    if hasattr(env, "visible"):
        facts = jax.eval_shape(lambda: env.visible(env.scene(env.reset(jax.random.key(0), params)[1], params)))
    if hasattr(facts, "safe_tile") and facts.commands is None:
        return StepWords((_COMMANDS, _ROWS, _COLUMNS, ("safe", "red")), _of_mortar_mayhem)
    if hasattr(facts, "has_cross") and hasattr(facts, "agent_tile"):
        return StepWords((_ROWS, _COLUMNS, ("path", "fall")), _of_mystery_path)
    if hasattr(facts, "has_coin") and facts.has_coin.shape[0]:
        things = 2 if facts.has_exit is None else 3
        return StepWords((_ROWS, _COLUMNS) * things, _of_searing_spotlights)
    raise ConfigError(
        "--memory-input text: expected Mortar Mayhem, Mystery Path or Searing Spotlights with a coin, got another "
        "environment or a wrapper. Leave the flag out."
    )


def _tile(tile: jax.Array) -> list[jax.Array]:
    """Return the indices of row and column of a tile, column and row int32 (2,); negative if there is none."""
    row, column = tile[1], tile[0]
    return [jnp.where(row < 0, _LEFT_OUT, row), jnp.where(column < 0, _LEFT_OUT, column)]


def _square(is_listed: jax.Array, center_px: jax.Array) -> list[jax.Array]:
    return _tile(jnp.where(is_listed, center_px // _SQUARE_PX, -1))


def _of_mortar_mayhem(facts: Facts) -> jax.Array:
    command = jnp.clip(facts.command, 0, len(_COMMANDS) - 1)
    return jnp.stack([command, *_tile(facts.agent_tile), facts.is_red.astype(jnp.int32)])


def _of_mystery_path(facts: Facts) -> jax.Array:
    return jnp.stack([*_tile(facts.agent_tile), facts.has_cross.astype(jnp.int32)])


def _of_searing_spotlights(facts: Facts) -> jax.Array:
    things = [*_square(facts.has_agent, facts.agent_px), *_square(facts.has_coin[0], facts.coins_px[0])]
    if facts.has_exit is not None:
        things += _square(facts.has_exit, facts.exit_px)
    return jnp.stack(things)


def tokens_of(words: StepWords, path: str) -> np.ndarray:
    """Return the token of each word, int32 (K, most choices), with the tokenizer of a model; 0 fills a row.

    A word of several tokens has its last one.

    Raises:
        ConfigError: if there is no tokenizer, or two words of one place have the same token.
    """
    tokenizer = load_tokenizer(path)
    table = np.zeros((len(words.choices), max(map(len, words.choices))), np.int32)
    for row, choices in zip(table, words.choices, strict=True):
        tokens = [tokenizer.encode(f" {word}", add_special_tokens=False)[-1] for word in choices]
        if len(set(tokens)) < len(tokens):
            raise ConfigError(f"{path}: expected a token of its own for each of {', '.join(choices)}, got {tokens}.")
        row[: len(tokens)] = tokens
    return table
