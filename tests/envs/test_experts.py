"""Scripted experts solve every game, on a few levels at once."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from tests.ids import BABYAI, one_of_each_program

NUM_LEVELS = 3

# Steps that suffice, the entry of `info`, and what all levels together have to reach there.
GOALS = {
    "MortarMayhem-v0": (274, "episode_return", 0.99 * NUM_LEVELS),
    "MortarMayhem-Grid-v0": (118, "episode_return", 0.99 * NUM_LEVELS),
    "MortarMayhemB-v0": (235, "episode_return", 0.99 * NUM_LEVELS),
    "MortarMayhemB-Grid-v0": (79, "episode_return", 0.99 * NUM_LEVELS),
    "Endless-MortarMayhem-v0": (150, "commands_completed", 4 * NUM_LEVELS),
    "MysteryPath-v0": (64, "success", NUM_LEVELS),
    "MysteryPath-Grid-v0": (40, "success", NUM_LEVELS),
    "Endless-MysteryPath-v0": (100, "tiles_visited", 20 * NUM_LEVELS),
    "SearingSpotlights-v0": (256, "success", NUM_LEVELS),
    "Endless-SearingSpotlights-v0": (120, "coins_collected", NUM_LEVELS),
    "FrozenLake-v0": (16, "success", NUM_LEVELS),
    "TextCraft-v0": (70, "success", NUM_LEVELS),
    "Sudoku-v0": (21, "success", NUM_LEVELS),
    "MiniGrid-MemoryS7-v0": (6, "success", NUM_LEVELS),
    "MiniGrid-MemoryS9-v0": (8, "success", NUM_LEVELS),
    "MiniGrid-MemoryS11-v0": (10, "success", NUM_LEVELS),
    "MiniGrid-MemoryS13-v0": (12, "success", NUM_LEVELS),
    "MiniGrid-MemoryS13Random-v0": (12, "success", NUM_LEVELS),
    "MiniGrid-MemoryS17Random-v0": (16, "success", NUM_LEVELS),
    "T-Maze-v0": (11, "success", NUM_LEVELS),
    "T-Maze-Active-v0": (13, "success", NUM_LEVELS),
    "T-Maze-Lamp-v0": (12, "success", NUM_LEVELS),
    "MemoryCards-v0": (5, "success", NUM_LEVELS),
    "Numpad-v0": (40, "success", NUM_LEVELS),
    "NumpadContinuous-v0": (120, "success", NUM_LEVELS),
    "Endless-TMaze-v0": (55, "success", NUM_LEVELS),
    "Passive-VisualMatch-v0": (60, "success", NUM_LEVELS),
    "BossFight-v0": (400, "episode_return", 11),
    "KeyToDoor-v0": (85, "success", NUM_LEVELS),
    "Ballet-v0": (65, "success", NUM_LEVELS),
    "ColorCubes-v0": (40, "success", NUM_LEVELS),
    "BabyAI-GoToLocalS5N2-v0": (25, "success", NUM_LEVELS),
    "BabyAI-OpenRedDoor-v0": (50, "success", NUM_LEVELS),
    "BabyAI-PutNextS5N2Carrying-v0": (100, "success", NUM_LEVELS),
    "BabyAI-MiniBossLevel-v0": (200, "success", NUM_LEVELS),
}


def outcomes(env_id: str, num_steps: int, **options: Any) -> dict[str, np.ndarray]:
    """Return the `info` of the last step of the expert's episodes, or of the step limit, leaves (N, ...)."""
    env, params = jaxgym.make(env_id, levels="fresh", observation="symbolic", **options)
    expert = jaxgym.spec_of(env_id).expert
    assert expert is not None

    def advance(params: Any, state: Any, is_over: jax.Array) -> tuple[Any, jax.Array, dict[str, jax.Array]]:
        action = expert(env, state, params)
        made = env.transition(dataclasses.replace(state, time=state.time + 1), action, params)
        stepped = dataclasses.replace(made.state, episode_return=state.episode_return + made.reward)
        after = jax.tree.map(partial(jnp.where, is_over), state, stepped)
        is_over = is_over | made.terminated | env.is_truncated(stepped, params)
        return after, is_over, {**made.metrics, "episode_return": stepped.episode_return}

    @jax.jit
    def play(params: Any, buffer: Any) -> dict[str, jax.Array]:
        state = jax.vmap(env.initial_state, (0, None))(buffer, params)
        is_over = jnp.zeros(NUM_LEVELS, bool)
        shapes = jax.eval_shape(jax.vmap(partial(advance, params)), state, is_over)[2]
        info = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        def step(carry: Any, _: None) -> tuple[Any, None]:
            state, is_over, info = carry
            after, ended, made = jax.vmap(partial(advance, params))(state, is_over)

            def kept(old: jax.Array, new: jax.Array) -> jax.Array:
                return jnp.where(is_over.reshape(-1, *[1] * (new.ndim - 1)), old, new)

            return (after, ended, jax.tree.map(kept, info, made)), None

        return jax.lax.scan(step, (state, is_over, info), length=num_steps)[0][2]

    return jax.device_get(play(params, levels.make_level_buffer(env, params, levels.held_out_seeds(NUM_LEVELS))))


@pytest.mark.parametrize(
    "env_id",
    one_of_each_program(
        "SearingSpotlights-v0", "MysteryPath-Grid-v0", "Endless-MysteryPath-v0", "BossFight-v0", BABYAI[0]
    ),
)
def test_the_expert_reaches_the_goal_of_every_game(env_id: str) -> None:
    num_steps, name, least = GOALS[env_id]
    assert outcomes(env_id, num_steps)[name].sum() >= least


@pytest.mark.parametrize("env_id", ["MortarMayhemB-v0", "MysteryPath-v0"])
def test_the_expert_plays_flat_actions(env_id: str) -> None:
    num_steps, name, least = GOALS[env_id]
    assert outcomes(env_id, num_steps, flat_actions=True)[name].sum() >= least
