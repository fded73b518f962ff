"""Environments under Gymnasium: its contract, many environments in one program, and the stand-in for memory-gym."""

import functools
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import jaxgym
from jaxgym.errors import ActionError, LevelError, OptionError
from jaxgym.gymnasium_api import single, vector
from jaxgym.gymnasium_api.memory_gym import max_episode_steps
from tests.parity.recordings import Recording

TRACES = Path(__file__).parent / "data" / "traces"
SHORT = "MortarMayhemB-Grid-v0"
LONGEST = {
    "MortarMayhem-v0": 275,
    "MortarMayhem-Grid-v0": 119,
    "MortarMayhemB-v0": 235,
    "MortarMayhemB-Grid-v0": 79,
    "Endless-MortarMayhem-v0": -1,
    "SearingSpotlights-v0": 256,
    "Endless-SearingSpotlights-v0": -1,
    "MysteryPath-v0": 512,
    "MysteryPath-Grid-v0": 128,
    "Endless-MysteryPath-v0": -1,
}
NUM_ENVS = 3


def make(env_id: str = SHORT, **kwargs: Any) -> Any:
    return gymnasium.make(f"jaxgym/{env_id}", **kwargs).unwrapped


@functools.cache
def make_vec(**kwargs: Any) -> Any:
    return gymnasium.make_vec(f"jaxgym/{SHORT}", num_envs=NUM_ENVS, **kwargs)


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[name], other[name]) for name in one)
    return bool(np.array_equal(one, other))


def env_of(stacked: Any, index: int) -> Any:
    if isinstance(stacked, dict):
        return {name: part[index] for name, part in stacked.items()}
    return stacked[index]


@pytest.mark.parametrize("env_id", jaxgym.registered_envs())
def test_every_id_is_registered_with_gymnasium(env_id: str) -> None:
    spec = gymnasium.spec(f"jaxgym/{env_id}")
    assert spec.kwargs == {"env_id": env_id}
    assert spec.max_episode_steps is None


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        (SHORT, {}),
        (SHORT, {"memory_gym_layout": True}),
        ("MortarMayhem-v0", {"flat_actions": True, "command_show_duration": [1], "max_steps": 5}),
        pytest.param("BabyAI-GoToLocalS5N2-v0", {}, marks=pytest.mark.slow),
        *(
            pytest.param(env_id, kwargs, marks=pytest.mark.slow)
            for env_id in LONGEST
            for kwargs in ({}, {"observation": "symbolic"}, {"memory_gym_layout": True})
        ),
    ],
)
def test_gymnasium_finds_nothing_to_complain_about(env_id: str, kwargs: dict[str, Any]) -> None:
    if env_id.startswith("MysteryPath"):
        kwargs = {**kwargs, **({} if "memory_gym_layout" in kwargs else {"levels": 2})}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(env_id, **kwargs))


def test_numbers_are_those_of_python_and_arrays_those_of_numpy() -> None:
    env = make(max_steps=1)
    observation, info = env.reset(seed=0)
    assert info == {}
    assert env.observation_space.contains(observation)
    assert observation["visual_observation"].flags.writeable
    _, reward, terminated, truncated, info = env.step(np.int64(0))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
    assert info == {"episode_return": 0.0, "episode_length": 1, "success": 0, "commands_completed": 0.0}


def test_an_action_that_is_no_integer_is_rejected() -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(ActionError, match="action must be an integer array"):
        env.step(1.0)


@pytest.mark.parametrize("action", ["1", {}, None, 2**31, np.int64(2**40 + 1), [[1], [1, 2]]])
def test_an_action_that_is_no_number_of_int32_is_rejected(action: Any) -> None:
    env = gymnasium.make("jaxgym/MortarMayhem-Grid-v0", observation="symbolic", command_count=[3])
    env.reset(seed=1)
    with pytest.raises(ActionError, match=r"^MortarMayhem-Grid-v0: action must be an int32 array of shape .*, got "):
        env.unwrapped.step(action)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "action", "said"),
    [
        ("FrozenLake-v0", {}, 4, "from 0 to 3, got 4"),
        ("FrozenLake-v0", {}, np.int64(-1), "from 0 to 3, got -1"),
        ("MortarMayhem-v0", {}, [0, 3], "from 0 to 2, got 3 at index [1]"),
        ("MortarMayhem-v0", {"flat_actions": True}, 9, "from 0 to 8, got 9"),
        ("Sudoku-v0", {}, np.asarray([-1, 9, 0]), "from 0 to 8, got -1 at index [0]"),
        (SHORT, {"memory_gym_layout": True}, 4, "from 0 to 3, got 4"),
    ],
)
def test_an_action_outside_of_its_space_is_rejected(
    env_id: str, kwargs: dict[str, Any], action: Any, said: str
) -> None:
    env = make(env_id, **kwargs)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=rf"^{re.escape(f'{env_id}: action: expected an integer {said}.')}$"):
        env.step(action)


def test_an_action_of_an_environment_outside_of_its_space_is_rejected_and_no_environment_steps() -> None:
    envs = make_vec()
    before, _ = envs.reset(seed=3)
    with pytest.raises(
        ActionError, match=rf"^{SHORT}: action: expected an integer from 0 to 3, got 7 at index \[1\]\."
    ):
        envs.step(np.asarray([0, 7, -1]))
    assert is_equal(envs.step(np.zeros(NUM_ENVS, int))[4]["episode_length"], np.ones(NUM_ENVS, int))
    assert is_equal(envs.reset(seed=3)[0], before)


def test_options_hold_until_others_are_given() -> None:
    env = make(max_steps=5)
    limits = []
    for options in (None, {"max_steps": 2}, None, {}):
        env.reset(seed=0, options=options)
        limits.append(int(env.game.params.max_steps_in_episode))
    assert limits == [5, 2, 2, 5]
    with pytest.raises(OptionError, match="expected an option, got 'max_stesp'"):
        env.reset(options={"max_stesp": 3})


@pytest.mark.parametrize("memory_gym_layout", [False, True])
@pytest.mark.parametrize("options", [["max_steps"], {1: 2}, 3])
def test_options_of_a_reset_that_are_no_names_with_values_are_rejected(memory_gym_layout: bool, options: Any) -> None:
    env = make(memory_gym_layout=memory_gym_layout)
    with pytest.raises(OptionError, match=r"options: expected a dict such as .*, got "):
        env.reset(seed=0, options=options)


def test_options_of_a_reset_that_change_a_space_are_rejected() -> None:
    for env in (make(), make_vec()):
        with pytest.raises(
            OptionError, match=r"keep the observation_space .*, got Box\(.*,\) of float32\. Pass them to"
        ):
            env.reset(seed=0, options={"observation": "symbolic"})


def test_options_of_a_reset_that_change_a_space_of_the_stand_in_are_rejected_and_change_nothing() -> None:
    env = make(memory_gym_layout=True)
    before, _ = env.reset(seed=1)
    for options in ({"observation": "symbolic"}, {"observation": "symbolic", "max_steps": 3}):
        with pytest.raises(OptionError, match=r"keep the observation_space .* of float32\. Pass them to"):
            env.reset(seed=1, options=options)
    again, _ = env.reset(seed=1)
    assert np.array_equal(before["visual_observation"], again["visual_observation"])


def test_a_step_before_the_first_reset_is_rejected() -> None:
    for env in (make(), make(memory_gym_layout=True), make_vec(render_mode="rgb_array")):
        with pytest.raises(gymnasium.error.ResetNeeded, match="Call reset first"):
            env.step(env.action_space.sample())
    with pytest.raises(gymnasium.error.ResetNeeded, match="Call reset first"):
        env.render()


@pytest.mark.parametrize(
    "seed", [-1, "abc", 1.5, True, [1, -2, *[None] * (NUM_ENVS - 2)], [0, "1", *[None] * (NUM_ENVS - 2)]]
)
def test_seeds_of_environments_that_are_no_integers_from_0_up_are_rejected_and_change_nothing(seed: Any) -> None:
    envs = make_vec()
    before, _ = envs.reset(seed=3)
    with pytest.raises(LevelError, match="expected an integer of at least 0, or a list"):
        envs.reset(seed=seed)
    assert is_equal(envs.reset(seed=np.arange(3, 3 + NUM_ENVS))[0], before)


@pytest.mark.parametrize("actions", [0, [0] * (NUM_ENVS + 1)])
def test_actions_for_more_or_fewer_environments_are_rejected(actions: Any) -> None:
    envs = make_vec()
    envs.reset(seed=0)
    with pytest.raises(ActionError, match="Pass one action for each environment"):
        envs.step(actions)


@pytest.mark.parametrize("layout", [False, True])
@pytest.mark.parametrize("num_envs", [0, -1, 1.5, True])
def test_num_envs_must_be_a_positive_integer(num_envs: Any, layout: bool) -> None:
    with pytest.raises(OptionError, match=rf"expected num_envs to be an integer from 1 up, got {num_envs}\.$"):
        gymnasium.make_vec("jaxgym/MortarMayhem-Grid-v0", num_envs=num_envs, memory_gym_layout=layout)


@pytest.mark.parametrize("seed", [-1, "abc", 1.5, True, [1]])
def test_a_seed_that_is_no_integer_from_0_up_is_rejected(seed: Any) -> None:
    with pytest.raises(LevelError, match=rf"^{SHORT}: seed: expected an integer of at least 0, or None, got "):
        make().reset(seed=seed)


@pytest.mark.parametrize("seed", [-1, 2**32, True])
def test_a_seed_of_memory_gym_that_is_no_integer_of_32_bits_is_rejected(seed: Any) -> None:
    with pytest.raises(
        LevelError, match=rf"^{SHORT}: seed: expected an integer from 0 to 4294967295, or None, got {seed}\."
    ):
        make(memory_gym_layout=True).reset(seed=seed)


def test_a_seed_may_be_larger_than_32_bits_and_a_number_of_numpy() -> None:
    env = make()
    large, small, again = (env.reset(seed=seed)[0] for seed in (2**40, 0, np.int64(2**40)))
    assert is_equal(large, again)
    assert not is_equal(large, small)


def test_a_stream_of_episodes_follows_from_its_seed() -> None:
    env = make()
    episodes = [[env.reset(seed=seed)[0] for seed in (4, None, None)] for _ in range(2)]
    assert all(is_equal(*pair) for pair in zip(*episodes, strict=True))
    assert not is_equal(episodes[0][0], episodes[0][1])
    assert not is_equal(make().reset()[0], make().reset()[0])


def test_the_picture_is_drawn_whatever_is_observed() -> None:
    seen, rest = (make(observation=how, render_mode="rgb_array") for how in ("pixels", "symbolic"))
    observation, _ = seen.reset(seed=1)
    rest.reset(seed=1)
    for env in (seen, rest):
        assert is_equal(env.render(), observation["visual_observation"])
    assert make().render() is None
    unhidden = make(render_mode="debug_rgb_array")
    unhidden.reset(seed=1)
    assert unhidden.render().shape == (336, 336, 3)


@pytest.mark.parametrize("memory_gym_layout", [False, True])
def test_a_render_mode_that_there_is_not_is_rejected(memory_gym_layout: bool) -> None:
    with pytest.raises(
        OptionError, match=r"render_mode: expected 'rgb_array' or 'debug_rgb_array', or None, got 'ansi'"
    ):
        single.make(SHORT, render_mode="ansi", memory_gym_layout=memory_gym_layout)
    with pytest.raises(
        OptionError, match=r"render_mode: expected 'rgb_array' or 'debug_rgb_array', or None, got 'ansi'"
    ):
        vector.make(1, SHORT, render_mode="ansi", memory_gym_layout=memory_gym_layout)


def test_the_same_options_again_change_nothing() -> None:
    env = make()
    env.reset(options={"command_count": np.asarray([2, 3])})
    game = env.game
    env.reset(options={"command_count": [2, 3]})
    assert env.game is game
    env.reset(options={"command_count": [2, 4]})
    assert env.game is not game


def test_each_environment_plays_what_one_environment_plays_with_its_seed() -> None:
    envs, singles = make_vec(autoreset_mode=AutoresetMode.SAME_STEP), [make() for _ in range(NUM_ENVS)]
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    observations, infos = envs.reset(seed=[7, 8, 3])
    assert infos == {}
    assert envs.observation_space.contains(observations)
    for index, (env, seed) in enumerate(zip(singles, (7, 8, 3), strict=True)):
        assert is_equal(env_of(observations, index), env.reset(seed=seed)[0])
    envs.action_space.seed(0)
    num_endings = 0
    for _ in range(30):
        actions = envs.action_space.sample()
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        for index, env in enumerate(singles):
            observation, *rest, info = env.step(actions[index])
            assert rest == [rewards[index], terminated[index], truncated[index]]
            ended = rest[1] or rest[2]
            num_endings += ended
            assert infos["_episode_length"][index] == (not ended)
            if ended:
                assert infos["_final_obs"][index]
                assert is_equal(infos["final_obs"][index], observation)
                assert {name: infos["final_info"][name][index] for name in info} == info
                observation, _ = env.reset()
            else:
                assert {name: infos[name][index] for name in info} == info
                assert "final_obs" not in infos or infos["final_obs"][index] is None
            assert is_equal(env_of(observations, index), observation)
    assert num_endings > NUM_ENVS


def test_one_seed_for_all_environments_counts_up() -> None:
    envs = make_vec()
    counted, listed, other = (envs.reset(seed=seed)[0] for seed in (5, [5, 6, 7], [5, 6, 8]))
    assert is_equal(counted, listed)
    assert not is_equal(counted, other)
    assert not is_equal(envs.reset(seed=[5, None, 7])[0], counted)
    with pytest.raises(LevelError, match=r"expected 3 seeds or one integer, got 2\."):
        envs.reset(seed=[1, 2])


def test_environments_take_options_and_draw_pictures() -> None:
    envs = make_vec(render_mode="rgb_array")
    observations, _ = envs.reset(seed=0, options={"max_steps": 1})
    assert is_equal(np.stack(envs.render()), observations["visual_observation"])
    assert envs.step(np.zeros(NUM_ENVS, int))[3].all()
    assert not envs.step(np.zeros(NUM_ENVS, int))[3].any()
    assert envs.step(np.zeros(NUM_ENVS, int))[3].all()
    envs.reset(options={})
    assert not envs.step(np.zeros(NUM_ENVS, int))[3].any()


# The stand-in for memory-gym.


@pytest.mark.parametrize(
    "name",
    [
        "mmbg__default__s0__optimal",
        *(pytest.param(path.stem, marks=pytest.mark.slow) for path in sorted(TRACES.glob("*__default__*.npz"))),
    ],
)
def test_a_seed_plays_the_recorded_episode_of_the_original(name: str) -> None:
    recording = Recording.load(TRACES / f"{name}.npz")
    env = make(recording.meta["env_id"], memory_gym_layout=True)
    observation, _ = env.reset(seed=recording.meta["seed"], options=recording.meta["options"])
    is_drawn = dict(zip(recording.arrays["frame_t"].tolist(), recording.arrays["frames"], strict=True))
    for t in range(len(recording.arrays["actions"]) + 1):
        if t:
            observation, reward, terminated, truncated, info = env.step(recording.arrays["actions"][t - 1])
            assert (terminated, truncated) == (recording.arrays["terminated"][t - 1], False), t
            assert np.float32(reward) == np.float32(recording.arrays["reward"][t - 1]), t
            assert (set(info) - {"ground_truth"} != set()) == terminated
        if t in is_drawn:
            frame = observation["visual_observation"] if isinstance(observation, dict) else observation
            assert is_equal(frame, is_drawn[t]), t


@pytest.mark.parametrize(("env_id", "steps"), LONGEST.items())
def test_the_longest_episode_is_told(env_id: str, steps: int) -> None:
    options = {name: option.default for name, option in jaxgym.spec_of(env_id).all_options.items()}
    assert max_episode_steps(options) == steps
    assert max_episode_steps({**options, "max_steps": 9}) == 9


def test_a_time_limit_terminates_and_its_info_is_told_at_the_end() -> None:
    env = make(memory_gym_layout=True, max_steps=2, render_mode="rgb_array")
    observation, info = env.reset(seed=0)
    assert info == {}
    assert is_equal(env.render(), observation["visual_observation"].swapaxes(0, 1))
    assert env.step(0)[2:] == (False, False, {})
    assert env.step(0)[2:] == (
        True,
        False,
        {"reward": 0.0, "length": 2, "success": 0, "commands_completed": 0.0},
    )


def test_options_hold_for_one_episode_and_leave_the_generator_alone() -> None:
    env = make(memory_gym_layout=True)
    expected = [env.reset(seed=seed)[0] for seed in (3, None, None)]
    observed = []
    for seed, options in ((3, {"reward_command_success": 0.5}), (None, {"max_steps": 7}), (None, None)):
        observed.append(env.reset(seed=seed, options=options)[0])
        assert env.reset_params["reward_command_success"] == (options or {}).get("reward_command_success", 0.1)
        assert env.max_episode_steps == (options or {}).get("max_steps", 79)
    assert is_equal(dict(enumerate(observed)), dict(enumerate(expected)))
    assert not is_equal(expected[0], expected[1])
    assert not env.has_ground_truth_info


def test_a_stand_in_takes_the_preset_of_a_paper() -> None:
    env = make("MortarMayhemB-Grid-v0", memory_gym_layout=True, preset="jmlr2025", explosion_delay=[2])
    options = {**jaxgym.presets("MortarMayhemB-Grid-v0")["jmlr2025"].options, "explosion_delay": [2]}
    assert options.items() <= env.reset_params.items()


def test_endless_games_tell_their_ground_truth_from_the_start() -> None:
    env = make("Endless-MortarMayhem-v0", memory_gym_layout=True)
    _, info = env.reset(seed=0)
    assert env.has_ground_truth_info
    assert env.ground_truth_space.contains(info["ground_truth"])
    assert list(env.step([0, 0])[4]) == ["ground_truth"]


def test_stand_ins_side_by_side_restart_in_the_same_step() -> None:
    envs = make_vec(memory_gym_layout=True, max_steps=2, autoreset_mode=AutoresetMode.SAME_STEP)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    envs.step(np.zeros(NUM_ENVS, int))
    *_, infos = envs.step(np.zeros(NUM_ENVS, int))
    assert infos["final_info"]["length"].tolist() == [2] * NUM_ENVS


def test_gymnasium_knows_the_ids_as_soon_as_jaxgym_is_imported() -> None:
    program = (
        "import sys, gymnasium, jaxgym; known = [name for name in gymnasium.registry if name.startswith('jaxgym/')]; "
        "print('jax' in sys.modules, known == [f'jaxgym/{name}' for name in jaxgym.registered_envs()])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "False True\n"


def test_gymnax_knows_the_ids_as_soon_as_jaxgym_is_imported_after_it() -> None:
    program = "import gymnax, jaxgym; print(gymnax.make('FrozenLake-v0')[0].env_id)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "FrozenLake-v0\n"


@pytest.mark.slow
def test_importing_jaxgym_imports_no_adapter() -> None:
    program = "import sys, jaxgym; print([name for name in sys.modules if name.startswith('jaxgym.gymnasium')])"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"
