"""Hidden facts, and the fully observable twins of `observability="full"`."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import facts, levels, testing, text
from jaxgym.envs.boss_fight.game import LEG_STEPS, STAY
from jaxgym.errors import ContractError
from jaxgym.wrappers import LastActionReward
from tests.ids import families

WITHOUT_FACTS = {"FrozenLake-v0", "Sudoku-v0", "TextCraft-v0"}
"""Ids whose observation hides nothing; with `observability="full"`, it is the normal one."""

WITH_FACTS = [env_id for env_id in families() if env_id not in WITHOUT_FACTS]

UNOPTIMIZED: Any = {"xla_backend_optimization_level": 0}


def some(*env_ids: str, quick: tuple[str, ...]) -> list[Any]:
    """Return ids as parameters of a test; all but a few are slow."""
    return [env_id if env_id in quick else pytest.param(env_id, marks=pytest.mark.slow) for env_id in env_ids]


def twins(env_id: str, **options: Any) -> tuple[Any, Any, Any]:
    """Return the environment, its twin and their parameters."""
    env, params = jaxgym.make(env_id, levels="fresh", **options)
    return env, jaxgym.make(env_id, levels="fresh", observability="full", **options)[0], params


def observations(env: Any, full: Any, params: Any, steps: int = 3) -> tuple[Any, Any, Any]:
    """Return the observations of both, and the facts, of states of random play; leaves (steps, ...)."""

    @jax.jit
    def play(key: jax.Array) -> tuple[Any, Any, Any]:
        state = env.initial_state(levels.level_from_seed(env, jnp.uint32(3), params), params)

        def step(state: Any, key: jax.Array) -> tuple[Any, tuple[Any, Any, Any]]:
            seen = (each.observe(key, state, None, params) for each in (env, full))
            after = env.step_env(key, state, env.action_space(params).sample(jax.random.clone(key)), params)[1]
            return after, (*seen, env.hidden(state, params))

        return jax.lax.scan(step, state, jax.random.split(key, steps))[1]

    return jax.device_get(play.lower(jax.random.key(0)).compile(compiler_options=UNOPTIMIZED)(jax.random.key(0)))


def decoded(numbers: np.ndarray, hidden: dict[str, facts.Fact]) -> dict[str, np.ndarray]:
    """Return the values of facts from their one-hot numbers, (steps, n)."""
    values = {}
    for name, fact in sorted(hidden.items()):
        count = fact.values[0].size * fact.size
        own, numbers = numbers[:, :count].reshape(*fact.values.shape, fact.size), numbers[:, count:]
        values[name] = np.where(own.any(axis=-1), own.argmax(axis=-1), -1)
    assert not numbers.size
    return values


def test_an_id_declares_facts_or_is_listed_here() -> None:
    without = [
        env_id
        for env_id in jaxgym.registered_envs()
        if jaxgym.spec_of(env_id).environment.hidden is jaxgym.Environment.hidden
    ]
    assert set(without) == WITHOUT_FACTS


@pytest.mark.parametrize("env_id", some(*sorted(WITHOUT_FACTS), quick=("FrozenLake-v0",)))
def test_without_facts_the_twin_has_the_normal_observation(env_id: str) -> None:
    env, full, params = twins(env_id, observation="symbolic")
    plain, shown, _ = observations(env, full, params, steps=2)
    chex.assert_trees_all_equal(plain, shown)
    assert full.observation_space(params).shape == env.observation_space(params).shape


@pytest.mark.parametrize(
    "env_id", some(*WITH_FACTS, quick=("T-Maze-v0", "MortarMayhemB-Grid-v0", "MiniGrid-MemoryS7-v0"))
)
def test_symbols_of_a_twin_are_the_normal_ones_and_the_facts(env_id: str) -> None:
    env, full, params = twins(env_id, observation="symbolic")
    plain, shown, hidden = observations(env, full, params)
    if isinstance(plain, dict):
        chex.assert_trees_all_equal(plain, {name: shown[name] for name in plain})
        numbers = shown["hidden"]
    else:
        assert np.array_equal(plain, shown[:, : plain.shape[1]])
        numbers = shown[:, plain.shape[1] :]
    for name, values in decoded(numbers, hidden).items():
        assert hidden[name].values.dtype == np.int32, name
        assert np.array_equal(values, hidden[name].values), name
        assert len(hidden[name].names) in (0, hidden[name].size, hidden[name].values[0].size), name


@pytest.mark.parametrize("env_id", some(*WITH_FACTS, quick=("T-Maze-v0", "MortarMayhemB-Grid-v0")))
def test_a_frame_of_a_twin_is_the_normal_one_above_cells_of_the_facts(env_id: str) -> None:
    env, full, params = twins(env_id, observation="full_pixels" if env_id.startswith("BabyAI") else "pixels")
    plain, shown, hidden = observations(env, full, params)
    plain, shown = (jaxgym.pytrees.first_frame(each, batch_dims=1) for each in (plain, shown))
    height, width = plain.shape[1:3]
    assert np.array_equal(plain, shown[:, :height])
    cells = shown[:, height:, : width // 4 * 4]
    assert cells.shape[1] % 8 == 0
    assert np.array_equal(cells, np.kron(cells[:, ::4, ::4], np.ones((1, 4, 4, 1), np.uint8)))
    lit = cells[:, ::4, ::4].max(axis=-1).reshape(len(cells), -1) == 255
    count = facts.length({name: dataclasses.replace(fact, values=fact.values[0]) for name, fact in hidden.items()})
    assert not lit[:, count:].any()
    chex.assert_trees_all_equal(decoded(lit[:, :count], hidden), {name: fact.values for name, fact in hidden.items()})


@pytest.mark.parametrize(
    ("env_id", "observation"),
    [
        *(("T-Maze-v0", "symbolic"), ("MortarMayhemB-Grid-v0", "pixels"), ("MysteryPath-Grid-v0", "symbolic")),
        *(("BabyAI-GoToLocalS5N2-v0", "symbolic"), ("BabyAI-GoToLocalS5N2-v0", "pixels")),
        *(("SearingSpotlights-v0", "pixels"), ("MiniGrid-MemoryS7-v0", "one_hot")),
    ],
)
@pytest.mark.slow
def test_a_twin_keeps_the_contract(env_id: str, observation: str) -> None:
    env, params = jaxgym.make(env_id, observability="full", levels="fresh", observation=observation)
    testing.check_env(env, params)


def test_twins_share_states_and_equal_twins_share_programs() -> None:
    env, full, params = twins("T-Maze-v0")
    again = jaxgym.make("T-Maze-v0", levels="fresh", observability="full")[0]
    assert full == again
    assert hash(full) == hash(again)
    assert full != env
    states = [each.reset(jax.random.key(0), params)[1] for each in (env, full)]
    chex.assert_trees_all_equal(*states)


def test_a_wrapper_keeps_the_facts() -> None:
    _, full, params = twins("T-Maze-v0", observation="symbolic")
    wrapped = LastActionReward(full)
    observation, state = wrapped.reset(jax.random.key(0), params)
    space: Any = wrapped.observation_space(params)
    assert observation["observation"].shape == space.spaces["observation"].shape == (4,)
    assert set(wrapped.hidden(state, params)) == {"goal"}


def test_a_twin_of_a_third_party_has_its_facts_beside_other_observations() -> None:
    env = jaxgym.make("T-Maze-v0", observation="symbolic")[0]
    hidden = {"goal": facts.Fact(jnp.int32(1), 2), "seen": facts.flags(jnp.asarray([True, False]))}
    added = facts.added(env, jnp.zeros((2, 2), jnp.float32), hidden)
    assert added["hidden"].tolist() == [0, 1, 1, 0]
    space: Any = facts.enlarged(jaxgym.spaces.Box(-2.0, 3.0, (2, 2), jnp.float32), jax.eval_shape(lambda: added))
    assert {name: (box.low, box.high, box.shape) for name, box in space.spaces.items()} == {
        "hidden": (0.0, 1.0, (4,)),
        "observation": (-2.0, 3.0, (2, 2)),
    }


def first_value(fact: facts.Fact) -> jax.Array:
    return jnp.argmax(fact.values >= 0).astype(jnp.int32)


def t_maze(seen: Any, hidden: Any) -> jax.Array:
    return jnp.where((seen[0] == 1) & (seen[1] == 0), jnp.where(hidden["goal"].values == 1, 1, 3), 0)


def memory_cards(_: Any, hidden: Any) -> jax.Array:
    return hidden["card_to_name"].values


def numpad(seen: Any, hidden: Any) -> jax.Array:
    ball, pad = jnp.argmax(seen[9:]).astype(jnp.int32), hidden["next_pad"].values
    rows, columns = pad // 3 - ball // 3, pad % 3 - ball % 3
    return jnp.where(rows != 0, jnp.where(rows < 0, 0, 2), jnp.where(columns != 0, jnp.where(columns < 0, 3, 1), 0))


def mystery_path(seen: Any, hidden: Any) -> jax.Array:
    # Turn until the heading is that of the way, then walk; headings are eighths of a turn, counter-clockwise from up.
    heading = jnp.argmax(seen[2:10]).astype(jnp.int32)
    wanted = jnp.asarray([6, 4, 2, 0], jnp.int32)[first_value(hidden["way"])]
    return jnp.where(heading == wanted, 3, 1)


def ballet(_: Any, hidden: Any) -> jax.Array:
    return jnp.asarray([7, 0, 1, 6, 2, 5, 4, 3], jnp.int32)[hidden["target"].values]


def color_cubes(seen: Any, hidden: Any) -> jax.Array:
    target, (row, column) = hidden["target"].values, seen[:2].astype(jnp.int32)
    down, right = hidden["cube_row"].values[target] - row, hidden["cube_column"].values[target] - column
    return jnp.where(down != 0, jnp.where(down < 0, 0, 1), jnp.where(right < 0, 2, 3))


def key_to_door(_: Any, hidden: Any) -> jax.Array:
    goal = jnp.where(hidden["has_key"].values == 0, 1, 0)
    column, row = (
        jnp.stack([hidden[f"key_{axis}"].values, hidden[f"door_{axis}"].values])[goal] for axis in ("column", "row")
    )
    right, down = column - hidden["agent_column"].values, row - hidden["agent_row"].values
    return jnp.where(right != 0, jnp.where(right < 0, 2, 3), jnp.where(down < 0, 0, 1))


@pytest.mark.parametrize(
    ("env_id", "player", "steps", "share"),
    [
        ("T-Maze-v0", t_maze, 20, 1.0),
        pytest.param("MemoryCards-v0", memory_cards, 8, 1.0, marks=pytest.mark.slow),
        # A ball on the next pad of the sequence does not press it by staying there.
        pytest.param("Numpad-v0", numpad, 60, 0.5, marks=pytest.mark.slow),
        pytest.param("MysteryPath-Grid-v0", mystery_path, 127, 0.9, marks=pytest.mark.slow),
        pytest.param("Ballet-v0", ballet, 66, 1.0, marks=pytest.mark.slow),
        pytest.param("ColorCubes-v0", color_cubes, 80, 0.9, marks=pytest.mark.slow),
        # A path that ends left or right of the opening between the halves of the room goes into a wall.
        pytest.param("KeyToDoor-v0", key_to_door, 85, 0.4, marks=pytest.mark.slow),
    ],
)
def test_a_player_without_memory_wins_with_the_facts(
    env_id: str, player: Callable[[Any, Any], jax.Array], steps: int, share: float
) -> None:
    env, params = jaxgym.make(env_id, levels="fresh", observation="symbolic")

    @jax.jit
    def win(seed: jax.Array) -> jax.Array:
        state = env.initial_state(levels.level_from_seed(env, seed, params), params)

        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            action = player(env.observe(jax.random.key(0), state, None, params), env.hidden(state, params))
            stepped = env.step_env(jax.random.key(0), state, action, params)
            return stepped[1], stepped[-1]["success"]

        return jax.lax.scan(step, state, None, steps)[1].max()

    assert np.mean(jax.vmap(win)(jnp.arange(16, dtype=jnp.uint32))) >= share


def test_targets_of_mortar_mayhem_follow_from_the_commands() -> None:
    moves = {"right": (1, 0), "down": (0, 1), "left": (-1, 0), "up": (0, -1), "stay": (0, 0)}
    env, params = jaxgym.make("MortarMayhemB-Grid-v0", levels="fresh")
    state = env.initial_state(levels.level_from_seed(env, jnp.uint32(5), params), params)
    hidden = env.hidden(state, params)
    column, row = np.asarray(state.level.start_tile)
    across, down = moves[hidden["commands"].names[int(hidden["commands"].values[0])]]
    assert (int(hidden["target_column"].values), int(hidden["target_row"].values)) == (column + across, row + down)
    assert int(hidden["current_command"].values) == 0


@pytest.mark.slow
def test_the_facts_of_boss_fight_predict_when_the_shield_opens() -> None:
    env, params = jaxgym.make("BossFight-v0", levels="fresh")
    state = env.initial_state(levels.level_from_seed(env, jnp.uint32(3), params), params)
    steps = LEG_STEPS + 1

    @jax.jit
    def wait(state: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            after = env.step_env(jax.random.key(0), state, jnp.int32(STAY), params)[1]
            return after, (env.hidden(state, params), state.boss.has_shield)

        return jax.lax.scan(step, state, None, 7 * steps)[1]

    hidden, is_closed = jax.device_get(wait(state))
    opens = int(np.argmin(is_closed))
    assert 3 * steps <= opens <= 6 * steps
    left = hidden["legs_until_open"].values * steps + hidden["steps_of_leg"].values + 1
    assert left[:opens].tolist() == list(range(opens, 0, -1))
    assert (hidden["legs_until_open"].values[opens : opens + steps] == -1).all()
    first = {name: int(fact.values[0]) for name, fact in hidden.items()}
    level = state.level
    assert (first["hits_left"], first["rounds_left"]) == (level.round_health, level.num_rounds)
    assert first["attack"] == level.attack_modes[0]


@pytest.mark.parametrize("env_id", ["T-Maze-v0", "MemoryCards-v0"])
def test_the_text_of_a_twin_states_the_facts(env_id: str) -> None:
    env, params, interface = text.make(env_id, levels="fresh", observability="full")
    state = env.reset(jax.random.key(0), params)[1]
    scene = jax.tree.map(np.asarray, env.scene(state, params))
    plain = text.make(env_id, levels="fresh")[2].describe(jax.tree.map(np.asarray, scene.inner), params)
    opening = interface.open(scene, params)
    assert opening == f"{plain}\n{facts.text(scene.facts)}"
    turn = text.Turn(1, interface.fallback(), scene, 0.0, False, False)
    assert interface.respond(turn, params).count("Hidden facts: ") == 1
    assert "usually hidden" in interface.system_prompt(params)


def test_facts_as_text() -> None:
    hidden = {
        "next_turn": facts.Fact(np.asarray([1, 0, -1]), 2, ("left", "right")),
        "lit": facts.Fact(np.asarray(0), 1),
        "path": facts.Fact(np.asarray([-1, 0, 0]), 1),
        "coin": facts.Fact(np.asarray(-1), 12),
        "row": facts.Fact(np.asarray(0), 3, first=1),
    }
    assert facts.text(hidden) == "Hidden facts: coin: none; lit: yes; next turn: right left; path: 1 2; row: 1."


def test_hidden_places_are_numbered_as_in_the_observation_text() -> None:
    env, params, interface = text.make("MysteryPath-Grid-v0", levels="fresh", observability="full")
    scene = jax.tree.map(np.asarray, env.scene(env.reset(jax.random.key(0), params)[1], params))
    opening = interface.open(scene, params)
    row, column = re.findall(r"^You: row (\d+), column (\d+)", opening, re.MULTILINE)[0]
    assert f"start column: {column}; start row: {row};" in opening
    assert f"({column},{row})" in re.findall(r"path: [^;]*", opening)[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"expected a dict of jaxgym\.facts\.Fact, got None\."),
        ({"goal": 3}, r"expected names and jaxgym\.facts\.Fact, got \{'goal': 3\}\."),
        ({3: facts.Fact(np.zeros((), np.int32), 1)}, r"expected names and jaxgym\.facts\.Fact, got \{3: "),
        ({"goal": facts.Fact(np.zeros(2), 2)}, r"goal: expected an array of integers, got .*use jaxgym\.facts\.flags"),
        ({"goal": facts.Fact(np.zeros(2, bool), 2)}, r"goal: expected an array of integers, got "),
        ({"goal": facts.Fact(np.zeros((), np.int32), 0)}, r"goal: expected a size of at least 1, got 0\."),
        (
            {"goal": facts.Fact(np.zeros((), np.int32), 3, ("a", "b"))},
            r"goal: expected 3 names or none, got \('a', 'b'\)\.",
        ),
        ({"goal": facts.Fact(np.zeros(3, np.int32), 1, ("a",))}, r"goal: expected 3 names or none, got \('a',\)\."),
    ],
)
def test_facts_of_another_form_are_an_error_of_the_contract(given: Any, message: str) -> None:
    env, params = jaxgym.make("T-Maze-v0", observation="symbolic")
    kind = type("Wrong", (type(env),), {"hidden": lambda *_: given})
    wrong = kind(**{field.name: getattr(env, field.name) for field in dataclasses.fields(env)})
    with pytest.raises(ContractError, match=rf"^T-Maze-v0: hidden: {message}"):
        facts.hidden(wrong, env.reset(jax.random.key(0), params)[1], params)
    with pytest.raises(ContractError, match=rf"^T-Maze-v0: hidden: {message}"):
        testing.check_env(wrong, params)
