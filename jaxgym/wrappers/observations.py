"""Wrappers that show the agent more than the game does: where it is, or what it did last."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.environment import Transition
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.errors import WrapperError
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete
from jaxgym.wrappers.base import WrappedScene, WrappedState, Wrapper, beside, space_beside

_POSITION_NAMES = ("agent_position_px", "agent_px")
# The agent's centre may lie a little outside of the screen.
_POSITION_RANGE = (-0.5, 1.5)
# Compilers make a product of a division by a constant, which rounds otherwise.
_PER_PX = np.float32(1 / SCREEN_PX)
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(unsafe_hash=True)
class PositionObservation(Wrapper):
    """Shows where the agent is.

    An observation is a dict with an entry `position`, float32 (2,): x and y of the agent's centre on the screen, over
    the side of the screen. What the game shows is under `observation`, or under its own names if it is a dict.

    Raises:
        WrapperError: If the environment has no agent on a screen, or its observation a `position` already.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if _position_name(jax.eval_shape(self._first_scene)) is None:
            raise WrapperError(
                f"PositionObservation was given {self.env_id}, whose scene has no position of an agent; give an "
                f"environment whose scene has {' or '.join(_POSITION_NAMES)}, as the memory games do."
            )
        self.observation_space(self.env.default_params)  # refuses an entry that is there

    def _first_scene(self) -> Any:
        params = self.env.default_params
        level = self.env.sample_level(jax.random.key(0), params)
        return self.env.scene(self.env.initial_state(level, params), params)

    def scene(self, state: WrappedState, params: Any) -> WrappedScene:
        """Return the scene inside, and the position in it."""
        inner = super().scene(state, params)
        name = _position_name(inner)
        position = getattr(_innermost(inner), name or "").astype(jnp.float32) * _PER_PX
        return WrappedScene(inner, position)

    def observe_scene(self, scene: WrappedScene) -> dict[str, Any]:
        """Return what the game shows, and the position."""
        return beside(self.env.observe_scene(scene.inner), "position", scene.extra)

    def observation_space(self, params: Any = None) -> Dict:
        """That of the environment inside, and the position."""
        low, high = _POSITION_RANGE
        return space_beside(super().observation_space(params), "position", Box(low, high, (2,), jnp.float32))


def _innermost(scene: Any) -> Any:
    while isinstance(scene, WrappedScene):
        scene = scene.inner
    return scene


def _position_name(scene: Any) -> str | None:
    found = _innermost(scene)
    # A scene of shapes has no value for a property.
    return next((name for name in _POSITION_NAMES if name in dir(found)), None)


@dataclasses.dataclass(unsafe_hash=True)
class LastActionReward(Wrapper):
    """Shows the last action and the reward of it.

    An observation is a dict with an entry `last_action_reward`, float32 (n_1 + ... + n_K + 1,): a one-hot part for each
    branch of the action, then the reward; all zero at the first step of an episode. What the game shows is under
    `observation`, or under its own names if it is a dict.

    Raises:
        WrapperError: If actions are no choices, or an observation has such an entry already.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        space = self.env.action_space(self.env.default_params)
        if not isinstance(space, Discrete | MultiDiscrete):
            raise WrapperError(
                f"LastActionReward was given {self.env_id}, whose actions are {space!r}; give an environment whose "
                "actions are Discrete or MultiDiscrete."
            )
        self.observation_space(self.env.default_params)  # refuses an entry that is there

    def _sizes(self, params: Any) -> tuple[int, ...]:
        space = self.action_space(params)
        return space.nvec if isinstance(space, MultiDiscrete) else (int(space.n),)

    def initial_memory(self, level: Any, params: Any) -> jax.Array:
        """Return the zeros of the first step."""
        del level
        return jnp.zeros(sum(self._sizes(params)) + 1, dtype=jnp.float32)

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Apply the rules of the environment inside, and remembers action and reward."""
        made = super().transition(state, action, params)
        branches = [
            jax.nn.one_hot(choice, size, dtype=jnp.float32)
            for choice, size in zip(jnp.atleast_1d(action), self._sizes(params), strict=True)
        ]
        last = jnp.concatenate([*branches, made.reward[None]])
        return dataclasses.replace(made, state=dataclasses.replace(made.state, memory=last))

    def scene(self, state: WrappedState, params: Any) -> WrappedScene:
        """Return the scene inside, and what was done last."""
        return WrappedScene(super().scene(state, params), state.memory)

    def observe_scene(self, scene: WrappedScene) -> dict[str, Any]:
        """Return what the game shows, and what was done last."""
        return beside(self.env.observe_scene(scene.inner), "last_action_reward", scene.extra)

    def observation_space(self, params: Any = None) -> Dict:
        """That of the environment inside, and what was done last; rewards have no bounds."""
        shape = (sum(self._sizes(params)) + 1,)
        entry = Box(-_LARGEST, _LARGEST, shape, jnp.float32)
        return space_beside(super().observation_space(params), "last_action_reward", entry)
