"""Games in programs that set `jax_enable_x64`."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

import jaxgym
from jaxgym.serve.pool.programs import Logic
from tests.ids import memory_gym


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", "MiniGrid-MemoryS17Random-v0"])
def test_with_x64_states_and_scenes_have_the_dtypes_that_they_have_without(env_id: str) -> None:
    env, params = jaxgym.make(env_id, levels="fresh")
    logic = Logic(env, 1)

    def dtypes() -> list[Any]:
        state, seen = jax.eval_shape(logic.start, jax.ShapeDtypeStruct((), jnp.uint32), params)
        actions = jax.ShapeDtypeStruct((1, *env.action_space(params).shape), jnp.int32)
        moved = jax.eval_shape(logic.move, state, jax.ShapeDtypeStruct((), jnp.int32), actions, params)
        return [jax.tree.map(lambda leaf: leaf.dtype, tree) for tree in ((state, seen), moved)]

    usual = dtypes()
    assert usual[0] == usual[1]
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        assert dtypes() == usual


MEMORY_GYM = memory_gym()
FEW = {"MortarMayhem-Grid-v0", "MysteryPath-Grid-v0"}
each_game = pytest.mark.parametrize(
    "env_id", [pytest.param(env_id, marks=[] if env_id in FEW else [pytest.mark.slow]) for env_id in MEMORY_GYM]
)


def first_steps(env_id: str, steps: int, num_envs: int) -> Any:
    """Return the program of some random episodes with hidden information, and their seeds."""
    env, params = jaxgym.make(env_id, levels="fresh")
    human = jaxgym.spec_of(env_id).human
    assert human is not None

    def play(seed: jax.Array) -> Any:
        observation, start = env.reset(jax.random.key(seed), params)

        def step(state: Any, time: jax.Array) -> Any:
            key_action, key_step = jax.random.split(jax.random.key(time))
            _, after, *rest = env.step(key_step, state, env.action_space(params).sample(key_action), params)
            return after, (rest, human.view(env, after, params))

        return observation, start, jax.lax.scan(step, start, jnp.arange(steps, dtype=jnp.uint32))

    return jax.vmap(play), jnp.arange(num_envs, dtype=jnp.uint32)


@each_game
def test_with_x64_a_game_of_memory_gym_has_the_dtypes_that_it_has_without(env_id: str) -> None:
    def dtypes() -> Any:
        return jax.tree.map(lambda leaf: leaf.dtype, jax.eval_shape(*first_steps(env_id, 1, 2)))

    usual = dtypes()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        assert dtypes() == usual


@pytest.mark.slow
@pytest.mark.parametrize("env_id", [*sorted(FEW), "Endless-MysteryPath-v0", "Endless-SearingSpotlights-v0"])
def test_with_x64_a_game_of_memory_gym_shows_and_tells_what_it_does_without(env_id: str) -> None:
    def played() -> Any:
        program, seeds = first_steps(env_id, 60, 4)
        return jax.device_get(jax.jit(program)(seeds))

    usual = played()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        chex.assert_trees_all_equal(usual, played())
