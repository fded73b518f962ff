"""Human views equal memory-gym's, as recorded by tests/parity/record_views.py."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.rendering.canvas import SCALE
from tests.ids import memory_gym

VIEWS = Path(__file__).parents[1] / "data" / "views.npz"
RED, WHITE = (255, 0, 0), (255, 255, 255)
IDS = memory_gym()


def has_color(images: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    return (images == color).all(axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", IDS)
def test_what_is_hidden_is_shown_as_the_original_shows_it(env_id: str) -> None:
    with np.load(VIEWS) as archive:
        meta, actions, theirs = (archive[f"{env_id}/{name}"] for name in ("meta", "actions", "pictures"))
    entry = json.loads(str(meta))
    buffer = levels.original(env_id, [entry["seed"]], **entry["options"])
    env, params = jaxgym.make(env_id, levels=buffer, **entry["options"])
    human = jaxgym.spec_of(env_id).human
    assert human is not None

    @jax.jit
    def replay(level: Any, params: Any) -> jax.Array:
        def step(state: Any, action: jax.Array) -> tuple[Any, jax.Array]:
            after = env.step_env(jax.random.key(0), state, action, params)[1]
            return after, human.view(env, after, params)[::SCALE, ::SCALE]

        start = env.initial_state(level, params)
        first = human.view(env, start, params)[::SCALE, ::SCALE]
        return jnp.concatenate([first[None], jax.lax.scan(step, start, jnp.asarray(actions, jnp.int32))[1]])

    ours = np.asarray(replay(jax.tree.map(lambda leaf: leaf[0], buffer), params))[:: entry["every"]]
    differ = (ours != theirs).any(axis=-1)
    if env_id.startswith("MysteryPath"):
        # Walls are no part of our levels.
        walls = has_color(theirs, RED) & has_color(ours, (0, 0, 0))
        assert walls.any()
        differ &= ~walls
    if "MortarMayhem" in env_id:
        # The original shows some clues early or not at all, since each image that it draws uses one up.
        differ &= ~has_color(ours, WHITE) & ~has_color(theirs, WHITE)
    assert len(theirs) > 1
    assert not differ.any()
