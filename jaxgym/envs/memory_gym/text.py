"""Text interfaces of Memory Gym: actions by name, and descriptions that are made of a game's `Visible`.

A scene holds more than its frame shows where something covers something else. The facts of `Visible` are those of the
frame, so a text that is made of them alone never tells more than the frame.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, Along, GridAction
from jaxgym.options import Integer, Option
from jaxgym.rows import Rows
from jaxgym.text.moves import MoveSet
from jaxgym.text.words import Action, Move, Refusal, Turn, Turns, Words

TScene = TypeVar("TScene")

MOST_MOVES = 64
"""The most actions that one reply can be allowed to give."""

HEADINGS = ("up", "up-left", "left", "down-left", "down", "down-right", "right", "up-right")
"""The headings by number."""

_CHUNKS = (8, 64)
_OBSERVERS = dict[Any, tuple[Rows, Callable[[Any], jax.Array]]]()
_HORIZONTAL = {"": Along.STAY, "left": Along.NEGATIVE, "right": Along.POSITIVE}
_VERTICAL = {"": Along.STAY, "up": Along.NEGATIVE, "down": Along.POSITIVE}
_WAITS = {phrase: "wait" for phrase in ("stay", "noop", "no-op", "do nothing", "idle", "pass")}


def moves_option(default: int) -> dict[str, Option]:
    """Returns the option of the words that says how many actions a reply may give."""
    return {"moves_per_turn": Integer(default, "actions that one reply may give", low=1, high=MOST_MOVES)}


@functools.cache
def grid_moves(most: int) -> MoveSet:
    """Returns the actions of the grid games."""
    actions: dict[str, Action] = {
        "wait": int(GridAction.NOTHING),
        "turn left": int(GridAction.TURN_LEFT),
        "turn right": int(GridAction.TURN_RIGHT),
        "forward": int(GridAction.FORWARD),
    }
    synonyms = {
        **_WAITS,
        **{f"{verb}{side}": f"turn {side}" for side in ("left", "right") for verb in ("", "rotate ")},
        **dict.fromkeys(("ahead", "forwards"), "forward"),
    }
    return MoveSet(actions, synonyms, most, "forward")


@functools.cache
def free_moves(most: int, *, is_flat: bool) -> MoveSet:
    """Returns the actions of the free games: nine numbers if `is_flat`, else pairs (horizontal, vertical)."""
    actions, synonyms = dict[str, Action](), dict(_WAITS)
    for up_down, vertical in _VERTICAL.items():
        for side, horizontal in _HORIZONTAL.items():
            name = "-".join(filter(None, (up_down, side))) or "wait"
            actions[name] = (
                len(Along) * int(horizontal) + int(vertical) if is_flat else (int(horizontal), int(vertical))
            )
            if up_down and side:
                synonyms[f"{side}-{up_down}"] = name
    arrows = {"↑": "up", "↓": "down", "←": "left", "→": "right"}
    return MoveSet(actions, {**synonyms, **arrows}, most, "right")


@functools.cache
def course_moves(most: int) -> MoveSet:
    """Returns the actions of Endless Mystery Path."""
    actions: dict[str, Action] = {"wait": 0, "right": 1, "up": 2, "down": 3}
    synonyms = {**_WAITS, "→": "right", "↑": "up", "↓": "down", "forward": "right"}
    return MoveSet(actions, synonyms, most, "right")


def moves_of(env: Any, values: Mapping[str, Any]) -> MoveSet:
    """Returns the actions of a game that is played by tiles or freely, as its fields `grid` and `flat_actions` say."""
    most = int(values["moves_per_turn"])
    return grid_moves(most) if getattr(env, "grid", False) else free_moves(most, is_flat=env.flat_actions)


@dataclasses.dataclass(frozen=True)
class FrameWords(Words[TScene]):
    """Text that is made of the facts that a frame shows.

    Subclasses define `rules` and `say`.

    Attributes:
        env: The environment.
        moves: Its actions by name.
    """

    env: Any
    moves: MoveSet

    @property
    def max_actions(self) -> int:
        """The most actions that one reply may give."""
        return self.moves.most

    def rules(self, params: Any) -> str:
        """Returns the rules of the game and a legend of what is said of its frames."""
        raise NotImplementedError  # Every game has its own.

    def say(self, seen: Any) -> list[str]:
        """Return the text of the facts of B frames: a `Visible` of arrays on the host with B rows."""
        raise NotImplementedError  # Every game has its own.

    def ending(self, reward: float) -> str:
        """Returns what is said of an episode that the rules ended, with the reward of its last turn."""
        return f"The episode has ended. The reward of this turn is {round(reward, 4):g}."

    def instructions(self, params: Any) -> str:
        """Returns the rules, the legend and the form of a reply."""
        limit = int(params.max_steps_in_episode)
        ends = f"\nThe episode ends after {limit} steps at the latest; each action is a step." if limit > 0 else ""
        return f"{self.rules(params)}{ends}\n\n{self.moves.help()}"

    def parse(self, reply: str) -> Move | Refusal:
        """Returns the actions that a reply names."""
        return self.moves.parse(reply, self.parsing)

    def fallback(self) -> Move:
        """Returns the move that does nothing."""
        return self.moves.idle

    def reply_of(self, action: Action) -> str:
        """Returns the name of an action in its tag."""
        return self.moves.reply_of(action)

    def describe(self, scene: TScene, params: Any) -> str:
        """Returns what the frame of a scene shows."""
        return self.open_all(jax.tree.map(lambda leaf: np.asarray(leaf)[None], scene), params)[0]

    def open_all(self, scenes: TScene, params: Any) -> list[str]:
        """Returns what the frames of the scenes of B sessions show."""
        del params
        return self.say(visible_in(self.env, scenes))

    def respond(self, turn: Turn[TScene], params: Any) -> str:
        """Returns the reply as it was understood, what the frame shows, and whether the episode has ended."""
        seen = self.describe(turn.scene, params)
        return self._response(turn.move, seen, turn.reward, terminated=turn.terminated, truncated=turn.truncated)

    def respond_all(self, turns: Turns[TScene], params: Any) -> list[str]:
        """Returns the texts that follow B turns."""
        seen = self.open_all(turns.scenes, params)
        ends = zip(turns.rewards.tolist(), turns.terminated.tolist(), turns.truncated.tolist(), strict=True)
        return [
            self._response(move, text, reward, terminated=terminated, truncated=truncated)
            for move, text, (reward, terminated, truncated) in zip(turns.moves, seen, ends, strict=True)
        ]

    def _response(self, move: Move | Refusal, seen: str, reward: float, *, terminated: bool, truncated: bool) -> str:
        first = move.reason if isinstance(move, Refusal) else f"You chose: {move.text}."
        if terminated:
            return f"{first}\n{seen}\n{self.ending(reward)}"
        return f"{first}\n{seen}\nA limit has cut the episode off." if truncated else f"{first}\n{seen}"


def visible_in(env: Any, scenes: Any) -> Any:
    """Return the facts that the frames of B scenes show, as arrays on the host with B rows.

    The host's processor computes them in chunks of two sizes, which are padded, so that no B compiles a new program.
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
    except RuntimeError:  # JAX was started without it
        return None


def heading_names(looks: np.ndarray) -> list[str]:
    """Returns how each heading is called where some look alike: `looks` is the first that looks like each, int (8,)."""
    alike = [[HEADINGS[other] for other in range(NUM_HEADINGS) if looks[other] == look] for look in looks]
    return [f", facing {' or '.join(names)}" if len(names) < NUM_HEADINGS else "" for names in alike]


def tile_name(row: int, column: int) -> str:
    """Returns a tile in words, counted from 1; -1 and -1 stand for none."""
    return f"row {row + 1}, column {column + 1}" if row >= 0 and column >= 0 else "on no tile"


def one_of(choices: Any) -> str:
    """Returns the choices of an option in words: `"10"`, or `"3, 4 or 5"`."""
    return either([str(value) for value in np.asarray(choices.values)[: int(choices.count)].tolist()])


def either(names: Sequence[str]) -> str:
    """Returns `"a, b or c"`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def number(value: Any) -> str:
    """Returns an option's number in words."""
    return f"{round(float(value), 4):g}"


def free_speed(params: Any) -> str:
    """Returns how far one action moves a free agent."""
    speed = float(params.agent_speed)
    return f"One action moves you {int(speed)} px, or {int(speed / np.sqrt(2))} px along each axis on a diagonal."
