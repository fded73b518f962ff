"""Options: values that each kind accepts and stores, and the errors of `make` for others."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxgym
from jaxgym.errors import OptionError
from jaxgym.options import (
    MAX_CHOICES,
    Choices,
    Flag,
    Integer,
    IntegerList,
    OneOf,
    Real,
    Static,
    declared,
    resolve,
    static,
    traced,
)
from tests.ids import families

GAME = "MortarMayhem-v0"


def rejected(**options: Any) -> str:
    """Return the error of `make` for these options of Mortar Mayhem."""
    with pytest.raises(OptionError) as raised:
        jaxgym.make(GAME, **options)
    sentence = str(raised.value)
    assert sentence.startswith(GAME)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


# Names.


def test_an_unknown_option_is_rejected_with_the_nearest_and_all_names() -> None:
    sentence = rejected(comand_count=[3])
    assert (
        "expected an option, got 'comand_count' (did you mean 'command_count'?). Use one of agent_scale, agent_speed,"
        in sentence
    )
    assert all(name in sentence for name in [*jaxgym.spec_of(GAME).options, "max_steps"])


def test_where_nothing_is_near_no_name_is_proposed() -> None:
    sentence = rejected(zzz=1)
    assert "expected an option, got 'zzz'. Use one of" in sentence
    assert "did you mean" not in sentence


def test_an_option_of_another_game_is_unknown() -> None:
    with pytest.raises(OptionError, match=r"^MortarMayhem-Grid-v0: expected an option, got 'agent_speed'"):
        jaxgym.make("MortarMayhem-Grid-v0", agent_speed=3.0)


# Values.


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("arena_size", 1, "an integer from 2 to 6"),
        ("arena_size", 7, "an integer from 2 to 6"),
        ("arena_size", 5.0, "an integer from 2 to 6"),
        ("arena_size", True, "an integer from 2 to 6"),
        ("arena_size", "5", "an integer from 2 to 6"),
        ("allowed_commands", 3, "an integer from 4 to 9"),
        ("allowed_commands", 10, "an integer from 4 to 9"),
        ("command_count", 10, "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", [], "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", [0], "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", [2.5], "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", [True], "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", "10", "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", list(range(1, 10)), "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_show_duration", [-1], "a list of 1 to 8 integers from 0 to 1000000, such as [3]"),
        ("command_show_delay", 1, "a list of 1 to 8 integers from 0 to 1000000, such as [1]"),
        ("explosion_duration", [0], "a list of 1 to 8 integers from 1 to 1000000, such as [6]"),
        ("explosion_delay", [18, 0], "a list of 1 to 8 integers from 1 to 1000000, such as [18]"),
        ("visual_feedback", 1, "True or False"),
        ("visual_feedback", "True", "True or False"),
        ("flat_actions", 0, "True or False"),
        ("agent_speed", -0.5, "a number from 0.0 to 84.0"),
        ("agent_speed", 85.0, "a number from 0.0 to 84.0"),
        ("agent_speed", float("nan"), "a number from 0.0 to 84.0"),
        ("agent_speed", True, "a number from 0.0 to 84.0"),
        ("agent_scale", 0.0, "a number from 0.04 to 1.0"),
        ("agent_scale", 1.5, "a number from 0.04 to 1.0"),
        ("reward_command_success", float("inf"), "a finite float32 number"),
        ("reward_command_failure", "0.1", "a finite float32 number"),
        ("reward_episode_success", None, "a finite float32 number"),
        ("observation", "picture", "'pixels' or 'symbolic'"),
        ("observation", 3, "'pixels' or 'symbolic'"),
        ("max_commands", 0, "an integer from 1 to 1000, or None for the larger of 10 and max(command_count)"),
        ("max_commands", 10**12, "an integer from 1 to 1000, or None for the larger of 10 and max(command_count)"),
        ("max_steps", 1.0, "an integer from -2^31 to 2^31 - 1"),
        ("max_steps", 2**31, "an integer from -2^31 to 2^31 - 1"),
        ("command_count", np.array(3), "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
        ("command_count", [[3]], "a list of 1 to 8 integers from 1 to 1000, such as [10]"),
    ],
)
def test_a_value_is_rejected_with_what_was_given_and_what_is_allowed(option: str, value: Any, allowed: str) -> None:
    assert rejected(**{option: value}).endswith(f": {option}: expected {allowed}, got {value!r}.")


def test_a_misspelt_word_is_rejected_with_the_nearest() -> None:
    assert ": observation: expected 'pixels' or 'symbolic', got 'symbols' (did you mean 'symbolic'?)." in rejected(
        observation="symbols"
    )
    assert "(did you mean 'pixels'?)" in rejected(observation="Pixel")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("arena_size", 2),
        ("arena_size", 6),
        ("arena_size", np.int64(4)),
        ("allowed_commands", 4),
        ("allowed_commands", 9),
        ("agent_speed", 0),
        ("agent_speed", 84),
        ("agent_speed", np.float32(2.5)),
        ("agent_scale", 0.04),
        ("agent_scale", 1),
        ("command_count", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("command_count", range(3, 5)),
        ("command_count", np.asarray([5])),
        ("command_show_duration", [0]),
        ("visual_feedback", np.bool_(False)),
        ("reward_command_failure", -1),
        ("max_steps", 0),
        ("max_steps", -1),
        ("max_steps", None),
        ("max_commands", None),
        ("arena_size", np.array(5)),
        ("arena_size", jnp.int32(5)),
        ("agent_speed", jnp.float32(2.5)),
        ("agent_scale", np.float32(0.04)),
        ("visual_feedback", jnp.bool_(False)),
        ("command_count", jnp.asarray([5, 6])),
        ("command_count", [jnp.int32(5), np.int8(6)]),
        ("max_commands", np.array(12)),
        ("max_steps", jnp.int32(7)),
        ("observation", np.str_("symbolic")),
    ],
)
def test_values_up_to_the_bounds_and_of_kindred_types_are_taken(option: str, value: Any) -> None:
    env, params = jaxgym.make(GAME, **{option: value})
    stored = {**vars(params), **vars(env), "max_steps": params.max_steps_in_episode}[option]
    if isinstance(stored, Choices):
        stored = stored.values[: stored.count]
    if value is None:
        assert stored == vars(jaxgym.make(GAME)[0]).get(option, 0)
    else:
        wanted = np.asarray(value if isinstance(value, str) else [*map(int, value)] if np.ndim(value) else value)
        assert np.array_equal(np.asarray(stored), wanted.astype(np.asarray(stored).dtype))


def every_option(*kinds: type) -> list[tuple[str, str]]:
    specs = {env_id: jaxgym.spec_of(env_id).all_options for env_id in families()}
    return [
        (env_id, name) for env_id, table in specs.items() for name, option in table.items() if isinstance(option, kinds)
    ]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**400])
@pytest.mark.parametrize(("env_id", "name"), every_option(Integer, Static, IntegerList))
def test_an_integer_that_int32_does_not_hold_is_rejected(env_id: str, name: str, value: int) -> None:
    option = jaxgym.spec_of(env_id).all_options[name]
    with pytest.raises(OptionError, match=f"^{env_id}: {name}: expected an? .*integer"):
        jaxgym.make(env_id, **{name: [value] if isinstance(option, IntegerList) else value})


@pytest.mark.parametrize("value", [1e39, -1e300, 10**400, float("nan"), -float("inf"), np.float64(1e39)])
@pytest.mark.parametrize(("env_id", "name"), every_option(Real))
def test_a_number_that_float32_does_not_hold_is_rejected(env_id: str, name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"^{env_id}: {name}: expected a .*number"):
        jaxgym.make(env_id, **{name: value})


@pytest.mark.parametrize("env_id", ["SearingSpotlights-v0", "Endless-SearingSpotlights-v0"])
@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (
            {"spot_min_radius": 9.0, "spot_max_radius": 8.5},
            "spot_max_radius: expected at least spot_min_radius=9, got 8.5",
        ),
        (
            {"spot_min_speed": 0.01},
            "spot_max_speed: expected at least spot_min_speed=0.01, got 0.0075",
        ),
    ],
)
def test_a_smallest_above_the_largest_is_rejected(env_id: str, pair: dict[str, float], sentence: str) -> None:
    with pytest.raises(OptionError, match=f"^{env_id}: {sentence}"):
        jaxgym.make(env_id, **pair)


def test_a_key_is_rejected_in_a_sentence() -> None:
    with pytest.raises(OptionError, match=r"(?s)^MortarMayhem-v0: arena_size: expected an integer from 2 to 6, got "):
        jaxgym.make(GAME, arena_size=jax.random.key(0))


def test_radii_that_are_cut_to_the_same_pixel_have_a_range() -> None:
    params = jaxgym.make("SearingSpotlights-v0", spot_min_radius=7.9, spot_max_radius=7.5)[1]
    assert params.spot_min_radius.astype(int) == params.spot_max_radius.astype(int) == 7


def test_a_traced_value_is_rejected_in_a_sentence() -> None:
    with pytest.raises(OptionError, match=r"^MortarMayhem-v0: arena_size: expected an integer from 2 to 6, got "):
        jax.eval_shape(lambda size: jaxgym.make(GAME, arena_size=size)[1].arena_size, jnp.int32(3))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("MortarMayhem-v0", {"arena_size": 3, "command_count": [4, 2], "reward_command_success": 1, "max_steps": 9}),
        ("MysteryPath-Grid-v0", {"cardinal_origin_choice": [3], "show_goal": True, "reward_step": -0.5}),
        ("SearingSpotlights-v0", {"spot_max_speed": 0.01, "spot_max_radius": 9, "visual_feedback": False}),
        ("FrozenLake-v0", {"p": 1, "is_slippery": True, "max_steps": 9}),
        ("Sudoku-v0", {"clues": [20, 40]}),
        ("TextCraft-v0", {"depth": [2], "distractors": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_values_of_traced_options_are_no_other_program(env_id: str, options: dict[str, Any]) -> None:
    @chex.assert_max_traces(n=1)
    def count(env: Any, params: Any) -> int:
        del env
        return len(jax.tree.leaves(params))

    chex.clear_trace_counter()
    traced = jax.jit(count, static_argnums=0)
    for chosen in ({}, options):
        jax.eval_shape(traced, *jaxgym.make(env_id, **chosen))


# Kinds.


@pytest.mark.parametrize(
    ("kind", "given_value", "dtype"),
    [
        (Integer(1, ""), np.int64(7), np.int32),
        (Real(0.0, ""), 7, np.float32),
        (Flag(True, ""), False, np.bool_),
    ],
)
def test_a_traced_option_is_stored_as_an_array_without_axes(kind: Any, given_value: Any, dtype: Any) -> None:
    stored = kind.convert(given_value)
    chex.assert_shape(stored, ())
    chex.assert_type(stored, dtype)
    assert stored == given_value


@pytest.mark.parametrize(
    ("kind", "given_value", "stored"),
    [
        (Integer(1, ""), np.int64(7), 7),
        (Static(None, ""), np.int64(7), 7),
        (Static(None, ""), None, None),
        (Real(0.0, ""), 1, 1.0),
        (Flag(True, ""), np.bool_(False), False),
        (OneOf("a", "", values=("a", "b")), np.str_("b"), "b"),
    ],
)
def test_a_static_option_is_stored_as_a_plain_value(kind: Any, given_value: Any, stored: Any) -> None:
    assert kind.plain(given_value) == stored
    assert type(kind.plain(given_value)) is type(stored)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Integer(0, ""), "an integer from -2^31 to 2^31 - 1"),
        (Integer(0, "", low=2), "an integer from 2 to 2^31 - 1"),
        (Integer(0, "", low=2, high=5), "an integer from 2 to 5"),
        (Real(0.0, ""), "a finite float32 number"),
        (Real(0.0, "", low=0.5), "a finite float32 number from 0.5 up"),
        (Real(0.0, "", high=0.5), "a finite float32 number up to 0.5"),
        (Real(0.0, "", low=0.5, high=1.5), "a number from 0.5 to 1.5"),
        (
            Static(None, "", low=1, high=9),
            "an integer from 1 to 9, or None for the smallest that the other options need",
        ),
        (Static(None, "", low=1, high=9, none="4"), "an integer from 1 to 9, or None for 4"),
        (IntegerList([4], "", low=1, high=9), "a list of 1 to 8 integers from 1 to 9, such as [4]"),
        (OneOf("a", "", values=("a", "b", "c")), "'a' or 'b' or 'c'"),
    ],
)
def test_a_kind_tells_its_values_in_words(kind: Any, words: str) -> None:
    assert kind.allowed == words


def test_resolve_fills_in_the_defaults() -> None:
    options = {"size": Integer(4, "", low=0), "name": OneOf("a", "", values=("a", "b")), "is_on": Flag(True, "")}
    assert resolve("Game-v0", options, {"name": "b"}) == {"size": 4, "name": "b", "is_on": True}


@struct.dataclass
class Declaring:
    """Options of each sort, and a field that is none."""

    counts: Choices = traced(IntegerList([4], ""))
    speed: Any = traced(Real(1.5, "", low=0.0), default=2.5, help="px per step")
    size: int = static(Static(None, ""))
    name: str = static(OneOf("a", "", values=("a", "b")))
    other: int = 3


def test_a_declaration_is_a_field_with_the_default_of_its_option() -> None:
    made = Declaring(size=5)
    chex.assert_trees_all_equal((made.counts, made.speed), (Choices.of([4]), np.float32(2.5)))
    assert (made.size, made.name, made.other) == (5, "a", 3)
    with pytest.raises(TypeError, match="size"):
        Declaring()


def test_declared_options_are_in_the_order_of_the_fields() -> None:
    assert list(declared(Declaring)) == ["counts", "speed", "size", "name"]
    assert declared(Declaring)["speed"] == Real(2.5, "px per step", low=0.0)


def test_a_word_is_not_traced() -> None:
    with pytest.raises(NotImplementedError, match=r"^expected a kind that can be traced, got OneOf\. Use `static`\.$"):
        OneOf("a", "", values=("a",)).convert("a")


def test_every_default_of_every_game_is_allowed_and_has_a_line_of_help() -> None:
    for env_id in families():
        for name, option in jaxgym.spec_of(env_id).options.items():
            assert option.accepts(option.default), (env_id, name)
            assert option.help, (env_id, name)


# Lists to sample from.


def test_lists_of_all_lengths_have_one_shape_and_repeat_their_last_entry() -> None:
    assert Choices.of([3]).values.tolist() == [3] * MAX_CHOICES
    assert Choices.of([3, 9]).values.tolist() == [3] + [9] * (MAX_CHOICES - 1)
    assert Choices.of(list(range(8))).values.tolist() == list(range(8))
    assert [int(Choices.of([7] * n).count) for n in (1, 5, 8)] == [1, 5, 8]


@pytest.mark.parametrize("values", [[], [2.7], list(range(9)), [2**31], [True], "12", 3, None, [[1]]])
def test_choices_of_anything_but_1_to_8_integers_are_rejected(values: Any) -> None:
    with pytest.raises(OptionError, match=r"^Choices\.of: expected a list of 1 to 8 integers from -2\^31 to"):
        Choices.of(values)


@given(values=st.lists(st.integers(-100, 100), min_size=1, max_size=8), bits=st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
@pytest.mark.slow
def test_a_pick_is_the_entry_at_the_remainder_of_the_bits(values: list[int], bits: int) -> None:
    assert pick(Choices.of(values), np.uint32(bits)) == values[bits % len(values)]


@jax.jit
def pick(choices: Choices, bits: jax.Array) -> jax.Array:
    return choices.pick(jnp.asarray(bits))
