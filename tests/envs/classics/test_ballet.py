"""Rules of Ballet. The agent starts at (5, 5); the dancers of the tests start at (2, 2) and (2, 8)."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.ballet.dances import MOVES, NUM_MOVES, PLACES, STEPS, Wind
from jaxgym.envs.ballet.scene import SquareKind, shapes
from tests.parity.classics import ballet
from tests.parity.classics.recordings import episodes

RECORDING = Path(__file__).parents[2] / "data/classics/ballet_2_delay16.npz"
CHOICE_TIME = 2 * (15 + 1)
"""First time at which the instruction names a dance, for two dancers and a delay of 1."""


def play(actions: Sequence[int], **options: Any) -> Any:
    """Return the instructions, rewards, states, ends and time limits after each step; dances are 1 and 3."""
    env, params = jaxgym.make("Ballet-v0", observation="symbolic", **{"delay": 1, **options})
    level = dataclasses.replace(
        levels.level_from_seed(env, 0, params),
        target=jnp.int32(1),
        squares=jnp.asarray([[2, 2], [2, 8]], jnp.int32),
        dances=jnp.asarray([1, 3], jnp.int32),
    )
    _, state = env.reset_to_level(jax.random.key(0), level, params)

    @jax.jit
    def run(state: Any, actions: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> Any:
            seen, state, reward, terminated, _ = env.step_env(jax.random.key(0), state, action, params)
            return state, (seen["instruction"], reward, state, terminated, env.is_truncated(state, params))

        return jax.lax.scan(step, state, actions)[1]

    return jax.device_get(run(state, np.asarray(actions, np.int32)))


def test_the_first_recorded_episode_is_replayed_without_a_difference() -> None:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        ballet.check(next(episodes(RECORDING)))


def test_every_dance_ends_where_it_begins_and_stays_near() -> None:
    assert PLACES.shape == (len(MOVES), NUM_MOVES + 1, 2)
    assert not PLACES[:, [0, -1]].any()
    assert np.abs(PLACES).max() == 1
    assert len({moves.tobytes() for moves in PLACES}) == len(MOVES)


def test_the_shapes_are_those_of_the_fact_sheet() -> None:
    digest = hashlib.sha256(np.stack(list(shapes().values())).astype(np.uint8).tobytes()).hexdigest()
    assert digest == "921ac28b38ff3cef0314ede2a30ffc7da57b9cd075b986e0611c28cfd6436e72"


def test_the_agent_can_move_one_step_after_the_instruction_has_changed() -> None:
    actions = [Wind.NE] * (CHOICE_TIME + 3)
    instructions, rewards, states, ends, _ = play(actions)
    assert instructions.tolist() == [0] * (CHOICE_TIME - 1) + [3] * 4
    assert states.position[CHOICE_TIME - 1 :].tolist() == [[5, 5], [4, 6], [3, 7], [2, 8]]
    assert rewards.tolist() == [0] * (CHOICE_TIME + 2) + [1]
    assert ends.tolist() == [False] * (CHOICE_TIME + 2) + [True]


def test_another_dancer_ends_the_episode_without_reward_also_at_the_time_limit() -> None:
    actions = [Wind.NW] * (CHOICE_TIME + 3)
    _, rewards, _, ends, limits = play(actions, max_steps=len(actions))
    assert not rewards.any()
    assert (ends[-2:].tolist(), limits[-2:].tolist()) == ([False, True], [False, True])


def test_walls_and_other_numbers_stop_the_agent() -> None:
    _, _, states, _, _ = play([8] * CHOICE_TIME + [Wind.S] * 5 + [8, -1, Wind.SE, Wind.E])
    assert states.position[CHOICE_TIME + 3 :].tolist() == [[9, 5], [9, 5], [9, 5], [9, 5], [9, 5], [9, 6]]


@pytest.mark.slow
def test_light_levels_have_red_dancers_and_the_first_starts_and_shapes() -> None:
    env, params = jaxgym.make("Ballet-v0", num_dancers=4, light=True)
    buffer = levels.make_level_buffer(env, params, range(64))
    assert not buffer.colors.any()
    assert (np.sort(buffer.shapes, axis=1) == np.arange(4)).all()
    assert {tuple(square) for square in np.asarray(buffer.squares).reshape(-1, 2).tolist()} == {
        (2, 2),
        (2, 5),
        (2, 8),
        (5, 2),
    }
    assert all(len(set(dances)) == 4 for dances in np.asarray(buffer.dances).tolist())


def test_a_dancer_hides_the_agent_in_the_last_observation() -> None:
    env, params = jaxgym.make("Ballet-v0", observation="symbolic")
    state = env.initial_state(levels.level_from_seed(env, 0, params), params)
    state = dataclasses.replace(state, time=jnp.int32(70), is_choice=jnp.bool_(True))
    scene = jax.jit(env.scene)
    assert scene(state, params).tiles[5, 5] == int(SquareKind.AGENT)
    state = dataclasses.replace(state, position=state.level.squares[0])
    symbols = env.observe_scene(scene(state, params))["image"][5, 5]
    assert symbols.tolist() == [int(SquareKind.DANCER), int(state.level.shapes[0]), int(state.level.colors[0])]


def dance_of(places: list[np.ndarray], dances: dict[str, list[str]]) -> str:
    """Return the dance of a dancer that was seen at these places, and is back at its start."""
    moves = np.diff([places[-1], *places], axis=0)
    names = [Wind(int((move == STEPS).all(axis=1).argmax())).name for move in moves[moves.any(axis=1)]]
    return next(name for name, directions in dances.items() if directions == names)


def test_a_player_that_reads_only_the_texts_finds_the_dancer() -> None:
    env, params, interface = text.make("ballet", observation="symbolic", delay=2, num_dancers=3)
    lines = [line.split(": ") for line in interface.system_prompt(params).splitlines()]
    dances = {line[0]: line[1].split() for line in lines if line[0] in MOVES}
    ways = {"N": "up", "S": "down", "E": "right", "W": "left"}
    step, scene = jax.jit(env.step_env), jax.jit(env.scene)
    for seed in range(3):
        _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, seed, params), params)
        seen, is_over, time, info, name = dict[str, list[np.ndarray]](), False, 0, {}, ""
        while not is_over:
            said = interface.describe(jax.device_get(scene(state, params)), params).splitlines()
            rows, instruction = np.asarray([list(row) for row in said[1:12]]), said[0].removeprefix("Instruction: ")
            if instruction == "watch":
                for letter in {line[0] for line in said[12:]}:
                    seen.setdefault(letter, []).append(np.argwhere(rows == letter)[0])
            else:
                name = name or next(letter for letter in seen if dance_of(seen[letter], dances) == instruction)
            move = np.sign(np.argwhere(rows == name)[0] - 5) if name else np.asarray([-1, 0])
            wind = Wind(int((move == STEPS).all(axis=1).argmax())).name
            reply = interface.parse(f"<action>{'-'.join(ways[letter] for letter in wind)}</action>")
            assert isinstance(reply, text.ParsedAction)
            _, state, _, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
            time += 1
        assert (info["success"], time) == (1, 3 * (15 + 2) + 3)


@pytest.mark.slow
def test_images_and_windows_have_the_instruction_beside_them() -> None:
    env, params, interface = text.make("ballet")
    states = jax.vmap(env.initial_state, (0, None))(levels.make_level_buffer(env, params, [0, 1]), params)
    states = dataclasses.replace(states, is_choice=jnp.asarray([False, True]))
    scenes = jax.device_get(jax.vmap(env.scene, (0, None))(states, params))
    named = [*MOVES][int(states.level.dances[1, states.level.target[1]]) - 1]
    human = jaxgym.spec_of("Ballet-v0").human
    assert human is not None
    captions = [human.caption(jax.tree.map(lambda leaf, index=index: leaf[index], states)) for index in range(2)]
    assert captions == ["watch", named]
    assert interface.beside(scenes, params, is_first=True) == ["Instruction: watch", f"Instruction: {named}"]
