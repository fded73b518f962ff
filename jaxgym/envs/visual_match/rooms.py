"""Rooms of Visual Match and Key-to-Door with three phases: explore, collect apples, earn the final reward.

When the frames of a phase are over, the next phase begins in the same step: the agent is at its start, and the last
view of the old phase is never seen.
"""

import dataclasses
import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.environment import EnvParams, EnvState, Transition, starts_at
from jaxgym.options import Flag, Integer, Real, traced

ROWS, COLUMNS = 7, 11
VIEW = 5
NEVER = 10**6
"""A frame that no episode has."""


_HALF = 0.5
MOST_APPLES = 22

APPLES = (
    "###########",
    "#a.a.a.a.a#",
    "#.a.a.a.a.#",
    "#a.a.a.a.a#",
    "#.a.a.a.a.#",
    "#a.a.+.a.a#",
    "###########",
)


class CompassMove(enum.IntEnum):
    """Actions."""

    NORTH = 0
    SOUTH = 1
    WEST = 2
    EAST = 3


STEPS = np.asarray([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)
"""Change of row and column by each action."""


class Kind(enum.IntEnum):
    """Things that a square of the view can show."""

    FLOOR = 0
    WALL = 1
    AGENT = 2
    APPLE = 3
    RED = 4
    GREEN = 5
    BLUE = 6
    KEY = 7
    DOOR = 8
    INDICATOR = 9


COLORS = np.asarray(
    [
        (204, 204, 204),
        (25, 25, 25),
        (228, 148, 109),
        (140, 178, 0),
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (159, 81, 44),
        (134, 206, 235),
        (255, 255, 255),
    ],
    np.uint8,
)
"""Color of each kind."""


class Phase(enum.IntEnum):
    """Phases of an episode."""

    EXPLORE = 0
    APPLES = 1
    REWARD = 2


@struct.dataclass
class RoomState(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position: Row and column of the agent, int32 (2,).
        has_apple: Whether an apple is at each place, bool (7, 11).
        picked_at: Frame in which the apple of each place was picked last, int32 (7, 11).
        phase: A `Phase`, int32 ().
        frame: Number of steps in this phase, int32 ().
        apple_value: Reward of an apple if it is the same for all, 0 before it is drawn, float32 ().
        num_drawn: Number of used entries of the level's `apple_draws`, int32 ().
        has_earned: Whether something was earned in the reward phase, bool ().
    """

    position: jax.Array
    has_apple: jax.Array
    picked_at: jax.Array
    phase: jax.Array = starts_at(int(Phase.EXPLORE))
    frame: jax.Array = starts_at(0)
    apple_value: jax.Array = starts_at(0.0)
    num_drawn: jax.Array = starts_at(0)
    has_earned: jax.Array = starts_at(False)


@struct.dataclass
class RoomParams(EnvParams):
    """The traced options of the phases."""

    explore_frames: jax.Array = traced(Integer(15, "steps of the first phase", low=1, high=10**5))
    apple_frames: jax.Array = traced(Integer(30, "steps of the second phase", low=1, high=10**5))
    reward_frames: jax.Array = traced(Integer(15, "steps of the third phase", low=1, high=10**5))
    num_apples: jax.Array = traced(Integer(10, "number of apples", low=0, high=MOST_APPLES))
    apple_reward_low: jax.Array = traced(Real(1.0, "smaller reward of an apple"))
    apple_reward_high: jax.Array = traced(Real(1.0, "larger reward of an apple"))
    fix_apple_reward: jax.Array = traced(
        Flag(True, "give all apples of an episode the smaller or the larger reward, else each one a reward in between")
    )
    respawn_every: jax.Array = traced(
        Integer(20, "an apple grows again after `respawn_every` + 1 steps; 0 for never", low=0, high=10**5)
    )
    final_reward: jax.Array = traced(Real(10.0, "reward of the third phase"))


def mask_of(grid: tuple[str, ...], letter: str) -> np.ndarray:
    """Return the squares of a grid with a letter, bool (7, 11)."""
    return np.asarray([[each == letter for each in row] for row in grid])


def places_of(grid: tuple[str, ...], letter: str) -> np.ndarray:
    """Return rows and columns of the squares with a letter, row by row, int32 (n, 2)."""
    return np.argwhere(mask_of(grid, letter)).astype(np.int32)


def sample_place(key: jax.Array, grid: tuple[str, ...], letter: str) -> jax.Array:
    """Sample a square with a letter, int32 (2,); consumes `key`."""
    places = places_of(grid, letter)
    return jnp.asarray(places)[jax.random.randint(key, (), 0, len(places), jnp.int32)]


def sample_apples(key: jax.Array, num_apples: jax.Array) -> jax.Array:
    """Sample the places of apples, bool (7, 11); consumes `key`."""
    places = places_of(APPLES, "a")
    ranks = jax.random.permutation(key, jnp.arange(len(places), dtype=jnp.int32))
    return jnp.zeros((ROWS, COLUMNS), bool).at[places[:, 0], places[:, 1]].set(ranks < num_apples)


def reseed(state: Any, key: jax.Array) -> Any:
    """Return the state with other rewards of apples to come; consumes `key`."""
    draws = state.level.apple_draws
    fresh = jax.random.uniform(key, draws.shape, draws.dtype)
    return dataclasses.replace(state, level=dataclasses.replace(state.level, apple_draws=fresh))


def are_places(places: Any, grid: tuple[str, ...], letter: str) -> np.ndarray:
    """Return whether each place is a square with a letter; (n, 2) to bool (n,)."""
    return mask_of(grid, letter)[places[:, 0] % ROWS, places[:, 1] % COLUMNS]


def has_apples(apples: Any, params: RoomParams) -> np.ndarray:
    """Return whether each board has the right number of apples at possible places; bool (n, 7, 11) to bool (n,)."""
    is_possible = ~(apples & ~mask_of(APPLES, "a")).reshape(len(apples), -1).any(axis=1)
    return is_possible & (apples.sum(axis=(1, 2)) == int(params.num_apples))


def is_at(place: jax.Array | np.ndarray) -> jax.Array:
    """Return which square a place is, bool (7, 11)."""
    rows, columns = np.indices((ROWS, COLUMNS), np.int32)
    return (rows == place[0]) & (columns == place[1])


def start(level: Any) -> dict[str, Any]:
    """Return the fields of the first state of a level with `explore_start` and `apples`."""
    never = jnp.full((ROWS, COLUMNS), NEVER, jnp.int32)
    return {"level": level, "position": level.explore_start, "has_apple": level.apples, "picked_at": never}


def walk(position: jax.Array, action: jax.Array, is_blocked: jax.Array) -> jax.Array:
    """Return the place after a move, int32 (2,)."""
    is_action = (action >= 0) & (action < len(CompassMove))
    step = jnp.where(is_action, jnp.asarray(STEPS)[jnp.clip(action, 0, len(CompassMove) - 1)], 0)
    to = position + step
    is_inside = (to[0] >= 0) & (to[0] < ROWS) & (to[1] >= 0) & (to[1] < COLUMNS)
    inner = jnp.clip(to, 0, jnp.asarray([ROWS - 1, COLUMNS - 1], jnp.int32))
    return jnp.where(is_inside & ~is_blocked[inner[0], inner[1]], to, position)


def _draw(state: Any) -> jax.Array:
    draws = state.level.apple_draws
    return draws[state.num_drawn % len(draws)]


def pick_apples(state: Any, params: RoomParams) -> tuple[Any, jax.Array]:
    """Return the state after a frame in which apples can be picked, and the reward, a float ()."""
    low, high = params.apple_reward_low, params.apple_reward_high
    needs_value = params.fix_apple_reward & (state.apple_value == 0)
    value = jnp.where(_draw(state) < _HALF, low, high)
    state = dataclasses.replace(
        state,
        apple_value=jnp.where(needs_value, value, state.apple_value),
        num_drawn=jnp.where(needs_value, state.num_drawn + 1, state.num_drawn),
    )
    row, column = state.position
    is_picked = state.has_apple[row, column]
    each = low + (high - low) * _draw(state)
    reward = jnp.where(is_picked, jnp.where(params.fix_apple_reward, state.apple_value, each), 0.0)
    is_here = is_at(state.position) & is_picked
    picked_at = jnp.where(is_here, state.frame, state.picked_at)
    grows = (params.respawn_every > 0) & (state.frame > picked_at + params.respawn_every)
    return dataclasses.replace(
        state,
        has_apple=(state.has_apple & ~is_here) | grows,
        picked_at=picked_at,
        num_drawn=jnp.where(is_picked & ~params.fix_apple_reward, state.num_drawn + 1, state.num_drawn),
    ), reward


def finish_frame(state: Any, params: RoomParams, after: Any, final: jax.Array) -> Transition:
    """Return the result of a frame, in which the next phase begins if its turn has come.

    Args:
        state: State after the move of the agent.
        params: Parameters.
        after: State after the events of the first and the third phase; those of the second phase are the apples.
        final: Reward of these events.
    """
    is_apples = state.phase == int(Phase.APPLES)
    state, reward = jax.tree.map(
        lambda new, old: jnp.where(is_apples, new, old), pick_apples(state, params), (after, final)
    )
    state, begins, is_end = _next_phase(state, params)
    first, value = pick_apples(state, params)
    starts_apples = begins & (state.phase == int(Phase.APPLES))
    state = jax.tree.map(lambda new, old: jnp.where(starts_apples, new, old), first, state)
    reward = reward + jnp.where(starts_apples, value, 0.0)
    metrics = {"success": state.has_earned.astype(jnp.int32)}
    return Transition(state, reward.astype(jnp.float32), is_end, metrics)


def _next_phase(state: Any, params: RoomParams) -> tuple[Any, jax.Array, jax.Array]:
    """Return the state in which the next phase has begun if its turn has come; whether it has; whether all are over."""
    limits = jnp.stack([params.explore_frames, params.apple_frames, params.reward_frames]).astype(jnp.int32)
    is_over = state.frame >= limits[state.phase]
    is_end = is_over & (state.phase == int(Phase.REWARD))
    begins = is_over & ~is_end
    starts = jnp.stack([jnp.asarray(state.level.apple_start), jnp.asarray(state.level.reward_start)])
    position = jnp.where(begins, starts[jnp.clip(state.phase, 0, 1)], state.position)
    phase = jnp.where(begins, state.phase + 1, state.phase)
    frame = jnp.where(begins, 0, state.frame)
    return dataclasses.replace(state, position=position, phase=phase, frame=frame), begins, is_end


def apples_of(state: Any) -> jax.Array:
    """Return which squares show an apple, bool (7, 11)."""
    return state.has_apple & (state.phase == int(Phase.APPLES))


def view_of(kinds: jax.Array, position: jax.Array) -> jax.Array:
    """Return the kinds of 5 × 5 squares around a place, int32 (5, 5); floor outside of the board."""
    reach = VIEW // 2
    padded = jnp.pad(kinds, reach, constant_values=int(Kind.FLOOR))
    return jax.lax.dynamic_slice(padded, (position[0], position[1]), (VIEW, VIEW))


def nearest_apple(state: Any) -> jax.Array:
    """Return the place of the nearest apple, int32 (2,)."""
    rows, columns = np.indices((ROWS, COLUMNS), np.int32)
    distance = jnp.abs(rows - state.position[0]) + jnp.abs(columns - state.position[1])
    flat = jnp.argmin(jnp.where(state.has_apple, distance, NEVER).reshape(-1)).astype(jnp.int32)
    return jnp.stack([flat // COLUMNS, flat % COLUMNS])
