"""Missions of BabyAI: their words, time limits and texts, and the streams that draw them."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym import EnvParams
from jaxgym.envs.babyai import SPECS, original, table
from jaxgym.envs.babyai import text as babyai_text
from jaxgym.envs.babyai.game import BabyAI, VisibleMission
from jaxgym.envs.babyai.mission import (
    ANY_COLOR,
    MISSION_LENGTH,
    NUM_THINGS,
    WORDS,
    Clause,
    Description,
    Mission,
    MissionVerb,
    Order,
    Place,
    Plan,
    Start,
    Table,
    num_units,
    resolve,
    text_of,
)
from jaxgym.envs.common.draws import Draws, Stream
from jaxgym.envs.minigrid.view import Visible
from jaxgym.envs.minigrid.world import EMPTY, Color, Door, Type, thing

RED_BALL = Description(int(Type.BALL), int(Color.RED))
NOTHING = np.full(NUM_THINGS, EMPTY, np.uint16)


def mission_of(*clauses: Clause, order: Order = Order.SINGLE, things: Any = (), cells: Any = ()) -> Mission:
    """Return a mission in a room of 8 × 8 cells, in which the agent stands at (3, 3) and faces right."""
    numbered, (x, y) = NOTHING.copy(), np.zeros((2, NUM_THINGS), int)
    numbered[: len(things)] = things
    x[: len(things)], y[: len(things)] = np.reshape(cells, (-1, 2)).T
    plan = Plan((*clauses, *[Clause()] * (4 - len(clauses))), int(order))
    return resolve(np, plan, Table(numbered, x, y), Start(3, 3, 0), 8)


def test_the_longest_mission_has_a_place_for_each_word() -> None:
    long = Description(int(Type.BALL), int(Color.YELLOW), int(Place.FRONT))
    put = Clause(int(MissionVerb.PUT), long, long)
    tokens = mission_of(put, put, put, put, order=Order.AFTER).tokens
    assert (tokens.shape, np.count_nonzero(tokens)) == ((MISSION_LENGTH,), MISSION_LENGTH)
    named = "the yellow ball in front of you"
    clause = f"put {named} next to {named}"
    assert text_of(tokens) == f"{clause} and {clause} after you {clause} and {clause}"
    assert len(set(WORDS)) == 33


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.slow
def test_the_phrase_to_fulfill_first_is_named_last_after_after_you(xp: Any) -> None:
    first, second = Clause(int(MissionVerb.OPEN), Description(int(Type.DOOR))), Clause(int(MissionVerb.GO_TO), RED_BALL)
    texts = {}
    for order in (Order.THEN, Order.AFTER):
        plan = Plan((first, Clause(), second, Clause()), int(order))
        zeros = xp.zeros(NUM_THINGS, xp.int32)
        made = resolve(xp, plan, Table(xp.asarray(NOTHING), zeros, zeros), Start(3, 3, 0), 8)
        texts[order] = text_of(np.asarray(made.tokens))
    assert texts[Order.THEN] == "open the door, then go to the red ball"
    assert texts[Order.AFTER] == "go to the red ball after you open the door"


@pytest.mark.parametrize(
    ("place", "matches"), [(Place.LEFT, 1), (Place.RIGHT, 2), (Place.FRONT, 5), (Place.BEHIND, 0), (Place.ANYWHERE, 15)]
)
def test_places_are_half_planes_in_the_room_of_the_start(place: Place, matches: int) -> None:
    ball = thing(Type.BALL, Color.RED)
    cells = [(5, 1), (3, 5), (7, 3), (9, 3)]  # ahead at the left, right beside, in the wall ahead, in the next room
    description = RED_BALL._replace(place=int(place))
    made = mission_of(Clause(int(MissionVerb.GO_TO), description), things=[ball] * 4, cells=cells)
    assert sum(int(bits) << number for number, bits in enumerate(made.matches & 1)) == matches
    article = "a" if bin(matches).count("1") > 1 else "the"
    assert text_of(made.tokens).startswith(f"go to {article} red ball")


def environment(name: str, **options: Any) -> tuple[BabyAI, EnvParams]:
    spec = SPECS[f"BabyAI-{name}"]
    values = {key: option.default for key, option in spec.all_options.items()}
    env, params = spec.build(f"BabyAI-{name}", values | options)
    assert isinstance(env, BabyAI)
    return env, params


@pytest.mark.parametrize(
    ("name", "max_steps", "limit"),
    [
        ("BossLevel-v0", None, 3 * 576),
        ("BossLevel-v0", 1000, 1000),
        ("BossLevel-v0", 0, 0),
        ("PutNextLocal-v0", None, 128),
        ("PutNextLocal-v0", 1000, 1000),
    ],
)
def test_the_time_limit_depends_on_the_mission_where_the_original_does(
    name: str, max_steps: int | None, limit: int
) -> None:
    env, params = environment(name, **({} if max_steps is None else {"max_steps": max_steps}))
    mission = mission_of(Clause(int(MissionVerb.PUT)), Clause(int(MissionVerb.GO_TO)))
    assert int(num_units(mission.verbs)) == 3
    level: Any = SimpleNamespace(mission=dataclasses.replace(mission, verbs=jnp.asarray(mission.verbs)))
    assert int(env.time_limit(level, params)) == limit


def test_all_ids_have_a_spec_and_a_limit() -> None:
    assert len(SPECS) == len(table.LEVELS) == 96
    assert environment("SynthLoc-v0")[1].max_steps_in_episode == 2 * 576
    assert environment("GoToSeq-v0")[1].max_steps_in_episode == 4 * 576


def test_the_text_shows_the_mission_above_the_view() -> None:
    env, params = environment("GoToLocal-v0")
    interface = babyai_text.TEXT.build(env, {"actions_per_turn": 8, "dialect": "map"})
    cells = np.full((1, 7, 7), EMPTY)
    cells[0, 3, 4] = thing(Type.DOOR, Color.RED, Door.CLOSED)
    seen = VisibleMission(
        Visible(cells, np.asarray([0])),
        mission_of(Clause(int(MissionVerb.OPEN), Description(int(Type.DOOR)))).tokens[None],
    )
    (described,) = interface.describe_visible(seen)
    assert described.splitlines()[:2] == ["Mission: open the door.", "You face east."]
    assert described.splitlines()[-1] == "Visible things: closed red door: 2 ahead"
    prompt = interface.system_prompt(params)
    assert "1 - 0.9 x steps / 64" in prompt
    assert "The episode also ends after 64 steps." in prompt
    boss, params = environment("BossLevel-v0")
    prompt = babyai_text.TEXT.build(boss, {"actions_per_turn": 8, "dialect": "map"}).system_prompt(params)
    assert "a limit of 576 steps for each instruction, and of 1152 steps for each" in prompt


def test_a_stream_draws_numpys_numbers() -> None:
    draws = Draws.of([3, 4], num_words=2)
    stream, expected = Stream(draws, 1), np.random.default_rng(4)
    for high in [*range(1, 60), 2**31, 3 * 2**30] * 5:
        assert stream.integer(0, high) == expected.integers(0, high)
        assert stream.integer(5, 6) == 5
        if high % 7 == 0:
            assert stream.share() == expected.uniform(0, 1)
    stream.stop()
    assert draws.integers(0, 1000)[1] == expected.integers(0, 1000)
    assert original.draw_level(table.LEVELS["GoToObj-v0"], Stream(draws, 0))[1] == []


def test_a_description_without_color_or_type_matches_all() -> None:
    things = [thing(Type.BOX, Color.RED), thing(Type.KEY, Color.BLUE), thing(Type.KEY, Color.RED)]
    cells = [(1, 1), (1, 2), (1, 3)]
    made = mission_of(Clause(int(MissionVerb.PICK_UP), Description(0, int(Color.RED))), things=things, cells=cells)
    assert (made.matches[:3].tolist(), text_of(made.tokens)) == ([1, 0, 1], "pick up a red object")
    made = mission_of(
        Clause(int(MissionVerb.PICK_UP), Description(int(Type.KEY), ANY_COLOR)), things=things, cells=cells
    )
    assert (made.matches[:3].tolist(), text_of(made.tokens)) == ([0, 1, 1], "pick up a key")


def test_walls_count_as_gray_objects_in_the_article() -> None:
    things = [thing(Type.BOX, Color.GREY), thing(Type.KEY, Color.BLUE)]
    for color, article in ((Color.GREY, "a"), (Color.BLUE, "the")):
        clause = Clause(int(MissionVerb.PICK_UP), Description(0, int(color)))
        made = mission_of(clause, things=things, cells=[(1, 1), (1, 2)])
        assert text_of(made.tokens) == f"pick up {article} {color.name.lower()} object"
