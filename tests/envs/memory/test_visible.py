"""The facts that a frame shows: integers, from which the symbolic observation and the text are made."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.searing_spotlights import text as spotlight_text
from jaxgym.envs.searing_spotlights.visible import Visible, symbols
from tests.ids import families

ROOT = Path(jaxgym.__file__).parent / "envs"
IDS = [env_id for env_id in families() if (made := jaxgym.spec_of(env_id).original) is not None and made.package]


@pytest.mark.parametrize("env_id", IDS)
def test_the_facts_of_a_frame_are_integers(env_id: str) -> None:
    env, params = jaxgym.make(env_id, levels="fresh")
    state = jax.eval_shape(env.reset, jax.random.key(0), params)[1]
    seen = jax.eval_shape(lambda state: env.visible(env.scene(state, params)), state)
    assert {leaf.dtype for leaf in jax.tree.leaves(seen)} <= {np.dtype(np.int32), np.dtype(bool)}


@pytest.mark.parametrize("game", ["memory_gym", "mortar_mayhem", "mystery_path", "searing_spotlights"])
def test_no_text_reads_the_symbolic_observation(game: str) -> None:
    tree = ast.parse((ROOT / game / "text.py").read_text())
    names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute | ast.alias)}
    assert not [name for name in names if "symbol" in name or name == "observe_scene"]
    assert "symbolic" not in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def test_every_sum_of_light_has_the_same_digit_in_symbols_and_text() -> None:
    most = 255 * np.where(np.arange(49) < 7, 12 * (12 - 4), 12 * 12).astype(np.int32)
    sums = np.minimum(np.arange(most.max() + 1, dtype=np.int32)[:, None], most)
    no, nowhere = jnp.bool_(False), jnp.zeros(2, jnp.int32)

    def light_of(light: jax.Array) -> jax.Array:
        coins = jnp.zeros((1, 2), jnp.int32)
        seen = Visible(
            *(no, nowhere, jnp.int32(0), no[None], coins, None, None, None),
            *(light, no, no, jnp.int32(0), -jnp.ones(2, jnp.int32), jnp.int32(-1)),
        )
        return symbols(seen)[14 : 14 + len(most)]

    shares = np.asarray(jax.jit(jax.vmap(light_of))(sums))
    assert np.array_equal(shares[0], np.zeros(len(most)))
    assert np.array_equal(shares[-1], np.ones(len(most)))
    said = [[int(digit) for digit in text.split()[1:]] for text in spotlight_text._lights(sums)]
    assert np.array_equal(np.rint(shares * np.float32(9)), said)
