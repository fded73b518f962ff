"""Wrappers that add the agent's position, or the last action and reward, to the observation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.environment import Transition
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.errors import WrapperError
from jaxgym.facts import FullScene
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete
from jaxgym.wrappers.base import WrappedScene, WrappedState, Wrapper, beside, space_beside

_POSITION_NAMES = ("agent_position_px", "agent_px")
# The agent's center can be slightly outside of the screen.
_POSITION_RANGE = (-0.5, 1.5)
# A product, because compilers replace a division by a constant with a product, which rounds differently.
_PER_PX = np.float32(1 / SCREEN_PX)
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(unsafe_hash=True)
class PositionObservation(Wrapper):
    """Wrapper that adds the agent's position to the observation.

    An observation is a dict with an entry `position`, float32 (2,): x and y of the agent's center divided by the side
    of the screen. The inner observation is the entry `observation`, or keeps its entries if it is a dict.

    Raises:
        WrapperError: If the scene has no position of an agent, or the observation already has a `position`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if _position_name(jax.eval_shape(self._first_scene)) is None:
            raise WrapperError(
                f"PositionObservation: expected an environment whose scene has {' or '.join(_POSITION_NAMES)}, got "
                f"{self.env_id}. The Memory Gym environments have one."
            )
        self.observation_space(self.env.default_params)  # raises if the observation already has the entry

    def _first_scene(self) -> Any:
        params = self.env.default_params
        level = self.env.sample_level(jax.random.key(0), params)
        return self.env.scene(self.env.initial_state(level, params), params)

    def scene(self, state: WrappedState, params: Any) -> WrappedScene:
        """Return the inner scene and the agent's position in it."""
        inner = super().scene(state, params)
        name = _position_name(inner)
        position = getattr(_innermost(inner), name or "").astype(jnp.float32) * _PER_PX
        return WrappedScene(inner, position)

    def observe_scene(self, scene: WrappedScene) -> dict[str, Any]:
        """Return the inner observation and the position."""
        return beside(self.env.observe_scene(scene.inner), "position", scene.extra)

    def observation_space(self, params: Any = None) -> Dict:
        """Return the inner observation space with the position."""
        low, high = _POSITION_RANGE
        return space_beside(super().observation_space(params), "position", Box(low, high, (2,), jnp.float32))


def _innermost(scene: Any) -> Any:
    while isinstance(scene, WrappedScene | FullScene):
        scene = scene.inner
    return scene


def _position_name(scene: Any) -> str | None:
    found = _innermost(scene)
    # `dir` instead of `hasattr`: a property can't be evaluated on a scene of `jax.ShapeDtypeStruct`s.
    return next((name for name in _POSITION_NAMES if name in dir(found)), None)


@dataclasses.dataclass(unsafe_hash=True)
class LastActionReward(Wrapper):
    """Wrapper that adds the last action and its reward to the observation.

    An observation is a dict with an entry `last_action_reward`, float32 (n_1 + ... + n_K + 1,): a one-hot vector for
    each branch of the action, then the reward; zeros at the first step of an episode. The inner observation is the
    entry `observation`, or keeps its entries if it is a dict.

    Raises:
        WrapperError: If the action space is not discrete, or the observation already has the entry.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        space = self.env.action_space(self.env.default_params)
        if not isinstance(space, Discrete | MultiDiscrete):
            raise WrapperError(
                f"LastActionReward: expected a Discrete or MultiDiscrete action space, got {space!r} of {self.env_id}."
            )
        self.observation_space(self.env.default_params)  # raises if the observation already has the entry

    def _sizes(self, params: Any) -> tuple[int, ...]:
        space = self.action_space(params)
        return space.nvec if isinstance(space, MultiDiscrete) else (int(space.n),)

    def initial_memory(self, level: Any, params: Any) -> jax.Array:
        """Return zeros for the first step."""
        return jnp.zeros(sum(self._sizes(params)) + 1, dtype=jnp.float32)

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Apply the rules of the inner environment, and store the action and the reward."""
        made = super().transition(state, action, params)
        branches = [
            jax.nn.one_hot(choice, size, dtype=jnp.float32)
            for choice, size in zip(jnp.atleast_1d(action), self._sizes(params), strict=True)
        ]
        last = jnp.concatenate([*branches, made.reward[None]])
        return dataclasses.replace(made, state=dataclasses.replace(made.state, memory=last))

    def scene(self, state: WrappedState, params: Any) -> WrappedScene:
        """Return the inner scene, and the last action and reward."""
        return WrappedScene(super().scene(state, params), state.memory)

    def observe_scene(self, scene: WrappedScene) -> dict[str, Any]:
        """Return the inner observation, and the last action and reward."""
        return beside(self.env.observe_scene(scene.inner), "last_action_reward", scene.extra)

    def observation_space(self, params: Any = None) -> Dict:
        """Return the inner observation space with the last action and reward; rewards are unbounded."""
        shape = (sum(self._sizes(params)) + 1,)
        entry = Box(-_LARGEST, _LARGEST, shape, jnp.float32)
        return space_beside(super().observation_space(params), "last_action_reward", entry)
