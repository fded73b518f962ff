"""Text interfaces of games that draw frames: descriptions of a game's `Visible`, and phrases for rules.

A scene may contain objects that its frame hides behind others. Texts are made only from the facts of `Visible`, so they
never reveal more than the frame.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from jaxgym.options import Integer, Option
from jaxgym.rows import Rows
from jaxgym.spec import TextSpec
from jaxgym.text.actions import ActionSet
from jaxgym.text.interface import TRUNCATED, BatchTextInterface, TextInterface
from jaxgym.text.turns import Action, InvalidReply, ParsedAction, Turns

TScene = TypeVar("TScene")

MOST_ACTIONS = 64
"""Largest number of actions that one reply may be allowed to give."""

_CHUNKS = (8, 64)
_OBSERVERS = dict[Any, tuple[Rows, Callable[[Any], jax.Array]]]()


def actions_option(default: int) -> dict[str, Option]:
    """Return the option of the text interface that limits the number of actions in one reply."""
    return {"actions_per_turn": Integer(default, "maximum number of actions in one reply", low=1, high=MOST_ACTIONS)}


@dataclasses.dataclass(frozen=True)
class FrameTextInterface(BatchTextInterface[TScene]):
    """Text interface that is made of the facts that a frame shows.

    Subclasses define `rules`, `legend`, `image_legend`, `effects` and `describe_visible`.

    Attributes:
        env: The environment.
        action_set: Actions by name.
    """

    env: Any
    action_set: ActionSet

    @classmethod
    def spec(cls, most: int, actions: Callable[[Any, int], ActionSet]) -> TextSpec:
        """Return the declaration of the text interface; `most` is the default number of actions in one reply."""

        def build(env: Any, values: Mapping[str, Any]) -> TextInterface[Any]:
            return cls(env.env_id, env, actions(env, int(values["actions_per_turn"])))

        return TextSpec(build, actions_option(most))

    @property
    def max_actions(self) -> int:
        """Largest number of actions in one reply."""
        return self.action_set.most

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        raise NotImplementedError  # Every game has its own.

    def legend(self, params: Any) -> str:
        """Return the explanation of the observation texts."""
        raise NotImplementedError  # Every game has its own.

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        raise NotImplementedError  # Every game has its own.

    def describe_visible(self, seen: Any) -> list[str]:
        """Return the texts of B frames from their facts, a `Visible` of host arrays with B rows."""
        raise NotImplementedError  # Every game has its own.

    def ending(self, reward: float) -> str:
        """Return the text of an episode that terminated, given the reward of its last turn."""
        return f"The episode has ended. The reward of this turn is {round(reward, 4):g}."

    def system_prompt(self, params: Any) -> str:
        """Return the rules, the legend and the reply format."""
        return self._prompt(self.legend(params), params)

    def image_prompt(self, params: Any) -> str:
        """Return the rules, the explanation of the image, and the reply format."""
        return self._prompt(self.image_legend(params), params)

    def _prompt(self, legend: str, params: Any) -> str:
        rules, actions = f"{self.rules(params)}{self.time_limit(params)}", self.action_set.help()
        return f"{rules}\n\n{legend}\n{self.effects(params)}\n\n{actions}"

    def time_limit(self, params: Any) -> str:
        """Return the time limit as text."""
        limit = int(params.max_steps_in_episode)
        also = "also " if "The episode ends" in self.rules(params) else ""
        return f"\nThe episode {also}ends after {steps(limit)}." if limit > 0 else ""

    def reply_format(self) -> str:
        """Return the form of a reply."""
        return self.action_set.reply_format()

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        """Return the actions of a reply."""
        return self.action_set.parse(reply, self.parsing)

    def fallback(self) -> ParsedAction:
        """Return the action without effect."""
        return self.action_set.idle

    def reply_of(self, action: Action) -> str:
        """Return the name of an action in its tag."""
        return self.action_set.reply_of(action)

    def open_all(self, scenes: TScene, params: Any) -> list[str]:
        """Return the first observation texts of B sessions."""
        return self.describe_visible(visible_in(self.env, scenes))

    def respond_all(self, turns: Turns[TScene], params: Any) -> list[str]:
        """Return the texts after B turns."""
        seen = self.open_all(turns.scenes, params)
        ends = zip(turns.rewards.tolist(), turns.terminated.tolist(), turns.truncated.tolist(), strict=True)
        return [
            self._response(move, text, reward, terminated=terminated, truncated=truncated)
            for move, text, (reward, terminated, truncated) in zip(turns.actions, seen, ends, strict=True)
        ]

    def _response(
        self, move: ParsedAction | InvalidReply, seen: str, reward: float, *, terminated: bool, truncated: bool
    ) -> str:
        first = move.reason if isinstance(move, InvalidReply) else f"You chose: {move.text}."
        if terminated:
            return f"{first}\n{seen}\n{self.ending(reward)}"
        return f"{first}\n{seen}\n{TRUNCATED}" if truncated else f"{first}\n{seen}"


def visible_in(env: Any, scenes: Any) -> Any:
    """Return the facts that the frames of B scenes show, as host arrays with B rows.

    The host CPU computes them in chunks of two fixed sizes, padded, so that no B compiles a new program.
    """
    layout, observe = _observer(env, scenes)
    rows, made = len(jax.tree.leaves(scenes)[0]), list[np.ndarray]()
    with _on_host():
        for first in range(0, rows, _CHUNKS[-1]):
            count = min(rows - first, _CHUNKS[-1])
            size = next(size for size in _CHUNKS if size >= count)
            places = np.minimum(np.arange(first, first + size), rows - 1)
            chunk = jax.tree.map(lambda leaf, places=places: np.asarray(leaf)[places], scenes)
            made.append(np.asarray(observe(chunk))[:count])
    return layout.view(made[0] if len(made) == 1 else np.concatenate(made))


def _observer(env: Any, scenes: Any) -> tuple[Rows, Callable[[Any], jax.Array]]:
    """Return a jitted program that makes the facts of B scenes, and the layout of its result, one row of bytes each."""
    key = env, *(leaf.shape[1:] for leaf in jax.tree.leaves(scenes))
    if key not in _OBSERVERS:
        scene = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), scenes)
        layout = Rows(jax.eval_shape(env.visible, scene))
        _OBSERVERS[key] = layout, jax.jit(lambda scenes: layout.pack(jax.vmap(env.visible)(scenes)))
    return _OBSERVERS[key]


def _on_host() -> contextlib.AbstractContextManager[Any]:
    host = _host()
    return contextlib.nullcontext() if host is None else jax.default_device(host)


@functools.cache
def _host() -> Any:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was started without a CPU backend
        return None


def values_of(choices: Any) -> list[int]:
    """Return the choices of an option."""
    return np.asarray(choices.values)[: int(choices.count)].tolist()


def counted(choices: Any, noun: str, more: int = 0) -> str:
    """Return the choices of an option, increased by `more`, with a noun: `"1 step"`, or `"3, 4 or 5 steps"`."""
    numbers = either([str(value + more) for value in values_of(choices)])
    return f"{numbers} {noun}" if numbers == "1" else f"{numbers} {noun}s"


def steps(count: int) -> str:
    """Return a number of steps as text."""
    return f"{count} step{'s' * (count != 1)}"


def either(names: Sequence[str]) -> str:
    """Return `"a, b or c"`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def number(value: Any) -> str:
    """Return an option's number as text."""
    return f"{round(float(value), 4):g}"


def rewards(values: Mapping[str, Any]) -> str:
    """Return the rewards that are not 0, by the events that give them."""
    listed = [f"{number(value)} {event}" for event, value in values.items() if float(value)]
    return f"Reward: {'; '.join(listed) or '0 for every step'}."
