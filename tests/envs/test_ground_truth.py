"""Human views, which show what an agent cannot observe."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels

SIDE, SCALE = 336, 4
GREEN, WHITE, BLUE, ORANGE = (0, 255, 0), (255, 255, 255), (0, 0, 255), (255, 165, 0)
PATH_OVER_BLACK, EXIT, SKIN, HANDS = (200, 200, 200), (55, 55, 55), (250, 204, 153), (50, 50, 50)


def view_of(env_id: str, **changes: Any) -> tuple[np.ndarray, Any, Any]:
    """Return the view of an initial state, at the size of a frame; the state, and the frame."""
    env, params = jaxgym.make(env_id, levels="fresh")
    human = jaxgym.spec_of(env_id).human
    assert human is not None

    @jax.jit
    def draw(params: Any) -> tuple[Any, jax.Array, Any]:
        level = env.sample_level(levels.level_key(3), params)
        state = dataclasses.replace(env.initial_state(level, params), **changes)
        return state, human.view(env, state, params), env.observe_scene(env.scene(state, params))

    state, image, observation = jax.device_get(draw(params))
    chex.assert_shape(image, (SIDE, SIDE, 3))
    chex.assert_type(image, np.uint8)
    small = image[::SCALE, ::SCALE]
    assert (np.kron(small, np.ones((SCALE, SCALE, 1), np.uint8)) == image).all()
    return small, state, observation["visual_observation"] if isinstance(observation, dict) else observation


def has_color(image: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    return (image == color).all(axis=-1)


@pytest.mark.parametrize("env_id", ["MortarMayhemB-Grid-v0", "Endless-MortarMayhem-v0"])
def test_a_ring_is_around_the_commanded_tile_and_the_rest_is_the_frame(env_id: str) -> None:
    image, state, frame = view_of(env_id)
    ring = has_color(image, GREEN)
    rows, columns = np.nonzero(ring)
    size = 6 if env_id.startswith("Endless") else 5
    corner = 42 - 7 * size + 14 * np.asarray(state.target_tile)
    assert (columns.min(), columns.max()) == (corner[0], corner[0] + 13)
    assert (rows.min(), rows.max()) == (corner[1], corner[1] + 13)
    assert (image[~ring] == frame[~ring]).all()


@pytest.mark.parametrize("env_id", ["MysteryPath-v0", "MysteryPath-Grid-v0"])
def test_the_path_is_white_and_its_ends_have_their_colors(env_id: str) -> None:
    image, state, frame = view_of(env_id)
    corners = image[::12, ::12]  # the agent, which starts in the middle of a tile, leaves corners free
    words = np.asarray(state.level.path).astype(np.uint64)
    path = [number for number in range(49) if (int(words[number // 32]) >> (number % 32)) & 1]
    for column, row in np.ndindex(7, 7):
        is_start, is_goal = (
            (np.asarray(end) == (column, row)).all() for end in (state.level.start_tile, state.level.goal_tile)
        )
        inner = WHITE if column * 7 + row in path else (0, 0, 0)
        assert tuple(corners[row, column]) == (BLUE if is_start else GREEN if is_goal else inner)
    assert not has_color(frame, WHITE).any()


@pytest.mark.slow
def test_the_path_ahead_is_shown_on_an_endless_path() -> None:
    image, _, frame = view_of("Endless-MysteryPath-v0")
    assert has_color(image, PATH_OVER_BLACK).sum() > has_color(frame, PATH_OVER_BLACK).sum()
    assert has_color(image, PATH_OVER_BLACK).any(axis=0)[72:].any(), "the column after the agent's"
    colors = {tuple(color) for color in image.reshape(-1, 3).tolist()}
    assert colors == {(0, 0, 0), PATH_OVER_BLACK, SKIN, HANDS, GREEN}, "tiles have one shade and no borders"


@pytest.mark.parametrize("env_id", ["SearingSpotlights-v0", "Endless-SearingSpotlights-v0"])
def test_the_dark_hides_nothing(env_id: str) -> None:
    dark = {"alpha": jnp.int32(255)} | ({"coin_time": jnp.int32(50)} if env_id.startswith("Endless") else {})
    image, state, frame = view_of(env_id, **dark)
    coin = state.coin_px if env_id.startswith("Endless") else state.level.coins_px[0]
    x, y = np.asarray(coin)
    assert tuple(image[y, x]) == ORANGE
    assert tuple(frame[y, x]) != ORANGE
    if not env_id.startswith("Endless"):
        assert has_color(image, EXIT).any()
        assert not has_color(frame, EXIT).any()
