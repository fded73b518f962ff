"""Text interfaces of fully observable environments: the texts of the game, followed by the hidden facts."""

import dataclasses
import functools
from typing import Any

import jax

from jaxgym import facts
from jaxgym.text.interface import TextInterface
from jaxgym.text.turns import Turn, Turns

_NOTE = (
    "Below each observation, you also see facts that are usually hidden. Rows, columns and positions in them are "
    "numbered from 1, starting at the top left."
)


def with_facts(interface: TextInterface[Any], env: Any, params: Any) -> TextInterface[Any]:
    """Return the text interface of an environment; if its scenes have hidden facts, one that states them."""
    if env.observability != "full" or not jax.eval_shape(lambda: _first_facts(env, params)):
        return interface
    fields = {field.name: getattr(interface, field.name) for field in dataclasses.fields(interface)}
    return _full_class(type(interface))(**fields)


def _first_facts(env: Any, params: Any) -> Any:
    return facts.hidden(env, env.reset_env(jax.random.key(0), params)[1], params)


class _StatesFacts(TextInterface[Any]):
    """First base class of a text interface that states hidden facts."""

    def system_prompt(self, params: Any) -> str:
        """Return the system prompt, which begins with a note."""
        return f"{_NOTE}\n\n{super().system_prompt(params)}"

    def image_prompt(self, params: Any) -> str:
        """Return the system prompt for images, which begins with a note."""
        return f"{_NOTE}\n\n{super().image_prompt(params)}"

    def open(self, scene: Any, params: Any) -> str:
        """Return the first observation text of an episode, with the facts."""
        return _with(super().open(scene, params), scene.facts)

    def respond(self, turn: Turn[Any], params: Any) -> str:
        """Return the observation text after a turn, with the facts."""
        return _with(super().respond(turn, params), turn.scene.facts)

    def open_all(self, scenes: Any, params: Any) -> list[str]:
        """Return the first observation texts, with the facts."""
        return _stated(super().open_all(scenes, params), scenes)

    def respond_all(self, turns: Turns[Any], params: Any) -> list[str]:
        """Return the observation texts after B turns, with the facts."""
        return _stated(super().respond_all(turns, params), turns.scenes)

    def beside(self, scenes: Any, params: Any, *, is_first: bool) -> list[str]:
        """Return the texts beside B images, with the facts."""
        return _stated(super().beside(scenes, params, is_first=is_first), scenes)


def _stated(texts: list[str], scenes: Any) -> list[str]:
    leaves, shape = jax.tree.flatten(scenes.facts)
    return [_with(text, shape.unflatten([leaf[row] for leaf in leaves])) for row, text in enumerate(texts)]


def _with(text: str, hidden: Any) -> str:
    stated = facts.text(hidden)
    # A game may make the text of a turn from that of the observation, which has the facts.
    return text if stated in text else f"{text}\n{stated}" if text else stated


@functools.cache
def _full_class(kind: type[TextInterface[Any]]) -> type[TextInterface[Any]]:
    return type(f"Full{kind.__name__}", (_StatesFacts, kind), {})
