"""The vector environments of Gymnasium: autoreset modes, Gymnasium's wrappers, time limits, actions, and processes."""

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import vector as wrappers

from jaxgym.errors import ActionError, OptionError

LAKE = "FrozenLake-v0"
NUM_ENVS = 3
PAGE = Path(__file__).parents[1] / "docs" / "how_to" / "gymnasium.md"
MODES = list(AutoresetMode)


def one(env_id: str = LAKE, **kwargs: Any) -> Any:
    kwargs = {"observation": "symbolic", **kwargs}
    return gymnasium.make(f"jaxgym/{env_id}", disable_env_checker=True, **kwargs)


def many(env_id: str = LAKE, num_envs: int = NUM_ENVS, **kwargs: Any) -> Any:
    kwargs = {"observation": "symbolic", **kwargs}
    return gymnasium.make_vec(f"jaxgym/{env_id}", num_envs=num_envs, **kwargs)


def actions_of(envs: VectorEnv[Any, Any, Any], seed: int) -> Callable[[], np.ndarray]:
    envs.action_space.seed(seed)
    return envs.action_space.sample


# Autoreset.


@pytest.mark.parametrize("mode", [*MODES, *(mode.value for mode in MODES), None])
def test_the_mode_is_in_the_metadata(mode: AutoresetMode | str | None) -> None:
    envs = many(**({} if mode is None else {"autoreset_mode": mode}))
    assert envs.metadata["autoreset_mode"] is AutoresetMode(mode or AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("memory_gym_layout", [False, True])
@pytest.mark.parametrize("mode", ["NEXT_STEP", 1, None, [], True])
def test_a_mode_that_there_is_not_is_rejected(mode: Any, memory_gym_layout: bool) -> None:
    with pytest.raises(OptionError, match=r"expected autoreset_mode to be one of AutoresetMode\.NEXT_STEP .*, got "):
        many("MortarMayhemB-Grid-v0", autoreset_mode=mode, memory_gym_layout=memory_gym_layout)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_plays_what_gymnasium_plays_with_single_environments(mode: AutoresetMode) -> None:
    ours, theirs = many(autoreset_mode=mode), SyncVectorEnv([one] * NUM_ENVS, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    assert np.array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    sample, ends = actions_of(theirs, 1), 0
    for _ in range(60):
        actions = sample()
        stepped, expected = ours.step(actions), theirs.step(actions)
        for value, wanted in zip(stepped[:4], expected[:4], strict=True):
            assert (value.dtype, value.tolist()) == (wanted.dtype, wanted.tolist())
        ended = stepped[2] | stepped[3]
        infos, wanted = stepped[4], expected[4]
        for name in ("episode_return", "episode_length", "success"):
            mask = infos[f"_{name}"]
            assert mask.tolist() == wanted.get(f"_{name}", np.zeros(NUM_ENVS, bool)).tolist()
            assert infos[name][mask].tolist() == wanted.get(name, np.zeros(NUM_ENVS))[mask].tolist()
            if mode is AutoresetMode.SAME_STEP and ended.any():
                final, other = infos["final_info"], wanted["final_info"]
                assert final[name][ended].tolist() == other[name][ended].tolist()
        assert (
            infos.get("_final_obs", np.zeros(NUM_ENVS, bool)).tolist()
            == (ended & (mode is AutoresetMode.SAME_STEP)).tolist()
        )
        for index in np.flatnonzero(infos.get("_final_obs", [])):
            assert np.array_equal(infos["final_obs"][index], wanted["final_obs"][index])
        if mode is AutoresetMode.DISABLED and ended.any():
            begun = ours.reset(options={"reset_mask": ended})
            assert begun[1] == {}
            assert np.array_equal(begun[0], theirs.reset(options={"reset_mask": ended})[0])
        ends += ended.sum()
    assert ends > 2 * NUM_ENVS


def test_the_step_after_an_end_ignores_the_action_and_counts_for_nothing() -> None:
    envs = many(autoreset_mode=AutoresetMode.NEXT_STEP, max_steps=1)
    envs.reset(seed=0)
    first = envs.step(np.zeros(NUM_ENVS, int))
    assert first[3].all()
    assert first[4]["_episode_length"].all()
    begun, *_ = envs.step(np.zeros(NUM_ENVS, int))
    again = many(max_steps=1)
    again.reset(seed=0)
    again.step(np.ones(NUM_ENVS, int))
    other, rewards, terminated, truncated, infos = again.step(np.ones(NUM_ENVS, int))
    assert np.array_equal(begun, other)
    assert not np.array_equal(begun, first[0])
    assert (rewards.tolist(), terminated.any(), truncated.any()) == ([0.0] * NUM_ENVS, False, False)
    assert not infos["_episode_length"].any()
    assert not infos["episode_length"].any()


def test_without_autoreset_a_step_of_an_ended_episode_is_rejected_and_changes_nothing() -> None:
    envs = many(autoreset_mode="Disabled", max_steps=2, is_slippery=False, map_name="4x4")
    envs.reset(seed=0)
    envs.step(np.zeros(NUM_ENVS, int))
    envs.reset(options={"reset_mask": np.asarray([True, False, False])})
    observations, *_, truncated, _ = envs.step(np.zeros(NUM_ENVS, int))
    assert truncated.tolist() == [False, True, True]
    with pytest.raises(
        gymnasium.error.ResetNeeded, match=r"expected running episodes, got ended ones at index \[1, 2\]"
    ):
        envs.step(np.zeros(NUM_ENVS, int))
    kept, _ = envs.reset(options={"reset_mask": truncated})
    assert np.array_equal(kept[0], observations[0])
    assert envs.step(np.zeros(NUM_ENVS, int))[4]["episode_length"].tolist() == [2, 1, 1]


def test_a_reset_of_some_starts_their_seeds_and_keeps_the_options() -> None:
    envs = many(max_steps=7)
    whole, _ = envs.reset(seed=[3, 4, 5], options={"max_steps": 2})
    envs.step(np.full(NUM_ENVS, 2))
    options = {"reset_mask": np.asarray([False, True, True])}
    observations, _ = envs.reset(seed=[8, 9, None], options=options)
    assert list(options) == ["reset_mask"]
    assert np.array_equal(observations[1], many().reset(seed=9)[0][0])
    single = one()
    single.reset(seed=5)
    assert np.array_equal(observations[2], single.reset()[0])
    assert not np.array_equal(observations[2], whole[2])
    *_, truncated, infos = envs.step(np.zeros(NUM_ENVS, int))
    assert infos["episode_length"].tolist() == [2, 1, 1]
    assert truncated.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset_mask": [True, False, False]}, "expected reset_mask to be a NumPy array of bool of shape (3,)"),
        ({"reset_mask": np.ones(2, bool)}, "expected reset_mask to be a NumPy array of bool of shape (3,)"),
        ({"reset_mask": np.ones(NUM_ENVS, int)}, "expected reset_mask to be a NumPy array of bool of shape (3,)"),
        ({"reset_mask": np.zeros(NUM_ENVS, bool)}, "with a true entry, got"),
        ({"reset_mask": np.ones(NUM_ENVS, bool), "max_steps": 3}, "expected reset_mask alone, got it with 'max_steps'"),
    ],
)
def test_a_mask_that_is_none_is_rejected(options: dict[str, Any], message: str) -> None:
    envs = many()
    before, _ = envs.reset(seed=3)
    with pytest.raises(OptionError, match=re.escape(message)):
        envs.reset(seed=4, options=options)
    assert envs.step(np.zeros(NUM_ENVS, int))[4]["episode_length"].tolist() == [1] * NUM_ENVS
    assert np.array_equal(envs.reset(seed=3)[0], before)


def test_the_first_reset_takes_no_mask() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match="Call reset first"):
        many().reset(options={"reset_mask": np.ones(NUM_ENVS, bool)})


# Gymnasium's wrappers.


WRAPPED = {
    "RecordEpisodeStatistics": (LAKE, "symbolic", wrappers.RecordEpisodeStatistics),
    "Flatten": (LAKE, "pixels", wrappers.FlattenObservation),
    "Flatten a dict": ("MortarMayhemB-Grid-v0", "pixels", wrappers.FlattenObservation),
    "Resize": (LAKE, "pixels", partial(wrappers.ResizeObservation, shape=(42, 42))),
    "Grayscale": (LAKE, "pixels", wrappers.GrayscaleObservation),
    "Normalize": (LAKE, "symbolic", wrappers.NormalizeObservation),
    "Rescale": (LAKE, "symbolic", partial(wrappers.RescaleObservation, min_obs=np.float32(0), max_obs=np.float32(2))),
    "Dtype": (LAKE, "pixels", partial(wrappers.DtypeObservation, dtype=np.float32)),
    "NormalizeReward": (LAKE, "symbolic", wrappers.NormalizeReward),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_of_gymnasium_runs_and_statistics_agree_with_info(name: str) -> None:
    env_id, observation, wrapper = WRAPPED[name]
    envs = wrapper(wrappers.RecordEpisodeStatistics(many(env_id, observation=observation), stats_key="stats"))
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, _ = envs.reset(seed=2)
    assert envs.observation_space.contains(observations)
    sample, lengths = actions_of(envs, 0), []
    for _ in range(40):
        observations, rewards, terminated, truncated, infos = envs.step(sample())
        assert envs.observation_space.contains(observations)
        assert np.isfinite(rewards).all()
        ended = terminated | truncated
        assert infos.get("_stats", np.zeros(NUM_ENVS, bool)).tolist() == ended.tolist()
        if ended.any():
            assert infos["stats"]["l"][ended].tolist() == infos["episode_length"][ended].tolist()
            assert infos["stats"]["r"][ended] == pytest.approx(infos["episode_return"][ended], abs=1e-6)
            lengths += infos["episode_length"][ended].tolist()
    assert len(lengths) > NUM_ENVS
    assert len(set(lengths)) > 1


def test_returns_of_several_rewards_agree_with_info() -> None:
    envs = wrappers.RecordEpisodeStatistics(many("MortarMayhemB-Grid-v0", command_count=[2]))
    envs.reset(seed=0)
    sample, returns = actions_of(envs, 3), []
    for _ in range(300):
        *_, infos = envs.step(sample())
        if "episode" in infos:
            ended = infos["_episode"]
            assert infos["episode"]["r"][ended] == pytest.approx(infos["episode_return"][ended], abs=1e-6)
            assert infos["episode"]["l"][ended].tolist() == infos["episode_length"][ended].tolist()
            returns += infos["episode_return"][ended].tolist()
    assert max(returns) > 0


# Time limits.


def test_a_time_limit_of_gymnasium_truncates() -> None:
    envs = many(max_episode_steps=4, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    left = np.zeros(NUM_ENVS, int)
    lengths = []
    for _ in range(3):
        *_, truncated, infos = envs.step(left)
        assert not truncated.any()
    *_, terminated, truncated, infos = envs.step(left)
    lengths += infos["final_info"]["episode_length"].tolist()
    assert truncated.all()
    assert not terminated.any()
    assert lengths == [4] * NUM_ENVS
    again = gymnasium.make_vec(envs.spec)
    assert again.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert int(again.unwrapped.game.params.max_steps_in_episode) == 4


def test_a_time_limit_of_gymnasium_replaces_that_of_the_environment() -> None:
    limits = [None, 0, -1, np.int64(9), 1000]
    made = [many(max_episode_steps=limit).game.params.max_steps_in_episode for limit in limits]
    assert [max(0, int(limit)) for limit in made] == [100, 0, 0, 9, 1000]


def test_a_time_limit_of_gymnasium_truncates_stand_ins() -> None:
    envs = many("MortarMayhemB-Grid-v0", memory_gym_layout=True, max_episode_steps=2)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=0)
    assert not envs.step(np.zeros(NUM_ENVS, int))[3].any()
    *_, terminated, truncated, _ = envs.step(np.zeros(NUM_ENVS, int))
    assert (terminated.any(), truncated.all()) == (False, True)
    assert not envs.step(np.zeros(NUM_ENVS, int))[3].any()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"max_episode_steps": "4"}, "expected max_episode_steps to be an integer, got '4'"),
        ({"max_episode_steps": True}, "expected max_episode_steps to be an integer, got True"),
        ({"max_episode_steps": 4, "max_steps": 5}, "expected one time limit, got max_episode_steps=4 and max_steps=5"),
    ],
)
def test_a_time_limit_that_is_none_is_rejected(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        many(**kwargs)


# Actions.


@pytest.mark.parametrize("kwargs", [{}, {"memory_gym_layout": True}])
def test_an_action_of_a_discrete_space_may_be_an_array_of_one(kwargs: dict[str, Any]) -> None:
    numbers, arrays = (one("MortarMayhemB-Grid-v0", **kwargs).unwrapped for _ in range(2))
    for env in (numbers, arrays):
        env.reset(seed=1)
    for action in (3, 1, 2, 0, 1):
        expected, stepped = numbers.step(action), arrays.step(np.asarray([action]))
        assert (
            np.array_equal(expected[0]["vector_observation"], stepped[0]["vector_observation"])
            if isinstance(expected[0], dict)
            else np.array_equal(expected[0], stepped[0])
        )
        assert expected[1:] == stepped[1:]
    arrays.step([0])
    for action, message in (
        ([4], "from 0 to 3, got 4"),
        ([-1], "from 0 to 3, got -1"),
        ([[1]], "got (1, 1)"),
        ([1, 1], "got (2,)"),
        ([], "action must "),
        ([1.0], "action must be an integer array"),
    ):
        with pytest.raises(ActionError, match=re.escape(message)):
            arrays.step(np.asarray(action))


def test_actions_of_discrete_spaces_may_be_a_column() -> None:
    flat, column = many(), many()
    for envs in (flat, column):
        envs.reset(seed=1)
    sample = actions_of(flat, 0)
    for _ in range(10):
        actions = sample()
        expected, stepped = flat.step(actions), column.step(actions[:, None])
        assert all(np.array_equal(*pair) for pair in zip(expected[:4], stepped[:4], strict=True))
    for shape in ((NUM_ENVS, 2), (NUM_ENVS, 1, 1), (1, NUM_ENVS)):
        with pytest.raises(ActionError, match="shape"):
            column.step(np.zeros(shape, int))


def test_an_action_of_several_numbers_stays_what_it_is() -> None:
    env = one("MortarMayhem-v0").unwrapped
    env.reset(seed=0)
    for action in ([0], [[0, 0]]):
        with pytest.raises(ActionError, match=r"action must have shape \(2,\)"):
            env.step(np.asarray(action))


# Processes.

FORK = """
import os, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import gymnasium, jax, jaxgym

one = gymnasium.make("jaxgym/FrozenLake-v0", observation="symbolic", render_mode="rgb_array").unwrapped
two = gymnasium.make_vec("jaxgym/FrozenLake-v0", num_envs=2, observation="symbolic", render_mode="rgb_array").unwrapped
old = gymnasium.make("jaxgym/MortarMayhemB-Grid-v0", observation="symbolic", memory_gym_layout=True,
                     render_mode="rgb_array").unwrapped
env, params = jaxgym.make("FrozenLake-v0", observation="symbolic")
for each in (one, two, old):
    each.reset(seed=0)
key = jax.random.key(0)
_, state = env.reset(key)
calls = {
    "jaxgym.make": lambda: jaxgym.make("FrozenLake-v0"),
    "gymnasium.make": lambda: gymnasium.make("jaxgym/FrozenLake-v0"),
    "gymnasium.make_vec": lambda: gymnasium.make_vec("jaxgym/FrozenLake-v0", num_envs=2),
    "core reset": lambda: env.reset(key),
    "core step": lambda: env.step(key, state, 0),
    "core reset_to_level": lambda: env.reset_to_level(key, state.level),
}
for name, each, action in (("one", one, 0), ("many", two, np.zeros(2, int)), ("stand-in", old, 0)):
    calls[name + " reset"] = each.reset
    calls[name + " step"] = lambda each=each, action=action: each.step(action)
    calls[name + " render"] = each.render
for depth in range(2):  # a child, and a child of a child
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if depth == 0:
            one.step(0)  # The parent goes on.
        os._exit(os.waitstatus_to_exitcode(status))
for name, call in calls.items():
    try:
        call()
        print(name, "returned", flush=True)
    except jaxgym.errors.ForkError as error:
        print(name, "raised", 'context="spawn"' in str(error), flush=True)
os._exit(0)
"""


def run_script(program: str, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words, "-c", program], capture_output=True, text=True, timeout=timeout)


def test_every_call_in_a_forked_child_raises() -> None:
    finished = run_script(FORK)
    lines = finished.stdout.splitlines()
    assert len(lines) == 15, finished.stderr
    assert [line for line in lines if not line.endswith(" raised True")] == []
    assert finished.returncode == 0


@pytest.mark.slow
def test_a_child_that_was_forked_before_jax_ran_plays() -> None:
    program = """
import os, gymnasium, jax, jaxgym
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
env = gymnasium.make("jaxgym/FrozenLake-v0", observation="symbolic")
env.reset(seed=0)
print(env.step(0)[1], flush=True)
"""
    assert run_script(program).stdout == "0.0\n"


@pytest.mark.slow
def test_an_async_vector_env_of_forked_workers_fails_and_names_the_remedy() -> None:
    program = blocks()[-1].replace(', context="spawn"', ', context="fork"')
    assert 'context="fork"' in program
    finished = run_script(program, timeout=120)
    assert finished.returncode != 0
    assert 'Start workers with context="spawn"' in finished.stderr


def blocks() -> list[str]:
    """Return the Python blocks of the page, that of several processes last."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return sorted(found, key=lambda block: "AsyncVectorEnv" in block)


@pytest.mark.slow
def test_the_page_shows_workers_that_run(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(blocks()[-1])
    finished = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert finished.stdout == "(2, 80)\n", finished.stderr


@pytest.mark.slow
def test_the_other_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for block in blocks()[:-1]:
        exec(compile(block, PAGE.name, "exec"), namespace)
    assert "\n39\n" in capsys.readouterr().out  # the limit of Mortar Mayhem with two commands
