"""Agents of symbols and missions: of an environment of a user's own, and a whole run on BabyAI.

Order, the own environment, has episodes of one step. The mission is "one two" or "two one", and the view shows one of
two symbols. The first action is right if the symbol and the order agree, so neither of them is enough alone.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import struct

import jaxgym
from baselines import ppo, train
from baselines.config import SCALES
from baselines.evaluate import evaluate
from baselines.game import TrainingGame
from baselines.runs import read_rows
from jaxgym.spaces import Box, Dict, Discrete

SHAPE, MISSION_LENGTH = (3, 3, 1), 4


@struct.dataclass
class Level:
    """Order of the two words of the mission, and the symbol that the view shows, each int32 (): 0 or 1."""

    is_reversed: jax.Array
    symbol: jax.Array


@struct.dataclass
class State(jaxgym.EnvState):
    """An episode has no state of its own."""


@dataclasses.dataclass(unsafe_hash=True)
class Order(jaxgym.Environment[Level, State, jaxgym.EnvParams, Level]):
    """Compare the order of two words with a symbol."""

    def action_space(self, params: Any = None) -> Discrete:
        del params
        return Discrete(2)

    def observation_space(self, params: Any = None) -> Dict:
        del params
        mission = Box(low=0, high=2, shape=(MISSION_LENGTH,), dtype=jnp.uint8)
        return Dict({"mission": mission, "view": Box(low=0, high=2, shape=SHAPE, dtype=jnp.uint8)})

    def sample_level(self, key: jax.Array, params: Any) -> Level:
        del params
        is_reversed, symbol = jax.random.randint(key, (2,), 0, 2)
        return Level(is_reversed, symbol)

    def initial_state(self, level: Level, params: Any) -> State:
        del params
        return State(level=level)

    def transition(self, state: State, action: jax.Array, params: Any) -> jaxgym.Transition:
        del params
        is_right = action == state.level.is_reversed ^ state.level.symbol
        reward = is_right.astype(jnp.float32)
        return jaxgym.Transition(state, reward, jnp.bool_(True), {"success": is_right.astype(jnp.int32)})

    def scene(self, state: State, params: Any) -> Level:
        del params
        return state.level

    def observe_scene(self, scene: Level) -> dict[str, jax.Array]:
        words = jnp.where(scene.is_reversed > 0, jnp.asarray([2, 1, 0, 0]), jnp.asarray([1, 2, 0, 0]))
        view = jnp.zeros(SHAPE, jnp.uint8).at[1, 2, 0].set((scene.symbol + 1).astype(jnp.uint8))
        return {"mission": words.astype(jnp.uint8), "view": view}


@pytest.mark.slow
def test_an_agent_learns_an_order_of_words_about_a_symbol_in_an_environment_of_its_own() -> None:
    env = Order("Order-v0", jaxgym.EnvParams())
    bits = jnp.arange(4, dtype=jnp.int32)
    game = TrainingGame(env, env.default_params, None, Level(bits // 2, bits % 2), "order")
    config = dataclasses.replace(
        SCALES["cpu"],
        **dict(memory="none", hidden_size=64, num_envs=32, num_steps=8, minibatches=4, block_updates=40),
        **dict(total_steps=10_240, learning_rate_start=3e-3, normalize_advantage=True, entropy_start=1e-2),
    )
    setup = ppo.make_setup(config, game)
    state = ppo.make_init(setup)(ppo.seeds_of(setup), game.params)
    state, _ = ppo.make_train_block(setup)(state, game.params)
    results = evaluate(setup, game, state.params, repeats=50, seed=0)
    assert results["held_out"]["success"] > 0.9


@pytest.mark.slow
def test_a_run_on_babyai_trains_and_evaluates_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataclasses.replace(
        SCALES["cpu"],
        **dict(env="BabyAI-GoToObjS4-v0", train_levels=2, held_out_levels=2),
        **dict(num_envs=8, num_steps=8, minibatches=2, memory_size=8, hidden_size=8, block_updates=2, total_steps=128),
    )
    monkeypatch.setattr(train, "record_video", lambda *_, **__: [])  # its programs take longer than the run
    closing = train.train(config, train.RunFlags("run", tmp_path))
    assert closing.startswith("held-out normalized return")
    assert [row["steps"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == [64, 128]
    results = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert results["held_out"]["levels"] == 2
