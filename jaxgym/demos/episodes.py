"""Episodes of the scripted expert, many at a time."""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import levels, registry
from jaxgym.errors import OptionError

BATCH = 32
"""Number of episodes that are played at once."""


class Demonstration(NamedTuple):
    """Episode of the expert, with T steps.

    Attributes:
        seed: The level seed.
        actions: int32 (T,), or (T, n) for actions of n numbers.
        rewards: float32 (T,).
        terminated: Whether the rules of the game ended the episode.
        truncated: Whether a limit on steps ended the episode.
        is_success: Whether the last `info` reports success; False in environments without this entry.
        observations: The observations before each step and after the last one, with leaves (T + 1, ...), or None.
    """

    seed: int
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    is_success: bool
    observations: Any


@dataclasses.dataclass(frozen=True)
class _Program:
    """Start and step of a batch of episodes of the expert."""

    env: Any
    expert: Any
    observe: bool

    @partial(jax.jit, static_argnames=("self",))
    def start(self, params: Any, buffer: Any) -> tuple[Any, Any]:
        """Return the states and observations at the start of levels."""

        def start(level: Any) -> tuple[Any, Any]:
            state = self.env.initial_state(level, params)
            return state, self._kept(self.env.observe(jax.random.key(0), state, None, params))

        return jax.vmap(start)(buffer)

    @partial(jax.jit, static_argnames=("self",))
    def step(self, params: Any, states: Any) -> tuple[Any, Any, Any]:
        """Return the states, the observations and the results of a step."""

        def step(state: Any) -> tuple[Any, Any, Any]:
            action = jnp.asarray(self.expert(self.env, state, params), jnp.int32)
            # The key of a step is for auto-reset, which `step_env` does not do.
            observation, state, reward, terminated, info = self.env.step_env(jax.random.key(0), state, action, params)
            truncated = self.env.is_truncated(state, params)
            is_success = jnp.asarray(info.get("success", 0)) > 0
            return state, self._kept(observation), (action, reward, terminated, truncated, is_success)

        return jax.vmap(step)(states)

    def _kept(self, observation: Any) -> Any:
        return observation if self.observe else None


def play(
    env: Any, params: Any, seeds: Sequence[int] | np.ndarray, max_steps: int, *, observe: bool = False
) -> Iterator[list[Demonstration]]:
    """Play the levels of seeds with the expert; return the episodes in batches, in the order of the seeds.

    Args:
        env: An environment of `jaxgym.make`.
        params: Its parameters.
        seeds: Level seeds, at least one.
        max_steps: Number of steps after which an episode is truncated.
        observe: Whether to return the observations.

    Raises:
        OptionError: If the environment has no expert, or `max_steps` is not positive.
        LevelError: If a seed is invalid.
    """
    expert = registry.load(env.env_id).expert
    if expert is None:
        raise OptionError(f"{env.env_id} has no expert. Choose another environment.")
    if max_steps < 1:
        raise OptionError(f"expected at least 1 step, got {max_steps}.")
    program = _Program(env, expert, observe)
    return _batches(program, params, np.asarray(levels.checked_seeds(seeds)), max_steps)


def _batches(program: _Program, params: Any, seeds: np.ndarray, max_steps: int) -> Iterator[list[Demonstration]]:
    batch = min(BATCH, len(seeds))
    for first in range(0, len(seeds), batch):
        part = seeds[first : first + batch]
        # Batches of equal size compile once; the additional episodes of the last one are dropped.
        buffer = levels.make_level_buffer(program.env, params, np.resize(part, batch))
        yield _played(program, params, buffer, part.tolist(), max_steps)


def _played(program: _Program, params: Any, buffer: Any, seeds: Sequence[int], max_steps: int) -> list[Demonstration]:
    states, observation = program.start(params, buffer)
    observations, steps = [jax.device_get(observation)], list[Any]()
    lengths = np.zeros(len(seeds), int)  # 0 while an episode runs
    while len(steps) < max_steps and not lengths.all():
        states, observation, step = program.step(params, states)
        observations.append(jax.device_get(observation))
        steps.append(jax.device_get(step))
        _, _, terminated, truncated, _ = steps[-1]
        has_ended = (terminated | truncated)[: len(seeds)]
        lengths = np.where((lengths == 0) & has_ended, len(steps), lengths)
    actions, rewards, *flags = (np.stack(column, axis=1) for column in zip(*steps, strict=True))
    played = list[Demonstration]()
    for row, (seed, length) in enumerate(zip(seeds, lengths.tolist(), strict=True)):
        steps_of_row = length or len(steps)
        terminated, truncated, is_success = (bool(flag[row, steps_of_row - 1]) for flag in flags)
        seen = jax.tree.map(
            lambda *leaves, row=row: np.stack([leaf[row] for leaf in leaves]), *observations[: steps_of_row + 1]
        )
        made = actions[row, :steps_of_row], rewards[row, :steps_of_row]
        played.append(Demonstration(seed, *made, terminated, truncated or not length, is_success, seen))
    return played
