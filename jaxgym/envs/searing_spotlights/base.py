"""Shared parts of both Searing Spotlights games: agent, health, darkness, spotlights and the bar on top."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.searing_spotlights import free_cells, health, spotlights
from jaxgym.envs.searing_spotlights import scene as seen
from jaxgym.envs.searing_spotlights.spotlights import FULL_ALPHA
from jaxgym.envs.searing_spotlights.visible import Visible, symbols, visible_in
from jaxgym.errors import OptionError
from jaxgym.options import OBSERVATION, Flag, Integer, Real, Static, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Discrete, MultiDiscrete

FAR_BLOCK_PX = 28
NEAR_BLOCK_PX = 21

_LOWEST_Y_PX = 4
"""Smallest y of the agent, which stays below the bar on top."""
PLACES_PX = (7, 77)
"""Range of the coordinates of coins and exits."""
MOST_LISTED = 100_000
"""Largest number of objects of a kind that a level can list."""
MOST_SPOTLIGHTS = 4096
"""The most slots for spotlights alive at the same time."""
_TILE_PX = 7
_TILES = arena.SCREEN_PX // _TILE_PX
_SMALLEST_PX = float(spotlights.SMALLEST_RADIUS_PX)

MAX_SPOTLIGHTS = Static(
    None,
    "capacity for spotlights alive at the same time; it must suffice for all params of this env",
    low=1,
    high=MOST_SPOTLIGHTS,
    none=f"the largest number alive with these options, at most {MOST_SPOTLIGHTS}",
)
"""The option `max_spotlights`."""


@struct.dataclass
class SpotlightLevel:
    """Level fields of both games.

    Attributes:
        heading: Heading at the start, in eighths of a turn, int32 ().
        start_px: Center of the agent, int32 (2,); it may lie outside of the walkable area.
        tracks: Listed first spotlights, `spotlights.Tracks` of N.
        num_tracks: Number of listed spotlights in use, int32 (); further ones are drawn from `seed`.
        seed: Key of all draws during the episode, uint32 (2,).
    """

    heading: jax.Array
    start_px: jax.Array
    tracks: spotlights.Tracks
    num_tracks: jax.Array
    seed: jax.Array


@struct.dataclass(kw_only=True)
class SpotlightState(EnvState):
    """State fields of both games.

    Attributes:
        position_px: Center of the agent, int32 (2,).
        heading: Heading in eighths of a turn, int32 ().
        lights: Spotlights that are alive.
        num_spawned: Number of spotlights so far, int32 ().
        spawn_timer: Steps since the last spawn, int32 ().
        is_full: Whether a spotlight had no free slot, bool ().
        alpha: Darkness outside of spotlights, 0 to 255, int32 ().
        num_hits: Number of steps with a hit, int32 ().
        is_hit: Whether the last step had a hit, bool ().
        last_action: Action of the last step, int32 (2,).
        shown_action: Action of the step before, which the bar shows, int32 (2,).
        last_positive: Whether the last reward was positive, int32 ().
        shown_positive: The same for the step before, -1 at reset, int32 ().
    """

    position_px: jax.Array
    heading: jax.Array
    lights: spotlights.Spotlights
    num_spawned: jax.Array
    spawn_timer: jax.Array = starts_at(0)
    is_full: jax.Array = starts_at(False)
    alpha: jax.Array
    num_hits: jax.Array = starts_at(0)
    is_hit: jax.Array = starts_at(False)
    last_action: jax.Array
    shown_action: jax.Array
    last_positive: jax.Array = starts_at(0)
    shown_positive: jax.Array


@struct.dataclass
class LightParams(EnvParams):
    """Traced options of spotlights and darkness."""

    initial_spawns: jax.Array = traced(Integer(4, "number of spotlights at reset", low=0, high=1024))
    spot_min_radius: jax.Array = traced(
        Real(7.5, "smallest radius of a spotlight in px, rounded down", _SMALLEST_PX, 42.0)
    )
    spot_max_radius: jax.Array = traced(
        Real(13.75, "largest radius of a spotlight in px, rounded down", _SMALLEST_PX, 42.99)
    )
    spot_min_speed: jax.Array = traced(
        Real(0.0025, "lowest speed of a spotlight, as a fraction of its path per step", low=0.0)
    )
    spot_max_speed: jax.Array = traced(
        Real(0.0075, "highest speed of a spotlight, as a fraction of its path per step", low=0.0)
    )
    light_dim_off_duration: jax.Array = traced(
        Integer(6, "steps until the light is off; 0 means off from the start", low=0)
    )
    light_threshold: jax.Array = traced(
        Integer(
            FULL_ALPHA,
            "darkness at which the light stops dimming; 0 is full light, 255 is black",
            low=0,
            high=FULL_ALPHA,
        )
    )


@struct.dataclass
class SpotlightParams(LightParams):
    """The traced options of both games.

    Attributes:
        health_tables: Tables for the values of `agent_health` and `spot_damage` that `make` was given.
    """

    spot_damage: jax.Array = traced(Real(1.0, "health lost in a step with a hit", low=0.0))
    visual_feedback: jax.Array = traced(Flag(True, "turn the blue squares of the floor red in a step with a hit"))
    black_background: jax.Array = traced(Flag(False, "draw the floor black and spotlights with a white outline"))
    hide_chessboard: jax.Array = traced(Flag(False, "draw the floor plain white"))
    coins_visible: jax.Array = traced(Flag(False, "keep coins visible in the dark"))
    agent_speed: jax.Array = traced(arena.AGENT_SPEED)
    agent_health: jax.Array = traced(Real(5.0, "health at the start of the episode", low=0.001))
    agent_visible: jax.Array = traced(Flag(False, "keep the agent visible in the dark"))
    sample_agent_position: jax.Array = traced(Flag(True, "start at a random position; if False, in the center"))
    show_last_action: jax.Array = traced(Flag(True, "show the action in the bar, one step late"))
    show_last_positive_reward: jax.Array = traced(
        Flag(True, "show in the bar whether the reward was positive, one step late")
    )
    reward_inside_spotlight: jax.Array = traced(Real(0.0, "reward of a step with a hit"))
    reward_outside_spotlight: jax.Array = traced(Real(0.0, "reward of a step without a hit"))
    reward_death: jax.Array = traced(Real(0.0, "reward when health is used up"))
    reward_coin: jax.Array = traced(Real(0.25, "reward of a coin"))
    health_tables: health.HealthTables = dataclasses.field(kw_only=True)


def _check_ranges(env_id: str, values: Mapping[str, Any]) -> None:
    """Check that the radii and speeds of spotlights have a range.

    Raises:
        OptionError: If the largest one, a radius cut to whole pixels, is below the smallest.
    """
    for name, cut in (("radius", int), ("speed", float)):
        smallest, largest = f"spot_min_{name}", f"spot_max_{name}"
        if cut(np.float32(values[smallest])) > cut(np.float32(values[largest])):
            raise OptionError(
                f"{env_id}: {largest}: expected at least {smallest}={values[smallest]:g}, got {values[largest]:g}."
            )


def capacity_of(env_id: str, values: Mapping[str, Any], needed: int) -> int:
    """Return the number of slots for spotlights.

    Raises:
        OptionError: If the spotlights at reset do not fit, or radii or speeds have no range.
    """
    _check_ranges(env_id, values)
    given, initial = values["max_spotlights"], values["initial_spawns"]
    capacity = min(max(needed, initial, 1), MOST_SPOTLIGHTS) if given is None else given
    if initial > capacity:
        raise OptionError(
            f"{env_id}: initial_spawns: expected at most max_spotlights={capacity}, got {initial}. "
            f"Set max_spotlights={initial}."
        )
    return capacity


def clamp_place(position_px: jax.Array) -> jax.Array:
    """Clamp the position of a coin or an exit to the allowed range."""
    return jnp.clip(position_px, *PLACES_PX)


def sample_start(bits: jax.Array, params: SpotlightParams) -> tuple[jax.Array, jax.Array]:
    """Return the agent's start, int32 (2,), and the pixels that it blocks, from uint32 (3,)."""
    pixel, shifted = free_cells.draw(free_cells.nothing(), bits)
    is_sampled = jnp.asarray(params.sample_agent_position)
    start = jnp.where(is_sampled, shifted, spotlights.CENTER_PX)
    radius = jnp.where(is_sampled, FAR_BLOCK_PX, NEAR_BLOCK_PX)
    return start, free_cells.block(free_cells.nothing(), jnp.where(is_sampled, pixel, spotlights.CENTER_PX), radius)


def content_key(level: SpotlightLevel, index: jax.Array) -> jax.Array:
    """Return the key of the `index`-th draw during an episode of the level."""
    return jax.random.fold_in(jax.random.wrap_key_data(level.seed, impl="threefry2x32"), index)


def place(name: str, position_px: jax.Array) -> facts.Facts:
    """Return the facts of positions, int32 (..., 2): column and row among tiles of 7 px."""
    return facts.tile(position_px // _TILE_PX, _TILES, _TILES, name)


def view(env: Any, state: Any, params: Any) -> jax.Array:
    """Return the frame with agent, coins and exit above the darkness, enlarged four times, uint8 (336, 336, 3)."""
    yes = jnp.bool_(True)
    shown = dataclasses.replace(env.scene(state, params), agent_visible=yes, coins_visible=yes, exit_visible=yes)
    return enlarged(seen.draw(shown, env.render_options))


TLevel = TypeVar("TLevel", bound=SpotlightLevel)
TState = TypeVar("TState", bound=SpotlightState)
TParams = TypeVar("TParams", bound=SpotlightParams)


@dataclasses.dataclass(unsafe_hash=True)
class SpotlightGame(Environment[TLevel, TState, TParams, seen.Scene], Generic[TLevel, TState, TParams]):
    """Base class of both games."""

    agent_scale: float = static(arena.AGENT_SCALE)
    coin_scale: float = static(Real(0.375, "size of coins", low=0.1, high=1.0))
    max_given_spotlights: int = static(
        Static(
            None,
            "number of spotlights that a level stores; the seed of the level determines the later ones",
            low=1,
            high=MOST_LISTED,
            none="that of the level buffer, or initial_spawns without one",
        )
    )
    max_spotlights: int = static(MAX_SPOTLIGHTS)
    flat_actions: bool = static(arena.FLAT_ACTIONS)
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `max_given_spotlights` and the tables of health."""
        listed = max(values["initial_spawns"], values["max_given_spotlights"] or 1)
        tables = health.HealthTables.of(values["agent_health"], values["spot_damage"])
        return {"max_given_spotlights": listed, "health_tables": tables}

    @property
    def render_options(self) -> seen.RenderOptions:
        """The values that fix sprites."""
        raise NotImplementedError  # Every game has its own.

    def action_space(self, params: TParams | None = None) -> Discrete | MultiDiscrete:
        """Return the space of three times three actions."""
        return arena.free_space(flat=self.flat_actions)

    def initial_fields(self, level: TLevel, params: TParams) -> dict[str, Any]:
        """Return the fields of `SpotlightState` at the start of an episode."""
        num_initial = jnp.minimum(params.initial_spawns, self.max_spotlights)
        first = jax.tree.map(lambda leaf: leaf[: self.max_spotlights], level.tracks)
        is_slow = jnp.asarray(params.light_dim_off_duration) > 0
        return {
            "level": level,
            "position_px": level.start_px,
            "heading": level.heading,
            "lights": spotlights.start(first, num_initial, self.max_spotlights),
            "num_spawned": num_initial,
            "alpha": jnp.where(is_slow, 0, params.light_threshold),
            "last_action": jnp.zeros(2, dtype=jnp.int32),
            "shown_action": jnp.zeros(2, dtype=jnp.int32),
            "shown_positive": jnp.int32(seen.NOT_SHOWN),
        }

    def advance(self, state: TState, action: jax.Array, params: TParams, is_due: jax.Array) -> TState:
        """Move the agent, dim the light, spawn a spotlight if one is due, bool (), and advance the spotlights."""
        pair = arena.free_action(action) if self.flat_actions else action
        is_action = (pair >= 0) & (pair < len(arena.AxisMove))
        direction = arena.direction_of(pair)
        radius = arena.agent_radius(self.agent_scale)
        position = arena.clamp_px(
            state.position_px + arena.free_displacement_px(direction, params.agent_speed),
            jnp.asarray([radius, _LOWEST_Y_PX + radius], jnp.int32),
            arena.SCREEN_PX - radius,
        )
        lights = spotlights.append(state.lights, self.next_track(state, params), is_due)
        is_full = is_due & (lights.count == state.lights.count)
        lights, is_hit = spotlights.walk(lights, position, radius)
        return dataclasses.replace(
            state,
            position_px=position,
            heading=arena.heading_of(direction, state.heading),
            lights=lights,
            num_spawned=state.num_spawned + is_due.astype(jnp.int32),
            spawn_timer=jnp.where(is_due, 0, state.spawn_timer + 1),
            is_full=is_full,
            alpha=spotlights.dimmed(state.alpha, params),
            num_hits=state.num_hits + is_hit.astype(jnp.int32),
            is_hit=is_hit,
            last_action=jnp.where(is_action, pair, arena.AxisMove.STAY),
            shown_action=state.last_action,
            shown_positive=state.last_positive,
        )

    def reseed(self, state: TState, key: jax.Array) -> TState:
        """Replace the spotlights to come, listed ones included."""
        level = state.level
        seed = jax.random.bits(key, level.seed.shape, jnp.uint32)
        num_tracks = jnp.minimum(level.num_tracks, state.num_spawned)
        return dataclasses.replace(state, level=dataclasses.replace(level, seed=seed, num_tracks=num_tracks))

    def next_track(self, state: TState, params: TParams) -> spotlights.Tracks:
        """Return the track of the next spotlight, listed in the level or drawn from its seed."""
        level = state.level
        listed = spotlights.select_track(level.tracks, jnp.minimum(state.num_spawned, level.num_tracks - 1))
        bits = jax.random.bits(content_key(level, 2 * state.num_spawned), (spotlights.TRACK_WORDS,), jnp.uint32)
        is_listed = state.num_spawned < level.num_tracks
        return jax.tree.map(partial(jnp.where, is_listed), listed, spotlights.sample_tracks(bits, params))

    def light_reward(self, state: TState, params: TParams) -> tuple[jax.Array, jax.Array]:
        """Return the reward of light and death, float32 (), and whether the agent is dead."""
        is_dead = health.is_fatal(state.num_hits, params)
        reward = jnp.where(state.is_hit, params.reward_inside_spotlight, params.reward_outside_spotlight)
        return reward + jnp.where(is_dead, params.reward_death, 0.0), is_dead

    def health_share(self, state: TState, params: TParams) -> jax.Array:
        """Return the remaining share of the health, float32 ()."""
        left = params.agent_health - state.num_hits.astype(jnp.float32) * params.spot_damage
        return left / params.agent_health

    def is_in_reach(self, things_px: jax.Array, state: TState, reach_px: float) -> jax.Array:
        """Return whether the agent touches each object at int32 (N, 2), at most `reach_px` plus its radius away."""
        squares = jnp.sum(jnp.square(things_px - state.position_px[None, :]), axis=-1)
        return squares <= int((reach_px + arena.agent_radius(self.agent_scale)) ** 2)

    def is_truncated(self, state: TState, params: TParams) -> jax.Array:
        """Return whether the time limit is reached, or a spotlight had no free slot."""
        return super().is_truncated(state, params) | state.is_full

    def scene_fields(self, state: TState, params: TParams) -> dict[str, Any]:
        """Return the fields of the scene without those of coins and exit."""
        is_start = state.time == 0
        board = jnp.where(state.is_hit & params.visual_feedback, jnp.int32(seen.FLOOR_RED), seen.FLOOR_BLUE)
        plain = jnp.where(params.hide_chessboard, seen.FLOOR_WHITE, board)
        return {
            "floor": jnp.where(params.black_background, seen.FLOOR_BLACK, plain),
            "agent_position_px": state.position_px,
            "agent_heading": jnp.where(is_start, arena.Heading.UP, state.heading),
            "agent_visible": jnp.asarray(params.agent_visible),
            "alpha": state.alpha,
            "spots_px": state.lights.center_px,
            "spots_radius_px": state.lights.tracks.radius_px,
            "is_lit": state.lights.is_lit & (jnp.arange(self.max_spotlights) < state.lights.count),
            "has_rings": jnp.asarray(params.black_background),
            "lost_health_px": health.lost_px(state.num_hits, params),
            "shown_action": jnp.where(params.show_last_action, state.shown_action, seen.NOT_SHOWN),
            "shown_reward": jnp.where(params.show_last_positive_reward, state.shown_positive, seen.NOT_SHOWN),
        }

    def visible(self, scene: seen.Scene) -> Visible:
        """Return the facts that the frame of a scene shows."""
        return visible_in(scene, self.render_options)

    def observe_scene(self, scene: seen.Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return symbols(self.visible(scene)) if self.observation == "symbolic" else seen.draw(scene, self.render_options)
