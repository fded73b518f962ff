"""Darkness and spotlights of Searing Spotlights over the frames of any environment.

Spotlights move as in `jaxgym.envs.searing_spotlights.game`, on a screen of 84 px that is stretched to the frame. Only
pixels inside of a spotlight are visible. Spotlights are observation noise: they do not change rules or rewards.

Source: Pleines et al., Memory Gym (ICLR 2023), who apply them to an environment of Procgen.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.environment import AnyEnvironment, Transition
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.searing_spotlights import base as spotlight_game
from jaxgym.envs.searing_spotlights import bitplanes, double_float, spotlights
from jaxgym.envs.searing_spotlights.double_float import DoubleFloat
from jaxgym.envs.searing_spotlights.scene import darkened
from jaxgym.errors import WrapperError
from jaxgym.options import Integer, Option, declared, resolve, traced
from jaxgym.spaces import Box, Dict
from jaxgym.wrappers.base import OuterParams, WrappedScene, WrappedState, Wrapper, inside

_SEED_WORDS = 2
_MOST_SPOTLIGHTS = 64
_CHANNELS = 3
_SHIFTS = np.asarray([0, 8, 16], dtype=np.uint32)
_NOWHERE_PX = np.zeros(2, dtype=np.int32)


@struct.dataclass
class PerturbedLevel:
    """Level of a perturbed environment.

    Attributes:
        inner: Level of the inner environment.
        seed: Key of all spotlights, uint32 (2,).
    """

    inner: Any
    seed: jax.Array


@struct.dataclass
class PerturbedParams(OuterParams, spotlight_game.LightParams):
    """Traced options of the perturbation, and the parameters of the inner environment."""

    num_spawns: jax.Array = traced(
        Integer(-1, "number of spotlights that appear after reset; -1 means no limit", low=-1)
    )
    spawn_interval: jax.Array = traced(Integer(40, "steps between new spotlights", low=1))


OPTIONS: Mapping[str, Option] = {
    **declared(PerturbedParams),
    "max_spotlights": dataclasses.replace(
        spotlight_game.MAX_SPOTLIGHTS,
        none=f"the largest number alive with these options, at most {_MOST_SPOTLIGHTS}",
    ),
}
"""The options of the perturbation; those of one name mean what they mean in Searing Spotlights."""


@struct.dataclass
class _Lights:
    """State of the spotlights.

    Attributes:
        spots: The active spotlights.
        num_spawned: Number of spotlights spawned so far, int32 ().
        spawn_timer: Steps since the last spawn, int32 ().
        alpha: Opacity of the darkness outside of spotlights, 0 to 255, int32 ().
    """

    spots: spotlights.Spotlights
    num_spawned: jax.Array
    spawn_timer: jax.Array
    alpha: jax.Array


@struct.dataclass
class _LightScene:
    """Scene of the spotlights.

    Attributes:
        center_px: x and y of the centers in the frame, int32 (K, 2).
        radius_px: int32 (K,); 0 for an empty slot.
        alpha: Opacity of the darkness outside of spotlights, 0 to 255, int32 ().
    """

    center_px: jax.Array
    radius_px: jax.Array
    alpha: jax.Array


@dataclasses.dataclass(unsafe_hash=True)
class SpotlightPerturbation(Wrapper):
    """Darkness and spotlights over the frames of an environment; make one with `of`.

    A frame is an observation uint8 (H, W, 3), or the only entry of that form if the observation is a dict. On frames of
    84 × 84 px, spotlights have the positions and radii of Searing Spotlights. On other frames, positions are stretched
    to the frame and radii are scaled with its shorter side.

    The darkness follows Searing Spotlights: the frame is fully visible at reset and gets darker each step for
    `light_dim_off_duration` steps. A spotlight without a free slot (`max_spotlights`) does not appear.

    Attributes:
        max_spotlights: Number of slots for active spotlights.
        max_initial_spotlights: Largest `initial_spawns` of the parameters; the value passed to `of`.
    """

    max_spotlights: int = _MOST_SPOTLIGHTS
    max_initial_spotlights: int = 0

    @classmethod
    def of(
        cls, env: AnyEnvironment, params: Any = None, **given: Any
    ) -> tuple["SpotlightPerturbation", PerturbedParams]:
        """Wrap an environment.

        Args:
            env: The environment.
            params: Its parameters; those of `make` if None. Each level of their level buffer gets fixed spotlights.
            **given: Options, see `OPTIONS`.

        Returns:
            The wrapped environment and its parameters.

        Raises:
            OptionError: If an option does not exist or its value is invalid.
            WrapperError: If the environment has no RGB frames.
        """
        values = resolve("SpotlightPerturbation", OPTIONS, given)
        inner = env.default_params if params is None else params
        levels = None if inner.levels is None else lit_buffer(inner.levels)
        fields = {name: option.convert(values[name]) for name, option in declared(PerturbedParams).items()}
        outer = PerturbedParams(
            inner.max_steps_in_episode, levels, inner=dataclasses.replace(inner, levels=None), **fields
        )
        return cls(env, _capacity(values), values["initial_spawns"], initial_params=outer), outer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.initial_params, PerturbedParams):
            raise WrapperError(
                "SpotlightPerturbation: expected PerturbedParams, got other parameters. Make it with "
                "SpotlightPerturbation.of(env, params, ...)."
            )
        space = self.env.observation_space(self.initial_params.inner)
        if _frame(space) is None:
            raise WrapperError(
                f"SpotlightPerturbation: expected one RGB frame, uint8 (height, width, 3), got {_told(space)} from "
                f"{self.env_id}. Use observation='pixels', or FromGymnax(env, draw=...)."
            )

    def inner_params(self, params: PerturbedParams) -> Any:
        """Return the parameters of the inner environment."""
        return inside(params)

    def inner_level(self, level: PerturbedLevel) -> Any:
        """Return the level of the inner environment."""
        return level.inner

    def outer_level(self, level: PerturbedLevel, inner: Any) -> PerturbedLevel:
        """Return the level with another level of the inner environment."""
        return PerturbedLevel(inner, level.seed)

    def reseed(self, state: WrappedState, key: jax.Array) -> WrappedState:
        """Replace the chance events of the inner environment and the spotlights to come."""
        key_inner, key_lights = jax.random.split(key)
        state = super().reseed(state, key_inner)
        seed = jax.random.bits(key_lights, (_SEED_WORDS,), jnp.uint32)
        return dataclasses.replace(state, level=dataclasses.replace(state.level, seed=seed))

    def sample_level(self, key: jax.Array, params: PerturbedParams) -> PerturbedLevel:
        """Sample a level of the inner environment and the seed of the spotlights; consumes `key`."""
        key_inner, key_lights = jax.random.split(key)
        inner = self.env.sample_level(key_inner, inside(params))
        return PerturbedLevel(inner, jax.random.bits(key_lights, (_SEED_WORDS,), jnp.uint32))

    def initial_memory(self, level: PerturbedLevel, params: PerturbedParams) -> _Lights:
        """Return the initial spotlights at the start of their tracks; the frame is dark only if it dims at once."""
        number = jnp.minimum(params.initial_spawns, self.max_initial_spotlights)
        tracks = jax.vmap(partial(_track, level.seed, params=params))(jnp.arange(self.max_initial_spotlights))
        return _Lights(
            spots=spotlights.start(tracks, number, self.max_spotlights),
            num_spawned=number,
            spawn_timer=jnp.int32(0),
            alpha=jnp.where(jnp.asarray(params.light_dim_off_duration) > 0, 0, params.light_threshold),
        )

    def transition(self, state: WrappedState, action: jax.Array, params: PerturbedParams) -> Transition:
        """Apply the rules of the inner environment, and move the spotlights."""
        made = super().transition(state, action, params)
        lights = state.memory
        timer = lights.spawn_timer + 1
        num_spawns = jnp.asarray(params.num_spawns)
        has_spawns = (num_spawns < 0) | (lights.num_spawned < params.initial_spawns + num_spawns)
        is_due = has_spawns & (timer >= params.spawn_interval)
        spots = spotlights.append(lights.spots, _track(state.level.seed, lights.num_spawned, params), is_due)
        lights = _Lights(
            spots=spotlights.walk(spots, jnp.asarray(_NOWHERE_PX), 0)[0],
            num_spawned=lights.num_spawned + is_due.astype(jnp.int32),
            spawn_timer=jnp.where(is_due, 0, timer),
            alpha=spotlights.dimmed(lights.alpha, params),
        )
        return dataclasses.replace(made, state=dataclasses.replace(made.state, memory=lights))

    def scene(self, state: WrappedState, params: PerturbedParams) -> WrappedScene:
        """Return the inner scene and the spotlights."""
        height, width, _ = _frame(self.env.observation_space(self.initial_params.inner)).shape
        lights = state.memory
        spots = lights.spots
        is_there = spots.is_lit & (jnp.arange(self.max_spotlights) < spots.count)
        drawn = jnp.maximum(spots.num_drawn - 1, 0)
        places = [
            double_float.truncate(double_float.multiply(along, _scale(side, along.high)))
            for along, side in zip(spotlights.positions(spots.tracks, drawn), (width, height), strict=True)
        ]
        radius = jnp.maximum(spots.tracks.radius_px * min(height, width) // SCREEN_PX, spotlights.SMALLEST_RADIUS_PX)
        light = _LightScene(jnp.stack(places, axis=-1), jnp.where(is_there, radius, 0), lights.alpha)
        return WrappedScene(super().scene(state, params), light)

    def observe_scene(self, scene: WrappedScene) -> Any:
        """Return the inner observation with the darkened frame."""
        observation = self.env.observe_scene(scene.inner)
        if not isinstance(observation, dict):
            return _covered(observation, scene.extra)
        name = next(name for name, leaf in observation.items() if _is_frame(leaf))
        return {**observation, name: _covered(observation[name], scene.extra)}


def lit_buffer(buffer: Any) -> PerturbedLevel:
    """Return a level buffer with spotlights; their seeds depend only on the number of levels."""
    number = jax.tree.leaves(buffer)[0].shape[0]
    root = jax.random.key(0, impl="threefry2x32")
    return PerturbedLevel(buffer, jax.random.bits(root, (number, _SEED_WORDS), jnp.uint32))


def _capacity(values: Mapping[str, Any]) -> int:
    initial, spawns = values["initial_spawns"], values["num_spawns"]
    total = None if spawns < 0 else initial + spawns
    speed = float(np.float32(values["spot_min_speed"]))
    most = spotlights.most_alive(initial, total, values["spawn_interval"], speed)
    needed = max(min(most, _MOST_SPOTLIGHTS), initial)
    return spotlight_game.capacity_of("SpotlightPerturbation", values, needed)


def _track(seed: jax.Array, index: jax.Array, params: PerturbedParams) -> spotlights.Tracks:
    """Return the track of the `index`-th spotlight of an episode."""
    key = jax.random.fold_in(jax.random.wrap_key_data(seed, impl="threefry2x32"), index)
    return spotlights.sample_tracks(jax.random.bits(key, (spotlights.TRACK_WORDS,), jnp.uint32), params)


def _scale(side: int, like: jax.Array) -> DoubleFloat:
    return jax.tree.map(lambda part: jnp.full_like(like, part), DoubleFloat.of(np.float64(side / SCREEN_PX)))


def _covered(frame: jax.Array, light: _LightScene) -> jax.Array:
    """Return a frame, uint8 (H, W, 3), darkened outside of the spotlights."""
    height, width, _ = frame.shape
    num_words = -(-width // bitplanes.WORD_PX)

    def disc(center_px: jax.Array, radius_px: jax.Array) -> jax.Array:
        half, _ = bitplanes.disc_half_widths(center_px[1], radius_px, height)
        return bitplanes.interval(center_px[0], half, num_words)

    discs = jax.vmap(disc)(light.center_px, light.radius_px)
    plane = lax.reduce(discs, np.uint32(0), lax.bitwise_or, (0,))
    lit = bitplanes.spread(plane).reshape(height, -1)[:, :width]
    pixels = jnp.sum(frame.astype(jnp.uint32) << _SHIFTS[None, None], axis=-1, dtype=jnp.uint32)
    pixels = bitplanes.kept(darkened(pixels, lit, light.alpha))
    return (pixels[..., None] >> _SHIFTS[None, None]).astype(jnp.uint8)


def _is_frame(leaf: Any) -> bool:
    return tuple(leaf.shape)[2:] == (_CHANNELS,) and leaf.dtype == jnp.uint8


def _frame(space: Box | Dict) -> Any:
    """Return the only part of a space that contains RGB frames, or None."""
    parts = list(space.spaces.values()) if isinstance(space, Dict) else [space]
    frames = [part for part in parts if isinstance(part, Box) and _is_frame(part)]
    return frames[0] if len(frames) == 1 else None


def _told(space: Any) -> str:
    parts = space.spaces.items() if isinstance(space, Dict) else [("", space)]
    return ", ".join(f"{name} {np.dtype(part.dtype)} {tuple(part.shape)}".strip() for name, part in parts)
