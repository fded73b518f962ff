"""Recipes of TextCraft as tables, made once per process on the host; items are numbered in the order of the file.

A recipe may use a tag. A *way* is a recipe with an item chosen for each tag, so that its inputs are items.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jaxgym.envs.textcraft.recipes import CRAFTED, GATHERED, TAGS

NUM_INPUTS = 4
"""Largest number of inputs of a recipe."""

NONE = -1
"""Value for no item, no recipe and no way."""

Amount = tuple[int, str]
"""An amount and the name of an item or tag."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A recipe with names.

    Attributes:
        output: Output and its amount.
        inputs: Inputs, items or tags, and their amounts.
    """

    output: Amount
    inputs: tuple[Amount, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class CraftingTable:
    """All ways of crafting: V ways, ordered by recipe.

    Attributes:
        recipes: Recipe of each way, int32 (V,).
        outputs: Item that it makes, int32 (V,).
        amounts: Amount that it makes, int32 (V,).
        inputs: Items that it takes, int32 (V, 4); NONE after the last one.
        counts: Amounts that it takes, int32 (V, 4); 0 after the last one.
    """

    recipes: np.ndarray
    outputs: np.ndarray
    amounts: np.ndarray
    inputs: np.ndarray
    counts: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """Tables that are the same in all levels: N items, R recipes, V ways, G goals.

    Attributes:
        names: Names of the items: gathered ones first, then crafted ones.
        kinds: Kind of each item.
        num_gathered: Number of gathered items.
        tags: Items of each tag.
        recipes: Recipes.
        ways: Ways.
        depths: Number of consecutive crafting steps that an item needs, int32 (N,); 0 for gathered items.
        goals: Crafted items, by depth and then in the order of the file, int32 (G,).
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    num_gathered: int
    tags: Mapping[str, tuple[int, ...]]
    recipes: tuple[Recipe, ...]
    ways: CraftingTable
    depths: np.ndarray
    goals: np.ndarray

    @functools.cached_property
    def items(self) -> dict[str, int]:
        """Number of each item, by name."""
        return {name: number for number, name in enumerate(self.names)}

    def members(self, name: str) -> tuple[int, ...]:
        """Return the items that an input of this name can be."""
        return self.tags[name] if name in self.tags else (self.items[name],)


@functools.cache
def world() -> World:
    """Build the tables from the recipes."""
    gathered = {name: kind for kind, line in _lines(GATHERED) for name in line.split(", ")}
    kinds, recipes = dict(gathered), list[Recipe]()
    for kind, line in _lines(CRAFTED):
        output, _, inputs = line.partition(": ")
        recipes.append(Recipe(_amount(output), tuple(_amount(entry) for entry in inputs.split(", "))))
        kinds.setdefault(recipes[-1].output[1], kind)
    names = tuple(kinds)
    tags = {tag: tuple(item for item, name in enumerate(names) if name.endswith(f" {tag}")) for tag in TAGS}
    ways = _ways(names, tags, recipes)
    depths = _depths(ways, len(names), len(gathered))
    crafted = np.arange(len(gathered), len(names), dtype=np.int32)
    goals = crafted[np.argsort(depths[crafted], kind="stable")]
    return World(names, tuple(kinds.values()), len(gathered), tags, tuple(recipes), ways, depths, goals)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line under a heading, with the heading."""
    kind = ""
    for line in text.splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line:
            yield kind, line


def _amount(entry: str) -> Amount:
    """Return `(4, "ash planks")` for `"4 ash planks"`."""
    count, _, name = entry.partition(" ")
    return int(count), name


def _ways(names: Sequence[str], tags: Mapping[str, tuple[int, ...]], recipes: Sequence[Recipe]) -> CraftingTable:
    items = {name: number for number, name in enumerate(names)}
    rows = list[tuple[int, int, int, list[int], list[int]]]()
    for number, recipe in enumerate(recipes):
        amount, output = recipe.output
        unused = NUM_INPUTS - len(recipe.inputs)
        counts = [count for count, _ in recipe.inputs] + [0] * unused
        choices = [tags[name] if name in tags else (items[name],) for _, name in recipe.inputs]
        for chosen in itertools.product(*choices):
            rows.append((number, items[output], amount, [*chosen, *[NONE] * unused], counts))
    return CraftingTable(*(np.asarray(column, np.int32) for column in zip(*rows, strict=True)))


def _depths(ways: CraftingTable, num_items: int, num_gathered: int) -> np.ndarray:
    """Return the smallest depth of each item over its ways: that of the deepest input plus one."""
    beyond = num_items
    depths = np.where(np.arange(num_items) < num_gathered, 0, beyond).astype(np.int32)
    while True:
        deepest = np.where(ways.counts > 0, depths[ways.inputs], 0).max(axis=1)
        found = depths.copy()
        np.minimum.at(found, ways.outputs, np.minimum(deepest + 1, beyond).astype(np.int32))
        if (found == depths).all():
            return depths
        depths = found


@dataclasses.dataclass(frozen=True, eq=False)
class RecipeBooks:
    """Recipes that belong to each goal, in ascending order, padded with NONE.

    Attributes:
        trees: Recipes of the goal and of its direct and indirect inputs, int32 (G, T).
        others: Other recipes that take one of these inputs, which may be distractors, int32 (G, C).
    """

    trees: np.ndarray
    others: np.ndarray


@functools.cache
def books() -> RecipeBooks:
    """Return the recipes that belong to each goal."""
    whole = world()
    makers: list[list[int]] = [[] for _ in whole.names]
    for number, recipe in enumerate(whole.recipes):
        makers[whole.items[recipe.output[1]]].append(number)
    trees, others = list[list[int]](), list[list[int]]()
    for goal in whole.goals.tolist():
        tree = _tree(whole, makers, goal)
        taken = {name for number in tree for _, name in whole.recipes[number].inputs}
        trees.append(sorted(tree))
        others.append(
            [
                number
                for number, recipe in enumerate(whole.recipes)
                if number not in tree and any(name in taken for _, name in recipe.inputs)
            ]
        )
    return RecipeBooks(_filled(trees), _filled(others))


def _tree(whole: World, makers: Sequence[Sequence[int]], goal: int) -> set[int]:
    found, waiting = set[int](), [goal]
    while waiting:
        for number in makers[waiting.pop()]:
            if number not in found:
                found.add(number)
                waiting += [item for _, name in whole.recipes[number].inputs for item in whole.members(name)]
    return found


def _filled(rows: Sequence[Sequence[int]]) -> np.ndarray:
    table = np.full((len(rows), max(map(len, rows))), NONE, np.int32)
    for row, entries in zip(table, rows, strict=True):
        row[: len(entries)] = entries
    return table
