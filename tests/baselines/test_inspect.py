"""Inspection of agents: saliency over time, recall density, and linear probes."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines import inspect, ppo
from baselines.config import SCALES, Config
from baselines.errors import ConfigError, RunError
from baselines.game import TrainingGame, make_game
from baselines.inspect import InspectFlags, described, recall_density
from baselines.probes import probe
from baselines.saliency import Recording, saliency_of, shares
from baselines.zoo import TrainedAgent

SMALL = dataclasses.replace(SCALES["cpu"], **dict(num_envs=8, num_steps=8, minibatches=2, memory_size=8, hidden_size=8))
STEPS = 4


def recorded(agent_setup: ppo.Setup, game: TrainingGame, *, frames: bool) -> tuple[Any, Recording]:
    """Return initial parameters and an episode of Recall."""
    params = ppo.make_init(agent_setup)(jnp.int32(0), game.params).params
    vector = jax.random.uniform(jax.random.key(1), (STEPS, 4), jnp.float32)
    image = jax.random.randint(jax.random.key(2), (STEPS, 44, 44, 3), 0, 255, jnp.int32).astype(jnp.uint8)
    observation = {"vector_observation": vector, "visual_observation": image} if frames else vector
    return params, Recording(observation, jnp.arange(STEPS) == 0, jnp.ones((STEPS, 1), jnp.int32))


@pytest.mark.parametrize(("memory", "frames"), [("none", False), ("gru", True)])
def test_only_memory_makes_earlier_observations_salient(
    recall_game: Callable[..., TrainingGame], memory: str, frames: bool
) -> None:
    game = recall_game(frames=frames)
    setup = ppo.make_setup(dataclasses.replace(SMALL, memory=memory), game)
    params, episode = recorded(setup, game, frames=frames)
    queries = jnp.asarray([0, 2, 3])
    found = jax.device_get(jax.jit(lambda given: saliency_of(setup, params, given, queries))(episode))
    for own in found:
        assert (own[[0, 1, 2], [0, 2, 3]] > 0).all(), "the observation of the step itself"
        assert not own[np.arange(STEPS)[None] > np.asarray(queries)[:, None]].any(), "later observations"
        earlier = own[2, :3]
        assert (earlier > 0).all() if memory == "gru" else not earlier.any()


def test_saliency_is_the_slope_of_the_value_times_the_input(recall_game: Callable[..., TrainingGame]) -> None:
    game = recall_game()
    setup = ppo.make_setup(dataclasses.replace(SMALL, memory="gru"), game)
    params, episode = recorded(setup, game, frames=False)

    @jax.jit
    def values(observation: jax.Array) -> jax.Array:
        state = setup.network.memory.initial_state(1)
        applied: Any = setup.network.apply(params, state, observation[:, None], episode.start[:, None])
        return applied[1].value[:, 0]

    found = saliency_of(setup, params, episode, jnp.asarray([3])).value[0]
    slopes = []
    for place in range(4):
        step = np.zeros((STEPS, 4), np.float32)
        step[1, place] = 1e-2
        slopes.append((values(episode.observation + step)[3] - values(episode.observation - step)[3]) / 2e-2)
    assert np.isclose(found[1], np.abs(np.asarray(slopes) * episode.observation[1]).sum(), rtol=0.05)


def test_recall_density_is_the_share_before_the_queried_step() -> None:
    saliency = np.asarray([[[1.0, 0.0, 0.0], [1.0, 3.0, 0.0], [2.0, 2.0, 4.0]]])
    assert recall_density(np.asarray([[0, 1, 2]]), saliency).tolist() == [[0.0, 0.25, 0.5]]
    assert shares(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


def test_a_probe_finds_a_linear_fact_where_it_is_held() -> None:
    steps, episodes = 8, 64
    generator = np.random.default_rng(1)
    fact = generator.integers(0, 3, (episodes, 1))
    states = generator.normal(size=(steps, episodes, 6)).astype(np.float32)
    states[4:, :, :3] += 20 * np.eye(3)[fact[:, 0]]
    values = np.broadcast_to(fact, (steps, episodes, 1))
    used = np.ones((steps, episodes), bool)
    found = probe(states, values, used, np.asarray([0, 4, 8]))
    assert found.accuracy[0] < 0.6
    assert found.accuracy[1] == 1.0
    assert max(found.chance) < 0.6
    constant = probe(states[..., :0], values, used, np.asarray([0, 8]))
    assert constant.accuracy == constant.chance, "a memory without a state"
    assert np.isnan(probe(states, values, np.zeros_like(used), np.asarray([0, 8])).accuracy).all()


@pytest.mark.parametrize("number", [0, 10**11])
def test_numbers_out_of_range_are_errors(number: int) -> None:
    with pytest.raises(ConfigError, match=rf"^--max-steps: expected a number from 1 to 2147483647, got {number}$"):
        inspect.inspect(None, InspectFlags("run", max_steps=number), Path())  # pyright: ignore[reportArgumentType]


def test_a_folder_that_cannot_be_made_is_an_error_before_an_episode(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    agent: Any = SimpleNamespace(config=Config())
    with pytest.raises(RunError, match=r"^cannot write to .*file \(File exists\)\. Choose another --out\.$"):
        inspect.inspect(agent, InspectFlags("run"), tmp_path / "file")


def test_an_agent_with_a_language_model_as_memory_is_an_error(tmp_path: Path) -> None:
    agent: Any = SimpleNamespace(config=Config(memory="helm"))
    with pytest.raises(ConfigError, match=r"^memory 'helm': expected a memory with a recurrent state"):
        inspect.inspect(agent, InspectFlags("run"), tmp_path)


MAZE = dataclasses.replace(
    SMALL,
    **dict(env="T-Maze-v0", options=("observation=symbolic", "corridor_length=4", "is_dense=true"), train_levels=0),
    **dict(num_envs=64, num_steps=20, minibatches=4, memory_size=32, hidden_size=32, learning_rate_start=3e-3),
    **dict(entropy_start=2e-2, entropy_end=1e-3, gamma=0.99, normalize_advantage=True),
    **dict(block_updates=100, total_steps=128_000),
)


def trained(config: Config) -> TrainedAgent:
    game = make_game(config)
    setup = ppo.make_setup(config, game)
    state = ppo.make_init(setup)(jnp.int32(0), game.params)
    state, _ = ppo.make_train_block(setup)(state, game.params)
    return TrainedAgent(game, setup, state.params)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["gru", "none"])
def test_an_agent_in_a_t_maze_attends_to_the_cue_if_it_has_memory(memory: str, tmp_path: Path) -> None:
    agent = trained(dataclasses.replace(MAZE, memory=memory))
    flags = InspectFlags("run", max_steps=8, queries=5, spans=5)
    result = inspect.inspect(agent, flags, tmp_path / "inspect")
    assert json.loads((tmp_path / "inspect/inspect.json").read_text())["memory"] == memory
    names = {f"{name}.{kind}" for name in ("recall", "strip", "probes") for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "inspect").iterdir()} == names | {"inspect.json"}
    cue = np.asarray(result["saliency_of_last_step"]["action"])[:, 0]
    density, own = result["recall_density"]["action"][-1], result["probes"]["goal"]
    if memory == "gru":
        assert result["success"] > 0.9
        last = np.asarray(result["saliency_of_last_step"]["action"])
        assert (last[:, :4].argmax(axis=1) == 0).all(), "of the earlier observations, the cue counts most"
        assert density > 0.1
        assert min(own["accuracy"]) == 1.0
    else:
        assert result["success"] < 0.7
        assert not cue.any()
        assert density == 0.0
        assert own["accuracy"] == own["chance"]
    assert "recall density" in described(result)
