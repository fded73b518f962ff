"""Fully observable twins: `make(..., observability="full")` adds the hidden facts of a game to its observation."""

import dataclasses
import functools
from typing import Any

import jax

from jaxgym import facts
from jaxgym.environment import AnyEnvironment
from jaxgym.spaces import Box, Dict


class FullyObservable:
    """First base class of a twin; states, rules and levels are those of the game."""

    partial_class: type[Any]
    observability = "full"

    def scene(self, state: Any, params: Any) -> Any:
        """Return the scene with the hidden facts; the scene alone if the game declares none."""
        hidden = facts.hidden(self, state, params)
        inner = self.partial_class.scene(self, state, params)
        return facts.FullScene(inner, hidden) if hidden else inner

    def observe_scene(self, scene: Any) -> Any:
        """Return the observation of the game with the hidden facts."""
        if not isinstance(scene, facts.FullScene):
            return self.partial_class.observe_scene(self, scene)
        return facts.added(self, self.partial_class.observe_scene(self, scene.inner), scene.facts)

    def visible(self, scene: Any) -> Any:
        """Return the facts that the frame of the game shows."""
        return self.partial_class.visible(self, scene.inner if isinstance(scene, facts.FullScene) else scene)

    def observation_space(self, params: Any = None) -> Box | Dict:
        """Return the space of the game with room for the hidden facts."""
        env: Any = self
        params = env.default_params if params is None else params
        observation = jax.eval_shape(env.reset_env, jax.random.key(0), params)[0]
        return facts.enlarged(self.partial_class.observation_space(self, params), observation)


@functools.cache
def full_class(kind: type[AnyEnvironment]) -> type[AnyEnvironment]:
    """Return the class of fully observable environments of a game; equal instances stay equal."""
    return type(f"Full{kind.__name__}", (FullyObservable, kind), {"partial_class": kind, "__doc__": kind.__doc__})


def partial_of(env: Any) -> Any:
    """Return the environment with the normal observation; others are returned unchanged."""
    if not isinstance(env, FullyObservable):
        return env
    return env.partial_class(**{field.name: getattr(env, field.name) for field in dataclasses.fields(env)})  # pyright: ignore[reportArgumentType]
