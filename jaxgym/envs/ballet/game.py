"""Ballet: watch dancers one after another, then go to the one whose dance is named.

In the watching phase the dancers dance one after another, with a delay in between, and the agent cannot move. Then an
instruction names one of the dances, and the agent has to go to the dancer that performed it.

Source: `pycolab_ballet` of Lampinen et al., 2021 (arXiv 2105.14039), with the same rules, rewards and pictures; with
`light`, the levels of MIKASA-Base's "BalletLight".
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.ballet.dances import INSTRUCTIONS, MOVES, NUM_MOVES, PLACES, STEPS, Wind
from jaxgym.envs.ballet.scene import COLORS, FRAME_PX, VIEW, Scene, SquareKind, draw, shapes, symbols_of, tile_of
from jaxgym.envs.common.valid_levels import within
from jaxgym.options import OBSERVATION, Flag, Integer, static, traced
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Dict, Discrete

ROOM = 11
SQUARES = np.asarray([(2, 2), (2, 5), (2, 8), (5, 2), (5, 8), (8, 2), (8, 5), (8, 8)], np.int32)
"""Row and column of the possible starts of dancers."""

SQUARE_NAMES = ("top-left", "top", "top-right", "left", "right", "bottom-left", "bottom", "bottom-right")

NUM_SHAPES = len(shapes())

_MIDDLE = ROOM // 2


@struct.dataclass
class Level:
    """Sampled parts of an episode; dancers are in the order of their dances.

    Attributes:
        target: Index of the dancer to go to, int32 ().
        squares: Row and column of the start of each dancer, int32 (n, 2).
        dances: Index of each dancer's dance in `dances.INSTRUCTIONS`, int32 (n,).
        shapes: Index of each dancer's shape, int32 (n,).
        colors: Index of each dancer's color, int32 (n,).
    """

    target: jax.Array
    squares: jax.Array
    dances: jax.Array
    shapes: jax.Array
    colors: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        position: Row and column of the agent, int32 (2,).
        is_choice: Whether the watching phase is over and the instruction names a dance, bool ().
    """

    position: jax.Array
    is_choice: jax.Array = starts_at(False)


@struct.dataclass
class Params(EnvParams):
    """The traced options."""

    delay: jax.Array = traced(
        Integer(16, "steps from the last move of a dance to the first move of the next one", low=1, high=10**4)
    )


@dataclasses.dataclass(unsafe_hash=True)
class Ballet(Environment[Level, State, Params, Scene]):
    """Ballet.

    Observation:
        A dict. `image`: uint8 (99, 99, 3), row first, 11 × 11 squares with the agent in the middle; with
        `observation="symbolic"` uint8 (11, 11, 3): kind (0 floor, 1 wall, 2 agent, 3 dancer), shape and color of each
        square. `instruction`: int32 (), 0 while the agent has to watch, then the number of a dance, from 1 to 13.
    Action:
        0 north, 1 northeast, 2 east, 3 southeast, 4 south, 5 southwest, 6 west, 7 northwest.
    Start:
        In the middle of the room; the first dancer has made its first move.
    Reward:
        1 for reaching the dancer whose dance is named, else 0.
    End:
        Terminated when the agent reaches a dancer. Truncated after `max_steps`, 320.
    Info:
        `reward` and `length` so far, `success` (1 when the right dancer is reached).
    Versions:
        v0: as in the code of Lampinen et al. of May 2023.
    """

    num_dancers: int = static(Integer(2, "number n of dancers", low=1, high=len(SQUARES)))
    light: bool = static(Flag(False, "use red dancers, the first n shapes and the first n starts only"))
    observation: str = static(OBSERVATION)

    def action_space(self, params: Params | None = None) -> Discrete:
        """Return the space of the eight directions."""
        return Discrete(len(Wind))

    def observation_space(self, params: Params | None = None) -> Dict:
        """Return the space of the observation in the class docstring."""
        if self.observation == "symbolic":
            image = Box(low=0, high=len(COLORS) - 1, shape=(VIEW, VIEW, 3), dtype=jnp.uint8)
        else:
            image = Box(low=0, high=255, shape=(FRAME_PX, FRAME_PX, 3), dtype=jnp.uint8)
        return Dict({"image": image, "instruction": Discrete(len(INSTRUCTIONS))})

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the target, and different starts, dances, shapes and colors."""
        count = self.num_dancers
        key_target, *keys = jax.random.split(key, 5)
        squares, looks, colors = self.choices
        return Level(
            target=jax.random.randint(key_target, (), 0, count, jnp.int32),
            squares=jax.random.permutation(keys[0], jnp.asarray(squares))[:count],
            dances=1 + jax.random.permutation(keys[1], jnp.arange(len(MOVES), dtype=jnp.int32))[:count],
            shapes=jax.random.permutation(keys[2], jnp.asarray(looks))[:count],
            colors=jax.random.permutation(keys[3], jnp.asarray(colors))[:count],
        )

    @property
    def choices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Possible starts, shapes and colors of dancers, in the order of the original."""
        looks, colors = np.arange(NUM_SHAPES, dtype=np.int32), np.arange(len(COLORS), dtype=np.int32)
        if not self.light:
            return SQUARES, looks, colors
        count = self.num_dancers
        return SQUARES[:count], looks[:count], np.zeros(count, np.int32)

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent in the middle of the room."""
        return State(level=level, position=jnp.full(2, _MIDDLE, jnp.int32))

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent if the watching phase is over."""
        is_action = (action >= 0) & (action < len(Wind))
        step = jnp.asarray(STEPS)[jnp.clip(action, 0, len(Wind) - 1)]
        to = state.position + jnp.where(state.is_choice & is_action, step, 0)
        is_floor = ((to > 0) & (to < ROOM - 1)).all()
        position = jnp.where(is_floor, to, state.position)
        is_reached = (state.level.squares == position[None]).all(axis=1)
        is_right = is_reached[state.level.target]
        metrics = {"success": is_right.astype(jnp.int32)}
        is_choice = state.time >= self.num_dancers * self._period(params)
        state = dataclasses.replace(state, position=position, is_choice=is_choice)
        return Transition(state, is_right.astype(jnp.float32), is_reached.any(), metrics)

    def _period(self, params: Params) -> jax.Array:
        """Return the number of steps between the first moves of two dances, int32 ()."""
        return NUM_MOVES - 1 + jnp.asarray(params.delay)

    def dancers(self, state: State, params: Params) -> jax.Array:
        """Return row and column of each dancer, int32 (n, 2)."""
        starts = np.arange(self.num_dancers, dtype=np.int32) * self._period(params)
        moves = jnp.clip(state.time - starts + 1, 0, NUM_MOVES)
        return state.level.squares + jnp.asarray(PLACES)[state.level.dances - 1, moves]

    def scene(self, state: State, params: Params) -> Scene:
        """Return the view and the instruction."""
        instruction = jnp.where(state.is_choice, state.level.dances[state.level.target], 0)
        return Scene(self.tiles(state, params, state.position), instruction.astype(jnp.int32))

    def tiles(self, state: State, params: Params, middle: jax.Array | np.ndarray) -> jax.Array:
        """Return the tiles of the squares around a place, int32 (11, 11)."""
        along = np.arange(VIEW, dtype=np.int32) - VIEW // 2
        rows, columns = (middle[0] + along)[:, None], (middle[1] + along)[None]
        is_room = (rows >= 0) & (rows < ROOM) & (columns >= 0) & (columns < ROOM)
        is_edge = (rows % (ROOM - 1) == 0) | (columns % (ROOM - 1) == 0)
        tiles = jnp.where(is_room & is_edge, int(SquareKind.WALL), int(SquareKind.FLOOR))
        things = jnp.concatenate([state.position[None], self.dancers(state, params)])
        looks = tile_of(state.level.shapes, state.level.colors)
        for index in range(1 + self.num_dancers):  # a dancer hides the agent
            is_here = (rows == things[index, 0]) & (columns == things[index, 1])
            tiles = jnp.where(is_here, looks[index - 1] if index else int(SquareKind.AGENT), tiles)
        return tiles.astype(jnp.int32)

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the dance and the start of each dancer, and the start of the target."""
        is_start = (jnp.asarray(SQUARES)[None] == state.level.squares[:, None]).all(axis=-1)
        starts = jnp.argmax(is_start, axis=1).astype(jnp.int32)
        return {
            "dances": facts.Fact(state.level.dances - 1, len(MOVES), tuple(MOVES)),
            "starts": facts.Fact(starts, len(SQUARES), SQUARE_NAMES),
            "target": facts.Fact(starts[state.level.target], len(SQUARES), SQUARE_NAMES),
        }

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> dict[str, jax.Array]:
        """Return the image, as a frame or as symbols, and the instruction."""
        image = symbols_of(scene.tiles) if self.observation == "symbolic" else draw(scene.tiles)
        return {"image": image, "instruction": scene.instruction}


def expert_action(_: Ballet, state: State, params: Params) -> jax.Array:
    """Return a move toward the target, int32 ()."""
    del params
    step = jnp.sign(state.level.squares[state.level.target] - state.position)
    return jnp.argmax((jnp.asarray(STEPS) == step[None]).all(axis=1)).astype(jnp.int32)


def is_watching(state: State) -> jax.Array:
    """Return whether the agent cannot move, bool ()."""
    return ~state.is_choice


def caption(state: State) -> str:
    """Return the instruction, on the host."""
    level = state.level
    return INSTRUCTIONS[int(level.dances[level.target]) if state.is_choice else 0]


def view(env: Ballet, state: State, params: Params) -> jax.Array:
    """Return the room, enlarged four times, with the target's tile in the wall of its row and column."""
    tiles = env.tiles(state, params, np.full(2, _MIDDLE, np.int32))
    target = state.level.target
    look = tile_of(state.level.shapes[target], state.level.colors[target])
    row, column = state.level.squares[target]
    return enlarged(draw(tiles.at[0, column].set(look).at[row, 0].set(look)))


def valid_levels(env: Ballet, buffer: Level, params: Params) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    del params
    squares, looks, colors = env.choices
    numbers = np.asarray(buffer.squares) @ np.asarray([ROOM, 1])
    return {
        "target": within(buffer.target, 0, env.num_dancers - 1),
        "squares": _are_different(numbers) & np.isin(numbers, squares @ np.asarray([ROOM, 1])).all(axis=1),
        "dances": _are_different(buffer.dances) & within(buffer.dances, 1, len(MOVES)),
        "shapes": _are_different(buffer.shapes) & np.isin(buffer.shapes, looks).all(axis=1),
        "colors": (env.light | _are_different(buffer.colors)) & np.isin(buffer.colors, colors).all(axis=1),
    }


def _are_different(values: np.ndarray | jax.Array) -> np.ndarray:
    return (np.diff(np.sort(np.asarray(values), axis=1), axis=1) != 0).all(axis=1)
