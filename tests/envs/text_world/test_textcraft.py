"""TextCraft: the world, the levels, one test per rule, the scene, and the expert on every goal.

larch log ─ larch planks ┐
larch log ─ wooden pole  ┴─ stool            flax ─ flax yarn ─ fishing net (of any yarn)
"""

import dataclasses
import os
import re
import subprocess
import sys
import zlib
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.textcraft import expert as textcraft_planner
from jaxgym.envs.textcraft import game as textcraft
from jaxgym.envs.textcraft import scene as seen
from jaxgym.envs.textcraft.game import MOST_GATHERED, Verb
from jaxgym.envs.textcraft.icons import icons
from jaxgym.envs.textcraft.scene import MOST_CARRIED, TextCraftOutcome
from jaxgym.envs.textcraft.world import NONE, Recipe, books, world
from jaxgym.errors import LevelError

ENV, PARAMS = jaxgym.make("TextCraft-v0")
WORLD = world()
ITEM = WORLD.items
GOALS = [WORLD.names[goal] for goal in WORLD.goals]

_step = jax.jit(partial(ENV.transition, params=PARAMS))
_level_of_task = jax.jit(partial(textcraft.level_of_task, ENV))
_sample_level = jax.jit(ENV.sample_level)
_draw, _symbols = jax.jit(seen.draw), jax.jit(seen.symbols)


def way(output: str, **inputs: int) -> int:
    """Return the way that makes an item from exactly these inputs, with `_` for blanks."""
    wanted = {ITEM[name.replace("_", " ")]: count for name, count in inputs.items()}
    found = [
        number
        for number in range(len(WORLD.ways.outputs))
        if WORLD.names[WORLD.ways.outputs[number]] == output
        and {i: n for i, n in zip(WORLD.ways.inputs[number], WORLD.ways.counts[number], strict=True) if n} == wanted
    ]
    assert len(found) == 1
    return found[0]


def state_with(goal: str = "stool", **bag: int) -> Any:
    """Return a state with this goal and these items, with `_` for blanks."""
    state = ENV.initial_state(_level_of_task(PARAMS, GOALS.index(goal)), PARAMS)
    inventory = np.zeros(len(WORLD.names), np.int32)
    for name, count in bag.items():
        inventory[ITEM[name.replace("_", " ")]] = count
    return dataclasses.replace(state, inventory=jnp.asarray(inventory))


def bag_of(state: Any) -> dict[str, int]:
    inventory = np.asarray(state.inventory)
    return {WORLD.names[item]: int(inventory[item]) for item in np.flatnonzero(inventory)}


def outcome_of(state: Any) -> tuple[TextCraftOutcome, str | None, int]:
    """Return the last outcome, its item, and its amount."""
    item = int(state.item)
    return TextCraftOutcome(int(state.outcome)), None if item == NONE else WORLD.names[item], int(state.amount)


def act(state: Any, *action: int) -> Any:
    return _step(state, jnp.asarray(action, jnp.int32))


# The world


def test_the_world_is_large() -> None:
    assert len(WORLD.names) >= 150
    assert len(WORLD.recipes) >= 200
    counts = np.bincount(WORLD.depths[WORLD.goals], minlength=6)
    assert (counts[1:5] >= (40, 60, 40, 15)).all()
    assert len(counts) == textcraft.DEEPEST + 1


def test_names_are_lower_case_letters_and_blanks() -> None:
    assert all(re.fullmatch("[a-z]+( [a-z]+)*", name) for name in [*WORLD.names, *WORLD.tags])
    assert len(set(WORLD.names)) == len(WORLD.names)
    assert not set(WORLD.names) & set(WORLD.tags)


def test_every_input_is_an_item_or_a_tag_and_is_named_once() -> None:
    for recipe in WORLD.recipes:
        names = [name for _, name in recipe.inputs]
        members = [item for name in names for item in WORLD.members(name)]
        assert len(set(members)) == len(members), recipe
        assert all(1 <= count <= MOST_GATHERED for count, _ in recipe.inputs)
        assert recipe.output[0] >= 1


def test_a_tag_stands_for_the_items_whose_names_end_with_it_and_is_asked_for() -> None:
    assert [WORLD.names[item] for item in WORLD.tags["cloth"]] == ["linen cloth", "wool cloth", "silk cloth"]
    asked = {name for recipe in WORLD.recipes for _, name in recipe.inputs}
    for tag, members in WORLD.tags.items():
        assert tag in asked
        assert len(members) >= 2


def test_no_two_ways_make_one_item_of_the_same_inputs() -> None:
    ways = WORLD.ways
    rows = {
        (output, frozenset(zip(inputs, counts, strict=True)))
        for output, inputs, counts in zip(
            ways.outputs.tolist(), ways.inputs.tolist(), ways.counts.tolist(), strict=True
        )
    }
    assert len(rows) == len(ways.outputs)


def test_no_item_goes_into_itself_and_the_depth_is_that_of_the_shallowest_recipe() -> None:
    makers: dict[str, list[Recipe]] = {}
    for recipe in WORLD.recipes:
        makers.setdefault(recipe.output[1], []).append(recipe)
    depths = dict.fromkeys(WORLD.names[: WORLD.num_gathered], 0)

    def depth(name: str, below: tuple[str, ...] = ()) -> int:
        assert name not in below, f"{name} goes into itself"
        if name not in depths:
            inner = (*below, name)
            found = [
                max(
                    min(depth(WORLD.names[item], inner) for item in WORLD.members(source))
                    for _, source in recipe.inputs
                )
                for recipe in makers[name]
            ]
            depths[name] = 1 + min(found)
        return depths[name]

    assert [depth(name) for name in WORLD.names] == WORLD.depths.tolist()


def test_depths_that_are_known_by_hand() -> None:
    by_hand = {"larch log": 0, "larch planks": 1, "stool": 2, "felt sheet": 1, "iron nail": 2, "rowing boat": 3}
    assert {name: int(WORLD.depths[ITEM[name]]) for name in by_hand} == by_hand


def test_several_recipes_make_some_items() -> None:
    outputs = [recipe.output[1] for recipe in WORLD.recipes]
    assert sum(outputs.count(name) > 1 for name in set(outputs)) >= 8


def test_goals_are_all_that_is_crafted_by_depth_and_then_as_the_recipes_name_them() -> None:
    authored = list(dict.fromkeys(recipe.output[1] for recipe in WORLD.recipes))
    assert sorted(authored, key=lambda name: WORLD.depths[ITEM[name]]) == GOALS
    assert [GOALS[0], GOALS[1], GOALS[100], GOALS[-1]] == ["ash planks", "elm planks", "bronze bar", "bakery"]
    # Task numbers are part of the version: another table is another version.
    assert zlib.crc32(",".join(GOALS).encode()) == 3991363182


# Levels


def test_task_numbers_count_goals_modulo_their_number() -> None:
    num_goals = len(GOALS)
    for task in (0, 7, num_goals - 1, num_goals + 7, -1, 10**20):
        level = textcraft.level_of_task(ENV, PARAMS, task)
        assert int(level.goal) == WORLD.goals[task % num_goals]


def shown(level: Any) -> list[int]:
    book = np.asarray(level.book)
    return book[book != NONE].tolist()


def needed(goal: str) -> set[int]:
    """Return the recipes of an item and of all its direct and indirect inputs."""
    own = {number for number, recipe in enumerate(WORLD.recipes) if recipe.output[1] == goal}
    sources = {
        WORLD.names[item] for number in own for _, name in WORLD.recipes[number].inputs for item in WORLD.members(name)
    }
    return own.union(*(needed(name) for name in sources))


@pytest.mark.parametrize("goal", ["ash planks", "stool", "rope ladder", "lighthouse"])
def test_the_book_shows_what_the_goal_needs_and_up_to_ten_recipes_that_take_the_same(goal: str) -> None:
    level = _level_of_task(PARAMS, GOALS.index(goal))
    book, tree = shown(level), needed(goal)
    assert len(set(book)) == len(book)
    assert tree <= set(book)
    taken = {name for number in tree for _, name in WORLD.recipes[number].inputs}
    others = [number for number in book if number not in tree]
    alike = [n for n, r in enumerate(WORLD.recipes) if n not in tree and any(name in taken for _, name in r.inputs)]
    assert len(others) == min(10, len(alike))
    assert set(others) <= set(alike)


def test_the_book_has_as_few_distractors_as_the_option_says() -> None:
    for most in (0, 3):
        level = _level_of_task(dataclasses.replace(PARAMS, distractors=np.int32(most)), GOALS.index("stool"))
        assert len(shown(level)) == len(needed("stool")) + most


def test_the_book_is_shuffled_and_a_task_always_has_the_same() -> None:
    books_of = [shown(_level_of_task(PARAMS, task)) for task in (200, 200, 201)]
    assert books_of[0] == books_of[1] != books_of[2]
    assert sorted(books_of[0]) != books_of[0]


def test_levels_have_the_depths_that_the_option_allows() -> None:
    params = jaxgym.make("TextCraft-v0", depth=[2, 4])[1]
    buffer = levels.make_level_buffer(ENV, params, levels.train_seeds(64))
    depths = WORLD.depths[np.asarray(buffer.goal)]
    assert set(depths.tolist()) == {2, 4}
    assert len(set(np.asarray(buffer.goal).tolist())) > 20
    with pytest.raises(jaxgym.errors.LevelError, match="goal"):
        jaxgym.make("TextCraft-v0", depth=[3], levels=buffer)
    assert jaxgym.make("TextCraft-v0", depth=[4, 2], levels=buffer)[1].levels is buffer


def test_a_seed_decides_goal_and_book() -> None:
    one, other = (_sample_level(levels.level_key(seed), PARAMS) for seed in (1, 2))
    assert shown(one) != shown(other)


@pytest.mark.slow
def test_the_order_of_hashes_changes_no_task() -> None:
    program = """
import jax, jaxgym
from jaxgym.envs.textcraft import game as textcraft
env, params = jaxgym.make("TextCraft-v0")
level_of_task = jax.jit(lambda task: textcraft.level_of_task(env, params, task))
print([(int(level.goal), level.book.tolist()) for level in map(level_of_task, range(0, 324, 40))])
"""
    told_twice = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told_twice) == 1


# Rules


def test_an_episode_starts_with_nothing() -> None:
    state = state_with()
    assert bag_of(state) == {}
    assert outcome_of(state) == (TextCraftOutcome.START, None, 0)


def test_get_adds_as_many_as_asked_for() -> None:
    made = act(state_with(flax=2), Verb.GET, ITEM["flax"], 2)
    assert bag_of(made.state) == {"flax": 5}
    assert outcome_of(made.state) == (TextCraftOutcome.GOT, "flax", 3)
    assert not made.terminated


def test_what_is_crafted_is_not_to_be_got() -> None:
    made = act(state_with(flax=2), Verb.GET, ITEM["stool"], 0)
    assert bag_of(made.state) == {"flax": 2}
    assert outcome_of(made.state) == (TextCraftOutcome.NOT_GATHERED, "stool", 0)
    assert made.reward == 0.0


def test_the_bag_holds_so_many_of_an_item() -> None:
    nearly = state_with(flax=MOST_CARRIED - 1)
    assert bag_of(act(nearly, Verb.GET, ITEM["flax"], 0).state) == {"flax": MOST_CARRIED}
    made = act(nearly, Verb.GET, ITEM["flax"], 1)
    assert bag_of(made.state) == {"flax": MOST_CARRIED - 1}
    assert outcome_of(made.state) == (TextCraftOutcome.NO_ROOM, "flax", 0)
    full = state_with(ash_log=1, ash_planks=MOST_CARRIED - 3)
    made = act(full, Verb.CRAFT, way("ash planks", ash_log=1), 0)
    assert bag_of(made.state) == {"ash log": 1, "ash planks": MOST_CARRIED - 3}
    assert outcome_of(made.state) == (TextCraftOutcome.NO_ROOM, "ash planks", 0)


def test_craft_takes_the_inputs_and_gives_the_amount_of_the_recipe() -> None:
    for amount in (0, 7):  # which does not matter
        made = act(state_with(ash_log=3, flax=1), Verb.CRAFT, way("ash planks", ash_log=1), amount)
        assert bag_of(made.state) == {"ash log": 2, "flax": 1, "ash planks": 4}
        assert outcome_of(made.state) == (TextCraftOutcome.CRAFTED, "ash planks", 4)
        assert not made.terminated


def test_craft_needs_all_inputs() -> None:
    made = act(state_with(elm_planks=2, wooden_pole=2), Verb.CRAFT, way("stool", elm_planks=2, wooden_pole=3), 0)
    assert bag_of(made.state) == {"elm planks": 2, "wooden pole": 2}
    assert outcome_of(made.state) == (TextCraftOutcome.TOO_FEW, "stool", 0)
    assert made.reward == 0.0


def test_any_member_counts_for_its_tag_but_no_mixture_does() -> None:
    for planks in ("ash_planks", "walnut_planks"):
        number = way("stool", **{planks: 2, "wooden_pole": 3})
        made = act(state_with(**{planks: 2, "wooden_pole": 3}), Verb.CRAFT, number, 0)
        assert bag_of(made.state) == {"stool": 1}
        mixed = act(state_with(ash_planks=1, walnut_planks=1, wooden_pole=3), Verb.CRAFT, number, 0)
        assert outcome_of(mixed.state)[0] == TextCraftOutcome.TOO_FEW


def test_the_goal_is_worth_one_and_ends_the_episode() -> None:
    bag = {"ash_planks": 2, "wooden_pole": 3}
    number = way("stool", **bag)
    won = act(state_with("stool", **bag), Verb.CRAFT, number, 0)
    assert (float(won.reward), bool(won.terminated), int(won.metrics["success"])) == (1.0, True, 1)
    other = act(state_with("chair", **bag), Verb.CRAFT, number, 0)
    assert (float(other.reward), bool(other.terminated), int(other.metrics["success"])) == (0.0, False, 0)


def test_a_look_changes_nothing() -> None:
    state = state_with(flax=2)
    made = act(act(state, Verb.GET, ITEM["flax"], 0).state, Verb.LOOK, 5, 5)
    assert bag_of(made.state) == {"flax": 3}
    assert outcome_of(made.state) == (TextCraftOutcome.LOOKED, None, 0)


@pytest.mark.parametrize(
    "action",
    [
        (Verb.GET, len(WORLD.names), 0),
        (Verb.GET, -1, 0),
        (Verb.GET, 0, MOST_GATHERED),
        (Verb.GET, 0, -1),
        (Verb.CRAFT, len(WORLD.ways.outputs), 0),
        (Verb.CRAFT, -1, 0),
        (3, 0, 0),
        (-1, 0, 0),
    ],
)
def test_an_action_without_meaning_changes_nothing(action: tuple[int, ...]) -> None:
    state = state_with(**{name.replace(" ", "_"): 9 for name in WORLD.names})
    made = act(state, *action)
    assert bag_of(made.state) == bag_of(state)
    assert outcome_of(made.state) == (TextCraftOutcome.NOTHING, None, 0)
    assert not made.terminated


def test_the_action_space_holds_every_item_way_and_amount() -> None:
    assert ENV.action_space(PARAMS).nvec == (3, len(WORLD.ways.outputs), MOST_GATHERED)
    assert len(WORLD.ways.outputs) >= len(WORLD.names)


# What is seen


def scenes() -> list[seen.Scene]:
    """Return scenes that each differ from the first in one respect."""
    state = state_with(flax=2, stool=1)
    scene = ENV.scene(dataclasses.replace(state, outcome=jnp.int32(TextCraftOutcome.GOT), item=jnp.int32(3)), PARAMS)
    inventory, book = scene.inventory, np.asarray(scene.book)
    more = [
        dataclasses.replace(scene, outcome=jnp.int32(outcome))
        for outcome in TextCraftOutcome
        if outcome != TextCraftOutcome.GOT
    ]
    more += [dataclasses.replace(scene, item=jnp.int32(item)) for item in (NONE, 4)]
    more += [dataclasses.replace(scene, amount=jnp.int32(amount)) for amount in (1, 3)]
    more += [dataclasses.replace(scene, inventory=inventory.at[item].set(count)) for item, count in ((0, 1), (0, 999))]
    more += [dataclasses.replace(scene, inventory=inventory.at[ITEM["flax"]].set(count)) for count in (0, 1, 3)]
    more += [dataclasses.replace(scene, goal=jnp.int32(ITEM["chair"]))]
    more += [dataclasses.replace(scene, book=jnp.asarray(np.where(book == book[k], NONE, book))) for k in (0, 1)]
    return [scene, *more]


def test_frames_and_symbols_tell_the_same_scenes_apart() -> None:
    frames, symbols = ({np.asarray(see(scene)).tobytes() for scene in scenes()} for see in (_draw, _symbols))
    assert len(frames) == len(symbols) == len(scenes())


def test_the_order_of_the_book_is_not_seen() -> None:
    scene = scenes()[0]
    turned = dataclasses.replace(scene, book=scene.book[::-1])
    for see in (_draw, _symbols):
        assert np.array_equal(see(scene), see(turned))


def test_the_picture_shows_the_bag_in_the_order_of_the_items() -> None:
    frame = np.asarray(_draw(scenes()[0]))
    for place, name in enumerate(("flax", "stool")):
        slot = frame[14:28, 14 * place : 14 * place + 14]
        image, icon = slot[:8, 3:11], icons()[ITEM[name]]
        assert (image == icon).all(axis=-1).sum() >= 60  # a digit may touch the last row
    assert (frame[14:22, 31:39] == icons()[-1]).all(), "the next slot is empty"


def test_the_picture_shows_24_kinds_of_items_and_the_symbols_all() -> None:
    scene = scenes()[0]
    inventory = np.zeros(len(WORLD.names), np.int32)
    inventory[:25] = 1
    one, other = (dataclasses.replace(scene, inventory=jnp.asarray(inventory.copy())) for _ in range(2))
    inventory[24] = 2
    other = dataclasses.replace(scene, inventory=jnp.asarray(inventory))
    assert np.array_equal(_draw(one), _draw(other))
    assert not np.array_equal(_symbols(one), _symbols(other))


def test_no_two_items_look_alike() -> None:
    assert len({icon.tobytes() for icon in icons()}) == len(WORLD.names) + 1


def test_symbols_are_as_many_as_the_pages_say() -> None:
    env, params = jaxgym.make("TextCraft-v0", observation="symbolic")
    assert env.observation_space(params).shape == (1521,)
    assert "(1521,)" in (textcraft.TextCraft.__doc__ or "")
    assert "(1521,)" in (seen.symbols.__doc__ or "")
    assert "393 items and 333 recipes" in (textcraft.TextCraft.__doc__ or "")
    assert (len(WORLD.names), len(WORLD.recipes)) == (393, 333)


# The expert


@pytest.mark.slow
def test_the_expert_crafts_every_goal_in_few_steps() -> None:
    num_goals, limit = len(GOALS), 100

    def advance(carry: Any, _: None) -> Any:
        state, is_over, steps = carry
        action = jax.vmap(textcraft_planner.textcraft_action, (None, 0, None))(ENV, state, PARAMS)
        made = jax.vmap(ENV.transition, (0, 0, None))(state, action, PARAMS)
        return (made.state, is_over | made.terminated, steps + (~is_over).astype(jnp.int32)), None

    @jax.jit
    def play() -> Any:
        tasks = jnp.arange(num_goals)
        buffer = jax.vmap(textcraft.level_of_task, (None, None, 0))(ENV, PARAMS, tasks)
        state = jax.vmap(ENV.initial_state, (0, None))(buffer, PARAMS)
        start = state, jnp.zeros(num_goals, bool), jnp.zeros(num_goals, jnp.int32)
        return jax.lax.scan(advance, start, length=limit)[0][1:]

    is_over, steps = jax.device_get(play())
    assert is_over.all(), [GOALS[row] for row in np.flatnonzero(~is_over)]
    assert steps.mean() < 10
    assert steps.max() <= 80


def test_every_book_holds_the_recipes_of_the_expert() -> None:
    (ways, _), trees = textcraft_planner.plan(), books().trees
    for row, goal in enumerate(WORLD.goals.tolist()):
        waiting = [goal]
        while waiting:
            item = waiting.pop()
            if item >= WORLD.num_gathered:
                chosen = ways[item]
                assert WORLD.ways.recipes[chosen] in trees[row]
                waiting += WORLD.ways.inputs[chosen][WORLD.ways.counts[chosen] > 0].tolist()


def test_a_level_buffer_with_more_distractors_than_the_options_allow_is_rejected() -> None:
    def buffer_of(distractors: int) -> Any:
        return levels.make_level_buffer(*jaxgym.make("TextCraft-v0", distractors=distractors), levels.train_seeds(8))

    with pytest.raises(LevelError, match=r"^TextCraft-v0: expected a level buffer of these options, got book="):
        jaxgym.make("TextCraft-v0", levels=buffer_of(10), distractors=0)
    for given, allowed in ((0, 0), (0, 10), (3, 3), (10, 10)):
        jaxgym.make("TextCraft-v0", levels=buffer_of(given), distractors=allowed)
