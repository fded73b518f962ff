"""Jitted programs of a game's sessions, compiled ahead of time for a few batch sizes.

    table of states, uint8 (capacity, width)  --start or step of some rows-->  table, step output of these rows

A row of the table is the state of one session. Padding of a batch uses a row index beyond the table: JAX clips it when
it reads and drops it when it writes.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxgym import levels, threefry
from jaxgym.environment import Environment
from jaxgym.pytrees import frame_of
from jaxgym.rows import Rows


class StepOutput(NamedTuple):
    """Step output of a row for the host.

    Attributes:
        scene: The scene after the actions.
        reward: Sum of the rewards of the actions, float32 ().
        terminated: Whether the rules of the game ended the episode, bool ().
        truncated: Whether the environment's time limit ended the episode, bool ().
        info: The environment's `info` of the last step; zeros before the first step.
    """

    scene: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


@dataclasses.dataclass(frozen=True)
class Logic:
    """Functions to compile: starts and steps of one environment, with at most `max_actions` actions in a call."""

    env: Any
    max_actions: int

    def start(self, seed: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        """Return the initial state of a seed's level, and its step output.

        Without a level buffer it is the level of that seed (see `jaxgym.levels`); with a buffer of n levels, level
        `seed % n`.
        """
        if params.levels is None:
            level = self.env.sample_level(levels.level_key(seed, threefry.FLAT), params)
        else:
            place = seed % jnp.uint32(levels.num_levels(params.levels))
            level = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, place, keepdims=False), params.levels)
        state = self.env.initial_state(level, params)
        return state, self._unmoved(state, params)

    def _unmoved(self, state: Any, params: Any) -> StepOutput:
        action = jax.ShapeDtypeStruct(self.env.action_space(params).shape, jnp.int32)
        shapes = jax.eval_shape(self._act, state, action, params)[1]
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return blank._replace(scene=self.env.scene(state, params))

    def _act(self, state: Any, action: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        # The key of a step is for auto-reset, which `step_env` does not do.
        _, state, reward, terminated, info = self.env.step_env(jax.random.key(0), state, action, params)
        truncated = self.env.is_truncated(state, params)
        return state, StepOutput(self.env.scene(state, params), reward, terminated, truncated, info)

    def move(self, state: Any, count: jax.Array, actions: jax.Array, params: Any) -> tuple[Any, StepOutput]:
        """Make the first `count` actions; stop at the end of the episode."""
        if self.max_actions == 1:
            return self._act(state, actions[0], params)

        def go_on(carry: tuple[jax.Array, Any, StepOutput]) -> jax.Array:
            made, _, output = carry
            return (made < count) & ~output.terminated & ~output.truncated

        def act(carry: tuple[jax.Array, Any, StepOutput]) -> tuple[jax.Array, Any, StepOutput]:
            made, state, before = carry
            state, output = self._act(state, actions[made], params)
            return made + 1, state, output._replace(reward=before.reward + output.reward)

        _, state, output = lax.while_loop(go_on, act, (jnp.int32(0), state, self._unmoved(state, params)))
        return state, output

    @property
    def has_chance(self) -> bool:
        """True if the environment has chance events that `reseed` replaces."""
        return type(self.env).reseed is not Environment.reseed

    def reseed(self, state: Any, words: jax.Array) -> Any:
        """Return a state with other chance events to come; `words` are a key, uint32 (2,)."""
        return self.env.reseed(state, jax.random.wrap_key_data(words, impl=threefry.FLAT))

    def frame(self, state: Any, params: Any) -> Any:
        """Return the frame of a state, uint8 (H, W, 3), or None if the observations have none."""
        return frame_of(self.env, self.env.observe(jax.random.key(0), state, None, params))

    def frame_shape(self, params: Any) -> tuple[int, ...] | None:
        """Return the shape of a frame in RGB, or None if the observations have none."""
        state, _ = jax.eval_shape(self.start, jax.ShapeDtypeStruct((), jnp.uint32), params)
        frame = jax.eval_shape(self.frame, state, params)
        return frame.shape if frame is not None and frame.shape[-1] == len("RGB") else None


SIZES = (16, 64, 256, 1024)
"""Batch sizes of the compiled programs, up to the capacity of the pool; a larger batch takes several calls.

A call has a fixed cost: four times the rows take 1 to 4 times the time. Most of the remaining time of a turn goes to
texts, which are not made for padding.
"""

_FRAME_SIZES = (1, *SIZES[:3])

_FILLED = 0.5  # smallest share of a batch size that the capacity has to fill for this size to be compiled
_START_SIZES = SIZES[:2]  # programs that sample levels compile slowly, and few sessions start at the same time


class Programs:
    """Compiled programs of one environment, for all parameters of the same shapes.

    Attributes:
        states: Layout of a state in a row of the table.
        output: Layout of a `StepOutput` in a row of the result.
        space: The action space.
        max_actions: Maximum number of actions in a row of a request.
        logic: The functions that are compiled.
    """

    def __init__(self, logic: Logic, params: Any, capacity: int, device: Any):
        """Compile all programs for a table of `capacity` rows; the parameters are on the device."""
        self.max_actions, self.logic = logic.max_actions, logic
        self.space = logic.env.action_space(params)
        self._branches = self.space.shape
        state, output = jax.eval_shape(logic.start, jax.ShapeDtypeStruct((), jnp.uint32), params)
        self.states, self.output = Rows(state), Rows(output)
        self._capacity, self._device = capacity, device
        self._draws, self._reseeds = jax.jit(self._frames), jax.jit(self._reseed, donate_argnums=0)
        table, width = self.new_table(), 2 + logic.max_actions * math.prod(self._branches)
        starts, moves = jax.jit(self._start, donate_argnums=0), jax.jit(self._move, donate_argnums=0)
        lowered = {
            **{
                ("start", size): starts.lower(table, np.zeros((size, 2), np.uint32), params)
                for size in _up_to(capacity, _START_SIZES)
            },
            **{
                ("move", size): moves.lower(table, np.zeros((size, width), np.int32), params)
                for size in _up_to(capacity, SIZES)
            },
        }
        with ThreadPoolExecutor() as executor:
            compiled = executor.map(lambda program: program.compile(), lowered.values())
            self._compiled = dict(zip(lowered, compiled, strict=True))

    def new_table(self) -> jax.Array:
        """Return a table of zeros."""
        return jax.device_put(np.zeros((self._capacity, self.states.width), np.uint8), self._device)

    def _start(self, table: jax.Array, request: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        slots, seeds = request[:, 0], request[:, 1]
        states, output = jax.vmap(self.logic.start, in_axes=(0, None))(seeds, params)
        return table.at[slots].set(self.states.pack(states), mode="drop"), self.output.pack(output)

    def _move(self, table: jax.Array, request: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        slots, counts = request[:, 0], request[:, 1]
        actions = request[:, 2:].reshape(len(request), self.max_actions, *self._branches)
        states = self.states.unpack(table.at[slots].get(mode="clip"))
        states, output = jax.vmap(self.logic.move, in_axes=(0, 0, 0, None))(states, counts, actions, params)
        return table.at[slots].set(self.states.pack(states), mode="drop"), self.output.pack(output)

    def request(self, slots: Any, counts: Any, plans: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return a request, int32 (n, ...): in each row the slot, the number of actions, and the actions."""
        width = self.max_actions * math.prod(self._branches)
        request = np.zeros((len(slots), 2 + width), np.int32)
        request[:, 0], request[:, 1] = slots, counts
        made = itertools.chain.from_iterable(plans)
        numbers = np.fromiter(itertools.chain.from_iterable(made) if self._branches else made, np.int32)
        if len(numbers) == len(slots) * width:
            request[:, 2:] = numbers.reshape(-1, width)
        else:  # rows are filled from the left
            request[:, 2:][np.arange(width) < math.prod(self._branches) * request[:, 1:2]] = numbers
        return request

    def start(
        self, table: jax.Array, slots: Sequence[int] | np.ndarray, seeds: Sequence[int], params: Any
    ) -> tuple[Any, Any]:
        """Start the levels of n seeds in n rows; return the table and the step output, uint8 (n, seen.width)."""
        return self._run("start", table, np.array([slots, seeds], np.uint32).T, params, _START_SIZES)

    def move(
        self, table: jax.Array, slots: np.ndarray, counts: np.ndarray, plans: Sequence[Sequence[Any]], params: Any
    ) -> tuple[Any, Any]:
        """Make 1 to `max_actions` actions in each of n rows; return the table and the output, uint8 (n, seen.width)."""
        return self._run("move", table, self.request(slots, counts, plans), params, SIZES)

    def _run(
        self, kind: str, table: Any, request: np.ndarray, params: Any, sizes: Sequence[int]
    ) -> tuple[jax.Array, np.ndarray]:
        outputs = []
        for part, count in self._parts(request, sizes):
            table, output = self._compiled[kind, len(part)](table, part, params)
            outputs.append(np.asarray(output)[:count])
        return table, outputs[0] if len(outputs) == 1 else np.concatenate(outputs)

    def _parts(self, rows: np.ndarray, sizes: Sequence[int] = SIZES) -> Iterator[tuple[np.ndarray, int]]:
        """Yield n rows, each with a slot as first number, in parts padded to the batch sizes, with their real sizes."""
        sizes = _up_to(self._capacity, sizes)
        for first in range(0, len(rows), sizes[-1]):
            part = rows[first : first + sizes[-1]]
            size, count = next(size for size in sizes if size >= len(part)), len(part)
            if size > count:
                padded = np.zeros((size, *part.shape[1:]), part.dtype)
                padded[count:].reshape(size - count, -1)[:, 0] = self._capacity
                padded[:count] = part
                part = padded
            yield part, count

    # Copies of rows. These programs depend only on the shape of the table, and each size is compiled on first use.

    def copy(self, table: jax.Array, source: int, slots: np.ndarray) -> jax.Array:
        """Copy one row to n other rows; return the table."""
        row = _read(table, np.asarray([source], np.int32))
        for part, _ in self._parts(slots):
            table = _write(table, part, row)
        return table

    def read(self, table: jax.Array, slots: np.ndarray) -> np.ndarray:
        """Return n rows, uint8 (n, states.width)."""
        return np.concatenate([np.asarray(_read(table, part))[:count] for part, count in self._parts(slots)])

    def write(self, table: jax.Array, slots: np.ndarray, rows: np.ndarray) -> jax.Array:
        """Set n rows to uint8 (n, states.width); return the table."""
        begun = 0
        for part, count in self._parts(slots):
            table = _write(table, part, np.resize(rows[begun : begun + count], (len(part), rows.shape[1])))
            begun += count
        return table

    def reseed(self, table: jax.Array, slots: np.ndarray, words: np.ndarray, params: Any) -> jax.Array:
        """Replace the chance events to come in n rows; `words` are their keys, uint32 (n, 2). Return the table."""
        request = np.column_stack([slots.astype(np.uint32), words])
        for part, _ in self._parts(request) if self.logic.has_chance else ():
            table = self._reseeds(table, part, params)
        return table

    def _reseed(self, table: jax.Array, request: jax.Array, params: Any) -> jax.Array:
        slots, words = request[:, 0], request[:, 1:]
        states = self.states.unpack(table.at[slots].get(mode="clip"))
        states = jax.vmap(self.logic.reseed)(states, words)
        return table.at[slots].set(self.states.pack(states), mode="drop")

    def prepare_frames(self, table: jax.Array, params: Any) -> None:
        """Compile the programs that draw frames, for all batch sizes."""
        with ThreadPoolExecutor() as executor:
            sizes = _up_to(self._capacity, _FRAME_SIZES)
            list(executor.map(lambda size: self._draws(table, np.zeros(size, np.int32), params), sizes))

    def draw(self, table: jax.Array, slots: Sequence[int], params: Any) -> Callable[[], Any]:
        """Start to draw the states in n rows; return a function that waits for the frames, uint8 (n, H, W, 3).

        The frames of up to 256 rows are one transfer. The function returns None if the observations have no frames. A
        batch size that is not prepared is compiled.
        """
        pairs = self._parts(np.asarray(slots, np.int32), _FRAME_SIZES)
        parts = [(self._draws(table, part, params), count) for part, count in pairs]
        if parts[0][0] is None:
            return lambda: None
        return lambda: np.concatenate([np.asarray(frames)[:count] for frames, count in parts])

    def _frames(self, table: jax.Array, slots: jax.Array, params: Any) -> Any:
        states = self.states.unpack(table.at[slots].get(mode="clip"))
        return jax.vmap(self.logic.frame, in_axes=(0, None))(states, params)


def _up_to(capacity: int, sizes: Sequence[int]) -> Sequence[int]:
    """Return the batch sizes for a capacity; the last one can be larger if the capacity fills half of it."""
    return sizes[: 1 + sum(_FILLED * size <= capacity for size in sizes[1:])]


@jax.jit
def _read(table: jax.Array, slots: jax.Array) -> jax.Array:
    return table.at[slots].get(mode="clip")


@partial(jax.jit, donate_argnums=0)
def _write(table: jax.Array, slots: jax.Array, rows: jax.Array) -> jax.Array:
    return table.at[slots].set(rows, mode="drop")
