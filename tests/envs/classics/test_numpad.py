"""Rules of the Numpads. The sequence of the discrete one is 0 1 2 5 on the pads

0 1 2
3 4 5
6 7 8
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.numpad import pads
from jaxgym.envs.numpad.continuous import PUSHES, RollingLevel
from jaxgym.envs.numpad.discrete import Level, PadMove
from jaxgym.errors import OptionError

UP, RIGHT, DOWN, LEFT = PadMove


def play(env_id: str, level: Any, actions: list[Any], **options: Any) -> tuple[np.ndarray, list[float]]:
    """Return T + 1 symbolic observations, and T rewards."""
    env, params = jaxgym.make(env_id, observation="symbolic", **options)

    @jax.jit
    def run(level: Any, actions: jax.Array) -> Any:
        first, state = env.reset_to_level(jax.random.key(0), level, params)

        def step(state: Any, action: jax.Array) -> Any:
            seen, state, reward, _, _ = env.step_env(jax.random.key(0), state, action, params)
            return state, (seen, reward)

        return first, jax.lax.scan(step, state, actions)[1]

    first, (seen, rewards) = jax.device_get(run(level, np.asarray(actions, np.int32)))
    return np.concatenate([first[None], seen]), rewards.tolist()


def discrete(start: tuple[int, int], actions: list[Any], sequence: tuple[int, ...] = (0, 1, 2, 5)) -> Any:
    level = Level(np.asarray(sequence, np.int32), np.asarray(start, np.int32))
    seen, rewards = play("Numpad-v0", level, actions, seq_len=len(sequence))
    return [np.flatnonzero(row[:9]).tolist() for row in seen], rewards


def test_pads_in_order_are_lit_and_rewarded_and_the_sequence_can_be_repeated() -> None:
    lit, rewards = discrete((1, 0), [UP, RIGHT, RIGHT, DOWN, UP, LEFT, LEFT, RIGHT])
    assert lit == [[], [0], [0, 1], [0, 1, 2], [0, 1, 2, 5], [], [], [0], [0, 1]]
    assert rewards == [1, 1, 1, 1, 0, 0, 1, 1]


def test_a_wrong_pad_clears_the_lights_and_pays_nothing_on_the_way_back() -> None:
    lit, rewards = discrete((1, 0), [UP, RIGHT, DOWN, UP, LEFT, RIGHT, RIGHT])
    assert lit == [[], [0], [0, 1], [], [], [0], [0, 1], [0, 1, 2]]
    assert rewards == [1, 1, 0, 0, 0, 0, 1]


def test_a_bump_presses_the_pad_again() -> None:
    lit, rewards = discrete((0, 0), [UP, RIGHT, UP, LEFT, LEFT])
    assert lit == [[], [0], [0, 1], [], [0], [0]]  # the bump on pad 0 clears it and lights it as the first pad
    assert rewards == [1, 1, 0, 0, 0]


def test_a_rolling_ball_presses_pads_and_gaps_have_no_effect() -> None:
    # Cells of 20 px, pads from 5 to 15: the ball starts in the gap left of pad 0, and rolls right over pads 0 and 1.
    level = RollingLevel(np.asarray([0, 1], np.int32), np.asarray([10, 0], np.float32), np.zeros(2, bool))
    names = list(PUSHES)
    push = [names.index("right")] * 3 + [names.index("up"), names.index("down")] * 6
    seen, rewards = play("NumpadContinuous-v0", level, push, seq_len=2)
    columns = (seen[:, 1] * 60).round(3).tolist()
    assert columns[:7] == [0, 1, 3, 6, 9, 12, 15]  # at 15, the edge of a pad is a gap
    assert rewards[:9] == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert seen[3:9, 4].tolist() == [1] * 6
    first_on_pad_1 = next(time for time, column in enumerate(columns) if 25 < column < 35)
    assert rewards[first_on_pad_1 - 1] == 1
    assert seen[first_on_pad_1, 4:6].tolist() == [1, 1]
    assert seen[first_on_pad_1 + 1, 4:].sum() == 0


def test_cues_are_lit_until_the_first_step() -> None:
    level = RollingLevel(np.asarray([0, 1], np.int32), np.asarray([2, 2], np.float32), np.asarray([True, False]))
    seen, _ = play("NumpadContinuous-v0", level, [0], seq_len=2)
    assert seen[:, 4:6].tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(("size", "length"), [(3, 4), pytest.param(4, 16, marks=pytest.mark.slow)])
def test_sampled_sequences_are_paths_and_all_first_pads_occur(size: int, length: int) -> None:
    sample = jax.jit(jax.vmap(lambda key: pads.sample_sequence(key, size, length)))
    made = np.asarray(sample(jax.random.split(jax.random.key(0), 256)))
    assert pads.is_sequence(made, size).all()
    if length == 4:
        assert set(made[:, 0]) == set(range(9))
    broken = made.copy()
    broken[:, 1] = made[:, 0]
    assert not pads.is_sequence(broken, size).any()


def test_a_sequence_has_no_more_pads_than_there_are() -> None:
    with pytest.raises(OptionError, match=r"^Numpad-v0: seq_len: expected at most 4 for numpad_size=2, got 5"):
        jaxgym.make("Numpad-v0", numpad_size=2, seq_len=5)


def test_a_player_that_reads_only_the_texts_finds_and_repeats_the_sequence() -> None:
    env, params, interface = text.make("numpad", observation="symbolic", numpad_size=2, seq_len=2)
    step = jax.jit(env.step_env)
    _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, 3, params), params)
    completed = 0
    for time in range(60):
        drawn = interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params).replace("\n", "")
        ball = next(pad for pad, letter in enumerate(drawn) if letter in "o@")
        lit = [pad for pad, letter in enumerate(drawn) if letter in "*@"]
        completed += len(lit) == 2
        # Around the square, in a direction that changes now and then; it presses every pair of neighbors in order.
        ring = {0: "right", 1: "down", 3: "left", 2: "up"}
        back = {1: "left", 3: "up", 2: "right", 0: "down"}
        reply = interface.parse(f"<action>{(ring if time // 6 % 2 else back)[ball]}</action>")
        assert isinstance(reply, text.ParsedAction)
        _, state, _, _, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
    assert int(info["completed"]) == completed + int(state.progress.has_completed) > 1
