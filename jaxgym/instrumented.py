"""Instrumented copies of an environment, which `jaxgym.testing.check_env` runs."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.environment import AnyEnvironment, Transition

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
