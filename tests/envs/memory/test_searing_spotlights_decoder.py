"""The symbols of Searing Spotlights are a function of the frame: a decoder computes them from the frame alone."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.memory_gym.agent import agent_sprites
from jaxgym.envs.searing_spotlights.scene import coin_sprite, exit_sprites
from jaxgym.rendering.canvas import TRANSPARENT, SpriteSheet

ACTIONS = np.array([(120, 120, 120), (116, 1, 113), (255, 94, 14)])
REWARDS = np.array([(50, 50, 50), (255, 255, 0)])
RED = np.array([255, 0, 0])
NUM_ENVS, STEPS = 8, 64

# Options of one game without another size or `max_coins` share a program.
OPTION_SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("SearingSpotlights-v0", {"max_coins": 4}),
    "above the darkness": (
        "SearingSpotlights-v0",
        {"num_coins": [1, 4], "coins_visible": True, "exit_visible": True, "agent_visible": True},
    ),
    "outlines": (
        "SearingSpotlights-v0",
        {"num_coins": [4], "black_background": True, "light_threshold": 100, "show_last_action": False},
    ),
    "endless": ("Endless-SearingSpotlights-v0", {}),
    "endless, half dark": (
        "Endless-SearingSpotlights-v0",
        {"light_threshold": 150, "light_dim_off_duration": 0, "agent_visible": True, "steps_per_coin": 20},
    ),
    "large": (
        "SearingSpotlights-v0",
        {"num_coins": [4], "agent_scale": 0.5, "coin_scale": 1.0, "exit_scale": 1.0, "agent_visible": True},
    ),
}
SLOW = {"large"}


def whole_sprites(frame: np.ndarray, sheet: SpriteSheet) -> list[tuple[int, int, int]]:
    """Find (y, x, index) of each wholly visible sprite; of equal sprites, the first one counts."""
    found: dict[tuple[int, int], int] = {}
    packed = frame @ np.array([1, 1 << 8, 1 << 16])
    inner = slice(sheet.side, 2 * sheet.side)
    appearances: set[bytes] = set()
    for index, sprite in enumerate(sheet.pixels[:, inner, inner]):
        if sprite.tobytes() in appearances:
            continue
        appearances.add(sprite.tobytes())
        rows, columns = np.nonzero(sprite[..., 0] != TRANSPARENT)
        # Of the places that fit the first pixel, those remain that fit the next, and so on.
        values = sprite[rows, columns] @ np.array([1, 1 << 8, 1 << 16])
        places = np.argwhere(packed == values[0]) - (rows[0], columns[0])
        for row, column, value in zip(rows, columns, values, strict=True):
            y, x = places[:, 0] + row, places[:, 1] + column
            is_inside = (y >= 0) & (y < 84) & (x >= 0) & (x < 84)
            places, y, x = places[is_inside], y[is_inside], x[is_inside]
            places = places[packed[y, x] == value]
            if not len(places):
                break
        for y, x in places + sheet.anchor:
            assert (y, x) not in found
            found[int(y), int(x)] = index
    return sorted((y, x, index) for (y, x), index in found.items())


def decode(frame: np.ndarray, num_coins: int, agent_scale: float, coin_scale: float, exit_scale: float | None) -> Any:
    """Return the symbols of a frame."""
    numbers: list[np.ndarray] = []

    def place(y: int, x: int) -> list[np.ndarray]:
        return [np.float32(1), np.float32(x) / np.float32(88), np.float32(y) / np.float32(88)]

    agents = whole_sprites(frame, agent_sprites(agent_scale))
    assert len(agents) <= 1
    numbers += [*place(*agents[0][:2]), *np.eye(8)[agents[0][2]]] if agents else [0] * 11
    coins = whole_sprites(frame, coin_sprite(coin_scale))
    for index in range(num_coins):
        numbers += place(*coins[index][:2]) if index < len(coins) else [0] * 3
    assert len(coins) <= num_coins
    if exit_scale is not None:
        exits = whole_sprites(frame, exit_sprites(exit_scale))
        assert len(exits) <= 1
        numbers += [*place(*exits[0][:2]), exits[0][2]] if exits else [0] * 4
    for row in range(7):
        for column in range(7):
            square = frame[max(12 * row, 4) : 12 * row + 12, 12 * column : 12 * column + 12].max(axis=-1)
            numbers.append(np.float32(square.astype(int).sum()) / np.float32(255 * square.size))
    red, green, blue = np.moveaxis(frame[4:], -1, 0)
    numbers += [((blue > 0) & (red == 0) & (green == 0)).any(), ((red > 0) & (green == 0) & (blue == 0)).any()]
    bar = frame[:4]
    numbers.append(np.float32((bar[:, :42] == RED).all(axis=-1).any(axis=0).sum()) / np.float32(42))
    for part, colors in ((bar[:, 42:57], ACTIONS), (bar[:, 67:], ACTIONS), (bar[:, 57:67], REWARDS)):
        numbers += [(part == color).all(axis=-1).any() for color in colors]
    return np.asarray(numbers, dtype=np.float32)


@functools.cache
def programs(env: Any, symbolic: Any) -> tuple[Any, Any]:
    """Return jitted functions of a batch: a reset, and a random step that also returns the symbols before it."""

    def step(key: jax.Array, state: Any, params: Any) -> Any:
        key_action, key_step = jax.random.split(key)
        numbers = symbolic.observe_scene(symbolic.scene(state, params))
        frame, after, *_ = env.step(key_step, state, env.action_space(params).sample(key_action), params)
        return numbers, frame, after

    # The programs run for a moment only, so that compiling them is what takes time.
    compile_fast = {"xla_llvm_disable_expensive_passes": True, "xla_backend_optimization_level": 0}
    return tuple(
        jax.jit(jax.vmap(function, in_axes=axes), compiler_options=compile_fast)
        for function, axes in ((env.reset, (0, None)), (step, (0, 0, None)))
    )


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in OPTION_SETS]
)
def played(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return frames and symbols of the same states of random episodes."""
    env_id, options = OPTION_SETS[request.param]
    env, params = jaxgym.make(env_id, **options)
    symbolic, _ = jaxgym.make(env_id, **options, observation="symbolic")
    reset, step = programs(env, symbolic)
    key_reset, *keys = jax.random.split(jax.random.key(5), STEPS + 1)
    frame, state = reset(jax.random.split(key_reset, NUM_ENVS), params)
    frames, numbers = [], []
    for key in keys:
        frames.append(np.asarray(frame))
        number, frame, state = step(jax.random.split(key, NUM_ENVS), state, params)
        numbers.append(np.asarray(number))
    return np.concatenate(frames), np.concatenate(numbers), env


@pytest.mark.slow
def test_the_symbols_are_read_off_the_picture(played: Any) -> None:
    frames, numbers, env = played
    look = env.render_options
    for frame, expected in zip(frames[::3], numbers[::3], strict=True):
        read = decode(frame, getattr(env, "max_coins", 1), look.agent_scale, look.coin_scale, look.exit_scale)
        # Two values of a number differ by 1 / (255 · 144) or more; XLA's division is a rounding error off.
        np.testing.assert_allclose(read, expected, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_every_thing_is_sometimes_listed_and_sometimes_not(played: Any) -> None:
    _, numbers, env = played
    listed = numbers[:, [0, 11]]
    assert set(np.unique(listed[:, 0])) == {0.0, 1.0}
    assert 1.0 in listed[:, 1]
    if env.render_options.exit_scale is not None:
        assert 1.0 in numbers[:, 11 + 3 * env.max_coins]
