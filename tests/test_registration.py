"""Ids, `make` and its errors, and the errors for invalid actions."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import text
from jaxgym.envs.babyai import EXTRA_SPECS
from jaxgym.envs.babyai.table import LEVELS
from jaxgym.errors import (
    ActionError,
    LevelError,
    OptionError,
    RandomKeyError,
    StateError,
    UnknownIdError,
    grouped,
    listed,
    nearest,
)
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete
from tests.ids import is_babyai, without_new_ids

FREE, GRID = "MortarMayhem-v0", "MortarMayhem-Grid-v0"
MORTAR_MAYHEM = (FREE, GRID, "MortarMayhemB-v0", "MortarMayhemB-Grid-v0")


# Ids.


def printed(program: str) -> str:
    """Return the output of a program in a process of its own."""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return finished.stdout


def test_a_process_that_imports_the_table_alone_reads_its_rows() -> None:
    program = "import jaxgym; print(jaxgym.spec_of('FrozenLake-v0').max_steps, *jaxgym.registered_envs())"
    assert printed(program).split() == ["100", *jaxgym.registered_envs()]


@pytest.mark.slow
def test_a_process_that_imports_a_reader_of_the_table_alone_reads_its_rows() -> None:
    program = "from jaxgym.envs.common.episode_sequence import of; print(of('MysteryPath-Grid-v0').start(0).path.shape)"
    assert printed(program) == "(2,)\n"


def test_the_four_ids_of_mortar_mayhem_are_registered_once() -> None:
    ids = jaxgym.registered_envs()
    assert set(MORTAR_MAYHEM) <= set(ids)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("MortarMayhem-v1", FREE),
        ("mortarmayhem-grid-v0", GRID),
        ("MortarMayhemGrid-v0", GRID),
        ("Mortar", FREE),
        ("BabyAI-GoToObjS6-v0", "BabyAI-GoToObjS6-v1"),
    ],
)
def test_an_unknown_id_is_rejected_with_the_nearest_id(given: str, meant: str) -> None:
    for find in (jaxgym.make, jaxgym.spec_of):
        with pytest.raises(UnknownIdError) as raised:
            find(given)
        expected = f"Unknown environment id {given!r} (did you mean {meant!r}?). See jaxgym.registered_envs()."
        assert str(raised.value) == expected


@pytest.mark.parametrize("given", [["a"], None, 3, {}])
def test_what_is_no_text_is_an_unknown_id(given: Any) -> None:
    for find in (jaxgym.make, jaxgym.spec_of, jaxgym.presets):
        with pytest.raises(UnknownIdError, match=r"^Unknown environment id .*\. The ids are "):
            find(given)


def test_a_preset_that_is_no_text_is_unknown() -> None:
    with pytest.raises(OptionError, match=r"^MortarMayhem-v0: expected a preset, got \['a'\]\. Use one of"):
        jaxgym.make(FREE, preset=["a"])  # pyright: ignore[reportArgumentType] — what this test is about


def test_an_unknown_id_without_a_near_one_is_rejected_with_all_ids() -> None:
    with pytest.raises(UnknownIdError, match=r"^Unknown environment id 'CartPole'\. The ids are") as raised:
        jaxgym.make("CartPole")
    sentence = str(raised.value)
    assert all(env_id in sentence for env_id in jaxgym.registered_envs() if not is_babyai(env_id))
    assert ", BabyAI-* (98 ids)" in sentence


def test_a_list_has_one_entry_for_each_large_family_of_names() -> None:
    many, few = [f"Many-{number}-v0" for number in range(11)], [f"Few-{number}-v0" for number in range(10)]
    assert grouped([many[0], *few, "One-v0", *many[1:]]) == {
        "Many-*": many,
        **{name: [name] for name in [*few, "One-v0"]},
    }
    assert listed([*many, *few[:2]]) == "Many-* (11 ids), Few-0-v0, Few-1-v0"
    assert listed([f"many_{number}" for number in range(11)]) == "many_* (11 ids)"


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("ARENA_SIZ", ["agent_speed", "arena_size"]) == " (did you mean 'arena_size'?)"
    assert nearest("zzz", ["agent_speed", "arena_size"]) == ""


@pytest.mark.parametrize("error", [UnknownIdError, OptionError, ActionError, LevelError, StateError, RandomKeyError])
def test_every_error_is_a_value_error(error: type) -> None:
    assert issubclass(error, ValueError)


def test_a_registered_id_can_be_made_here_and_in_gymnax_until_it_is_unregistered() -> None:
    before = jaxgym.registered_envs(), gymnax.registered_envs.copy(), list(gymnasium.registry)
    spec = dataclasses.replace(jaxgym.spec_of(GRID), max_steps=33)
    for _ in range(2):
        jaxgym.register("Renamed-v0", spec)
        env, params = jaxgym.make("Renamed-v0")
        assert env.env_id == env.name == "Renamed-v0"
        assert params.max_steps_in_episode == 33
        assert gymnax.make("Renamed-v0")[0] == env
        assert "jaxgym/Renamed-v0" in gymnasium.registry
        with pytest.raises(ValueError, match=r"^'Renamed-v0' is already registered\. Choose another id\.$"):
            jaxgym.register("Renamed-v0", spec)
        jaxgym.unregister("Renamed-v0")
        assert (jaxgym.registered_envs(), gymnax.registered_envs, list(gymnasium.registry)) == before
        with pytest.raises(ValueError, match="Renamed-v0"):
            gymnax.make("Renamed-v0")
        for find in (jaxgym.make, jaxgym.unregister):
            with pytest.raises(UnknownIdError, match=r"^Unknown environment id 'Renamed-v0'"):
                find("Renamed-v0")


def test_a_text_interface_comes_and_goes_with_its_environment() -> None:
    before = text.text_envs()
    spec = jaxgym.spec_of("FrozenLake-v0")
    with without_new_ids():
        for given, short_name in ((None, "my_small_lake"), ("lake", "lake")):
            jaxgym.register("MySmall-Lake-v0", spec, short_name=given)
            assert text.text_envs() == {**before, short_name: "MySmall-Lake-v0"}
            assert text.short_name_of("MySmall-Lake-v0") == text.short_name_of(short_name) == short_name
            jaxgym.unregister("MySmall-Lake-v0")
            assert text.text_envs() == before
        jaxgym.register("FrozenLake-v1", spec)
        assert text.text_envs() == {**before, "FrozenLake-v1": "FrozenLake-v1"}


def test_a_short_name_is_unique_and_names_a_text_interface() -> None:
    spec = jaxgym.spec_of("FrozenLake-v0")
    with without_new_ids():
        with pytest.raises(ValueError, match=r"^The short name 'frozen_lake' is already registered\. Choose another"):
            jaxgym.register("Lake-v0", spec, short_name="frozen_lake")
        silent = dataclasses.replace(spec, text=None)
        with pytest.raises(ValueError, match=r"^'Lake-v0': expected a spec with text for short_name='lake', got text"):
            jaxgym.register("Lake-v0", silent, short_name="lake")
        assert "Lake-v0" not in jaxgym.registered_envs()
        jaxgym.register("Lake-v0", silent)
        for find in (text.text_spec_of, text.make, text.short_name_of):
            with pytest.raises(UnknownIdError, match=r"^Unknown text environment 'Lake-v0'"):
                find("Lake-v0")


def test_the_text_interface_has_other_options_than_its_environment() -> None:
    spec = jaxgym.spec_of("FrozenLake-v0")
    assert spec.text is not None
    clash = dataclasses.replace(spec.text, options={"is_slippery": spec.options["is_slippery"]})
    with pytest.raises(ValueError, match=r"^expected other option names .*, got is_slippery for both"):
        dataclasses.replace(spec, text=clash)


def test_a_variant_changes_declared_options_only() -> None:
    spec = jaxgym.spec_of("FrozenLake-v0")
    larger = dataclasses.replace(spec, changes={"size": {"default": 8}, "p": {"low": 0.5}}, fixed={"is_slippery": True})
    assert larger.options.keys() == spec.options.keys() - {"is_slippery"}
    assert larger.options["p"].allowed == "a number from 0.5 to 1.0"
    with without_new_ids():
        jaxgym.register("LargeLake-v0", larger)
        env, params = jaxgym.make("LargeLake-v0")
        assert (env.observation_space(params).shape, bool(params.is_slippery)) == ((84, 84, 3), True)
        assert env.sample_level(jax.random.key(0), params).is_hole.shape == (8, 8)
        with pytest.raises(OptionError, match="expected an option, got 'is_slippery'"):
            jaxgym.make("LargeLake-v0", is_slippery=False)
    with pytest.raises(ValueError, match=r"^expected options in changes, got sizes\. Correct their names\.$"):
        dataclasses.replace(spec, changes={"sizes": {"default": 8}})


def test_an_entry_point_is_imported_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registered_later.py").write_text("import jaxgym\nLAKE = jaxgym.spec_of('FrozenLake-v0')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with without_new_ids():
        jaxgym.register("Later-v0", "registered_later:LAKE")
        assert "Later-v0" in jaxgym.registered_envs()
        assert "registered_later" not in sys.modules
        assert jaxgym.spec_of("Later-v0") is jaxgym.spec_of("FrozenLake-v0")
        assert text.text_envs()["later"] == "Later-v0"
        assert "registered_later" in sys.modules


def test_an_entry_point_may_name_a_mapping_of_specs_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registered_family.py").write_text(
        "import jaxgym\nSPECS = {'Lake-v0': jaxgym.spec_of('FrozenLake-v0'), 'Path-v0': jaxgym.spec_of('Sudoku-v0')}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with without_new_ids():
        for env_id, same in (("Lake-v0", "FrozenLake-v0"), ("Path-v0", "Sudoku-v0")):
            jaxgym.register(env_id, "registered_family:SPECS")
            assert jaxgym.spec_of(env_id) is jaxgym.spec_of(same)
        jaxgym.register("Other-v0", "registered_family:SPECS")
        with pytest.raises(UnknownIdError, match=r"^Other-v0: expected its entry point .*, got KeyError: 'Other-v0'\."):
            jaxgym.spec_of("Other-v0")


def test_the_table_has_the_ids_of_babyai() -> None:
    names = [env_id.removeprefix("BabyAI-") for env_id in jaxgym.registered_envs() if is_babyai(env_id)]
    assert names == [*LEVELS, *(env_id.removeprefix("BabyAI-") for env_id in EXTRA_SPECS)]
    assert text.text_envs()["babyai_go_to_local_s5_n2"] == "BabyAI-GoToLocalS5N2-v0"


def test_importing_jaxgym_and_listing_its_ids_imports_neither_jax_nor_a_game() -> None:
    program = """
import sys, gymnasium, jaxgym
assert "jaxgym/FrozenLake-v0" in gymnasium.registry
jax = "jax" in sys.modules
ids, short_names = jaxgym.registered_envs(), jaxgym.text.text_envs()
jaxgym.make("FrozenLake-v0")
print(jax, len(ids), len(short_names), *sorted(name for name in sys.modules if name.startswith("jaxgym.envs.")))
"""
    jax, num_ids, num_names, *games = printed(program).split()
    assert (jax, num_ids, num_names) == ("False", "129", "129")
    assert {name.split(".")[2] for name in games} == {"frozen_lake"}


# `make`.


@pytest.mark.parametrize("env_id", MORTAR_MAYHEM)
def test_gymnax_makes_the_same(env_id: str) -> None:
    env, params = gymnax.make(env_id, arena_size=4, max_steps=9)
    ours, our_params = jaxgym.make(env_id, arena_size=4, max_steps=9)
    assert env == ours
    chex.assert_trees_all_equal(params, our_params)
    assert env_id in gymnax.registered_envs


def test_gymnax_passes_our_errors_on() -> None:
    with pytest.raises(OptionError, match="expected an option, got 'size'"):
        gymnax.make(GRID, size=4)


def test_make_gives_the_environment_its_parameters() -> None:
    env, params = jaxgym.make(GRID, arena_size=3, max_steps=5)
    assert env.default_params is params
    assert (params.arena_size, params.max_steps_in_episode) == (3, 5)


def test_equal_options_that_fix_a_program_make_equal_environments() -> None:
    first, second = (jaxgym.make(FREE, arena_size=size, agent_scale=0.5)[0] for size in (3, 4))
    assert first == second
    assert hash(first) == hash(second)
    for option in ({"agent_scale": 0.1}, {"observation": "symbolic"}, {"flat_actions": True}, {"max_commands": 12}):
        assert jaxgym.make(FREE, **{"agent_scale": 0.5, **option})[0] != first


def test_an_environment_can_not_be_changed() -> None:
    env, _ = jaxgym.make(GRID)
    with pytest.raises(AttributeError, match=r"^MortarMayhem-Grid-v0: grid is read-only\. Make another"):
        env.grid = False


# Actions.


@pytest.fixture(scope="module")
def started() -> Callable[[str], tuple[Any, Any, Any]]:
    """Return a function that returns an environment, its state (shapes only) and parameters."""

    def start(env_id: str, **options: Any) -> tuple[Any, Any, Any]:
        env, params = jaxgym.make(env_id, observation="symbolic", **options)
        return env, jax.eval_shape(env.reset, jax.random.key(0), params)[1], params

    return start


def act(started: tuple[Any, Any, Any], action: Any) -> Any:
    """Return the shapes of a step with the action; nothing is compiled."""
    env, state, params = started
    return jax.eval_shape(lambda key, state: env.step(key, state, action, params), jax.random.key(0), state)


@pytest.mark.parametrize(
    ("env_id", "action", "shape", "takes"),
    [
        (FREE, 1, (), r"\(2,\) \(MultiDiscrete\(\[3, 3\]\)\)"),
        (FREE, [1, 1, 1], (3,), r"\(2,\) \(MultiDiscrete\(\[3, 3\]\)\)"),
        (FREE, [[0, 1]] * 5, (5, 2), r"\(2,\) \(MultiDiscrete\(\[3, 3\]\)\)"),
        (GRID, [1], (1,), r"\(\) \(.*\)"),
        (GRID, [0, 1, 2], (3,), r"\(\) \(.*\)"),
    ],
)
def test_an_action_of_a_wrong_shape_is_rejected(started: Any, env_id: str, action: Any, shape: Any, takes: str) -> None:
    got = rf", got {re.escape(str(shape))}\. For a batch of actions, jax\.vmap the step\."
    with pytest.raises(ActionError, match=rf"^{env_id}: action must have shape {takes}{got}"):
        act(started(env_id), np.asarray(action, np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
@pytest.mark.parametrize(("env_id", "action"), [(FREE, [1, 1]), (GRID, 1)])
def test_an_action_that_is_no_integer_is_rejected(started: Any, env_id: str, action: Any, dtype: Any) -> None:
    message = rf"^{env_id}: action must be an integer array \(.*\), got {np.dtype(dtype)}\. "
    with pytest.raises(ActionError, match=message + r"Cast it with action\.astype\(jnp\.int32\)\."):
        act(started(env_id), np.asarray(action, dtype))


@pytest.mark.parametrize(
    "action",
    ["1", {}, None, 2**31, -(2**31) - 1, 2**70, [[1], [1, 2]], np.int64(2**40), 1j],
    ids=["text", "dict", "none", "large", "small", "larger", "ragged", "int64", "complex"],
)
@pytest.mark.parametrize("env_id", [FREE, GRID])
def test_an_action_that_is_no_array_of_int32_numbers_is_rejected(started: Any, env_id: str, action: Any) -> None:
    env, state, params = started(env_id)
    message = rf"^{env_id}: action must be an int32 array of shape \(.*\) \(.*\), got .*\.$"
    for step in (env.step, env.step_env):
        with pytest.raises(ActionError, match=message):
            step(jax.random.key(0), state, action, params)


def test_a_list_of_traced_numbers_is_an_action(started: Any) -> None:
    env, state, params = started(FREE)

    def step(key: Any, state: Any, number: Any) -> Any:
        return env.step(key, state, [number, number], params)[2]

    reward = jax.eval_shape(step, jax.random.key(0), state, jnp.int32(1))
    chex.assert_shape(reward, ())
    chex.assert_type(reward, jnp.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
def test_an_action_of_any_integer_dtype_is_taken(started: Any, dtype: Any) -> None:
    # The step of an action of another dtype is that of int32.
    for env_id, action in ((FREE, [1, 2]), (GRID, 3)):
        game = started(env_id)
        assert act(game, np.asarray(action, dtype)) == act(game, np.asarray(action, np.int32))


def test_a_plain_number_is_an_action(started: Any) -> None:
    for game, action in ((started(GRID), 3), (started(FREE, flat_actions=True), 8)):
        assert act(game, action) == act(game, np.asarray(action, np.int32))
    with pytest.raises(ActionError, match="got float32"):
        act(started(GRID), 3.0)


# Spaces.


def test_multi_discrete_samples_every_action_as_often_and_as_int32(get_key: Any) -> None:
    space = MultiDiscrete((3, 2))
    actions = jax.vmap(space.sample)(jax.random.split(get_key(), 1200))
    chex.assert_shape(actions, (1200, 2))
    chex.assert_type(actions, jnp.int32)
    rows, counts = np.unique(np.asarray(actions), axis=0, return_counts=True)
    assert rows.tolist() == [[x, y] for x in range(3) for y in range(2)]
    # 200 each, with a standard deviation of 12.9.
    assert np.abs(counts - 200).max() < 5 * 12.9


def test_multi_discrete_contains_its_actions_and_nothing_above_or_below() -> None:
    space = MultiDiscrete((3, 2))
    assert (space.shape, space.nvec, space.dtype) == ((2,), (3, 2), jnp.int32)
    assert space.contains(jnp.asarray([2, 1]))
    assert space.contains(jnp.asarray([0, 0]))
    assert not space.contains(jnp.asarray([3, 0]))
    assert not space.contains(jnp.asarray([0, 2]))
    assert not space.contains(jnp.asarray([-1, 0]))


def test_a_dict_space_contains_observations_with_all_entries_in_range() -> None:
    space = Dict({"image": Box(0, 255, (2,), jnp.uint8), "instruction": Discrete(3)})
    inside = {"image": jnp.zeros(2, jnp.uint8), "instruction": jnp.int32(2)}
    assert jax.jit(space.contains)(inside)
    assert not space.contains({**inside, "instruction": jnp.int32(3)})
    assert not space.contains({**inside, "image": jnp.full(2, 256)})
    assert space.contains(space.sample(jax.random.key(0)))


@pytest.mark.parametrize("nvec", [(), (3, 0), (-1,)])
def test_multi_discrete_needs_values_for_each_entry(nvec: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^MultiDiscrete: nvec: expected integers of at least 1, got \(.*\)\."):
        MultiDiscrete(nvec)


@pytest.mark.parametrize(("env_id", "count"), [(FREE, 9), (GRID, 4)])
def test_the_number_of_actions_counts_combinations(env_id: str, count: int) -> None:
    assert jaxgym.make(env_id)[0].num_actions == count


def test_a_very_long_id_is_not_repeated_whole() -> None:
    with pytest.raises(UnknownIdError) as raised:
        jaxgym.make("x" * 100_000)
    assert len(str(raised.value)) < 1000


# States and parameters.


def test_what_is_no_state_or_parameters_of_the_environment_is_an_error_in_a_sentence(started: Any) -> None:
    env, state, params = started(GRID)
    cart, foreign_params = gymnax.make("CartPole-v1")
    foreign_state = jax.eval_shape(cart.reset_env, jax.random.key(0), foreign_params)[1]
    own_params = r"expected parameters of class jaxgym\.envs\.mortar_mayhem\.game\.Params, got "
    for wrong, named in ((foreign_params, r"gymnax.*\.EnvParams"), ({}, r"builtins\.dict"), (state, r".*\.State")):
        words = rf"^{GRID}: {own_params}{named}\. Pass the parameters that make returned, or dataclasses\.replace"
        for call in (env.reset, env.reset_env):
            with pytest.raises(StateError, match=words):
                call(jax.random.key(0), wrong)
        with pytest.raises(StateError, match=words):
            env.reset_to_level(jax.random.key(0), state.level, wrong)
        for call in (env.step, env.step_env):
            with pytest.raises(StateError, match=words):
                call(jax.random.key(0), state, 1, wrong)
    own_state = r"expected a state of class jaxgym\.\w+(\.\w+)*State, got "
    for wrong, named in (
        (foreign_state, r"gymnax.*\.EnvState"),
        (None, r"builtins\.NoneType"),
        ({"time": "now"}, r"builtins\.dict"),
        (params, r".*\.Params"),
    ):
        for call in (env.step, env.step_env):
            with pytest.raises(StateError, match=rf"^{GRID}: {own_state}{named}\. Pass the state that reset"):
                call(jax.random.key(0), wrong, 1, params)


def test_a_value_that_is_not_one_prng_key_is_an_error_with_the_fix(started: Any) -> None:
    env, state, params = started(GRID)
    keys = jax.random.split(jax.random.key(0), 3)
    for call in (lambda key: env.reset(key, params), lambda key: env.step(key, state, 1, params)):
        for wrong in (0, None, "0", np.float32(0), np.zeros(3, np.uint32), state):
            with pytest.raises(RandomKeyError, match=rf"^{GRID}: key: expected a PRNG key, got .* jax\.random\.key\("):
                call(wrong)
        for batch in (keys, jax.random.key_data(keys)):
            with pytest.raises(
                RandomKeyError, match=r"expected one PRNG key, got keys of shape \(3,\)\. .* jax\.vmap\."
            ):
                call(batch)
            jax.eval_shape(jax.vmap(call), batch)
        jax.eval_shape(call, jax.random.PRNGKey(0))


def test_a_list_in_the_parameters_is_an_error_with_the_fix(started: Any) -> None:
    env, _, params = started(GRID)
    wrong = dataclasses.replace(params, command_count=[4])
    words = r"expected jaxgym\.options\.Choices, got list\. Convert a list with Choices\.of\(list\)"
    with pytest.raises(StateError, match=rf"^{GRID}: params\.command_count: {words}"):
        env.reset(jax.random.key(0), wrong)


def test_a_state_of_another_environment_or_of_a_batch_is_an_error_in_a_sentence(started: Any) -> None:
    game = started(GRID)
    other = started("FrozenLake-v0")[1]
    with pytest.raises(
        StateError, match=r"expected a state of class .*mortar_mayhem\.game\.State, got .*frozen_lake\.game\.State"
    ):
        act((game[0], other, game[2]), 1)
    batch = jax.eval_shape(jax.vmap(game[0].reset, (0, None)), jax.random.split(jax.random.key(0), 3), game[2])[1]
    with pytest.raises(StateError, match=r"whose time has shape \(\), got \(3,\)\. jax\.vmap the step over a batch"):
        act((game[0], batch, game[2]), 1)
    inner = dataclasses.replace(game[1], level=other.level)
    with pytest.raises(StateError, match=r"expected a state with the pytree structure of its own states, got another"):
        act((game[0], inner, game[2]), 1)
