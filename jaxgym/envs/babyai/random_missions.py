"""Random draws of a jitted program, and the random missions of LevelGen that are made of them."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.envs.babyai.builder import CARRIED, Phrases, Room, Rules, kinds_of
from jaxgym.envs.babyai.mission import (
    ANY_COLOR,
    NUM_CLAUSES,
    Clause,
    Description,
    MissionVerb,
    Order,
    Place,
    Plan,
    Start,
    Table,
    placed,
)
from jaxgym.envs.babyai.rooms import Rooms
from jaxgym.envs.minigrid.world import Color, Type, color_of, type_of

_KINDS = (*CARRIED, Type.DOOR)
_PLACES = np.asarray([Place.ANYWHERE] * 4 + [place for place in Place if place != Place.ANYWHERE], np.int32)
"""Places, each as often as the original draws it: none in half of the cases."""


def uniform_true(mask: jax.Array, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the flat index of a random true element of a mask, int32 (), and whether there is one, bool ()."""
    flat = mask.reshape(-1)
    # One word gives each element a random rank: its index, mixed with the word as in MurmurHash3.
    rank = bits ^ (jnp.arange(len(flat), dtype=jnp.uint32) * jnp.uint32(0x9E3779B1))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        rank = (rank ^ rank >> shift) * jnp.uint32(factor)
    rank = jnp.where(flat, rank >> 1 | jnp.uint32(1), 0)
    return jnp.argmax(rank).astype(jnp.int32), jnp.any(flat)


@dataclasses.dataclass(frozen=True)
class Bits:
    """Random words, each of which is used once.

    Attributes:
        words: The words, uint32 (W,).
        indices: The indices of the words that are not used yet.
    """

    words: jax.Array
    indices: Iterator[int]

    def following(self) -> jax.Array:
        """Return the next word, uint32 ()."""
        return self.words[next(self.indices)]

    def block(self, *shape: int) -> jax.Array:
        """Return the next words as an array, uint32."""
        taken = [next(self.indices) for _ in range(math.prod(shape))]
        return self.words[taken[0] : taken[-1] + 1].reshape(shape)

    def integer(self, high: int) -> jax.Array:
        """Draw an integer from 0 to `high` - 1, int32 (); a single value takes no word."""
        return jnp.int32(0) if high == 1 else (self.following() % jnp.uint32(high)).astype(jnp.int32)

    def integers(self, high: int, *shape: int) -> jax.Array:
        """Draw integers from 0 to `high` - 1, int32."""
        return (self.block(*shape) % jnp.uint32(high)).astype(jnp.int32)

    def is_likely(self, probability: float) -> jax.Array:
        """Draw whether an event of some probability happens, bool ()."""
        return self.following() < jnp.uint32(round(probability * 2**32))


def draw_plan(
    bits: Bits, rules: Rules, table: Table, start: Start, rooms: Rooms, secret: Room, is_locked: Any
) -> tuple[Plan, jax.Array]:
    """Draw a random mission.

    The original draws a description again until it matches something. Here it is drawn from those that match, with the
    same chances.

    Returns:
        The plan, and whether each clause has a description that matches, bool ().
    """
    hides = is_locked if not rules.implicit_unlock else False
    fits = _matched(rules, table, start, rooms, secret, hides)
    verbs = jnp.asarray([int(each) for each in rules.verbs])[bits.integers(len(rules.verbs), NUM_CLAUSES)]
    allowed = np.ones((len(MissionVerb), 2, len(_KINDS)), np.bool_)
    for each in rules.verbs:
        allowed[each, 0] = np.isin(_KINDS, kinds_of(each))
    masks = fits[None, None] & jnp.asarray(allowed)[verbs][:, :, None, :, None]
    drawn, exists = jax.vmap(uniform_true)(masks.reshape(2 * NUM_CLAUSES, -1), bits.block(2 * NUM_CLAUSES))
    exists = exists.reshape(NUM_CLAUSES, 2)
    color, kind, place = (part.reshape(NUM_CLAUSES, 2) for part in jnp.unravel_index(drawn, fits.shape))
    kind, place = jnp.asarray(_KINDS, jnp.int32)[kind], jnp.asarray(_PLACES)[place]
    phrases = jnp.asarray([int(each) for each in rules.phrases])[bits.integer(len(rules.phrases))]
    is_sequence, (is_first_both, is_second_both) = phrases == Phrases.SEQUENCE, bits.integers(2, 2) == 1
    is_first_both = jnp.where(is_sequence, is_first_both, phrases == Phrases.BOTH)
    is_used = jnp.stack([phrases == phrases, is_first_both, is_sequence, is_sequence & is_second_both])
    verbs = jnp.where(is_used, verbs, int(MissionVerb.NONE))
    is_possible = jnp.all(~is_used | (exists[:, 0] & (exists[:, 1] | (verbs != MissionVerb.PUT))))
    clauses = [
        Clause(verbs[each], *(Description(kind[each, d], color[each, d], place[each, d]) for d in range(2)))
        for each in range(NUM_CLAUSES)
    ]
    return Plan(tuple(clauses), jnp.where(is_sequence, 1 + bits.integer(2), int(Order.SINGLE))), is_possible


def _matched(rules: Rules, table: Table, start: Start, rooms: Rooms, secret: Room, hides: Any) -> jax.Array:
    """Return which colors, types and places match something, bool (7, 4, 8), each as often as the original draws it."""
    left, top = rooms.corner(secret)
    is_inside = (table.x >= left) & (table.x <= left + rooms.stride)
    is_inside &= (table.y >= top) & (table.y <= top + rooms.stride)
    is_kind = type_of(table.things)[:, None] == np.asarray(_KINDS, np.int32)[None]
    is_kind &= ~(is_inside & hides)[:, None]
    colors = np.arange(len(Color) + 1)[None]
    is_color = (color_of(table.things)[:, None] == colors) | (colors == ANY_COLOR)
    is_placed = placed(jnp, table, start, rooms.size)
    is_allowed = rules.has_places | (np.arange(len(Place)) == Place.ANYWHERE)
    count = jnp.einsum("nc,nk,np->ckp", *(each.astype(jnp.float32) for each in (is_color, is_kind, is_placed)))
    return ((count > 0) & is_allowed[None, None])[..., _PLACES]
