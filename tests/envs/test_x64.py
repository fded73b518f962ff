"""Games in words beside programs that have set `jax_enable_x64`."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxgym
from jaxgym.serve.programs import Logic


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0"])
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
