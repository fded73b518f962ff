"""Key-to-Door: pick a key, collect apples, then open a door with the key.

Source: `KeyToDoor` of MIKASA-Base and Memory-RL (after Hung et al., 2018), with the same rules, rewards and
observations.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, Transition, starts_at
from jaxgym.envs.visual_match import rooms
from jaxgym.envs.visual_match.rooms import CompassMove, Kind, Phase, RoomParams, RoomState
from jaxgym.envs.visual_match.scene import RoomScene, draw_view, numbers_of
from jaxgym.options import OBSERVATION, Integer, OneOf, static
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

EXPLORE = (
    "..#######..",
    "..#kkkkk#..",
    "..#kkkkk#..",
    "..##...##..",
    "..#+++++#..",
    "..#+++++#..",
    "..#######..",
)
REWARD = {
    "SR": (
        "...........",
        "...##d##...",
        "...#...#...",
        "...#.+.#...",
        "...#...#...",
        "...#####...",
        "...........",
    ),
    "CCA": (
        "..#######..",
        "..#+++++#..",
        "..#+++++#..",
        "..##...##..",
        "..#ddddd#..",
        "..#ddddd#..",
        "..#######..",
    ),
}
INDICATOR = 0, 5
"""Place of the light that shows that the key was picked."""

_GATE_ROW, _GATE_COLUMNS = 3, (4, 6)
"""The opening in the middle of rooms with two halves."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        key: Row and column of the key, int32 (2,).
        explore_start: Row and column of the agent in the first phase, int32 (2,).
        apples: Places of the apples, bool (7, 11).
        apple_draws: Random numbers from 0 to 1 for rewards of apples, float32 (`num_draws`,); they repeat.
        apple_start: Row and column of the agent in the second phase, int32 (2,).
        door: Row and column of the door, int32 (2,).
        reward_start: Row and column of the agent in the third phase, int32 (2,).
    """

    key: jax.Array
    explore_start: jax.Array
    apples: jax.Array
    apple_draws: jax.Array
    apple_start: jax.Array
    door: jax.Array
    reward_start: jax.Array


@struct.dataclass
class State(RoomState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        key_frame: Frame of the first phase in which the key was picked, int32 (); `rooms.NEVER` before.
        has_used_key: Whether the door was reached with the key, bool ().
    """

    key_frame: jax.Array = starts_at(rooms.NEVER)
    has_used_key: jax.Array = starts_at(False)


@dataclasses.dataclass(unsafe_hash=True)
class KeyToDoor(Environment[Level, State, RoomParams, RoomScene]):
    """Key-to-Door.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (75,): the colors of 5 × 5 squares around
        the agent, by channel, row and column, from 0 to 255.
    Action:
        0 north, 1 south, 2 west, 3 east.
    Start:
        In the first phase, in the half of a room without the key.
    Reward:
        The reward of each apple; `final_reward` for reaching the door with the key.
    End:
        Terminated when the frames of the three phases are over, 85 steps by default.
    Info:
        `reward` and `length` so far, `success` (1 once the door was reached with the key).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    reward_room: str = static(
        OneOf(
            "SR",
            "room of the third phase: 'SR' as in Synthetic Returns, 'CCA' as in Counterfactual Credit Assignment",
            values=("SR", "CCA"),
        )
    )
    num_draws: int = static(Integer(64, "number of random numbers for rewards of apples", low=1, high=10**5))
    observation: str = static(OBSERVATION)

    @property
    def reward_grid(self) -> tuple[str, ...]:
        """The board of the third phase."""
        return REWARD[self.reward_room]

    def action_space(self, params: RoomParams | None = None) -> Discrete:
        """Return the space of the four directions."""
        return Discrete(len(CompassMove))

    def observation_space(self, params: RoomParams | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params, high=255.0)

    def sample_level(self, key: jax.Array, params: RoomParams) -> Level:
        """Sample the key, the door, the starts and the apples."""
        keys = jax.random.split(key, 6)
        return Level(
            key=rooms.sample_place(keys[0], EXPLORE, "k"),
            explore_start=rooms.sample_place(keys[1], EXPLORE, "+"),
            apples=rooms.sample_apples(keys[2], params.num_apples),
            apple_draws=jax.random.uniform(keys[3], (self.num_draws,), jnp.float32),
            apple_start=jnp.asarray(rooms.places_of(rooms.APPLES, "+")[0]),
            door=rooms.sample_place(keys[4], self.reward_grid, "d"),
            reward_start=rooms.sample_place(keys[5], self.reward_grid, "+"),
        )

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the rewards of apples to come; a reward that was drawn for all apples stays."""
        return rooms.reseed(state, key)

    def initial_state(self, level: Level, params: RoomParams) -> State:
        """Place the agent in the first phase."""
        return State(**rooms.start(level))

    def transition(self, state: State, action: jax.Array, params: RoomParams) -> Transition:
        """Move the agent, and give the rewards of the phase."""
        is_reward = state.phase == int(Phase.REWARD)
        # The key opens the door as soon as the third phase begins, so the door blocks only an agent that has no key.
        is_locked = is_reward & ~_has_picked(state)
        blocked = self._walls(state) | (rooms.is_at(state.level.door) & is_locked)
        moved = rooms.walk(state.position, action, blocked)
        state = dataclasses.replace(state, position=moved, frame=state.frame + 1)
        picks = _shows_key(state) & (moved == state.level.key).all()
        opens = is_reward & ~state.has_used_key & (moved == state.level.door).all()
        after = dataclasses.replace(
            state,
            key_frame=jnp.where(picks, state.frame, state.key_frame),
            has_used_key=state.has_used_key | opens,
            has_earned=state.has_earned | (opens & (params.final_reward > 0)),
        )
        return rooms.finish_frame(state, params, after, jnp.where(opens, params.final_reward, 0.0))

    def _walls(self, state: State) -> jax.Array:
        grids = EXPLORE, rooms.APPLES, self.reward_grid
        return jnp.stack([jnp.asarray(rooms.mask_of(grid, "#")) for grid in grids])[state.phase]

    def board(self, state: State) -> jax.Array:
        """Return the `Kind` of each square, int32 (7, 11)."""
        level = state.level
        has_door = state.phase == int(Phase.REWARD)
        is_lit = (state.phase == int(Phase.EXPLORE)) & (state.frame == state.key_frame)
        things = (
            (rooms.apples_of(state), Kind.APPLE),
            (rooms.is_at(level.key) & _shows_key(state), Kind.KEY),
            (rooms.is_at(np.asarray(INDICATOR)) & is_lit, Kind.INDICATOR),
            (rooms.is_at(state.position), Kind.AGENT),
            (rooms.is_at(level.door) & has_door, Kind.DOOR),
        )
        kinds = jnp.where(self._walls(state), int(Kind.WALL), int(Kind.FLOOR))
        for mask, kind in things:
            kinds = jnp.where(mask, int(kind), kinds)
        return kinds.astype(jnp.int32)

    def scene(self, state: State, params: RoomParams) -> RoomScene:
        """Return the view."""
        return RoomScene(rooms.view_of(self.board(state), state.position))

    def hidden(self, state: State, params: RoomParams) -> facts.Facts:
        """Return the phase, whether the key was picked, and the places of agent, key, apples and door."""
        return {
            "phase": facts.Fact(state.phase, len(Phase), tuple(phase.name.lower() for phase in Phase)),
            "has_key": facts.flags(_has_picked(state)),
            **facts.tile(state.position[::-1], rooms.COLUMNS, rooms.ROWS, "agent"),
            **facts.tile(state.level.key[::-1], rooms.COLUMNS, rooms.ROWS, "key"),
            "apples": facts.flags(rooms.apples_of(state)),
            **facts.tile(state.level.door[::-1], rooms.COLUMNS, rooms.ROWS, "door"),
        }

    def visible(self, scene: RoomScene) -> RoomScene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: RoomScene) -> jax.Array:
        """Return the frame or the symbols."""
        return numbers_of(scene) if self.observation == "symbolic" else draw_view(scene.kinds)


def _has_picked(state: State) -> jax.Array:
    return state.key_frame < rooms.NEVER


def _shows_key(state: State) -> jax.Array:
    return (state.phase == int(Phase.EXPLORE)) & ~_has_picked(state)


def _toward(position: jax.Array, target: jax.Array) -> jax.Array:
    """Return a move toward a place, through the opening if it is in between; int32 ()."""
    row, column = position
    is_beyond = (row - _GATE_ROW) * (target[0] - _GATE_ROW) < 0
    goal_column = jnp.where(is_beyond, jnp.clip(column, *_GATE_COLUMNS), target[1])
    vertical = jnp.where(target[0] < row, CompassMove.NORTH, CompassMove.SOUTH)
    horizontal = jnp.where(goal_column < column, CompassMove.WEST, CompassMove.EAST)
    return jnp.where((column != goal_column) & (row != _GATE_ROW), horizontal, vertical)


def expert_action(_: KeyToDoor, state: State, params: RoomParams) -> jax.Array:
    """Return a move to the key, to the nearest apple, or to the door; int32 ()."""
    del params
    apple = rooms.nearest_apple(state)
    in_column = jnp.where(apple[0] < state.position[0], CompassMove.NORTH, CompassMove.SOUTH)
    in_row = jnp.where(apple[1] < state.position[1], CompassMove.WEST, CompassMove.EAST)
    moves = (
        _toward(state.position, state.level.key),
        jnp.where(apple[0] != state.position[0], in_column, in_row),
        _toward(state.position, state.level.door),
    )
    return jnp.stack(moves)[state.phase].astype(jnp.int32)


def view(env: KeyToDoor, state: State, _: RoomParams) -> jax.Array:
    """Return the whole board, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(draw_view(env.board(state)))


def valid_levels(env: KeyToDoor, buffer: Level, params: RoomParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    return {
        "apples": rooms.has_apples(buffer.apples, params),
        "key": rooms.are_places(buffer.key, EXPLORE, "k"),
        "door": rooms.are_places(buffer.door, env.reward_grid, "d"),
        "reward_start": rooms.are_places(buffer.reward_start, env.reward_grid, "+"),
    }
