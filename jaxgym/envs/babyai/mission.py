"""Missions of BabyAI: up to four clauses about things, as small integers, and their words.

A mission has one or two phrases, each of one or two clauses. Clauses 0 and 1 are the phrase that must be fulfilled
first, clauses 2 and 3 the other one. A clause has a verb and one or two descriptions; a description is resolved once,
on the finished level, to a set of things.

The functions take the array module, `numpy` or `jax.numpy`, so levels on the host and in jitted programs share them.
"""

import enum
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import struct

from jaxgym.envs.minigrid.world import STEPS, Color, Type, color_of, type_of


class MissionVerb(enum.IntEnum):
    """Verbs of clauses; `NONE` marks an unused clause."""

    NONE = 0
    GO_TO = 1
    OPEN = 2
    PICK_UP = 3
    PUT = 4


class Order(enum.IntEnum):
    """Connection of the two phrases: "first, then second", or "second after you first"."""

    SINGLE = 0
    THEN = 1
    AFTER = 2


class Place(enum.IntEnum):
    """Half planes around the agent at the start, within its room."""

    ANYWHERE = 0
    LEFT = 1
    RIGHT = 2
    FRONT = 3
    BEHIND = 4


ANY_KIND, ANY_COLOR = int(Type.UNSEEN), len(Color)
"""Type and color of a description that does not name them."""

NUM_CLAUSES = 4
NUM_THINGS = 40
"""Capacity for doors and objects: twelve doors, and the 28 objects of the largest level."""

WORDS = [
    "a",
    "after",
    "and",
    "ball",
    "behind",
    "blue",
    "box",
    "door",
    "front",
    "go",
    "green",
    "grey",
    "in",
    "key",
    "left",
    "next",
    "object",
    "of",
    "on",
    "open",
    "pick",
    "purple",
    "put",
    "red",
    "right",
    "the",
    "then",
    "to",
    "up",
    "yellow",
    "you",
    "your",
    ",",
]
"""Vocabulary: the token of a word is its index plus 1; 0 is padding."""

MISSION_LENGTH = 72
"""Number of tokens of a mission, padding included; the longest mission has as many words."""

_TOKENS = {word: index + 1 for index, word in enumerate(WORDS)}
_DESCRIPTION_FIELDS = 3
_PLACE_LENGTH = 4


class Description(NamedTuple):
    """Description of things.

    Attributes:
        kind: `Type`, or `ANY_KIND`.
        color: `Color`, or `ANY_COLOR`.
        place: `Place`.
    """

    kind: Any = ANY_KIND
    color: Any = ANY_COLOR
    place: Any = int(Place.ANYWHERE)


class Clause(NamedTuple):
    """Clause of a mission.

    Attributes:
        verb: `MissionVerb`.
        first: The things to go to, open, pick up or put.
        second: The things next to which to put; unused by other verbs.
    """

    verb: Any = int(MissionVerb.NONE)
    first: Description = Description()
    second: Description = Description()


class Plan(NamedTuple):
    """Clauses of a mission before its descriptions are resolved.

    Attributes:
        clauses: Four clauses; the first two form the phrase to fulfill first.
        order: `Order`.
    """

    clauses: tuple[Clause, ...]
    order: Any = int(Order.SINGLE)


def only(clause: Clause) -> Plan:
    """Return the plan of one clause."""
    return Plan((clause, Clause(), Clause(), Clause()))


def in_order(first: Clause, second: Clause, order: Any = int(Order.THEN)) -> Plan:
    """Return the plan of two clauses, the first of which must be fulfilled first."""
    return Plan((first, Clause(), second, Clause()), order)


@struct.dataclass
class Mission:
    """A mission with resolved descriptions.

    Attributes:
        verbs: `MissionVerb` of each clause, uint8 (4,).
        descriptions: `Type`, `Color` and `Place` of both descriptions of each clause, uint8 (4, 2, 3).
        order: `Order`, uint8 ().
        matches: For each thing by its number, the descriptions that it matches, uint8 (40,). Bit 2 · c + d is set for
            description d of clause c.
        tokens: The words as tokens, padded with 0, uint8 (72,).
    """

    verbs: jax.Array
    descriptions: jax.Array
    order: jax.Array
    matches: jax.Array
    tokens: jax.Array


class Table(NamedTuple):
    """The doors and objects of a level by number.

    Attributes:
        things: Things, uint16 (40,); `EMPTY` for numbers that do not occur.
        x: x of each, int32 (40,).
        y: y of each, int32 (40,).
    """

    things: Any
    x: Any
    y: Any


class Start(NamedTuple):
    """Start of the agent: x, y and `Direction`."""

    x: Any
    y: Any
    direction: Any


def resolve(xp: Any, plan: Plan, table: Table, start: Start, room_size: int) -> Mission:
    """Return the mission of a plan on a finished level."""
    flat = [part for clause in plan.clauses for part in (*clause.first, *clause.second)]
    descriptions = xp.stack([xp.asarray(part, xp.int32) for part in flat]).reshape(-1, _DESCRIPTION_FIELDS)
    verbs = xp.stack([xp.asarray(clause.verb, xp.int32) for clause in plan.clauses])
    is_used = xp.stack([verbs != MissionVerb.NONE, verbs == MissionVerb.PUT], axis=1).reshape(-1)
    matched = matching(xp, descriptions, table, start, room_size) & is_used[None]
    bits = 1 << np.arange(2 * NUM_CLAUSES)[None]
    descriptions = descriptions.reshape(NUM_CLAUSES, 2, _DESCRIPTION_FIELDS)
    # The original also counts the walls, which are gray, if a description names no type.
    counts_walls = (descriptions[..., 0] == ANY_KIND) & (descriptions[..., 1] == Color.GREY)
    is_many = (matched.sum(axis=0) > 1).reshape(NUM_CLAUSES, 2) | counts_walls
    order = xp.asarray(plan.order, xp.int32)
    return Mission(
        verbs=verbs.astype(xp.uint8),
        descriptions=descriptions.astype(xp.uint8),
        order=order.astype(xp.uint8),
        matches=xp.where(matched, bits, 0).sum(axis=1).astype(xp.uint8),
        tokens=_tokens_of(xp, verbs, descriptions, order, is_many),
    )


def matching(xp: Any, descriptions: Any, table: Table, start: Start, room_size: int) -> Any:
    """Return which things match which of D descriptions, int32 (D, 3); bool (40, D)."""
    kind, color, place = (part[None] for part in descriptions.T)
    is_placed = placed(xp, table, start, room_size)
    kinds, colors = type_of(table.things)[:, None], color_of(table.things)[:, None]
    fits = (kinds >= Type.DOOR) & ((kind == ANY_KIND) | (kind == kinds)) & ((color == ANY_COLOR) | (color == colors))
    for each in Place:
        fits = fits & ((place != each) | is_placed[:, each, None])
    return fits


def placed(xp: Any, table: Table, start: Start, room_size: int) -> Any:
    """Return which things are in which `Place`, bool (40, 5)."""
    stride = room_size - 1
    left, top = start.x // stride * stride, start.y // stride * stride
    is_near = (table.x >= left) & (table.x <= left + stride) & (table.y >= top) & (table.y <= top + stride)
    forward_x, forward_y = xp.asarray(STEPS)[start.direction]
    away_x, away_y = table.x - start.x, table.y - start.y
    ahead, to_the_right = away_x * forward_x + away_y * forward_y, away_y * forward_x - away_x * forward_y
    sides = (to_the_right < 0, to_the_right > 0, ahead > 0, ahead < 0)
    return xp.stack([table.x == table.x, *(is_near & side for side in sides)], axis=1)


def num_units(verbs: Any) -> Any:
    """Return the number of clauses, those with `PUT` counted twice; (..., 4) to int32 (...)."""
    verbs = verbs.astype(np.int32)
    units = (verbs != MissionVerb.NONE).astype(np.int32) + (verbs == MissionVerb.PUT).astype(np.int32)
    return units.sum(axis=-1, dtype=np.int32)


def text_of(tokens: Any) -> str:
    """Return the mission of its tokens, an array (72,), as a string."""
    return " ".join(WORDS[token - 1] for token in np.asarray(tokens).tolist() if token).replace(" ,", ",")


def _coded(phrase: str, length: int) -> list[int]:
    tokens = [_TOKENS[word] for word in phrase.split()]
    return tokens + [0] * (length - len(tokens))


_VERB_WORDS = np.asarray([_coded(phrase, 2) for phrase in ("", "go to", "open", "pick up", "put")])
_NOUNS = np.zeros(int(Type.BOX) + 1, int)
_NOUNS[[ANY_KIND, Type.DOOR, Type.KEY, Type.BALL, Type.BOX]] = [
    _TOKENS[word] for word in ("object", "door", "key", "ball", "box")
]
_COLOR_WORDS = np.asarray([_TOKENS[color.name.lower()] for color in Color] + [0])
_PLACE_WORDS = np.asarray(
    [_coded(phrase, _PLACE_LENGTH) for phrase in ("", "on your left", "on your right", "in front of you", "behind you")]
)
_CONNECTIONS = np.asarray([_coded(phrase, 2) for phrase in ("", ", then", "after you")])


def _tokens_of(xp: Any, verbs: Any, descriptions: Any, order: Any, is_many: Any) -> Any:
    """Return the tokens of a mission, uint8 (72,)."""

    def look_up(table: np.ndarray, index: Any) -> Any:
        return xp.asarray(table)[index]

    articles = xp.where(is_many, _TOKENS["a"], _TOKENS["the"])[..., None]
    nouns = look_up(_NOUNS, descriptions[..., 0])[..., None]
    colors = look_up(_COLOR_WORDS, descriptions[..., 1])[..., None]
    named = xp.concatenate([articles, colors, nouns, look_up(_PLACE_WORDS, descriptions[..., 2])], axis=-1)
    next_to = xp.broadcast_to(xp.asarray(_coded("next to", 2)), (NUM_CLAUSES, 2))
    second = xp.where((verbs == MissionVerb.PUT)[:, None], xp.concatenate([next_to, named[:, 1]], axis=1), 0)
    clauses = xp.concatenate([look_up(_VERB_WORDS, verbs), named[:, 0], second], axis=1)
    clauses = xp.where((verbs != MissionVerb.NONE)[:, None], clauses, 0)
    both = (verbs[1::2] != MissionVerb.NONE)[:, None]
    phrases = xp.concatenate([clauses[::2], xp.where(both, _TOKENS["and"], 0), clauses[1::2]], axis=1)
    phrases = xp.where(order == Order.AFTER, phrases[::-1], phrases)
    words = xp.concatenate([phrases[0], look_up(_CONNECTIONS, order), phrases[1]])
    used_first = xp.argsort(xp.where(words == 0, len(words), 0) + np.arange(len(words)))
    return words[used_first][:MISSION_LENGTH].astype(xp.uint8)
