"""Faulty text interfaces: one error in a session pool, in the terminal and in `check_text`."""

import asyncio
import dataclasses
import io
from collections.abc import Iterator
from typing import Any

import pytest

import jaxgym
from jaxgym import testing, text
from jaxgym.errors import ContractError
from jaxgym.human.talk import TerminalSession
from jaxgym.serve.errors import PartialStepError
from jaxgym.serve.pool import SessionPool
from jaxgym.text import InvalidReply, ParsedAction, contract
from jaxgym.text.interface import TextInterface
from tests.ids import short_names_of_programs, without_new_ids
from tests.t_maze import TMaze

REPLY = "left"


class Sound(TextInterface[Any]):
    """A text interface that satisfies the contract: `left` is action 0, `right` is action 1."""

    def system_prompt(self, params: Any) -> str:
        del params
        return "Reply with left or right."

    def describe(self, scene: Any, params: Any) -> str:
        del scene, params
        return "A corridor."

    def parse(self, reply: str) -> ParsedAction | InvalidReply:
        if reply not in ("left", "right"):
            return InvalidReply("Invalid reply: expected left or right.")
        return ParsedAction((int(reply == "right"),), reply)

    def fallback(self) -> ParsedAction:
        return ParsedAction((0,), "left")

    def reply_of(self, action: Any) -> str:
        return ("left", "right")[min(int(action), 1)]


class Broken(text.RewardTracker):
    """A tracker whose components have other names in every turn."""

    def components(self, turn: Any) -> dict[str, float]:
        return {f"turn {turn.number}": 0.0}


@pytest.fixture
def registered() -> Iterator[Any]:
    """Return a function that registers a T-maze with a changed text interface."""

    def register(**methods: Any) -> str:
        kind = dataclasses.dataclass(frozen=True)(type("Changed", (Sound,), methods))
        spec = text.TextSpec(lambda env, _: kind(env.env_id))
        jaxgym.register("Faulty-v0", jaxgym.Spec(TMaze, max_steps=9, text=spec))
        return "faulty"

    with without_new_ids():
        yield register


def returning(value: Any) -> Any:
    return lambda *_: value


def raising(*_: Any) -> Any:
    raise KeyError("cards")


PARSED = [
    (None, "expected a ParsedAction or an InvalidReply, got None"),
    (2, "expected a ParsedAction or an InvalidReply, got 2"),
    (((0,), "left"), r"expected a ParsedAction or an InvalidReply, got \(\(0,\), 'left'\)"),
    (ParsedAction(1, "left"), "expected a tuple of actions, got 1"),  # pyright: ignore[reportArgumentType]
    (ParsedAction(("hearts",), "left"), "expected actions from 0 to 3, got 'hearts'"),  # pyright: ignore[reportArgumentType]
    (ParsedAction((1.7,), "left"), r"expected actions from 0 to 3, got 1\.7"),  # pyright: ignore[reportArgumentType]
    (ParsedAction((True,), "left"), "expected actions from 0 to 3, got True"),
    (ParsedAction((0, 77), "left"), "expected actions from 0 to 3, got 77"),
    (ParsedAction((-1,), "left"), "expected actions from 0 to 3, got -1"),
    (ParsedAction(((0, 1),), "left"), r"expected actions from 0 to 3, got \(0, 1\)"),
    (ParsedAction((0,), None), "expected a text that is a string, got None"),  # pyright: ignore[reportArgumentType]
    (InvalidReply(None), "expected a reason that is a string, got None"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("parsed", "message"), PARSED)
def test_what_parse_returns_is_checked(parsed: Any, message: str) -> None:
    interface = type("Changed", (Sound,), {"parse": returning(parsed)})("Faulty-v0")
    with pytest.raises(ContractError, match=rf"^Faulty-v0: parse\('left'\): {message}\.$"):
        contract.parse(interface, REPLY, jaxgym.spaces.Discrete(4))


@pytest.mark.parametrize("action", [3, (1,), (1, 3), (-1, 0), (0.0, 1), "ab", None])
def test_actions_of_several_branches_are_checked(action: Any) -> None:
    space = jaxgym.spaces.MultiDiscrete((2, 3))
    with pytest.raises(ContractError, match=r"expected actions that are tuples of 2 integers below \(2, 3\), got "):
        contract.checked_parsed("Faulty-v0", "parse", ParsedAction((action,), "left"), space)
    contract.checked_parsed("Faulty-v0", "parse", ParsedAction(((1, 2), (0, 0)), "left"), space)


FAULTY_PARSERS = [
    (returning(None), r"parse\('left'\): expected a ParsedAction or an InvalidReply, got None"),
    (returning(ParsedAction((77,), "left")), r"parse\('left'\): expected actions from 0 to 2, got 77"),
    (raising, r"parse: expected a ParsedAction or an InvalidReply, got KeyError: 'cards', for the reply 'left'"),
]


@pytest.mark.parametrize(("parse", "message"), FAULTY_PARSERS)
def test_a_faulty_parse_is_the_same_error_in_a_pool_and_in_the_terminal(
    registered: Any, parse: Any, message: str
) -> None:
    name = registered(parse=parse)
    pool = SessionPool(capacity=2)
    first, second = pool.open_many(name, [0, 1])
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        pool.step([first.id, second.id], [REPLY, REPLY])
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        pool.step_one(first.id, REPLY)
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        TerminalSession(name, {}).play(0, [REPLY], io.StringIO())


def test_a_faulty_parse_fails_its_own_session_only(registered: Any) -> None:
    def parse(interface: Sound, reply: str) -> Any:
        return None if reply == "faulty" else Sound.parse(interface, reply)

    pool = SessionPool(capacity=8)
    ids = [opening.id for opening in pool.open_many(registered(parse=parse), range(4))]
    message = r"^Faulty-v0: parse\('faulty'\): expected a ParsedAction"
    with pytest.raises(PartialStepError, match=message) as failed:
        pool.step(ids[:3], ["left", "faulty", "none"])
    assert [getattr(failed.value.results[name], "number", None) for name in ids[:3]] == [1, None, 1]
    assert failed.value.results[ids[2]].invalid_reply == "Invalid reply: expected left or right."

    async def play() -> list[Any]:
        calls = [
            pool.astep(name, reply) for name, reply in zip(ids, ("left", "faulty", "faulty", "right"), strict=True)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(play())
    assert [getattr(result, "number", None) for result in results] == [2, None, None, 1]
    assert [type(result) is ContractError for result in results] == [False, True, True, False]
    assert pool.step_one(ids[1], "left").number == 1
    with pytest.raises(PartialStepError, match=message) as failed:
        pool.step(ids[:1], ["faulty"])
    assert [type(result) for result in failed.value.results.values()] == [ContractError]


@pytest.mark.parametrize("value", [None, b"x", 3])
def test_a_description_that_is_no_string_is_an_error(registered: Any, value: Any) -> None:
    name = registered(describe=returning(value))
    with pytest.raises(ContractError, match=f"^Faulty-v0: open: expected a string, got {value!r}"):
        SessionPool(capacity=2).open(name, 0)
    with pytest.raises(ContractError, match=f"^Faulty-v0: open: expected a string, got {value!r}"):
        TerminalSession(name, {}).play(0, [REPLY], io.StringIO())


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("respond", None, "respond: expected a string, got None"),
        ("respond_all", None, "respond: expected a list of 1 strings, got None"),
        ("respond_all", ["a", "b"], r"respond: expected a list of 1 strings, got \['a', 'b'\]"),
    ],
)
def test_a_response_that_is_no_string_is_an_error(registered: Any, method: str, value: Any, message: str) -> None:
    pool = SessionPool(capacity=2)
    opening = pool.open(registered(**{method: returning(value)}), 0)
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        pool.step_one(opening.id, REPLY)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"system_prompt": returning(None)}, "system_prompt: expected a string, got None"),
        ({"system_prompt": raising}, "system_prompt: expected a return value, got KeyError: 'cards'"),
        ({"system_prompt": TextInterface.system_prompt}, "system_prompt: expected .*, got NotImplementedError"),
        ({"reply_format": returning(3)}, "reply_format: expected a string, got 3"),
        ({"max_actions": property(returning(0))}, "max_actions: expected an integer of at least 1, got 0"),
    ],
)
def test_what_is_faulty_without_an_episode_is_an_error_of_make(registered: Any, methods: Any, message: str) -> None:
    name = registered(**methods)
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        text.make(name)


@pytest.mark.parametrize("built", [None, Sound, "text"])
def test_what_is_no_text_interface_is_an_error_of_make(built: Any) -> None:
    with without_new_ids():
        jaxgym.register("Faulty-v0", jaxgym.Spec(TMaze, text=text.TextSpec(lambda *_: built)))
        message = r"^Faulty-v0: TextSpec\.build: expected a jaxgym\.text\.TextInterface, got "
        for call in (lambda: text.make("faulty"), lambda: SessionPool(capacity=1).open("faulty", 0)):
            with pytest.raises(ContractError, match=message):
                call()


def test_a_faulty_fallback_is_an_error_when_the_game_is_made(registered: Any) -> None:
    name = registered(fallback=returning(None))
    with pytest.raises(ContractError, match=r"^Faulty-v0: fallback: expected a ParsedAction or an InvalidReply, got N"):
        SessionPool(capacity=1).open(name, 0, {"on_invalid_reply": "fallback"})


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        *(({"parse": parse}, "parse") for parse, _ in FAULTY_PARSERS),
        ({"describe": returning(None)}, "open: expected a string"),
        ({"describe": raising}, "open: expected a return value, got KeyError"),
        ({"respond": returning(None)}, "respond: expected a string"),
        ({"fallback": returning(None)}, "fallback: expected"),
        ({"reply_of": returning("up")}, r"reply_of\(.*\): expected a reply that parses exactly to this action"),
        ({"reply_of": lambda _, action: f"{action}"}, r"reply_of\(.*\): expected a reply that parses exactly"),
        ({"reply_of": returning(None)}, "reply_of: expected a string"),
        ({"reward_tracker": returning(None)}, r"reward_tracker: expected a jaxgym\.text\.RewardTracker"),
        ({"reward_tracker": lambda *_: Broken()}, r"reward_tracker\.components: expected a dict of numbers with the"),
    ],
)
def test_check_text_finds_what_is_faulty(registered: Any, methods: Any, message: str) -> None:
    made = text.make(registered(**methods))
    with pytest.raises(ContractError, match=f"^Faulty-v0: {message}"):
        testing.check_text(*made)


def test_check_text_finds_a_parse_that_gives_other_results_later(registered: Any) -> None:
    counts = iter(range(1000))
    made = text.make(registered(parse=lambda *_: InvalidReply(f"Invalid reply {next(counts)}")))
    with pytest.raises(ContractError, match="expected equal results for two equal replies"):
        testing.check_text(*made)


def test_check_text_accepts_an_interface_with_the_required_methods_only(registered: Any) -> None:
    testing.check_text(*text.make(registered(reply_of=TextInterface.reply_of, fallback=TextInterface.fallback)))


@pytest.mark.parametrize(
    "name",
    [
        name if name == "frozen_lake" else pytest.param(name, marks=pytest.mark.slow)
        for name in short_names_of_programs()
    ],
)
def test_every_text_interface_satisfies_the_contract(name: str) -> None:
    testing.check_text(*text.make(name, levels="fresh"))
