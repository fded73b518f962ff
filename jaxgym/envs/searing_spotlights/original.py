"""Random draws of the original Searing Spotlights and Endless Searing Spotlights.

The endless game draws a new coin when one is collected, from the same stream as the spotlights. So the draws after the
first coin depend on the actions, and a level lists those before it.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxgym.envs.common.draws import Draws, Places, by_seed, whole
from jaxgym.envs.common.episode_sequence import EpisodeSequence
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.searing_spotlights import base as spotlight_game
from jaxgym.envs.searing_spotlights import endless as endless_searing_spotlights
from jaxgym.envs.searing_spotlights import free_cells, spotlights
from jaxgym.envs.searing_spotlights import game as searing_spotlights
from jaxgym.envs.searing_spotlights.double_float import DoubleFloat
from jaxgym.errors import LevelError
from jaxgym.spec import Original

_COUNTED_SPEED = 1e-6
"""Speed below which a lifetime is not counted step by step."""
_EVERY: Any = np.int32(np.iinfo(np.int32).max)
"""Length of lists of which every number is listed; a number past the end means the last entry."""


def sizes(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of listed spotlights of a level: all spotlights in `max_steps`."""
    total, limit = options["num_spawns"], options["max_steps"]
    interval = max(int(options["initial_spawn_interval"] + options["spawn_interval_threshold"]), 1)
    later = min(total, limit // interval) if limit > 0 else total
    return {"max_given_spotlights": max(options["initial_spawns"] + later, 1)}


def sizes_of(buffer: Any) -> dict[str, int]:
    """Return the size with which `make` accepts a level buffer."""
    if not isinstance(buffer, spotlight_game.SpotlightLevel):
        return {}
    listed = {"max_given_spotlights": buffer.tracks.radius_px.shape[-1]}
    if isinstance(buffer, endless_searing_spotlights.EndlessSearingSpotlightsLevel):
        listed["max_given_coins"] = buffer.coins_px.shape[-2]
    return listed


def levels(
    env: searing_spotlights.SearingSpotlights, options: Mapping[str, Any], draws: Draws
) -> searing_spotlights.Level:
    """Draw a level of Searing Spotlights for each stream, with the spotlights of the whole episode.

    Raises:
        LevelError: If the coins leave no place for the next one; the original fails too.
    """
    heading, start, blocked = _start(draws, options)
    initial, total = options["initial_spawns"], options["initial_spawns"] + options["num_spawns"]
    tracks = [track(draws, options) for _ in range(initial)]
    count = draws.choice(options["num_coins"])
    coins = np.zeros((len(draws), env.max_coins, 2), dtype=np.int64)
    for index in range(count.max()):
        is_drawn = index < count
        place = _place(draws, blocked, spotlight_game.NEAR_BLOCK_PX, is_drawn)
        coins[:, index] = np.where(is_drawn[:, None], np.clip(place, *spotlight_game.PLACES_PX), 0)
    exit_px = np.zeros((len(draws), 2), dtype=np.int64)
    if options["use_exit"]:
        exit_px = np.clip(_place(draws, blocked, spotlight_game.NEAR_BLOCK_PX), *spotlight_game.PLACES_PX)
    draws.start_of_play = draws.places
    listed = min(total, env.max_given_spotlights)
    tracks += [track(draws, options) for _ in range(initial, listed)]
    return searing_spotlights.Level(
        heading=whole(heading),
        start_px=whole(start),
        tracks=stack(tracks, draws, env.max_given_spotlights),
        num_tracks=whole(np.full(len(draws), listed)),
        seed=_seed(draws),
        num_coins=whole(count),
        coins_px=whole(coins),
        exit_px=whole(exit_px),
    )


def endless_sizes(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of listed spotlights of an endless level: all that can spawn before the first deadline."""
    later = options["steps_per_coin"] // max(options["spawn_interval"], 1)
    return {"max_given_spotlights": max(options["initial_spawns"] + later, 1)}


def endless_levels(
    env: endless_searing_spotlights.EndlessSearingSpotlights, options: Mapping[str, Any], draws: Draws
) -> endless_searing_spotlights.EndlessSearingSpotlightsLevel:
    """Draw a level of Endless Searing Spotlights for each stream: the original's until the first coin is collected.

    After that, the listed spotlights continue as if it had not been collected, and other draws depend on the level's
    `seed`. (`EndlessSearingSpotlightsSequence` continues as the original does.)
    """
    heading, start, _ = _start(draws, options)
    initial = options["initial_spawns"]
    tracks = [track(draws, options) for _ in range(initial)]
    coins = np.zeros((len(draws), env.max_given_coins, 2), dtype=np.int64)
    coins[:, 0] = next_coin(draws, None)
    draws.start_of_play = draws.places
    tracks += [track(draws, options) for _ in range(initial, env.max_given_spotlights)]
    return endless_searing_spotlights.EndlessSearingSpotlightsLevel(
        heading=whole(heading),
        start_px=whole(start),
        tracks=stack(tracks, draws, env.max_given_spotlights),
        num_tracks=whole(np.full(len(draws), len(tracks))),
        seed=_seed(draws),
        coins_px=whole(coins),
        num_coins=whole(np.ones(len(draws))),
    )


def next_coin(draws: Draws, before_px: np.ndarray | None) -> np.ndarray:
    """Draw the position of the coin after the one at `before_px`, (n, 2), in the endless game, int64 (n, 2)."""
    blocked = _nothing(draws)
    if before_px is not None:
        _block(blocked, before_px, spotlight_game.FAR_BLOCK_PX)
    return np.clip(_place(draws, blocked, spotlight_game.FAR_BLOCK_PX), *spotlight_game.PLACES_PX)


def track(draws: Draws, options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw radius, speed and the three angles of a spotlight for each stream: (n,), float64 (n,), (n, 3)."""
    radius = draws.integers(int(options["spot_min_radius"]), int(options["spot_max_radius"] + 1))
    speed = draws.uniform(options["spot_min_speed"], options["spot_max_speed"])
    start = draws.integers(0, spotlights.FULL_TURN_DEG)
    target = (
        start + spotlights.HALF_TURN_DEG + draws.integers(-spotlights.TARGET_SPREAD_DEG, spotlights.TARGET_SPREAD_DEG)
    )
    offset = target + draws.integers(-spotlights.OFFSET_SPREAD_DEG, spotlights.OFFSET_SPREAD_DEG)
    return radius, speed, np.stack([start, target, offset], axis=-1)


def stack(drawn: list[tuple[np.ndarray, np.ndarray, np.ndarray]], draws: Draws, capacity: int = 0) -> spotlights.Tracks:
    """Return spotlights in the form of a level's list, with at least `capacity` entries; unused ones do not move."""
    shape = (len(draws), max(len(drawn), capacity))
    radius, angles = np.full(shape, spotlights.SMALLEST_RADIUS_PX), np.zeros((*shape, 3))
    speed = np.zeros(shape)
    for index, one in enumerate(drawn):
        radius[:, index], speed[:, index], angles[:, index] = one
    return spotlights.Tracks(
        radius_px=whole(radius),
        angles_deg=whole(angles),
        speed=DoubleFloat.of(speed),
        lifetime_steps=lifetime_steps(speed),
    )


def lifetime_steps(speed: np.ndarray) -> Any:
    """Return the number of steps until speeds, added up in float64, reach 1; int32, of the same shape."""
    steps = np.ceil(1.0 / np.maximum(speed, spotlights.SLOWEST))
    nearest = np.round(1.0 / np.maximum(speed, spotlights.SLOWEST))
    # Rounding matters only if a whole number of steps reaches 1 almost exactly.
    is_close = (speed >= _COUNTED_SPEED) & (np.abs(nearest * speed - 1.0) <= nearest * np.finfo(np.float64).eps)
    for value in np.unique(speed[is_close]):
        steps[is_close & (speed == value)] = _counted(float(value))
    return whole(steps)


def _counted(speed: float) -> int:
    share, steps = 0.0, 0
    while share < 1.0:
        share, steps = share + speed, steps + 1
    return steps


def _start(draws: Draws, options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw heading, (n,), and agent position, (n, 2); also return the pixels that it blocks, bool (n, 84, 84)."""
    heading, blocked = draws.integers(0, arena.NUM_HEADINGS), _nothing(draws)
    if options["sample_agent_position"]:
        return heading, _place(draws, blocked, spotlight_game.FAR_BLOCK_PX), blocked
    start = np.full((len(draws), 2), spotlights.CENTER_PX)
    _block(blocked, start, spotlight_game.NEAR_BLOCK_PX)
    return heading, start, blocked


def _place(draws: Draws, blocked: np.ndarray, block_px: int, where: np.ndarray | bool = True) -> np.ndarray:
    """Draw a free pixel, shifted by 2 or 3 px along each axis, int64 (n, 2), and block the disc around the pixel."""
    is_drawn = np.broadcast_to(where, len(draws))
    free_in_row = arena.SCREEN_PX - blocked.sum(axis=-1)
    until_row = free_in_row.cumsum(axis=-1)
    is_full = is_drawn & (until_row[:, -1] == 0)
    if is_full.any():
        raise LevelError(
            f"expected free pixels for all coins, got none for seed {draws.seeds[np.argmax(is_full)]}, on which the "
            "original fails. Choose a smaller num_coins."
        )
    index = draws.integers(0, until_row[:, -1], is_drawn)
    y = np.argmax(until_row > index[:, None], axis=-1)
    indices = np.arange(len(draws))
    rest = index - (until_row[indices, y] - free_in_row[indices, y])
    x = np.argmax((~blocked[indices, y]).cumsum(axis=-1) > rest[:, None], axis=-1)
    pixel = np.stack([x, y], axis=-1)
    _block(blocked, pixel, block_px, is_drawn)
    low, high = free_cells.SHIFTS_PX
    return pixel + np.stack([draws.integers(low, high + 1, is_drawn) for _ in range(2)], axis=-1)


def _nothing(draws: Draws) -> np.ndarray:
    return np.zeros((len(draws), arena.SCREEN_PX, arena.SCREEN_PX), dtype=bool)


def _block(blocked: np.ndarray, center_px: np.ndarray, radius_px: int, where: np.ndarray | bool = True) -> None:
    """Block, in place and for the streams in `where`, the pixels less than `radius_px` from a center, (n, 2)."""
    squares = np.square(np.arange(arena.SCREEN_PX) - center_px[..., None]).astype(np.int16)
    near = squares[:, 1, :, None] + squares[:, 0, None, :] < radius_px * radius_px
    blocked |= near & np.broadcast_to(where, len(blocked))[:, None, None]


def _seed(draws: Draws) -> Any:
    return np.stack([np.zeros_like(draws.seeds), draws.seeds], axis=-1)


def _num_later_tracks(state: searing_spotlights.State, options: Mapping[str, Any]) -> int:
    return int(state.num_spawned) - options["initial_spawns"]


@dataclasses.dataclass
class EndlessSearingSpotlightsSequence(EpisodeSequence):
    """Sequence of Endless Searing Spotlights: `follow` adds the next possible draws to the state's level.

    A step draws a spotlight if one is due, and then a coin if the agent collects the current one. So every entry of the
    level's lists holds the next spotlight and the next coin, whatever their lengths. A coin that the step did not use
    is drawn again later, from the same place of the stream.
    """

    _seen: tuple[int, int, bool] | None = dataclasses.field(default=None, init=False, repr=False)
    _after_track: Places | None = dataclasses.field(default=None, init=False, repr=False)
    _after_coin: Places | None = dataclasses.field(default=None, init=False, repr=False)

    def start(
        self, seed: int | None = None, after: EpisodeSequence | None = None
    ) -> endless_searing_spotlights.EndlessSearingSpotlightsLevel:
        """Return the level of the next episode; see `EpisodeSequence.start`."""
        level = super().start(seed, after)
        self._seen = self._after_track = self._after_coin = None
        super()._finish(self.draws)
        return level

    def follow(
        self, state: endless_searing_spotlights.EndlessSearingSpotlightsState
    ) -> endless_searing_spotlights.EndlessSearingSpotlightsState:
        """Advance the stream by the draws of the last step; return the state with the next possible draws."""
        spawned, collected, timer, coin_px = jax.device_get(
            (state.num_spawned, state.num_collected, state.spawn_timer, state.coin_px)
        )
        is_due = timer + 1 >= self.options["spawn_interval"]
        seen, before = (int(spawned), int(collected), bool(is_due)), self._seen
        if seen == before:
            return state
        if before is not None and spawned > before[0] and self._after_track is not None:
            self.draws.go_to(self._after_track)
        if before is not None and collected > before[1] and self._after_coin is not None:
            self.draws.go_to(self._after_coin)
        self._seen = seen
        return dataclasses.replace(state, level=self._prepared(state.level, seen[2], coin_px))

    def _prepared(
        self, level: endless_searing_spotlights.EndlessSearingSpotlightsLevel, is_due: bool, coin_px: np.ndarray
    ) -> endless_searing_spotlights.EndlessSearingSpotlightsLevel:
        """Return the level with the next possible draws, and leave the stream at its place."""
        here, tracks = self.draws.places, level.tracks
        if is_due:
            drawn = track(self.draws, self.options)
            tracks = jax.tree.map(lambda leaf: leaf[0], stack([drawn] * level.tracks.radius_px.shape[0], self.draws))
        self._after_track = self.draws.places
        coin = next_coin(self.draws, coin_px[None])
        self._after_coin = self.draws.places
        self.draws.go_to(here)
        return dataclasses.replace(
            level,
            tracks=tracks,
            num_tracks=_EVERY,
            coins_px=whole(np.broadcast_to(coin, level.coins_px.shape)),
            num_coins=_EVERY,
        )

    def _finish(self, draws: Draws) -> None:
        """Do nothing, since `follow` leaves the stream at the place of the original's generator."""


ORIGINAL = Original(
    by_seed(levels, num_words=48),
    partial(EpisodeSequence, levels=levels, later=track, num_later=_num_later_tracks),
    sizes,
)
ENDLESS_ORIGINAL = Original(
    by_seed(endless_levels, num_words=32),
    partial(EndlessSearingSpotlightsSequence, levels=endless_levels),
    endless_sizes,
)
