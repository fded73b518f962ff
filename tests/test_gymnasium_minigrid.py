"""The stand-in for minigrid's Gymnasium environments replays recorded episodes of minigrid."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import jaxgym  # noqa: F401 — registers the environments
from jaxgym.envs.minigrid_memory.game import MISSION
from jaxgym.errors import LevelError, OptionError
from tests.parity.babyai import load

FOLDER = Path(__file__).parent / "data"


def make(env_id: str, **options: Any) -> Any:
    return gymnasium.make(f"jaxgym/{env_id}", minigrid_layout=True, **options).unwrapped


def check_replay(path: Path, **options: Any) -> None:
    arrays, meta = load(path)
    env = make(meta["id"], **options)
    seen, info = env.reset(seed=meta["seed"])
    name, frames = ("image", {}) if not options else ("pov8", {int(at): row for row, at in enumerate(arrays["pov_t"])})
    for time in range(len(arrays["actions"]) + 1):
        assert info == {}
        assert env.observation_space.contains(seen)
        assert (seen["direction"], seen["mission"]) == (arrays["agent_dir"][time], meta.get("mission") or MISSION)
        row = frames.get(time) if options else time
        if row is not None:
            np.testing.assert_array_equal(seen["image"], arrays[name][row])
        if time == len(arrays["actions"]):
            break
        seen, reward, terminated, truncated, info = env.step(arrays["actions"][time])
        assert reward == np.float32(arrays["reward"][time])
        assert (terminated, truncated) == (arrays["terminated"][time], arrays["truncated"][time])


@pytest.mark.parametrize("name", ["babyai/GoToLocalS5N2__s22__bot", "babyai/OpenRedDoor__s134__bot"])
def test_a_recorded_episode_is_replayed_from_its_seed(name: str) -> None:
    check_replay(FOLDER / f"{name}.npz")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["babyai/PutNextS5N2Carrying__s160__putcarry", "babyai/BossLevel__s4__bot"])
def test_another_recorded_episode_is_replayed_from_its_seed(name: str) -> None:
    check_replay(FOLDER / f"{name}.npz")


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((FOLDER / "minigrid").glob("MemoryS7__*.npz"))[:1], ids=lambda path: path.stem)
@pytest.mark.parametrize("options", [{}, {"observation": "pixels"}], ids=str)
def test_a_recorded_episode_of_minigrid_memory_is_replayed(path: Path, options: dict[str, Any]) -> None:
    check_replay(path, **options)


def test_a_reset_without_a_seed_continues_with_the_generator() -> None:
    env = make("BabyAI-GoToLocalS5N2-v0")
    played = []
    for _ in range(2):
        played.append([env.reset(seed=5)[0]["mission"], *(env.reset()[0]["mission"] for _ in range(4))])
        assert env.mission == played[-1][-1]
    assert played[0] == played[1]
    assert len(set(played[0])) > 1


def test_gymnasium_finds_nothing_to_complain_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make("BabyAI-GoToLocalS5N2-v0", render_mode="rgb_array"))


def test_environments_side_by_side_are_stepped_one_by_one() -> None:
    envs = gymnasium.make_vec("jaxgym/BabyAI-GoToLocalS5N2-v0", num_envs=2, minigrid_layout=True)
    seen, _ = envs.reset(seed=3)
    alone = [make("BabyAI-GoToLocalS5N2-v0").reset(seed=seed)[0] for seed in (3, 4)]
    assert list(seen["mission"]) == [each["mission"] for each in alone]
    np.testing.assert_array_equal(seen["image"], [each["image"] for each in alone])


def test_another_package_is_named() -> None:
    with pytest.raises(OptionError, match=r"^MysteryPath-Grid-v0: expected memory_gym_layout=True, got minigrid_"):
        make("MysteryPath-Grid-v0")
    with pytest.raises(OptionError, match=r"^BabyAI-GoTo-v0: expected minigrid_layout=True, got memory_gym_"):
        gymnasium.make("jaxgym/BabyAI-GoTo-v0", memory_gym_layout=True)
    with pytest.raises(LevelError, match=r"^FrozenLake-v0 has no original levels"):
        make("FrozenLake-v0")


def test_options_of_a_reset_are_rejected() -> None:
    with pytest.raises(OptionError, match=r"^BabyAI-GoToLocalS5N2-v0: expected no options of a reset, got some"):
        make("BabyAI-GoToLocalS5N2-v0").reset(options={"max_steps": 3})
