"""Text interface of TextCraft: texts, parsing, invalid replies and their reasons, and arbitrary strings.

Task 73 is `cedar shingle`, which the session at the end plays.
"""

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym import text
from jaxgym.envs.textcraft import expert as textcraft_planner
from jaxgym.envs.textcraft import game as textcraft
from jaxgym.envs.textcraft.scene import Scene, TextCraftOutcome
from jaxgym.envs.textcraft.world import NONE, world
from jaxgym.text.turns import InvalidReply, ParsedAction, Turn, Turns

ENV, PARAMS, INTERFACE = text.make("textcraft")
WORLD = world()
GET_FORM = "Reply in this format: <action>get 3 flax</action>."
ITEM = WORLD.items


def scene(
    goal: str = "stool", outcome: TextCraftOutcome = TextCraftOutcome.START, item: str = "", amount: int = 0, **bag: int
) -> Scene:
    """Return a scene with the recipes of larch planks and stool in its book, and `_` for blanks in the bag's names."""
    inventory = np.zeros(len(WORLD.names), np.int32)
    for name, count in bag.items():
        inventory[ITEM[name.replace("_", " ")]] = count
    outputs = [recipe.output[1] for recipe in WORLD.recipes]
    book = [outputs.index("stool"), outputs.index("larch planks"), NONE]
    about = ITEM[item] if item else NONE
    host: Any = [np.asarray(value, np.int32) for value in (ITEM[goal], book, inventory, outcome, about, amount)]
    return Scene(*host)


def answer(reply: str, then: Scene) -> str:
    """Return the text after a reply that led to a scene."""
    return INTERFACE.respond(Turn(1, INTERFACE.parse(reply), then, 0.0, False, False), PARAMS)


def rejected(reply: str) -> str:
    invalid_reply = INTERFACE.parse(reply)
    assert isinstance(invalid_reply, InvalidReply), invalid_reply
    return invalid_reply.reason


GET = INTERFACE.parse("get 3 ash log")
SHINGLE = INTERFACE.parse("craft 8 cedar shingle using 1 cedar planks")


# What is told


def test_an_episode_opens_with_the_commands_of_the_book_and_the_goal() -> None:
    assert INTERFACE.open(scene(), PARAMS) == (
        "Crafting commands:\n"
        "craft 1 stool using 2 planks, 3 wooden pole\n"
        "craft 4 larch planks using 1 larch log\n"
        "\n"
        "Goal: craft stool."
    )


def test_the_description_tells_all_that_is_seen_whatever_the_order_of_the_book() -> None:
    one = scene(outcome=TextCraftOutcome.GOT, item="flax", amount=3, flax=3, ash_log=1)
    reported = INTERFACE.describe(one, PARAMS)
    assert reported == (
        "Crafting commands:\n"
        "craft 4 larch planks using 1 larch log\n"
        "craft 1 stool using 2 planks, 3 wooden pole\n"
        "\n"
        "Goal: craft stool.\n"
        "Inventory: [ash log] (1) [flax] (3) \n"
        "Last: Got 3 flax"
    )
    assert INTERFACE.describe(dataclasses.replace(one, book=one.book[::-1]), PARAMS) == reported
    assert INTERFACE.describe(scene(), PARAMS).endswith(
        "Inventory: You are not carrying anything.\nLast: Nothing was done yet"
    )


@pytest.mark.parametrize(
    ("then", "reported"),
    [
        (scene(outcome=TextCraftOutcome.GOT, item="ash log", amount=3), "Got 3 ash log"),
        (scene(outcome=TextCraftOutcome.CRAFTED, item="ash planks", amount=4), "Crafted 4 ash planks"),
        (scene(outcome=TextCraftOutcome.LOOKED, ash_log=3, stool=1), "Inventory: [ash log] (3) [stool] (1) "),
        (scene(outcome=TextCraftOutcome.LOOKED), "Inventory: You are not carrying anything."),
        (
            scene(outcome=TextCraftOutcome.NOT_GATHERED, item="ash planks"),
            "Could not find ash planks: it cannot be gathered, only crafted.",
        ),
        (scene(outcome=TextCraftOutcome.TOO_FEW, item="stool"), "Could not find enough items to craft stool"),
        (scene(outcome=TextCraftOutcome.NO_ROOM, item="flax"), "Could not carry more than 999 flax"),
        (scene(outcome=TextCraftOutcome.NOTHING), "Nothing happened"),
    ],
)
def test_an_answer_is_one_line_about_what_the_command_did(then: Scene, reported: str) -> None:
    assert answer("get 3 ash log", then) == reported


def test_an_invalid_reply_is_told_instead_of_the_last_outcome() -> None:
    assert answer("dance", scene(outcome=TextCraftOutcome.GOT, item="flax", amount=3)).startswith("Could not execute")


def test_turns_that_are_told_together_are_told_as_one_by_one() -> None:
    thens = [
        scene(outcome=TextCraftOutcome.GOT, item="flax", amount=3),
        scene(outcome=TextCraftOutcome.LOOKED, flax=2),
        scene(),
    ]
    moves = [INTERFACE.parse(reply) for reply in ("get 3 flax", "inventory", "dance")]
    scenes = jax.tree.map(lambda *leaves: np.stack(leaves), *thens)
    turns = Turns([1, 2, 3], moves, scenes, np.zeros(3, np.float32), np.zeros(3, bool), np.zeros(3, bool))
    assert INTERFACE.respond_all(turns, PARAMS) == [INTERFACE.respond(turn, PARAMS) for turn in turns]
    assert INTERFACE.open_all(scenes, PARAMS) == [INTERFACE.open(then, PARAMS) for then in thens]


def test_the_instructions_name_the_commands_and_the_time_limit_if_there_is_one() -> None:
    assert "a number from 1 to 64" in INTERFACE.system_prompt(PARAMS)
    assert "after" not in INTERFACE.system_prompt(PARAMS)
    limited = dataclasses.replace(PARAMS, max_steps_in_episode=np.int32(9))
    assert "or after 9 commands" in INTERFACE.system_prompt(limited)


# What is understood


def test_get_names_an_item_and_an_amount() -> None:
    assert ParsedAction(((1, ITEM["ash log"], 2),), "get 3 ash log", is_exact=False) == GET


def test_craft_names_a_recipe_and_its_inputs_in_any_order() -> None:
    verb, way, _ = SHINGLE.actions[0]
    assert verb == 2
    assert WORLD.names[WORLD.ways.outputs[way]] == "cedar shingle"
    one = INTERFACE.parse("craft 1 stool using 2 ash planks, 3 wooden pole")
    assert one == INTERFACE.parse("craft 1 stool using 3 wooden pole, 2 ash planks")


def test_every_member_of_a_tag_has_its_own_way() -> None:
    ways = {
        INTERFACE.parse(f"craft 1 stool using 2 {name}, 3 wooden pole").actions[0][1]
        for name in ("ash planks", "elm planks", "cedar planks", "larch planks", "walnut planks")
    }
    assert len(ways) == 5


@pytest.mark.parametrize("amount", ["", "99 ", "1 "])
def test_the_amount_that_is_made_must_be_the_one_of_the_recipe(amount: str) -> None:
    assert isinstance(INTERFACE.parse(f"craft {amount}cedar shingle using 1 cedar planks"), InvalidReply)


def test_the_text_of_every_move_means_that_move() -> None:
    whole, ways = world(), world().ways
    for way in range(0, len(ways.outputs), 7):
        taken = zip(ways.inputs[way], ways.counts[way], strict=True)
        inputs = ", ".join(f"{count} {whole.names[item]}" for item, count in taken if count)
        move = INTERFACE.parse(f"craft {ways.amounts[way]} {whole.names[ways.outputs[way]]} using {inputs}")
        assert move.actions == ((2, way, 0),)
        assert INTERFACE.parse(move.text) == move
    for move in (GET, INTERFACE.fallback()):
        assert INTERFACE.parse(move.text) == move._replace(is_exact=False)
        assert INTERFACE.parse(INTERFACE.reply_of(move.actions[0])) == move._replace(is_exact=True)


@pytest.mark.parametrize(
    "reply",
    [
        "get 3 ash log",
        "  Get 3 Ash Log.\n",
        "<action>get 3 ash log</action>",
        "<think>I could get 9 hemp, or craft it.</think>\n<action>get 3 ash log</action>",
        "Thought: logs first.\nAction: get 3 ash log",
        "Thought: not this.\nAction: get 1 flax\nThought: but this.\nAction: get 3 ash log\nObservation: Got 3 ash log",
        "**Action:** `get 3 ash log`",
        "Action:\nget 3 ash log",
        json.dumps({"action": "get 3 ash log"}),
        json.dumps({"name": "get", "arguments": {"item": "ash log", "count": 3}}),
        'get(item="ash log", count=3)',
        'get(count=3, item="ash log")',
        "```\nget 3 ash log\n```",
        "[get 3 ash log]",
        "\\boxed{get 3 ash log}",
        "get 3 ash log.",
    ],
)
def test_a_command_is_read_in_every_form(reply: str) -> None:
    move = INTERFACE.parse(reply)
    assert isinstance(move, ParsedAction), move
    assert move.actions == GET.actions
    assert move.text == "get 3 ash log"


@pytest.mark.parametrize(
    "reply",
    [
        "craft 1 stool using 2 ash planks, 3 wooden pole",
        "Action: Craft 1 stool using 3 wooden pole, 2 ash planks.",
        'craft(command="craft 1 stool using 2 ash planks, 3 wooden pole")',
        'craft(command="1 stool using 2 ash planks, 3 wooden pole")',
    ],
)
def test_a_craft_command_is_read_too(reply: str) -> None:
    assert INTERFACE.parse(reply).text == "craft 1 stool using 2 ash planks, 3 wooden pole"


@pytest.mark.parametrize(
    "reply",
    [
        *("get flax", "get an apple", "get one flax", "get 3x flax", "get 3 ash logs", "get 3 ash-log", "get 3-flax"),
        *(
            "get -3 flax",
            "get −3 flax",
            "- get 3 flax -",
            "get 3.0 flax",
            "get \uff13 flax",
            "get \u00b3 flax",
            "get 3 spi\u212ae",
        ),
        *("craft 2 flax yarn using -2 flax", "craft 1 stool using 2 ash planks and 3 wooden pole"),
        *(
            "Inventory please",
            "inventory: flax",
            "So I will get 3 ash log.",
            "To sit, I get 3 flax",
            "get 3 flax please",
        ),
        *("<action>get 3 flax", '{"message": "get 3 flax"}', "```\nget 3 flax\nget 1 flax\n```", 'get(item="flax")'),
        *(
            'get(item="flax", count="3")',
            'get(item="flax", count=3.5)',
            "Thought: I could get 1 water.\nAction: fetch 3 flax",
        ),
        *(
            '{"name": "get", "arguments": {"item": "flax"}}',
            '{"action": {"tool": "inventory"}}',
            "I called inventory() before",
        ),
        *("I could get 1 water. <action>fetch 3 flax</action>", "<action>get 3 flax or get 1 water</action>"),
    ],
)
def test_a_reply_that_is_not_exactly_a_command_is_invalid(reply: str) -> None:
    assert isinstance(INTERFACE.parse(reply), InvalidReply)


def test_lenient_parsing_takes_the_last_command_of_prose_alone() -> None:
    lenient = dataclasses.replace(INTERFACE, parsing="lenient")
    assert lenient.parse("I could get 1 flax. So I will\nget 3 ash log") == GET
    assert isinstance(lenient.parse("I could get 1 water. <action>fetch 3 flax</action>"), InvalidReply)


@pytest.mark.parametrize(
    ("reply", "is_exact"),
    [
        ("<action>get 3 flax</action>", True),
        ("Flax it is. <action>inventory</action>", True),
        ("<action>Get 3 flax</action>", True),
        ("get 3 flax", False),
        ("Action: get 3 flax", False),
    ],
)
def test_a_move_is_exact_if_it_has_the_form_that_is_asked_for(reply: str, is_exact: bool) -> None:
    move = INTERFACE.parse(reply)
    assert isinstance(move, ParsedAction)
    assert move.is_exact == is_exact


# Groups and errors


def test_the_prompt_says_what_the_name_of_a_group_means() -> None:
    prompt = INTERFACE.system_prompt(PARAMS)
    assert f"These inputs are groups of items: {', '.join(WORLD.tags)}." in prompt
    assert "You can write the name of such a group" in prompt
    assert "log means ash log" in prompt
    assert INTERFACE.parse("get 1 log") == INTERFACE.parse("get 1 ash log")


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("get 2 log", "get 2 ash log"),
        ("get 1 stone", "get 1 granite stone"),
        ("craft 4 wooden pole using 1 log", "craft 4 wooden pole using 1 ash log"),
    ],
)
def test_the_name_of_a_tag_stands_for_its_first_item_where_all_of_them_are_gathered(reply: str, move: str) -> None:
    named = INTERFACE.parse(move)
    assert isinstance(named, ParsedAction)
    assert INTERFACE.parse(reply) == named


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("get 3 silver log", "Could not find silver log: there is no such item."),
        ("get 1 oil", "Could not find oil: expected one of seed oil, olive oil."),
        ("get 65 flax", "Could not get 65 flax: expected an amount from 1 to 64."),
        ("get 0 flax", "Could not get 0 flax: expected an amount from 1 to 64."),
        ("get flax", f'Could not execute "get flax": expected an amount and an item. {GET_FORM}'),
        (
            "craft 1 stool",
            'Could not extract recipe from "craft 1 stool": expected craft AMOUNT ITEM using INPUTS. '
            "Reply in this format: <action>craft 2 flax yarn using 2 flax</action>.",
        ),
        ("craft 1 throne using 3 flax", "Could not find throne: there is no such item."),
        ("craft 1 stool using 3 ivory", "Could not find ivory: there is no such item."),
        (
            "craft 1 stool using flax",
            'Wrong item format: expected an amount and an item, such as 2 flax, got "flax".',
        ),
        (
            "craft 1 lens using 3 glass",
            "Could not find glass: expected one of clear glass, green glass, blue glass.",
        ),
        (
            "craft 1 stool using 3 flax",
            'Could not find a valid recipe for 1 stool using "3 flax": '
            "expected exactly the amounts and inputs of a crafting command.",
        ),
        (
            "dance",
            f'Could not execute "dance". Valid commands: get, craft, inventory. {GET_FORM}',
        ),
        (
            "",
            f"Could not execute an empty reply. Valid commands: get, craft, inventory. {GET_FORM}",
        ),
    ],
)
def test_an_invalid_reply_says_what_to_do(reply: str, reason: str) -> None:
    assert rejected(reply) == reason


@pytest.mark.parametrize(
    "inputs",
    [
        "2 ash planks",  # one lacks
        "2 ash planks, 3 wooden pole, 1 flax",  # one too many
        "2 ash planks, 2 wooden pole",  # another count
        "4 ash planks, 6 wooden pole",  # twice
        "1 ash planks, 1 ash planks, 3 wooden pole",  # an input that is split
        "1 ash planks, 1 elm planks, 3 wooden pole",  # a mixture
        "2 ash log, 3 wooden pole",  # no member
    ],
)
def test_inputs_have_to_be_those_of_a_recipe(inputs: str) -> None:
    assert rejected(f"craft 1 stool using {inputs}").startswith("Could not find a valid recipe for 1 stool")


def test_no_answer_has_what_is_inside_of_a_program() -> None:
    replies = ("get 3 minecraft:log", "craft 1 x using 1 y", "craft\x00 1", "get " + "9" * 5000 + " flax")
    for reply in replies:
        error = rejected(reply).replace("<action>get 3 flax</action>", "")
        assert not set("<>(){}=\x00") & set(error)
        assert len(error) < 200


# Any string


def odd_replies(count: int) -> Any:
    """Return replies made from parts of commands and other texts, the same in every run."""
    pieces = [
        *("get ", "craft ", "inventory", " using ", "Action: ", "<action>", "</action>", "<think>", "</think>", "```"),
        *(
            "3 ",
            "0",
            "99999999999",
            ", ",
            " and ",
            "\n",
            "\r",
            "\t",
            "{",
            "}",
            '"action": "',
            '"',
            "[",
            "]",
            "\\boxed{",
        ),
        *("ash log", "planks", "flax", "stool", "2 ash planks, 3 wooden pole", "İ", "ß", "\ud800", "\x00", "¹", "٣"),
        *("a ", "x", ".", ":", "é" * 50, "get " * 20, "craft using " * 20),
    ]
    generator = np.random.default_rng(0)
    for _ in range(count):
        yield "".join(generator.choice(pieces) for _ in range(generator.integers(0, 12)))


def check_any(count: int) -> None:
    for reply in odd_replies(count):
        move = INTERFACE.parse(reply)
        if isinstance(move, ParsedAction):
            assert all(0 <= entry < n for entry, n in zip(move.actions[0], ENV.action_space().nvec, strict=True))
            again = INTERFACE.parse(move.text)
            assert isinstance(again, ParsedAction)
            assert (again.actions, again.text) == (move.actions, move.text)
        else:
            assert "\n" not in move.reason
            assert len(move.reason) < 300
            move.reason.encode()


def test_every_string_has_an_answer() -> None:
    check_any(2_000)


@pytest.mark.slow
def test_every_one_of_many_strings_has_an_answer() -> None:
    check_any(100_000)


@pytest.mark.parametrize(
    "piece",
    ["get ", "craft 1 stool using ", "1 a, ", "9", "\n", "get 1 flax\n", "Action: ", "<action>", "{", "[", "- "],
)
def test_a_long_reply_takes_no_longer_than_its_length(piece: str) -> None:
    # A quadratic reading of this would outlast the suite.
    for start in ("", "get ", "craft 1 stool using "):
        assert INTERFACE.parse(start + piece * (1_000_000 // len(piece)))


# A session


def test_an_episode_in_words() -> None:
    step = jax.jit(ENV.transition)
    state = ENV.initial_state(textcraft.level_of_task(ENV, PARAMS, 73), PARAMS)

    def turn(number: int, reply: str) -> str:
        nonlocal state
        move, made = INTERFACE.parse(reply), None
        if isinstance(move, ParsedAction):
            made = step(state, jnp.asarray(move.actions[0]), PARAMS)
            state = made.state
        now = jax.tree.map(np.asarray, ENV.scene(state, PARAMS))
        ended = made is not None and bool(made.terminated)
        return INTERFACE.respond(Turn(number, move, now, 0.0, ended, False), PARAMS) + (" *" if ended else "")

    assert WORLD.names[int(state.level.goal)] == "cedar shingle"
    script = {
        "Action: craft 8 cedar shingle using 1 cedar planks": "Could not find enough items to craft cedar shingle",
        "get 1 cedar planks": "Could not find cedar planks: it cannot be gathered, only crafted.",
        "get 2 cedar log": "Got 2 cedar log",
        "craft 4 cedar planks using 1 cedar log": "Crafted 4 cedar planks",
        "inventory": "Inventory: [cedar log] (1) [cedar planks] (4) ",
        "jump": f'Could not execute "jump". Valid commands: get, craft, inventory. {GET_FORM}',
        "craft 8 cedar shingle using 1 cedar planks": "Crafted 8 cedar shingle *",
    }
    assert [turn(number, reply) for number, reply in enumerate(script, start=1)] == list(script.values())


def test_the_expert_can_be_told_in_words() -> None:
    for goal in ("rope ladder", "lighthouse"):
        chosen = textcraft_planner.plan()[0][ITEM[goal]]
        inputs = [
            f"{count} {WORLD.names[item]}"
            for item, count in zip(WORLD.ways.inputs[chosen], WORLD.ways.counts[chosen], strict=True)
            if count
        ]
        amount = WORLD.ways.amounts[chosen]
        assert INTERFACE.parse(f"craft {amount} {goal} using {', '.join(inputs)}").actions[0][1] == chosen
