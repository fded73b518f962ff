"""Presentation of a game on the page: buttons for moves that are directions, and its frames."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgym import text
from jaxgym.serve.pictures import png
from jaxgym.serve.sessions import SESSION_OPTIONS

_PLACES = {
    "up": "up",
    "forward": "up",
    "down": "down",
    "left": "left",
    "turn left": "left",
    "right": "right",
    "turn right": "right",
    "wait": "middle",
    "stay": "middle",
    "up-left": "up-left",
    "up-right": "up-right",
    "down-left": "down-left",
    "down-right": "down-right",
}
"""Where on a pad of three by three the button of a move belongs."""


class Button(NamedTuple):
    """The button of a move that is a direction.

    Attributes:
        label: The name of the move.
        place: Where it belongs, such as `"up-left"`.
        reply: The reply that makes the move.
    """

    label: str
    place: str
    reply: str


class Looks(NamedTuple):
    """Presentation of a game to a person.

    Attributes:
        buttons: Those of all moves, if these are directions; else none.
        example: A reply in the form of the instructions; empty if the game has none.
        draw: Returns the frame of a scene with NumPy leaves as a PNG, or None if the game has no frames.
    """

    buttons: Sequence[Button]
    example: str
    draw: Callable[[Any], bytes | None]


def looks_of(name: str, options: Mapping[str, Any]) -> Looks:
    """Return how a game looks; frames are drawn whatever its observations are.

    Args:
        name: An id that has words, or its short name.
        options: What its sessions are played with.

    Raises:
        UnknownIdError, OptionError: See `jaxgym.text.make`.
    """
    own = {option: value for option, value in options.items() if option not in SESSION_OPTIONS}
    # A scene tells all, whatever its level is of.
    env, params, words = text.make_registered(name, **{**own, "levels": "fresh"})
    replies = _replies(env, params, words)
    return Looks(_buttons(words, replies), replies[0] if replies else "", _drawer(env))


def _replies(env: Any, params: Any, words: text.Words[Any]) -> list[str]:
    """Return a reply for each action, or for the first one where there are more than a pad has places."""
    space = env.action_space(params)
    sizes = [int(space.n)] if hasattr(space, "n") else [int(size) for size in space.nvec]
    actions: list[Any] = list(itertools.islice(itertools.product(*map(range, sizes)), len(set(_PLACES.values())) + 1))
    actions = [action[0] for action in actions] if hasattr(space, "n") else actions
    try:
        return [words.reply_of(action) for action in actions]
    except NotImplementedError:
        return []


def _buttons(words: text.Words[Any], replies: Sequence[str]) -> list[Button]:
    buttons = list[Button]()
    for reply in replies:
        move = words.parse(reply)
        place = _PLACES.get(move.text) if isinstance(move, text.Move) else None
        if not isinstance(move, text.Move) or place is None or place in {button.place for button in buttons}:
            return []
        buttons.append(Button(move.text, place, reply))
    return buttons


def _drawer(env: Any) -> Callable[[Any], bytes | None]:
    drawn = dataclasses.replace(env, observation="pixels") if hasattr(env, "observation") else env
    observe = jax.jit(drawn.observe_scene)

    def draw(scene: Any) -> bytes | None:
        observation = jax.tree.map(np.asarray, observe(scene))
        frame = observation.get("visual_observation") if isinstance(observation, dict) else observation
        return png(frame) if frame is not None and frame.dtype == np.uint8 and frame.ndim > 1 else None

    return draw
