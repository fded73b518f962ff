"""Spotlights over any frames: lit and dark pixels; nothing else changes."""

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import chex
import imageio.v3 as iio
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from docs.options_table import WRAPPERS, WRAPPERS_REGION, perturbation_table
from jaxgym import levels, testing
from jaxgym.envs.searing_spotlights import double_float, spotlights
from jaxgym.errors import OptionError, WrapperError
from jaxgym.rendering.sprites import disc
from jaxgym.wrappers import LastActionReward, PositionObservation, SpotlightPerturbation
from tests.test_contract import Walk

EXAMPLE = Path(__file__).parents[1] / "examples/spotlights_over_breakout.py"


@dataclasses.dataclass(unsafe_hash=True)
class Screen(Walk):
    """A walk whose frames have the position in each pixel, and the position itself."""

    height: int = 84
    width: int = 84

    def observation_space(self, params: Any = None) -> Any:
        del params
        return jaxgym.spaces.Box(low=0, high=255, shape=(self.height, self.width, 3), dtype=jnp.uint8)

    def observe_scene(self, scene: jax.Array) -> jax.Array:
        rows, columns = np.indices((self.height, self.width))
        image = np.stack([rows % 200 + 56, columns % 200 + 56, (rows + columns) % 256], axis=-1).astype(np.uint8)
        return jnp.asarray(image) ^ (scene.astype(jnp.uint8) & jnp.uint8(1))


def screen(height: int = 84, width: int = 84, **options: Any) -> tuple[Any, Any]:
    return SpotlightPerturbation.of(Screen("Screen-v0", jaxgym.EnvParams(), height, width), **options)


def roll(env: Any, params: Any, level: Any, number: int) -> list[Any]:
    """Return the results of reset and of a number of steps."""
    results = [env.reset_to_level(jax.random.key(0), level, params)]
    for index in range(number):
        results.append(env.step(jax.random.key(index), results[-1][1], 1, params))
    return results


def lit_mask(state: Any, height: int, width: int) -> np.ndarray:
    """Return the lit pixels, computed from the tracks of the spotlights alive, bool (height, width)."""
    spots = state.memory.spots
    x, y = spotlights.positions(spots.tracks, jnp.maximum(spots.num_drawn - 1, 0))
    mask = np.zeros((height, width), bool)
    side = 3 * max(height, width)
    for index in np.flatnonzero(np.asarray(spots.is_lit) & (np.arange(len(spots.is_lit)) < int(spots.count))):
        place = [
            int((np.float64(along.high[index]) + np.float64(along.low[index])) * size / 84)
            for along, size in ((x, width), (y, height))
        ]
        center = (place[0] + width, place[1] + height)
        radius = max(int(spots.tracks.radius_px[index]) * min(height, width) // 84, 2)
        mask |= disc(side, center, radius)[height : 2 * height, width : 2 * width]
    return mask


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    testing.check_env(screen(40, 50)[0])


SIZES = [(84, 84), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((64, 96), (210, 160), (10, 31)))]


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_what_spotlights_shine_on_is_seen_and_the_rest_is_dark(height: int, width: int) -> None:
    env, params = screen(height, width, initial_spawns=6, spawn_interval=5, light_dim_off_duration=0)
    level = levels.level_from_seed(env, 3, params)
    plain = np.asarray(env.env.reset_to_level(jax.random.key(0), level.inner)[0])
    some = 0
    for result in roll(env, params, level, 60)[::10]:
        mask = lit_mask(result[1], height, width)
        some += mask.sum()
        np.testing.assert_array_equal(result[0], np.where(mask[..., None], plain, 0))
    assert some


def test_on_frames_of_84_px_spotlights_are_where_the_walk_draws_them() -> None:
    env, params = screen(initial_spawns=6, light_dim_off_duration=0)
    _, state, *_ = roll(env, params, levels.level_from_seed(env, 3, params), 30)[-1]
    spots = state.memory.spots
    place = jnp.stack(
        [double_float.truncate(along) for along in spotlights.positions(spots.tracks, spots.num_drawn - 1)], -1
    )
    lit = np.asarray(spots.is_lit)
    np.testing.assert_array_equal(np.asarray(place)[lit], np.asarray(spots.center_px)[lit])


def test_it_gets_dark_step_by_step_until_the_threshold() -> None:
    env, params = screen(initial_spawns=0, num_spawns=0, light_dim_off_duration=6, light_threshold=100)
    level = levels.level_from_seed(env, 3, params)
    plain = np.asarray(env.env.reset_to_level(jax.random.key(0), level.inner)[0]).astype(int)
    for result, alpha in zip(roll(env, params, level, 5), (0, 42, 84, 126, 126, 126), strict=True):
        np.testing.assert_array_equal(result[0], plain - plain * alpha // 255)


@pytest.mark.slow
def test_spotlights_come_at_the_interval_until_their_number_is_reached() -> None:
    env, params = screen(initial_spawns=1, num_spawns=2, spawn_interval=3, spot_min_speed=0.001)
    level = levels.level_from_seed(env, 3, params)
    counts = [int(result[1].memory.spots.count) for result in roll(env, params, level, 10)]
    assert counts == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
    endless, params = screen(initial_spawns=1, spawn_interval=3, spot_min_speed=0.001)
    assert int(roll(endless, params, level, 10)[-1][1].memory.spots.count) == 4


def test_nothing_but_the_frame_changes() -> None:
    env, params = screen(light_dim_off_duration=0)
    inner = env.env
    level = levels.level_from_seed(env, 3, params)
    covered = roll(env, params, level, 3)
    plain = roll(inner, jaxgym.EnvParams(), level.inner, 3)
    for one, other in zip(covered[1:], plain[1:], strict=True):
        chex.assert_trees_all_equal(one[2:5], other[2:5])
        assert one[5].keys() == other[5].keys()
        chex.assert_trees_all_equal(env.inner_state(one[1]), other[1])


def test_an_episode_follows_from_its_level() -> None:
    env, params = screen()
    one, same, other = (levels.level_from_seed(env, seed, params) for seed in (3, 3, 4))
    frames = [np.asarray(roll(env, params, level, 40)[-1][0]) for level in (one, same, other)]
    np.testing.assert_array_equal(frames[0], frames[1])
    assert (frames[0] != frames[2]).any()


@pytest.mark.slow
def test_options_differ_from_environment_to_environment() -> None:
    env, params = screen(initial_spawns=2)
    stacked = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), params)
    stacked = dataclasses.replace(stacked, light_threshold=jnp.asarray([255, 0]))
    axes = levels.params_axes(stacked)
    assert axes.inner.max_steps_in_episode == 0
    level = levels.level_from_seed(env, 3, params)
    _, states = jax.vmap(env.reset_to_level, in_axes=(None, None, axes))(jax.random.key(0), level, stacked)
    step = jax.vmap(env.step, in_axes=(0, 0, None, axes))
    for number in range(3):
        _, states, *_ = step(jax.random.split(jax.random.key(number)), states, jnp.asarray(1), stacked)
    assert states.memory.alpha.tolist() == [126, 42]


@pytest.mark.slow
def test_a_level_buffer_of_the_environment_inside_stays_its_level_buffer() -> None:
    inner, params = jaxgym.make("MortarMayhem-Grid-v0", levels=3)
    env, outer = SpotlightPerturbation.of(inner, params)
    chex.assert_trees_all_equal(outer.levels.inner, params.levels)
    assert len({tuple(seed) for seed in np.asarray(outer.levels.seed).tolist()}) == 3
    assert env.default_params is outer


def test_the_frame_of_a_dict_is_covered() -> None:
    wrapped, outer = SpotlightPerturbation.of(
        LastActionReward(screen()[0].env), light_dim_off_duration=0, initial_spawns=0, num_spawns=0
    )
    observation, *_ = roll(wrapped, outer, levels.level_from_seed(wrapped, 3, outer), 1)[-1]
    assert not observation["observation"].any()
    np.testing.assert_array_equal(observation["last_action_reward"], [0, 1, 0, 1])


def test_the_agents_position_is_shown_through_the_dark() -> None:
    game, params = jaxgym.make("MortarMayhem-Grid-v0")
    env = PositionObservation(SpotlightPerturbation.of(game, params)[0])
    assert set(env.observation_space().spaces) == {"observation", "position"}


def test_what_has_no_frame_is_rejected() -> None:
    game, params = jaxgym.make("MortarMayhem-Grid-v0", observation="symbolic")
    with pytest.raises(
        WrapperError, match=r"^SpotlightPerturbation: expected one RGB frame, .* from MortarMayhem-Grid-v0\."
    ):
        SpotlightPerturbation.of(game, params)


def test_an_unknown_option_is_rejected_with_the_nearest() -> None:
    with pytest.raises(
        OptionError, match=r"expected an option, got 'spawn_intervall' \(did you mean 'spawn_interval'\?\)"
    ):
        screen(spawn_intervall=3)
    with pytest.raises(WrapperError, match=r"Make it with SpotlightPerturbation\.of"):
        SpotlightPerturbation(jaxgym.make("MortarMayhem-Grid-v0")[0])


@pytest.mark.slow
@pytest.mark.standard_promotion
def test_the_example_puts_spotlights_over_breakout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "image.png"
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(image)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = iio.imread(image)
    assert shown.shape == (128, 640, 3)
    first, last = shown[4:124, 4:124], shown[4:124, 516:636]
    assert (first.sum(axis=-1) > 0).all()
    dark = (last.sum(axis=-1) == 0).mean()
    assert 0.2 < dark < 1
    np.testing.assert_array_equal(shown, iio.imread(EXAMPLE.parents[1] / "docs/images/spotlight_perturbation.png"))


def test_the_options_on_the_page_are_those_of_the_code() -> None:
    ((_, table, _),) = WRAPPERS_REGION.findall(WRAPPERS.read_text())
    assert table == perturbation_table(), "run python -m docs.options_table"
