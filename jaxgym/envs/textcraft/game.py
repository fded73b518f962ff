"""TextCraft: craft a goal item from gathered materials by recipes, some of which are distractors.

A level is a goal and a book of recipes. The book has all recipes of the goal and of its ingredients, and up to ten
distractors, which share at least one input with these recipes and make other items. Items without a recipe can be
gathered in any amount. The game is solved when the goal is crafted.

Source: the rules are those of TextCraft (Prasad et al., ADaPT, NAACL Findings 2024) as AgentGym serves it. The world is
our own, see `jaxgym.envs.textcraft.recipes`.

Differences: goals and books are the same on every machine and in every process; an action gathers at most 64 of an
item, and the bag holds at most 999 of each.
"""

import dataclasses
import enum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym import levels
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.textcraft import scene as seen
from jaxgym.envs.textcraft.scene import MOST_CARRIED, TextCraftOutcome
from jaxgym.envs.textcraft.world import NONE, books, world
from jaxgym.options import OBSERVATION, Choices, Integer, IntegerList, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import MultiDiscrete

MOST_GATHERED = 64
"""Largest amount that one action gathers."""

MOST_DISTRACTORS = 10
DEEPEST = 5
"""Depth of the deepest goals."""


class Verb(enum.IntEnum):
    """First entry of an action."""

    LOOK = 0
    GET = 1
    CRAFT = 2


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        goal: Item to craft, int32 ().
        book: Shown recipes, in order, int32 (S,); NONE after the last one.
    """

    goal: jax.Array
    book: jax.Array


@struct.dataclass(kw_only=True)
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        inventory: Amount of each item in the bag, int32 (N,).
        outcome: Outcome of the last action, a `TextCraftOutcome`, int32 ().
        item: Item of the last action, or NONE, int32 ().
        amount: Amount that it gathered or crafted, int32 ().
    """

    inventory: jax.Array
    outcome: jax.Array
    item: jax.Array
    amount: jax.Array = starts_at(0)


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    depth: Choices = traced(
        IntegerList(
            list(range(1, DEEPEST + 1)),
            "depth of the goal: crafting steps needed one after another",
            low=1,
            high=DEEPEST,
        )
    )
    distractors: jax.Array = traced(
        Integer(
            MOST_DISTRACTORS,
            "maximum number of recipes shown that the goal does not need",
            low=0,
            high=MOST_DISTRACTORS,
        )
    )


@dataclasses.dataclass(unsafe_hash=True)
class TextCraft(Environment[Level, State, Params, seen.Scene]):
    """TextCraft, in a world of 393 items and 333 recipes.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (1521,), see
        `jaxgym.envs.textcraft.scene.symbols`.
    Action:
        Verb, object, amount. Verb 0 shows the inventory and has no effect; 1 gathers `amount + 1` of item `object`;
        2 crafts by way `object` (a recipe with an item for each tag, see
        `jaxgym.envs.textcraft.world.CraftingTable`) and ignores the amount.
    Start:
        With an empty bag, and a goal of a random depth.
    Reward:
        1 when the goal is crafted, else 0.
    End:
        Terminated when the goal is crafted. Truncated after `max_steps`; there is no limit by default.
    Info:
        `reward` and `length` so far, `success` (0 or 1).
    Versions:
        v0: the first one.
    """

    observation: str = static(OBSERVATION)

    def action_space(self, params: Params | None = None) -> MultiDiscrete:
        """Return the space of verb, item or way, and amount."""
        return MultiDiscrete((len(Verb), max(len(world().names), len(world().ways.outputs)), MOST_GATHERED))

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample a depth, a goal of this depth, the distractors, and the order of the recipes."""
        key_goal, key_book = jax.random.split(key)
        bits = jax.random.bits(key_goal, (2,), jnp.uint32)
        first, count = _rows_of_depth(params.depth.pick(bits[0]))
        row = first + (bits[1] % count.astype(jnp.uint32)).astype(jnp.int32)
        return _level_of_goal(key_book, row, params.distractors)

    def initial_state(self, level: Level, params: Params) -> State:
        """Start with an empty bag."""
        return State(
            level=level,
            inventory=jnp.zeros(len(world().names), jnp.int32),
            outcome=jnp.int32(TextCraftOutcome.START),
            item=jnp.int32(NONE),
        )

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Gather or craft, if possible; the goal is reached when it is crafted."""
        verb, number, amount = action
        made = _attempt(state.inventory, TextCraftOutcome.NOTHING)
        for each, attempt in {
            Verb.LOOK: _attempt(state.inventory, TextCraftOutcome.LOOKED),
            Verb.GET: get(state.inventory, number, amount + 1),
            Verb.CRAFT: craft(state.inventory, number),
        }.items():
            made = jax.tree.map(partial(jnp.where, verb == each), attempt, made)
        is_goal = (made.outcome == TextCraftOutcome.CRAFTED) & (made.item == state.level.goal)
        after = dataclasses.replace(state, **made._asdict())
        return Transition(after, is_goal.astype(jnp.float32), is_goal, {"success": is_goal.astype(jnp.int32)})

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene: the goal, the shown recipes, the bag, and the last outcome."""
        return seen.Scene(
            goal=state.level.goal,
            book=state.level.book,
            inventory=state.inventory,
            outcome=state.outcome,
            item=state.item,
            amount=state.amount,
        )

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return (seen.symbols if self.observation == "symbolic" else seen.draw)(scene)


class Attempt(NamedTuple):
    """Result of an action; the attributes are those of `State`."""

    inventory: jax.Array
    outcome: jax.Array
    item: jax.Array
    amount: jax.Array


def _attempt(inventory: jax.Array, outcome: TextCraftOutcome) -> Attempt:
    return Attempt(inventory, jnp.int32(outcome), jnp.int32(NONE), jnp.int32(0))


def _made(before: jax.Array, after: jax.Array, item: jax.Array, amount: jax.Array, outcome: jax.Array) -> Attempt:
    """Return an attempt of an outcome: only if something was got or crafted does the bag change to `after`."""
    is_made = (outcome == TextCraftOutcome.GOT) | (outcome == TextCraftOutcome.CRAFTED)
    return Attempt(
        inventory=jnp.where(is_made, after, before),
        outcome=outcome,
        item=jnp.where(outcome == TextCraftOutcome.NOTHING, NONE, item),
        amount=jnp.where(is_made, amount, 0),
    )


def _outcome(success: TextCraftOutcome, *failures: tuple[jax.Array, TextCraftOutcome]) -> jax.Array:
    """Return the outcome of the first failure that holds, else the success, int32 ()."""
    holds, outcomes = zip(*failures, strict=True)
    return jnp.select(holds, [jnp.int32(outcome) for outcome in outcomes], jnp.int32(success))


def get(inventory: jax.Array, item: jax.Array, amount: jax.Array) -> Attempt:
    """Gather an item; the supply is unlimited, but the bag has a capacity for each item."""
    num_items = len(world().names)
    is_sensible = (item >= 0) & (item < num_items) & (amount >= 1) & (amount <= MOST_GATHERED)
    after = inventory + jnp.where(jnp.arange(num_items) == item, amount, 0)
    outcome = _outcome(
        TextCraftOutcome.GOT,
        (~is_sensible, TextCraftOutcome.NOTHING),
        (item >= world().num_gathered, TextCraftOutcome.NOT_GATHERED),
        (jnp.any(after > MOST_CARRIED), TextCraftOutcome.NO_ROOM),
    )
    return _made(inventory, after, item, amount, outcome)


def craft(inventory: jax.Array, way: jax.Array) -> Attempt:
    """Craft by a way: if all inputs are in the bag, replace them by the output."""
    ways, items = world().ways, jnp.arange(len(world().names))
    row = jnp.clip(way, 0, len(ways.outputs) - 1)
    inputs, counts = jnp.asarray(ways.inputs)[row], jnp.asarray(ways.counts)[row]
    output, amount = jnp.asarray(ways.outputs)[row], jnp.asarray(ways.amounts)[row]
    taken = jnp.where(items[None] == inputs[:, None], counts[:, None], 0)
    left = inventory - jnp.sum(taken, axis=0, dtype=jnp.int32)
    after = left + jnp.where(items == output, amount, 0)
    outcome = _outcome(
        TextCraftOutcome.CRAFTED,
        (way != row, TextCraftOutcome.NOTHING),
        (jnp.any(left < 0), TextCraftOutcome.TOO_FEW),
        (jnp.any(after > MOST_CARRIED), TextCraftOutcome.NO_ROOM),
    )
    return _made(inventory, after, output, amount, outcome)


def _rows_of_depth(depth: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the first row of the goals of a depth, and their number, int32 () each."""
    counts = np.bincount(world().depths[world().goals], minlength=DEEPEST + 1).astype(np.int32)
    firsts = (np.cumsum(counts) - counts).astype(np.int32)
    return jnp.asarray(firsts)[depth], jnp.asarray(counts)[depth]


def _level_of_goal(key: jax.Array, row: jax.Array, most: jax.Array) -> Level:
    """Return a level of the goal in a row of `World.goals` with at most `most` distractors; consumes `key`."""
    tree, others = jnp.asarray(books().trees)[row], jnp.asarray(books().others)[row]
    bits = jax.random.bits(key, (others.size + tree.size + MOST_DISTRACTORS,), jnp.uint32)
    distractors = _shuffled(others, bits[: others.size])[:MOST_DISTRACTORS]
    distractors = jnp.where(jnp.arange(MOST_DISTRACTORS) < most, distractors, NONE)
    book = _shuffled(jnp.concatenate([tree, distractors]), bits[others.size :])
    return Level(goal=jnp.asarray(world().goals)[row], book=book)


def _shuffled(recipes: jax.Array, bits: jax.Array) -> jax.Array:
    """Return recipes in the order of their random bits, with NONE at the end."""
    is_none = (recipes == NONE).astype(jnp.int32)
    return lax.sort((is_none, bits, recipes), num_keys=2)[-1]


def level_of_task(env: TextCraft, params: Params, task: Any) -> Level:
    """Return the level of a task number, the same on every machine.

    Goals are numbered by depth, and within a depth in the order in which recipes first make them; the number is taken
    modulo the number of goals. The book depends on the goal and on the option `distractors`.

    Args:
        env: The environment.
        params: Its parameters; `depth` is ignored.
        task: Any integer, may be traced.
    """
    del env
    return _level_of_row(jnp.asarray(task % len(world().goals), jnp.int32), params.distractors)


@jax.jit
def _level_of_row(row: jax.Array, most: jax.Array) -> Level:
    return _level_of_goal(levels.level_key(row), row, most)


def valid_levels(_: Any, buffer: Any, params: Params) -> dict[str, np.ndarray]:
    """Return whether each level has a goal of an allowed depth and existing recipes; bool (n,) by field.

    Besides the recipes that its goal needs, a book has at most as many recipes as there may be distractors.
    """
    is_goal = (buffer.goal >= world().num_gathered) & (buffer.goal < len(world().names))
    depths = world().depths[np.where(is_goal, buffer.goal, 0)]
    is_recipe = (buffer.book >= NONE) & (buffer.book < len(world().recipes))
    rows = np.zeros(len(world().names), int)
    rows[world().goals] = np.arange(len(world().goals))
    num_needed = np.sum(books().trees != NONE, axis=1)[rows[np.where(is_goal, buffer.goal, 0)]]
    is_short = np.sum(buffer.book != NONE, axis=1) <= num_needed + params.distractors
    return {
        "goal": is_goal & np.isin(depths, params.depth.values),
        "book": is_recipe.all(axis=1) & (is_short | ~is_goal),
    }


def view(env: TextCraft, state: State, params: Params) -> jax.Array:
    """Return the frame enlarged four times, uint8 (336, 336, 3); it hides nothing."""
    return enlarged(seen.draw(env.scene(state, params)))
