"""Visual Match: see a colored square, collect apples, then choose the door of that color.

Source: `Passive-VisualMatch-v0` of MIKASA-Base and Memory-RL (after Hung et al., 2018), with the same rules, rewards
and observations.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, Transition
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.visual_match import rooms
from jaxgym.envs.visual_match.rooms import Kind, Phase, RoomParams, RoomState
from jaxgym.envs.visual_match.scene import RoomScene, draw_view, numbers_of
from jaxgym.options import OBSERVATION, Flag, Integer, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

EXPLORE = (
    "..ppppppp..",
    "..p.....p..",
    "..p.....p..",
    "..pp...pp..",
    "..p+++++p..",
    "..p+++++p..",
    "..ppppppp..",
)
PASSIVE_EXPLORE = (
    "...........",
    "....ppp....",
    "....p+p....",
    "....ppp....",
    "...........",
    "...........",
    "...........",
)
REWARD = (
    "###########",
    "#.b..c..e.#",
    "#.........#",
    "#.........#",
    "####...####",
    "...#.+.#...",
    "...#####...",
)
NUM_DOORS = 3
COLOR_NAMES = ("red", "green", "blue")
_ROOM_SOUTH = 3  # last row of the room with doors
DOORS = np.concatenate([rooms.places_of(REWARD, letter) for letter in "bce"])


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        square: Row and column of the colored square in the first phase, int32 (2,).
        explore_start: Row and column of the agent in the first phase, int32 (2,).
        apples: Places of the apples, bool (7, 11).
        apple_draws: Random numbers from 0 to 1 for rewards of apples, float32 (`num_draws`,); they repeat.
        apple_start: Row and column of the agent in the second phase, int32 (2,).
        reward_start: Row and column of the agent in the third phase, int32 (2,).
        colors: Color of each door, 0 red, 1 green, 2 blue, int32 (3,).
        target: Index of the door that has the color of the square, int32 ().
    """

    square: jax.Array
    explore_start: jax.Array
    apples: jax.Array
    apple_draws: jax.Array
    apple_start: jax.Array
    reward_start: jax.Array
    colors: jax.Array
    target: jax.Array


@struct.dataclass
class Params(RoomParams):
    """The traced options."""

    fix_colors: jax.Array = traced(Flag(False, "make the doors red, green and blue from left to right in every level"))


@dataclasses.dataclass(unsafe_hash=True)
class VisualMatch(Environment[Level, RoomState, Params, RoomScene]):
    """Visual Match.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (75,): the colors of 5 × 5 squares around
        the agent, by channel, row and column, from 0 to 255.
    Action:
        0 north, 1 south, 2 west, 3 east.
    Start:
        In the first phase next to the colored square.
    Reward:
        The reward of each apple; `final_reward` if the first door that is touched has the color of the square.
    End:
        Terminated when the frames of the three phases are over, 60 steps by default.
    Info:
        `reward` and `length` so far, `success` (1 once the door of the color was chosen).
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    passive: bool = static(Flag(True, "start in a box from which the agent sees the square at once"))
    num_draws: int = static(Integer(64, "number of random numbers for rewards of apples", low=1, high=10**5))
    observation: str = static(OBSERVATION)

    @property
    def explore_grid(self) -> tuple[str, ...]:
        """The board of the first phase."""
        return PASSIVE_EXPLORE if self.passive else EXPLORE

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of the four directions."""
        return Discrete(len(rooms.CompassMove))

    def observation_space(self, params: Params | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params, high=255.0)

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the square, the starts, the apples, the colors and the target."""
        keys = jax.random.split(key, 6)
        colors = jax.random.permutation(keys[4], jnp.arange(NUM_DOORS, dtype=jnp.int32))
        return Level(
            square=rooms.sample_place(keys[0], self.explore_grid, "p"),
            explore_start=rooms.sample_place(keys[1], self.explore_grid, "+"),
            apples=rooms.sample_apples(keys[2], params.num_apples),
            apple_draws=jax.random.uniform(keys[3], (self.num_draws,), jnp.float32),
            apple_start=jnp.asarray(rooms.places_of(rooms.APPLES, "+")[0]),
            reward_start=jnp.asarray(rooms.places_of(REWARD, "+")[0]),
            colors=jnp.where(params.fix_colors, jnp.arange(NUM_DOORS, dtype=jnp.int32), colors),
            target=jax.random.randint(keys[5], (), 0, NUM_DOORS, jnp.int32),
        )

    def reseed(self, state: RoomState, key: jax.Array) -> RoomState:
        """Replace the rewards of apples to come; a reward that was drawn for all apples stays."""
        return rooms.reseed(state, key)

    def initial_state(self, level: Level, params: Params) -> RoomState:
        """Place the agent in the first phase."""
        return RoomState(**rooms.start(level))

    def transition(self, state: RoomState, action: jax.Array, params: Params) -> Transition:
        """Move the agent, and give the rewards of the phase."""
        before = state.has_earned
        moved = rooms.walk(state.position, action, self._walls(state) | self._square(state))
        state = dataclasses.replace(state, position=moved, frame=state.frame + 1)
        # All doors vanish with the first touch; `picked_at` of the wall at (0, 0) records it.
        is_touched = (moved[None] == DOORS).all(axis=1) & (state.phase == int(Phase.REWARD)) & ~self._is_open(state)
        is_correct = is_touched[state.level.target]
        opened = dataclasses.replace(
            state,
            has_earned=before | (is_correct & (params.final_reward > 0)),
            picked_at=jnp.where(is_touched.any() & _IS_RECORD, state.frame, state.picked_at),
        )
        return rooms.finish_frame(state, params, opened, jnp.where(is_correct, params.final_reward, 0.0))

    def _is_open(self, state: RoomState) -> jax.Array:
        return (state.picked_at[0, 0] < rooms.NEVER) & (state.phase == int(Phase.REWARD))

    def _walls(self, state: RoomState) -> jax.Array:
        explore = jnp.asarray(rooms.mask_of(self.explore_grid, "p")) & ~self._square(state)
        masks = jnp.stack([explore, *(jnp.asarray(rooms.mask_of(grid, "#")) for grid in (rooms.APPLES, REWARD))])
        return masks[state.phase]

    def _square(self, state: RoomState) -> jax.Array:
        return rooms.is_at(state.level.square) & (state.phase == int(Phase.EXPLORE))

    def board(self, state: RoomState) -> jax.Array:
        """Return the `Kind` of each square, int32 (7, 11)."""
        level = state.level
        colors = int(Kind.RED) + level.colors
        kinds = jnp.where(self._walls(state), int(Kind.WALL), int(Kind.FLOOR))
        kinds = jnp.where(rooms.apples_of(state), int(Kind.APPLE), kinds)
        kinds = jnp.where(self._square(state), colors[level.target], kinds)
        kinds = jnp.where(rooms.is_at(state.position), int(Kind.AGENT), kinds)
        has_doors = (state.phase == int(Phase.REWARD)) & ~self._is_open(state)
        for door, place in enumerate(DOORS):
            kinds = jnp.where(rooms.is_at(place) & has_doors, colors[door], kinds)
        return kinds.astype(jnp.int32)

    def scene(self, state: RoomState, params: Params) -> RoomScene:
        """Return the view."""
        return RoomScene(rooms.view_of(self.board(state), state.position))

    def hidden(self, state: RoomState, params: Params) -> facts.Facts:
        """Return the phase, the agent's place, the apples, the color of the square, and those of the doors."""
        level = state.level
        return {
            "phase": facts.Fact(state.phase, len(Phase), tuple(phase.name.lower() for phase in Phase)),
            **facts.tile(state.position[::-1], rooms.COLUMNS, rooms.ROWS, "agent"),
            "apples": facts.flags(rooms.apples_of(state)),
            "square": facts.Fact(level.colors[level.target], NUM_DOORS, COLOR_NAMES),
            "doors": facts.Fact(level.colors, NUM_DOORS, COLOR_NAMES),
        }

    def visible(self, scene: RoomScene) -> RoomScene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: RoomScene) -> jax.Array:
        """Return the frame or the symbols."""
        return numbers_of(scene) if self.observation == "symbolic" else draw_view(scene.kinds)


_IS_RECORD = np.arange(rooms.ROWS * rooms.COLUMNS).reshape(rooms.ROWS, rooms.COLUMNS) == 0


def expert_action(_: VisualMatch, state: RoomState, params: Params) -> jax.Array:
    """Return a move to the nearest apple, and in the third phase to the door of the color; int32 ()."""
    del params
    door = jnp.asarray(DOORS)[state.level.target]
    row, column = state.position
    across = jnp.where(door[1] < column, rooms.CompassMove.WEST, rooms.CompassMove.EAST)
    to_door = jnp.where((row > _ROOM_SOUTH) | (column == door[1]), rooms.CompassMove.NORTH, across)
    apple = rooms.nearest_apple(state)
    down = jnp.where(apple[0] < row, rooms.CompassMove.NORTH, rooms.CompassMove.SOUTH)
    aside = jnp.where(apple[1] < column, rooms.CompassMove.WEST, rooms.CompassMove.EAST)
    to_apple = jnp.where(apple[0] != row, down, aside)
    return jnp.where(state.phase == int(Phase.REWARD), to_door, to_apple).astype(jnp.int32)


def view(env: VisualMatch, state: RoomState, _: Params) -> jax.Array:
    """Return the whole board, enlarged four times, uint8 (336, 336, 3)."""
    return enlarged(draw_view(env.board(state)))


def valid_levels(env: VisualMatch, buffer: Level, params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    return {
        "apples": rooms.has_apples(buffer.apples, params),
        "square": rooms.are_places(buffer.square, env.explore_grid, "p"),
        "colors": (np.sort(np.asarray(buffer.colors), axis=1) == np.arange(NUM_DOORS)).all(axis=1),
        "target": within(buffer.target, 0, NUM_DOORS - 1),
    }
