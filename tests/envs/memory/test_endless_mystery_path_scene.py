"""Frames and symbols of Endless Mystery Path: equal frames have equal vectors and vice versa."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.mystery_path import endless_scene as seen
from jaxgym.envs.mystery_path.endless_visible import endless_symbols, visible_in

NUM_ENVS, STEPS, CHANGES = 16, 48, 160


def states(env: Any, params: Any) -> Any:
    """Return states of episodes that mostly walk on; (NUM_ENVS · STEPS,)."""
    keys = jax.random.split(jax.random.key(0), NUM_ENVS)
    actions = jax.random.choice(jax.random.key(1), jnp.asarray([0, 1, 1, 1, 2, 3]), (STEPS, NUM_ENVS))
    start = jax.vmap(env.reset, in_axes=(0, None))(keys, params)[1]

    def advance(state: Any, action: jax.Array) -> Any:
        # The way that leads on, three times of four.
        on = jnp.where(state.time % 4 == 3, action, state.next_direction + 1)
        after = jax.vmap(env.transition, in_axes=(0, 0, None))(
            dataclasses.replace(state, time=state.time + 1), on, params
        ).state
        return after, after

    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.lax.scan(advance, start, actions)[1])


def changed(scene: Any, number: jax.Array) -> Any:
    """Return a scene with one change: a path tile, the agent's height, its heading, cross, ice or bar."""
    tile = jnp.where(jnp.arange(9) == number // 7, 1 << (number % 7), 0)
    number_y = number - 63
    is_y = (number_y >= 0) & (number_y < 80)
    heading = number - 143
    position = scene.agent_px.at[1].set(jnp.where(is_y, 2 * (number_y - 10), scene.agent_px[1]))
    return dataclasses.replace(
        scene,
        path_columns=scene.path_columns ^ jnp.where(number < 63, tile, 0),
        agent_px=position,
        agent_heading=jnp.where((heading >= 0) & (heading < 8), heading, scene.agent_heading),
        has_cross=scene.has_cross ^ (number % 13 == 0),
        lost_stamina_px=jnp.where((number == 159) & (scene.lost_stamina_px >= 0), 50, scene.lost_stamina_px),
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(
            {"camera_offset_scale": 0.3, "show_background": True, "show_stamina": True}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"agent_scale": 0.7, "camera_offset_scale": 3.0, "show_background": True, "show_stamina": True},
            marks=pytest.mark.slow,
        ),
        pytest.param({"agent_scale": 1.0, "camera_offset_scale": 0.0, "agent_speed": 4.0}, marks=pytest.mark.slow),
        pytest.param({"agent_scale": 0.1, "camera_offset_scale": 1.0}, marks=pytest.mark.slow),
    ],
    ids=["default", "ice", "large on ice", "large", "small"],
)
def test_equal_pictures_and_equal_symbols_go_together(options: dict[str, Any]) -> None:
    env, params = jaxgym.make("Endless-MysteryPath-v0", **options)
    scale = env.agent_scale
    scenes = jax.jit(jax.vmap(env.scene, in_axes=(0, None)))(states(env, params), params)
    draw = jax.jit(jax.vmap(lambda scene: (seen.draw(scene, scale), endless_symbols(visible_in(scene, scale)))))
    images, symbols = (np.asarray(part).reshape(NUM_ENVS * STEPS, -1) for part in draw(scenes))
    appearances = {image.tobytes(): index for index, image in enumerate(images)}
    numbers = {vector.tobytes(): index for index, vector in enumerate(symbols)}
    pairs = {(image.tobytes(), vector.tobytes()) for image, vector in zip(images, symbols, strict=True)}
    assert len(appearances) == len(numbers) == len(pairs) > 30

    change = jax.jit(jax.vmap(lambda scene, n: draw_one(changed(scene, n), scale), in_axes=(None, 0)))
    for index in np.linspace(0, NUM_ENVS * STEPS - 1, 12).astype(int):
        one = jax.tree.map(lambda leaf, index=index: leaf[index], scenes)
        others = [np.asarray(part).reshape(CHANGES, -1) for part in change(one, jnp.arange(CHANGES))]
        is_same = [(part[:, None] == part[None]).all(axis=-1) for part in map(digests, others)]
        assert (is_same[0] == is_same[1]).all()


def draw_one(scene: Any, scale: float) -> Any:
    return seen.draw(scene, scale), endless_symbols(visible_in(scene, scale))


def digests(rows: np.ndarray) -> np.ndarray:
    """Return a number for each row, equal for equal rows."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1, 1)


@pytest.mark.slow
def test_symbols_are_in_the_space_and_say_nothing_of_what_is_not_shown() -> None:
    env, params = jaxgym.make("Endless-MysteryPath-v0", observation="symbolic", show_past_path=False)
    scenes = jax.vmap(env.scene, in_axes=(0, None))(states(env, params), params)
    vectors = np.asarray(jax.jit(jax.vmap(env.observe_scene))(scenes))
    space = env.observation_space(params)
    assert vectors.shape[1:] == space.shape
    assert ((vectors >= space.low) & (vectors <= space.high)).all()
    # No path tiles, no ice, no bar.
    assert not vectors[:, 18:].any()
    assert vectors[:, 17].any()
