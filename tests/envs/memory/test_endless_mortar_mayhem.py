"""The rules of Endless Mortar Mayhem that Mortar Mayhem does not have.

(0,0) ────── column ──────▶ (5,0)      a torus: from (5,0), one step right leads to (0,0)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.mortar_mayhem import commands
from jaxgym.envs.mortar_mayhem import endless as game

RIGHT, DOWN, STAY = (commands.COMMANDS.index(name) for name in ("right", "down", "stay"))
SHOW, BLANK, EXPLODE, DELAY = 2, 1, 2, 3
NOTHING = jnp.zeros(2, dtype=jnp.int32)


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    """Return a game with short durations, whose levels list up to four commands."""
    return jaxgym.make(
        "Endless-MortarMayhem-v0",
        command_show_duration=[SHOW],
        command_show_delay=[BLANK],
        explosion_duration=[EXPLODE],
        explosion_delay=[DELAY],
        max_given_commands=4,
    )


@pytest.fixture(scope="module")
def step_env(made: tuple[Any, Any]) -> Any:
    env, params = made
    return jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, params))


def start(made: tuple[Any, Any], given: list[int], tile: tuple[int, int] = (2, 2), **changes: Any) -> Any:
    """Return the first state of an episode with the given commands, with some fields changed."""
    env, params = made
    level = env.sample_level(jax.random.key(1), params)
    level = dataclasses.replace(
        level,
        start_tile=jnp.asarray(tile, dtype=jnp.int32),
        start_offset_px=jnp.zeros(2, dtype=jnp.int32),
        commands=jnp.asarray([*given, *[-1] * (4 - len(given))], dtype=jnp.int32),
    )
    return dataclasses.replace(env.initial_state(level, params), **changes)


def play(step_env: Any, state: Any, steps: int, action: jax.Array = NOTHING) -> list[Any]:
    """Return the results of a number of equal steps."""
    results = []
    for _ in range(steps):
        results.append(step_env(state, action))
        state = results[-1][1]
    return results


def test_a_command_over_the_rim_leads_to_the_other_side(made: tuple[Any, Any]) -> None:
    assert start(made, [RIGHT], tile=(5, 3)).target_tile.tolist() == [0, 3]


def test_the_agent_wraps_around_the_rim(made: tuple[Any, Any]) -> None:
    env, params = made
    state = start(made, [STAY], position_px=jnp.asarray([86, 40], dtype=jnp.int32))
    positions = []
    for _ in range(3):
        state = env.move(state, jnp.asarray([2, 0], dtype=jnp.int32), params)
        positions.append(state.position_px.tolist())
    # Beyond 84 + 3 the agent goes on at -3.
    assert positions == [[-3, 40], [0, 40], [3, 40]]


def test_an_agent_on_the_rim_is_on_no_tile_and_fails_the_check(made: tuple[Any, Any], step_env: Any) -> None:
    state = start(
        made,
        [STAY],
        tile=(0, 2),
        position_px=jnp.asarray([-1, 35], dtype=jnp.int32),
        clue_frame=jnp.int32(SHOW + BLANK),
        command_steps=jnp.int32(DELAY),
    )
    assert bool(step_env(state, NOTHING)[3])


def test_after_the_last_command_one_more_is_shown_and_the_agent_is_frozen(made: tuple[Any, Any], step_env: Any) -> None:
    results = play(step_env, start(made, [STAY, DOWN]), SHOW + BLANK - 1 + DELAY + 1)
    passed = results[-1][1]
    assert (passed.sequence_length, passed.num_checks, bool(passed.tiles_on)) == (2, 0, True)
    assert not bool(game.is_clue_seen(passed))
    env, params = made
    shown = play(step_env, passed, SHOW + BLANK + 1, action=jnp.asarray([2, 2], dtype=jnp.int32))
    glyphs = [int(env.scene(result[1], params).command) for result in shown]
    assert glyphs == [DOWN] * SHOW + [commands.NO_COMMAND] * (BLANK + 1)
    assert [bool(result[1].tiles_on) for result in shown] == [True] * (SHOW + BLANK + 1)
    moved = [(result[1].position_px != passed.position_px).any() for result in shown]
    assert moved == [False] * (SHOW + BLANK) + [True]


def test_then_the_whole_sequence_starts_again_from_where_the_agent_is(made: tuple[Any, Any], step_env: Any) -> None:
    first_check = SHOW + BLANK - 1 + DELAY + 1
    results = play(step_env, start(made, [STAY, DOWN]), first_check + SHOW + BLANK + EXPLODE + DELAY)
    again = results[-1]
    assert again[1].commands_completed == 2
    assert again[1].num_checks == 1
    np.testing.assert_allclose(again[4]["episode_return"], 0.2, rtol=1e-6)
    # Its second command leads one tile down, which an agent that stays does not reach.
    failed = play(step_env, again[1], EXPLODE + DELAY)[-1]
    assert failed[1].target_tile.tolist() == [2, 3]
    assert bool(failed[3])


def test_a_failed_last_check_still_counts_the_appended_command(made: tuple[Any, Any], step_env: Any) -> None:
    failed = play(step_env, start(made, [RIGHT]), SHOW + BLANK - 1 + DELAY + 1)[-1]
    assert bool(failed[3])
    assert (failed[4]["commands_completed"], failed[4]["max_command_sequence"]) == (0, 1)


def test_a_sequence_never_ends_in_success(made: tuple[Any, Any], step_env: Any) -> None:
    results = play(step_env, start(made, [STAY] * 4), 40)
    assert not any(bool(result[3]) for result in results)
    assert "success" not in results[0][4]


def test_ground_truth_is_the_target_tile_over_five(made: tuple[Any, Any], step_env: Any) -> None:
    info = step_env(start(made, [RIGHT]), NOTHING)[4]
    np.testing.assert_allclose(info["ground_truth"], [0.6, 0.4], rtol=1e-6)


def test_commands_that_are_not_given_follow_from_the_seed_uniformly(made: tuple[Any, Any]) -> None:
    _, params = made
    level = start(made, []).level
    numbers = jax.vmap(lambda index: game.command_at(level, index, params))(jnp.arange(4500))
    again = jax.vmap(lambda index: game.command_at(level, index, params))(jnp.arange(4500))
    np.testing.assert_array_equal(numbers, again)
    counts = np.bincount(numbers, minlength=9)
    # Nine commands, 500 expected each: chi-square with 8 degrees of freedom, p = 1e-4 at 31.8.
    assert ((counts - 500) ** 2 / 500).sum() < 31.8


def test_equal_frames_and_equal_vectors_go_together_at_the_rim(made: tuple[Any, Any]) -> None:
    env, params = made
    symbolic, _ = jaxgym.make("Endless-MortarMayhem-v0", observation="symbolic", max_given_commands=4)
    near_rim = [-3, -2, -1, 0, 1, 2, 5, 6, 7, 8, 42, 76, 77, 78, 79, 83, 84, 85, 86, 87]
    places = jnp.asarray([(x, y, heading) for x in near_rim for y in near_rim for heading in range(8)], dtype=jnp.int32)
    scene = env.scene(start(made, [STAY]), params)

    def look(place: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen = dataclasses.replace(scene, agent_position_px=place[:2], agent_heading=place[2])
        return env.observe_scene(seen), symbolic.observe_scene(seen)

    frames, vectors = jax.vmap(look)(places)
    frame_of = {frame.tobytes() for frame in np.asarray(frames)}
    vector_of = {vector.tobytes() for vector in np.asarray(vectors)}
    both = {(f.tobytes(), v.tobytes()) for f, v in zip(np.asarray(frames), np.asarray(vectors), strict=True)}
    assert len(frame_of) == len(vector_of) == len(both)
