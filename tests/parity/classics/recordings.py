"""Recordings of many episodes in one file, and their replay."""

import dataclasses
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxgym

Arrays = dict[str, np.ndarray]

_NO_ACTION = -1
_NO_TIME_LIMIT = 0


@dataclasses.dataclass(frozen=True)
class Episode:
    """Recorded episode of T steps.

    Attributes:
        name: File and number, for messages.
        meta: Options, seed and policy.
        arrays: Arrays by name without prefix: values of the episode, T rows for the steps, T + 1 rows for observations,
            and arrays with another number of rows, some of them for all episodes of the file.
        previous: The episode before, if the original continued its random numbers.
    """

    name: str
    meta: dict[str, Any]
    arrays: Arrays
    previous: "Episode | None" = None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]


def episodes(path: Path) -> Iterator[Episode]:
    """Return the episodes of a file."""
    with np.load(path) as archive:
        stored = {name: archive[name] for name in archive.files}
    metas, lengths = json.loads(str(stored["meta"])), stored["length"].tolist()
    counts = {name: stored[f"e_{name}_n"].tolist() for name in _rows_of(stored)}
    step = 0
    place = dict.fromkeys(counts, 0)
    previous = None
    for number, (meta, length) in enumerate(zip(metas, lengths, strict=True)):
        arrays = Arrays()
        for key, values in stored.items():
            kind, _, name = key.partition("_")
            if kind == "e":
                arrays[name] = values[number]
            elif kind == "s":
                arrays[name] = values[step : step + length]
            elif kind == "o":
                arrays[name] = values[step + number : step + number + length + 1]
            elif not name:
                arrays[key] = values
        for name, each in counts.items():
            arrays[name] = stored[f"r_{name}"][place[name] : place[name] + each[number]]
            place[name] += each[number]
        step += length
        current = Episode(f"{path.name}[{number}]", meta, arrays, previous if meta.get("episode") else None)
        previous = current
        yield current


def _rows_of(stored: Arrays) -> list[str]:
    return [key[2:] for key in stored if key.startswith("r_") and f"e_{key[2:]}_n" in stored]


def original_level(env_id: str, seed: int, **options: Any) -> Any:
    """Return the level of a seed of the original, on the host."""
    buffer = jaxgym.levels.original(env_id, [seed], **options)
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), buffer)


@dataclasses.dataclass(frozen=True)
class Played:
    """Results of T steps; `observations` and `states` have T + 1 rows."""

    observations: Any
    states: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, np.ndarray]


def replay(env: Any, params: Any, level: Any, actions: np.ndarray) -> Played:
    """Play the given actions from the start of a level."""
    count = len(actions)
    size = max(16, 1 << (count - 1).bit_length())  # few sizes, so that few programs are compiled
    padding = ((0, size - count), *[(0, 0)] * (actions.ndim - 1))
    actions = actions if np.issubdtype(actions.dtype, np.floating) else actions.astype(np.int32)
    padded = np.pad(actions, padding, constant_values=_NO_ACTION)
    seen, states, rewards, terminated, truncated, info = jax.device_get(_play(env, params, level, padded))
    first, (seen, states) = slice(count + 1), (seen, states)
    return Played(
        jax.tree.map(lambda leaf: leaf[first], seen),
        jax.tree.map(lambda leaf: leaf[first], states),
        rewards[:count],
        terminated[:count],
        truncated[:count],
        {name: values[:count] for name, values in info.items()},
    )


@partial(jax.jit, static_argnames="env")
def _play(env: Any, params: Any, level: Any, actions: jax.Array) -> Any:
    def observe(state: Any) -> Any:
        return env.observe_scene(env.scene(state, params))

    def step(state: Any, action: jax.Array) -> Any:
        before = dataclasses.replace(state, time=state.time + 1)
        made = env.transition(before, action, params)
        after = jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), made.state, state)
        truncated = env.is_truncated(after, params)
        return after, (observe(after), after, made.reward, made.terminated, truncated, made.metrics)

    first = jax.tree.map(jnp.asarray, env.initial_state(level, params))
    seen, states, *rest = jax.lax.scan(step, first, actions)[1]
    seen, states = (
        jax.tree.map(lambda one, later: jnp.concatenate([one[None], later]), *pair)
        for pair in ((observe(first), seen), (first, states))
    )
    return seen, states, *rest


def with_reals(params: Any, **values: float) -> Any:
    """Return parameters with real numbers of 64 bits, as the originals have them."""
    return dataclasses.replace(params, **{name: np.float64(value) for name, value in values.items()})


def equal(found: Any, expected: Any, what: str) -> None:
    """Compare two arrays.

    Raises:
        AssertionError: If they differ.
    """
    np.testing.assert_array_equal(found, expected, err_msg=what)


def equal_rewards(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare rewards after rounding to float32.

    Raises:
        AssertionError: If they differ.
    """
    equal(found, expected.astype(np.float32), "reward")


def equal_levels(found: Any, expected: Any) -> None:
    """Compare two levels.

    Raises:
        AssertionError: If they differ.
    """
    for field in dataclasses.fields(expected):
        equal(getattr(found, field.name), getattr(expected, field.name), field.name)
