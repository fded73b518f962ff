"""Presentation of an environment on the page: buttons for directions, and frames."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxgym import text
from jaxgym.pytrees import frame_of
from jaxgym.serve.images import png
from jaxgym.serve.sessions import SESSION_OPTIONS

_DIRECTIONS = ("up", "down", "left", "right", "up-left", "up-right", "down-left", "down-right")
_PLACES = {
    **{direction: direction for direction in _DIRECTIONS},
    **{"forward": "up", "turn left": "left", "turn right": "right", "wait": "middle", "stay": "middle"},
}
"""Position of the button of an action on a pad of three by three."""


class Button(NamedTuple):
    """Button of an action that is a direction, at a position of the pad such as `"up-left"`."""

    label: str
    place: str
    reply: str


class GameView(NamedTuple):
    """Presentation of an environment.

    Attributes:
        buttons: A button for each action if all actions are directions; otherwise empty.
        example: A reply in the form of the system prompt; empty if the text interface defines none.
        draw: Returns the frame of a scene with NumPy leaves as a PNG, or None if the environment has no frames.
    """

    buttons: Sequence[Button]
    example: str
    draw: Callable[[Any], bytes | None]


def view_of(name: str, options: Mapping[str, Any]) -> GameView:
    """Return the presentation of an environment; it has frames also if its observations are symbolic."""
    own = {option: value for option, value in options.items() if option not in SESSION_OPTIONS}
    # Only scenes are rendered, so the level buffer of the sessions is not needed.
    env, params, interface = text.make_registered(name, **{**own, "levels": "fresh"})
    replies = _replies(env, params, interface)
    return GameView(_buttons(interface, replies), replies[0] if replies else "", _drawer(env))


def _replies(env: Any, params: Any, interface: text.TextInterface[Any]) -> list[str]:
    """Return a reply for each action, for at most one action more than the pad has positions."""
    space = env.action_space(params)
    sizes = [int(space.n)] if hasattr(space, "n") else [int(size) for size in space.nvec]
    actions: list[Any] = list(itertools.islice(itertools.product(*map(range, sizes)), len(set(_PLACES.values())) + 1))
    actions = [action[0] for action in actions] if hasattr(space, "n") else actions
    try:
        return [interface.reply_of(action) for action in actions]
    except NotImplementedError:
        return []


def _buttons(interface: text.TextInterface[Any], replies: Sequence[str]) -> list[Button]:
    buttons = list[Button]()
    for reply in replies:
        move = interface.parse(reply)
        place = _PLACES.get(move.text) if isinstance(move, text.ParsedAction) else None
        if not isinstance(move, text.ParsedAction) or place is None or place in {button.place for button in buttons}:
            return []
        buttons.append(Button(move.text, place, reply))
    return buttons


def _drawer(env: Any) -> Callable[[Any], bytes | None]:
    drawn = dataclasses.replace(env, observation="pixels") if hasattr(env, "observation") else env
    observe = jax.jit(lambda scene: frame_of(drawn, drawn.observe_scene(scene)))

    def draw(scene: Any) -> bytes | None:
        frame = observe(scene)
        return None if frame is None else png(np.asarray(frame))

    return draw
