"""Environment under test, and instrumented copies of it, which `jaxgym.testing.check_env` runs."""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.environment import AnyEnvironment, EnvParams, Transition

SEEDS = 8
"""Number of levels, and of steps, in most checks."""

TIME_LIMIT = 3
"""Time limit in steps in the check of time limits."""

jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""`jax.jit` without optimization of machine code, because these programs run a few times only."""


class AlwaysTerminated:
    """Copy of an environment whose every step terminates the episode."""

    def __init__(self, env: AnyEnvironment) -> None:
        class Ending(type(env)):
            def transition(self, state: Any, action: jax.Array, params: Any) -> Transition:
                made = super().transition(state, action, params)
                return dataclasses.replace(made, terminated=jnp.ones_like(made.terminated))

        ending = _same(Ending, env)
        self.step, self.step_env = jit(ending.step), jit(ending.step_env)


class RenderCounter:
    """Copy of an environment that counts the renderings of a compiled batch."""

    def __init__(self, env: AnyEnvironment) -> None:
        self._counts = counts = {"traced": 0, "run": 0}

        def note(number: np.ndarray) -> np.ndarray:
            counts["run"] += 1
            return np.zeros(np.shape(number), np.int32)

        def marked(observation: Any) -> Any:
            """Return the observation with a data dependence on `note`, so that XLA can't compute it without a call."""
            counts["traced"] += 1
            number = next(leaf for leaf in jax.tree.leaves(observation) if leaf.size).ravel()[0]
            zero = jax.pure_callback(note, jax.ShapeDtypeStruct((), jnp.int32), number, vmap_method="expand_dims")
            return jax.tree.map(lambda leaf: jnp.where(zero == 0, leaf, jnp.zeros_like(leaf)), observation)

        class Drawn(type(env)):
            def observe(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
                before = counts["traced"]
                observation = super().observe(key, state, action, params)
                return observation if counts["traced"] > before else marked(observation)

            def observe_scene(self, scene: Any) -> Any:
                return marked(super().observe_scene(scene))

        drawn = _same(Drawn, env)

        def step_unread(*args: Any) -> Any:
            *stepped, info = drawn.step(*args)
            return *stepped, {name: entry for name, entry in info.items() if name != "final_observation"}

        self._observe = drawn.observe
        self.step, self.step_unread = (
            jit(jax.vmap(step, in_axes=(0, 0, 0, None))) for step in (drawn.step, step_unread)
        )

    def marks_of_a_drawing(self, key: jax.Array, state: Any, params: Any) -> int:
        """Return the number of marks in one call of `observe`."""
        self._counts["traced"] = 0
        jax.eval_shape(lambda: self._observe(key, state, None, params))
        return self._counts["traced"]

    def marks(self, step: Callable[..., Any], *args: Any) -> int:
        """Return the number of marks that run in a compiled step."""
        self._counts["run"] = 0
        jax.block_until_ready(step(*args))
        return self._counts["run"]


def _same(kind: type[Any], env: AnyEnvironment) -> Any:
    """Return an environment of another class with the same fields."""
    return kind(**{field.name: getattr(env, field.name) for field in dataclasses.fields(env)})


class Case:
    """Environment under test with its jitted functions, each of which compiles once."""

    def __init__(self, env: AnyEnvironment, params: Any, seed: int) -> None:
        self.env, self.params = env, params
        self.unlimited = dataclasses.replace(params, max_steps_in_episode=np.int32(0))
        self.limited = dataclasses.replace(params, max_steps_in_episode=np.int32(TIME_LIMIT))
        self._key = jax.random.key(seed)
        # Shared by all checks: `reset` and `step`, and `step_env`, which is the step before auto-reset.
        self.reset, self.step, self.step_env = jit(env.reset), jit(env.step), jit(env.step_env)
        self.reset_to_level = jit(env.reset_to_level)
        self.ending, self.drawn = AlwaysTerminated(env), RenderCounter(env)
        # Compilation dominates. Level sampling is often the largest program, so only checks of fresh levels compile it.
        self.vmapped_reset = jit(jax.vmap(env.reset, in_axes=(0, None)))
        self.fresh = dataclasses.replace(params, levels=None)

    def compile(self) -> None:
        """Make a level buffer and compile all programs side by side; each check then finds them compiled."""
        key, keys, action = self.key(), self.keys(SEEDS), self.action()
        actions = jnp.stack([action] * SEEDS)

        def call_fresh() -> None:
            state = self.reset(key, self.params)[1]
            for step in (self.step, self.step_env):
                step(key, state, action, self.params)

        def call_eagerly() -> None:
            with jax.disable_jit():
                self.step(key, self.reset(key, self.buffered)[1], action, self.buffered)

        # The block waits for all calls and ignores their errors. A check that meets the same error explains it.
        with ThreadPoolExecutor() as executor:
            executor.submit(call_fresh)
            states = self.vmapped_reset(keys, self.fresh)[1]
            self.buffer = states.level
            self.buffered = dataclasses.replace(self.params, levels=self.buffer)
            state = jax.tree.map(lambda leaf: leaf[0], states)
            # They count while they are traced, so they are traced one after the other.
            drawn = (self.drawn.step, self.drawn.step_unread)
            steps = (self.step, self.ending.step, self.ending.step_env)
            calls = (
                lambda: [step(keys, states, actions, self.buffered) for step in drawn],
                call_eagerly,
                *(partial(step, key, state, action, self.buffered) for step in steps),
                lambda: self.reset(key, self.buffered),
                lambda: self.reset_to_level(key, state.level, self.fresh),
            )
            for call in calls:
                executor.submit(call)

    def key(self) -> jax.Array:
        """Return a fresh key."""
        self._key, key = jax.random.split(self._key)
        return key

    def keys(self, count: int) -> jax.Array:
        """Return `count` fresh keys."""
        return jax.random.split(self.key(), count)

    def action(self) -> jax.Array:
        """Return a random action."""
        return self.env.action_space(self.params).sample(self.key())

    def play(self, steps: int, params: EnvParams) -> Iterator[tuple[Any, jax.Array, Any, Any]]:
        """Yield state, action, the result of `step_env` and the result of `step`, for a number of random steps."""
        _, state = self.reset(self.key(), params)
        for _ in range(steps):
            action = self.action()
            alone = self.step_env(self.key(), state, action, params)
            stepped = self.step(self.key(), state, action, params)
            yield state, action, alone, stepped
            state = stepped[1]
