"""Demonstrations: chats and Minari datasets of the experts, played again step by step."""

import dataclasses
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxgym
from jaxgym import cli, demos, levels, registry, text
from jaxgym.demos import episodes
from jaxgym.errors import OptionError
from jaxgym.flags import FailureError
from jaxgym.levels import SPLIT_SIZE
from tests.t_maze import TMaze

MEMORY = "MiniGrid-MemoryS7-v0"


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "BATCH", 2)


def demos_of(*argv: str | Path) -> str:
    return cli.run(["demos", *map(str, argv)])


@pytest.mark.usefixtures("small_batches")
@pytest.mark.slow
def test_a_chat_is_an_episode_of_the_game(tmp_path: Path) -> None:
    out, options = tmp_path / "lake.jsonl", ("size=5", "step_penalty=0.01")
    said = demos_of("frozen_lake", *options, "--format", "chat", "--out", out, "--episodes", 3, "--split", "heldout")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["env_config"]["seed"] for row in rows] == [SPLIT_SIZE, SPLIT_SIZE + 1, SPLIT_SIZE + 2]
    env, params, interface = text.make("frozen_lake", size=5, levels="fresh")
    step = jax.jit(env.step_env)
    for row in rows:
        assert row["env_config"] | {"seed": 0} == {
            "name": "FrozenLake-v0", "seed": 0, "size": 5,  "step_penalty": 0.01
        }  # fmt: skip
        roles, contents = zip(*(tuple(message.values()) for message in row["messages"]), strict=True)
        assert roles == ("system", *("user", "assistant") * (len(roles) // 2))
        assert contents[0].startswith(interface.system_prompt(params).partition("\n")[0])
        assert row["text_version"] == interface.text_version
        level = levels.level_from_seed(env, row["env_config"]["seed"], params)
        state, total, ended = env.initial_state(level, params), 0.0, False
        for seen, reply in zip(contents[1::2], contents[2::2], strict=True):
            assert not ended
            assert (
                interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params).split("\n\n")[0] in seen
            )
            parsed = interface.parse(reply)
            assert isinstance(parsed, text.ParsedAction)
            assert parsed.is_exact
            _, state, reward, ended, _ = step(jax.random.key(0), state, parsed.actions[0], params)
            total += float(reward) - 0.01
        assert ended
        assert (row["success"], row["return"]) == (True, pytest.approx(total))
    assert said.startswith(f"{out}: 3 episodes, 3 with success, mean return 0.9")
    assert list(tmp_path.iterdir()) == [out]


def test_a_chat_with_images_has_an_image_in_each_observation(tmp_path: Path) -> None:
    out = tmp_path / "lake.jsonl"
    demos_of("frozen_lake", "observation_mode=image", "--format", "chat", "--out", out, "--episodes", 2)
    for row in map(json.loads, out.read_text().splitlines()):
        observations = [message["content"] for message in row["messages"] if message["role"] == "user"]
        kinds = [[part["type"] for part in content] for content in observations]
        assert kinds == [["image_url"], *[["image_url", "text"]] * (len(kinds) - 1)]


@pytest.mark.usefixtures("small_batches")
def test_demonstrations_are_the_experts_episodes() -> None:
    env, params = jaxgym.make(MEMORY, levels="fresh", observation="symbolic")
    expert = jaxgym.spec_of(MEMORY).expert
    assert expert is not None
    choose, step = jax.jit(partial(expert, env)), jax.jit(env.step_env)
    played = [one for batch in demos.play(env, params, [5, 6, 7], 100, observe=True) for one in batch]
    assert [one.seed for one in played] == [5, 6, 7]
    for one in played:
        observation, state = env.reset_to_level(
            jax.random.key(0), levels.level_from_seed(env, one.seed, params), params
        )
        assert_equal(observation, jax.tree.map(lambda leaf: leaf[0], one.observations))
        for time, (action, reward) in enumerate(zip(one.actions, one.rewards, strict=True), start=1):
            assert action == choose(state, params)
            observation, state, made, terminated, _ = step(jax.random.key(0), state, action, params)
            assert_equal(observation, jax.tree.map(lambda leaf: leaf[time], one.observations))  # noqa: B023
            assert made == reward
            assert bool(terminated) == (time == len(one.actions))
        assert (one.terminated, one.truncated, one.is_success) == (True, False, True)


def assert_equal(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_limit_on_steps_truncates() -> None:
    env, params = jaxgym.make(MEMORY, levels="fresh", observation="symbolic")
    ((one,),) = demos.play(env, params, [5], 2)
    assert (len(one.actions), one.terminated, one.truncated, one.is_success) == (2, False, True, False)
    assert one.observations is None


def test_a_minari_dataset_has_the_episodes_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    out = tmp_path / "memory-expert-v0"
    said = demos_of(MEMORY, "observation=symbolic", "--format", "minari", "--out", out, "--episodes", 2, "--start", 9)
    assert said.startswith(f"{out}: 2 episodes, 2 with success, ")
    assert list(tmp_path.iterdir()) == [out]
    dataset = minari.load_dataset(out.name)
    spec = dataset.recover_environment().spec
    assert spec.kwargs == {"env_id": MEMORY, "levels": "fresh", "observation": "symbolic"}
    env, params = jaxgym.make(MEMORY, observation="symbolic")
    metadata = list(dataset.storage.get_episode_metadata(dataset.episode_indices))
    assert [entry["level_seed"] for entry in metadata] == [9, 10]
    for entry, episode in zip(metadata, dataset, strict=True):
        level = levels.make_level_buffer(env, params, [int(entry["level_seed"])])
        recovered = dataset.recover_environment(levels=level)
        assert (recovered.observation_space, recovered.action_space) == (
            dataset.observation_space, dataset.action_space
        )  # fmt: skip
        results = [
            (recovered.reset()[0], 0.0, False, False),
            *(recovered.step(action)[:4] for action in episode.actions),
        ]
        observations, rewards, terminations, truncations = zip(*results, strict=True)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *observations)
        assert_equal(dict(stacked), dict(episode.observations))
        assert_equal(rewards[1:], tuple(episode.rewards))
        assert_equal(terminations[1:], tuple(episode.terminations))
        assert_equal(truncations[1:], tuple(episode.truncations))
        assert terminations[-1]
        assert entry["return"] == pytest.approx(sum(rewards))
        assert entry["success"]


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["frozen_lake", "--format", "chat", "--out", "a.json"], OptionError, r"a name that ends in \.jsonl"),
        (["frozen_lake", "--format", "chat", "--out", "no/a.jsonl"], OptionError, "directory no does not exist"),
        (["frozen_lake", "--format", "minari", "--out", "lake"], OptionError, "a name like lake-expert-v0, got 'lake'"),
        (["frozen_lake", "--format", "minari", "--out", "old-v0"], OptionError, "expected a new folder"),
        (["frozen_lake", "name=3", "--format", "chat", "--out", "a.jsonl"], OptionError, "an option, got 'name'"),
        (
            ["frozen_lake", "adapt=size=4:8", "--format", "chat", "--out", "a.jsonl"],
            OptionError,
            "adapt: expected None",
        ),
        (["frozen_lake", "levels=3", "--format", "chat", "--out", "a.jsonl"], OptionError, "--start selects the level"),
        (
            ["frozen_lake", "--format", "chat", "--out", "a.jsonl", "--episodes", "0"],
            OptionError,
            "^--episodes: expected",
        ),
        (
            ["frozen_lake", "--format", "chat", "--out", "a.jsonl", "--steps", "0"],
            OptionError,
            "at least 1 step, got 0",
        ),
        (["Expertless-v0", "--format", "minari", "--out", "a-v0"], OptionError, "Expertless-v0 has no expert"),
    ],
)
def test_a_mistake_is_an_error_before_anything_is_written(
    argv: list[str], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._entries, "Expertless-v0", registry.Entry(jaxgym.Spec(TMaze)))
    (tmp_path / "old-v0").mkdir()
    with pytest.raises(error, match=message):
        demos_of(*argv)
    assert [path.name for path in tmp_path.iterdir()] == ["old-v0"]


def test_without_minari_a_dataset_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(FailureError, match=r'^missing packages: .* pip install "jaxgym\[minari\]"$'):
        demos_of("frozen_lake", "--format", "minari", "--out", tmp_path / "lake-v0")


def test_chats_need_a_text_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataclasses.replace(jaxgym.spec_of("FrozenLake-v0"), text=None)
    monkeypatch.setitem(registry._entries, "Silent-v0", registry.Entry(spec))
    with pytest.raises(jaxgym.errors.UnknownIdError, match="Silent-v0"):
        demos_of("Silent-v0", "--format", "chat", "--out", tmp_path / "a.jsonl")
