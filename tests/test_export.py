"""`jax.export` serializes `reset` and `step`; they load here and in another process, and play the same."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import pytest
from flax import struct
from jax import export

import jaxgym
from jaxgym.wrappers import FrameSkip, FromGymnax

# One of each family, with symbols and levels of a level buffer: little to compile.
IDS = (
    "MortarMayhem-Grid-v0",
    "MysteryPath-Grid-v0",
    "SearingSpotlights-v0",
    "FrozenLake-v0",
    "Sudoku-v0",
    "TextCraft-v0",
)
OPTIONS = {"observation": "symbolic", "levels": 2}


def check_loads(function: Any, *arguments: Any) -> None:
    """Check that the loaded functions have the exported trees, dtypes and shapes; nothing is compiled."""
    exported = export.export(jax.jit(function))(*arguments)
    loaded = export.deserialize(exported.serialize())
    assert loaded.in_tree == exported.in_tree == jax.tree.structure((arguments, {}))
    assert loaded.out_tree == exported.out_tree == jax.tree.structure(jax.eval_shape(function, *arguments))
    for found, wanted in ((loaded.in_avals, exported.in_avals), (loaded.out_avals, exported.out_avals)):
        assert [(leaf.shape, leaf.dtype) for leaf in found] == [(leaf.shape, leaf.dtype) for leaf in wanted]


def check(env: Any, params: Any) -> None:
    key = jax.random.key(0)
    check_loads(env.reset, key, params)
    state = jax.eval_shape(env.reset, key, params)[1]
    action = jnp.zeros(env.action_space(params).shape, jnp.int32)
    check_loads(env.step, key, state, action, params)


@pytest.mark.parametrize("env_id", [*IDS[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in IDS[2:])])
def test_reset_and_step_are_serialized_and_loaded(env_id: str) -> None:
    check(*jaxgym.make(env_id, **OPTIONS))


@pytest.mark.standard_promotion
def test_reset_and_step_of_wrapped_environments_are_serialized_and_loaded() -> None:
    skipping = FrameSkip(jaxgym.make("FrozenLake-v0", **OPTIONS)[0], 2)
    check(skipping, skipping.default_params)
    foreign = FromGymnax(gymnax.make("CartPole-v1")[0])
    check(foreign, foreign.default_params)


def test_another_process_that_traces_reset_loads_both_and_plays_the_same(tmp_path: Path, get_key: Any) -> None:
    env, params = jaxgym.make("FrozenLake-v0", observation="symbolic", map_name="4x4")
    key = get_key()
    state = env.reset(jax.random.clone(key), params)[1]
    arguments = (key, state, jnp.int32(2), params)
    (tmp_path / "reset").write_bytes(export.export(jax.jit(env.reset))(key, params).serialize())
    (tmp_path / "step").write_bytes(export.export(jax.jit(env.step))(*arguments).serialize())
    program = """
import sys
from pathlib import Path
import jax, jax.numpy as jnp, jaxgym
env, params = jaxgym.make("FrozenLake-v0", observation="symbolic", map_name="4x4")
jax.eval_shape(env.reset, jax.random.key(0), params)
reset, step = (jax.export.deserialize(bytearray((Path(sys.argv[1]) / name).read_bytes())) for name in ("reset", "step"))
key = jax.random.wrap_key_data(jnp.asarray(list(map(int, sys.argv[2:])), jnp.uint32))
_, state = reset.call(key, params)
print(type(state).__name__, step.call(key, state, jnp.int32(2), params)[1].player_cell)
"""
    words = map(str, jax.random.key_data(key).tolist())
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *words], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == f"State {env.step(jax.random.clone(key), *arguments[1:])[1].player_cell}"


def test_a_class_that_is_defined_twice_can_be_reset() -> None:
    # A notebook cell that is run again defines a class of the same name, which JAX's table of names takes once.
    from tests.test_contract import Walk

    for _ in range(2):
        kind = struct.dataclass(type("Again", (jaxgym.EnvParams,), {"__module__": __name__}))
        env = Walk("Walk-v0", kind())
        jax.eval_shape(env.reset, jax.random.key(0), env.default_params)
    assert dataclasses.is_dataclass(kind)
