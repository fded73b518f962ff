"""Scene of Mystery Path: tiles, agent, cross; symbols have the same information as frames."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.memory_gym.arena import agent_radius
from jaxgym.envs.mystery_path import scene as seen
from jaxgym.envs.mystery_path.visible import symbols, visible_in

BLACK, BLUE, GREEN, RED = (0, 0, 0), (0, 0, 255), (0, 255, 0), (255, 0, 0)
BODY, HAND = (250, 204, 153), (50, 50, 50)
HIDDEN = (-1, -1)
SCENES = 3_000


def scene_of(
    position: tuple[int, int] = (42, 42),
    heading: int = 0,
    cross: bool = False,
    origin: tuple[int, int] = HIDDEN,
    goal: tuple[int, int] = HIDDEN,
) -> seen.Scene:
    numbers = [np.asarray(value, np.int32) for value in (position, heading, origin, goal)]
    return seen.Scene(numbers[0], numbers[1], np.bool_(cross), *numbers[2:])


@functools.partial(jax.jit, static_argnums=1)
def look(scenes: seen.Scene, scale: float) -> tuple[jax.Array, jax.Array]:
    """Return the frames and symbols of a stack of scenes."""
    return jax.vmap(lambda scene: (seen.draw(scene, scale), symbols(visible_in(scene, scale))))(scenes)


def image(scene: seen.Scene) -> np.ndarray:
    return np.asarray(look(jax.tree.map(lambda leaf: leaf[None], scene), 0.25)[0][0])


def where(frame: np.ndarray, color: tuple[int, int, int]) -> set[tuple[int, int]]:
    """Return the positions (x, y) of a color."""
    return {(int(x), int(y)) for y, x in np.argwhere((frame == color).all(axis=-1))}


def square(column: int, row: int) -> set[tuple[int, int]]:
    return {(x, y) for x in range(12 * column, 12 * column + 12) for y in range(12 * row, 12 * row + 12)}


def test_nothing_of_the_path_is_shown() -> None:
    frame = image(scene_of((42, 18)))
    drawn = where(frame, BODY) | where(frame, HAND)
    assert where(frame, BLACK) == {(x, y) for x in range(84) for y in range(84)} - drawn
    assert drawn < square(3, 1)


def test_start_and_goal_are_whole_tiles_in_blue_and_green() -> None:
    frame = image(scene_of((42, 42), origin=(0, 2), goal=(6, 5)))
    assert where(frame, BLUE) == square(0, 2)
    assert where(frame, GREEN) == square(6, 5)


def test_the_agent_is_above_the_tile_that_it_stands_on() -> None:
    frame = image(scene_of((6, 30), origin=(0, 2)))
    assert where(frame, BLUE) | where(frame, BODY) | where(frame, HAND) == square(0, 2)
    assert where(frame, BODY)


def test_the_cross_is_centred_on_the_agent_and_above_it() -> None:
    plain, crossed = image(scene_of((30, 54))), image(scene_of((30, 54), cross=True))
    red = where(crossed, RED)
    assert not where(plain, RED)
    corners = {(25, 49), (34, 49), (25, 58), (34, 58)}
    assert corners < red
    assert all(25 <= x <= 34 and 49 <= y <= 58 for x, y in red)
    # Both ways mirrored, which leaves nothing of the bars' thickness open but their sum.
    assert red == {(59 - x, y) for x, y in red} == {(x, 107 - y) for x, y in red}
    assert len(red) == 52
    differing = np.argwhere((plain != crossed).any(axis=-1))
    assert {(int(x), int(y)) for y, x in differing} == red


def test_ends_are_in_the_scene_as_the_options_say() -> None:
    for shown in ({}, {"show_origin": True}, {"show_goal": True}):
        env, params = jaxgym.make("MysteryPath-Grid-v0", levels=64, **shown)
        _, state = env.reset(jax.random.key(0), params)
        scene = env.scene(state, params)
        for option, tile, own in (
            ("show_origin", scene.origin_tile, state.level.start_tile),
            ("show_goal", scene.goal_tile, state.level.goal_tile),
        ):
            assert tile.tolist() == (own.tolist() if option in shown else list(HIDDEN))


def random_scenes(scale: float, generator: np.random.Generator) -> seen.Scene:
    """Sample scenes with the agent near edges and corners or on a start, and with few different ends."""
    radius = agent_radius(scale)
    low, high = radius, 84 - radius
    rim = np.asarray([low, low + 1, low + 2, (low + high) // 2, high - 2, high - 1, high])
    positions = np.clip(generator.choice(rim, (SCENES, 2)), low, max(low, high))
    on_start = generator.random(SCENES) < 0.3
    origins = np.stack([generator.choice([0, 6], SCENES), generator.choice([0, 1, 6], SCENES)], axis=1)
    positions[on_start] = (12 * origins + radius)[on_start]
    goals = np.stack([6 - origins[:, 0], generator.choice([1, 6], SCENES)], axis=1)
    origins[generator.random(SCENES) < 0.5] = goals[generator.random(SCENES) < 0.5] = -1
    arrays = [array.astype(np.int32) for array in (positions, generator.integers(0, 8, SCENES))]
    return seen.Scene(*arrays, generator.random(SCENES) < 0.4, *(array.astype(np.int32) for array in (origins, goals)))


@pytest.mark.parametrize("shown", ["one", "both", "none", "mixed"])
def test_a_batch_is_drawn_as_each_of_its_scenes_alone(shown: str) -> None:
    ends = {"one": [HIDDEN, HIDDEN], "both": [(0, 2), (6, 5)], "none": [HIDDEN] * 2, "mixed": [(0, 2), HIDDEN]}[shown]
    goals = [(6, 5)] * 2 if shown != "none" else [HIDDEN] * 2
    scenes = [scene_of((42, 42), origin=end, goal=goal) for end, goal in zip(ends, goals, strict=True)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *scenes)
    alone = [jax.jit(seen.draw, static_argnums=1)(scene, 0.25) for scene in scenes]
    np.testing.assert_array_equal(look(stacked, 0.25)[0], np.stack(alone))


@pytest.mark.parametrize(
    "scale",
    [pytest.param(scale, marks=[] if scale == 0.25 else pytest.mark.slow) for scale in (0.04, 0.1, 0.25, 0.5, 1.0)],
)
def test_two_scenes_look_alike_if_and_only_if_their_numbers_are_equal(scale: float) -> None:
    images, numbers = jax.device_get(look(random_scenes(scale, np.random.default_rng(0)), scale))
    pairs = [(frame.tobytes(), vector.tobytes()) for frame, vector in zip(images, numbers, strict=True)]
    # There is something to tell apart, and something that is seen again.
    assert 100 < len(set(pairs)) < len(pairs)
    assert len({frame for frame, _ in pairs}) == len(set(pairs)), "scenes that look alike have different numbers"
    assert len({vector for _, vector in pairs}) == len(set(pairs)), "scenes with equal numbers look different"


@pytest.mark.slow
def test_a_start_tile_that_a_large_agent_covers_is_left_out_of_the_numbers() -> None:
    scenes: list[Any] = [scene_of((97, 61), origin=origin) for origin in ((6, 3), HIDDEN)]
    (covered, hidden), vectors = look(jax.tree.map(lambda *leaves: jnp.stack(leaves), *scenes), 1.0)
    np.testing.assert_array_equal(covered, hidden)
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_the_numbers_are_in_the_order_that_is_documented() -> None:
    scenes = jax.tree.map(lambda leaf: leaf[None], scene_of((30, 18), 6, cross=True, origin=(0, 2), goal=(6, 5)))
    vector = np.asarray(look(scenes, 0.25)[1][0])
    assert vector.shape == (53,)
    np.testing.assert_allclose(vector[:2], [30 / 84, 18 / 84], rtol=1e-6)
    hot = np.flatnonzero(vector[2:]) + 2
    assert hot.tolist() == [2 + 6, 10 + 2, 17 + 1, 24, 25 + 0, 32 + 2, 39 + 6, 46 + 5]
