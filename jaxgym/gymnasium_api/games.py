"""Shared parts of the adapters: an environment with its options, jitted programs, and conversion to NumPy."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np

from jaxgym import forks, registration
from jaxgym.environment import AnyEnvironment, EnvParams
from jaxgym.errors import ActionError, LevelError, OptionError, shown
from jaxgym.observability import partial_of
from jaxgym.options import is_integer, plain
from jaxgym.pytrees import frame_of
from jaxgym.spaces import Box, Dict, Discrete, MultiDiscrete

_UNHIDDEN = "debug_rgb_array"
METADATA = {"render_modes": ["rgb_array", _UNHIDDEN], "render_fps": 25}
_FRAMES_PER_S = {
    "MortarMayhem-Grid-v0": 6,
    "MortarMayhemB-Grid-v0": 1,
    "MysteryPath-Grid-v0": 3,
    "FrozenLake-v0": 4,
    "Sudoku-v0": 4,
}


@dataclasses.dataclass(frozen=True)
class Game:
    """Environment made with the options of a Gymnasium environment.

    Attributes:
        env: The environment.
        params: Its parameters, on the device.
        options: The options, in a form that can be compared with `==`; level buffers are compared by identity.
    """

    env: AnyEnvironment
    params: EnvParams
    options: Mapping[str, Any]

    @classmethod
    def of(cls, env_id: str, options: Mapping[str, Any]) -> "Game":
        """Make an environment with options of `jaxgym.make`, including `levels` and `max_steps`."""
        env, params = registration.make(env_id, **options)
        return cls(env, jax.device_put(params), comparable(options))

    def under(self, env_id: str, options: Mapping[str, Any]) -> "Game":
        """Return the game with other options, or the same object for equal ones.

        Raises:
            OptionError: If an option is invalid or changes a space.
        """
        if comparable(options) == self.options:
            return self
        other = Game.of(env_id, options)
        for name in ("observation_space", "action_space"):
            before, after = getattr(self, name), getattr(other, name)
            if before != after:
                raise OptionError(
                    f"{env_id}: expected reset options that keep the {name} {_brief(before)}, got {_brief(after)}. "
                    "Pass them to gymnasium.make."
                )
        return other

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Observation space."""
        return space_of(self.env.observation_space(self.params))

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Action space."""
        return space_of(self.env.action_space(self.params))

    def image(self, state: Any, render_mode: str) -> np.ndarray:
        """Render a state in a render mode, uint8 (height, width, 3), row first."""
        env = self.env
        if render_mode == _UNHIDDEN:
            return on_host(_draw_unhidden(env, state, self.params))
        if "pixels" not in getattr(env, "observation", "pixels"):
            env = dataclasses.replace(env, observation="pixels")
        return on_host(frame_of(env, draw(env, state, self.params)))


class SingleEnv(gymnasium.Env[Any, Any]):
    """Base class of the single environments.

    Attributes:
        game: The environment and the parameters of the current episode.
    """

    metadata = METADATA
    game: Game

    def __init__(self, env_id: str, render_mode: str | None, options: dict[str, Any]):
        self.metadata = metadata_of(env_id)
        self.render_mode = checked_render_mode(env_id, render_mode)
        self._env_id, self._options = env_id, options
        self._state: Any = None

    def render(self) -> np.ndarray | None:
        """Return an image of the current state, row first, or None without a render mode.

        `"rgb_array"` is the agent's frame, uint8 (84, 84, 3); `"debug_rgb_array"` also shows hidden information,
        uint8 (336, 336, 3).
        """
        if self.render_mode is None:
            return None
        return self.game.image(started(self._env_id, self._state), self.render_mode)


def metadata_of(env_id: str) -> dict[str, Any]:
    """Return the metadata of an environment; `render_fps` is a comfortable speed for people."""
    is_seen = registration.spec_of(env_id).human is not None
    modes = [mode for mode in METADATA["render_modes"] if is_seen or mode != _UNHIDDEN]
    return {"render_modes": modes, "render_fps": _FRAMES_PER_S.get(env_id, METADATA["render_fps"])}


def check_layout(env_id: str, package: str) -> None:
    """Check that no other package than this one has an interface for the environment.

    Raises:
        OptionError: If its original is in another package.
    """
    original = registration.spec_of(env_id).original
    if original is not None and original.package not in (package, None):
        raise OptionError(
            f"{env_id}: expected {original.package}_layout=True, got {package}_layout=True. Pass the former or neither."
        )


def checked_render_mode(env_id: str, render_mode: str | None) -> str | None:
    """Return a render mode of the environment.

    Raises:
        OptionError: If the environment does not have it.
    """
    allowed = metadata_of(env_id)["render_modes"]
    if render_mode is not None and render_mode not in allowed:
        modes = " or ".join(repr(mode) for mode in allowed)
        raise OptionError(f"{env_id}: render_mode: expected {modes}, or None, got {render_mode!r}.")
    return render_mode


def checked_options(env_id: str, options: Any) -> dict[str, Any]:
    """Return the options of a reset as a dict, which is empty for None.

    Raises:
        OptionError: If they are not a mapping with string keys.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise OptionError(f'{env_id}: options: expected a dict such as {{"max_steps": 64}}, got {options!r}.')
    return dict(options)


def started(env_id: str, state: Any) -> Any:
    """Return the state of an environment that can be stepped.

    Raises:
        ForkError: In a forked child of a process that runs JAX.
        ResetNeeded: If the environment has not been reset.
    """
    forks.check()
    if state is None:
        raise gymnasium.error.ResetNeeded(f"{env_id}: expected a running episode, got none. Call reset first.")
    return state


def _brief(space: gymnasium.Space[Any]) -> str:
    return f"Box{space.shape} of {space.dtype}" if isinstance(space, gymnasium.spaces.Box) else str(space)


def comparable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in a form that can be compared with `==`; level buffers are compared by identity."""
    return {
        name: id(value) if dataclasses.is_dataclass(value) else np.asarray(value).tolist()
        for name, value in options.items()
    }


def space_of(space: Box | Dict | Discrete | MultiDiscrete) -> gymnasium.Space[Any]:
    """Return the Gymnasium space of a space."""
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(list(space.nvec))
    if isinstance(space, Dict):
        return gymnasium.spaces.Dict({name: space_of(part) for name, part in space.spaces.items()})
    dtype: Any = np.dtype(space.dtype)
    low, high = (np.broadcast_to(bound, space.shape).astype(dtype) for bound in (space.low, space.high))
    return gymnasium.spaces.Box(low, high, dtype=dtype)


def on_host(tree: Any) -> Any:
    """Return a tree with its arrays copied to writable host arrays."""
    return jax.tree.map(np.array, jax.device_get(tree))


def observed(observation: Any) -> Any:
    """Return an observation on the host; an integer of a `Discrete` space is a NumPy int64, which Gymnasium expects."""

    def converted(leaf: np.ndarray) -> Any:
        return np.int64(leaf) if leaf.ndim == 0 and np.issubdtype(leaf.dtype, np.integer) else np.array(leaf)

    return jax.tree.map(converted, jax.device_get(observation))


def checked_action(env: AnyEnvironment, action: Any, space: gymnasium.Space[Any]) -> np.ndarray:
    """Return an action, or the actions of a vector environment, as int32.

    An action of a `Discrete` space may also have shape (1,), and a batch of them shape (num_envs, 1), as policies for
    `MultiDiscrete` spaces return. An action of another shape, or one that is not an integer, is returned unchanged; the
    environment raises the error.

    Raises:
        ActionError: If it contains a value that is not a number, an integer beyond int32, or one outside of the space.
    """
    given = np.asarray(env.action_array(action))
    if given.shape == (*(space.shape or ()), 1) and not env.action_space(env.default_params).shape:
        given = given[..., 0]
    if not np.issubdtype(given.dtype, np.integer):
        return given
    counts = np.asarray(space.nvec if isinstance(space, gymnasium.spaces.MultiDiscrete) else getattr(space, "n", None))
    if given.shape == counts.shape:
        is_outside = (given < 0) | (given >= counts)
        if is_outside.any():
            index = np.argwhere(is_outside)[0].tolist()
            where = f" at index {index}" if index else ""
            raise ActionError(
                f"{env.env_id}: action: expected an integer from 0 to {counts[tuple(index)] - 1}, "
                f"got {given[tuple(index)]}{where}."
            )
    return given.astype(np.int32)


def checked_seed(env_id: str, seed: Any, most: int | None = None) -> int | None:
    """Return the seed of a reset as an int, or None to continue the current sequence of episodes.

    Raises:
        LevelError: If it is not an integer from 0 to `most`.
    """
    if seed is None:
        return None
    seed = plain(seed)
    if not is_integer(seed) or seed < 0 or (most is not None and seed > most):
        allowed = "of at least 0" if most is None else f"from 0 to {most}"
        raise LevelError(f"{env_id}: seed: expected an integer {allowed}, or None, got {shown(seed)}.")
    return seed


def root_of(seed: int | None) -> np.uint32:
    """Return the root of a stream of PRNG keys for a seed of any size; a random root for None."""
    return np.random.SeedSequence(seed).generate_state(1)[0]


@partial(jax.jit, static_argnames=("env",))
def draw(env: AnyEnvironment, state: Any, params: Any) -> Any:
    """Return the observation of a state."""
    return env.observe(jax.random.key(0), state, None, params)


@partial(jax.jit, static_argnames=("env",))
def _draw_unhidden(env: AnyEnvironment, state: Any, params: Any) -> jax.Array:
    human = registration.spec_of(env.env_id).human
    if human is None:
        raise OptionError(f"{env.env_id} has no view of hidden information. Use render_mode='rgb_array'.")
    return human.view(partial_of(env), state, params)


@partial(jax.jit, static_argnames=("env",))
def reset(env: AnyEnvironment, word: jax.Array, episode: jax.Array, params: Any) -> tuple[Any, Any]:
    """Start episode number `episode` of a stream of keys."""
    key = jax.random.fold_in(jax.random.key(word), episode)
    return env.reset_env(key, params)


@partial(jax.jit, static_argnames=("env",))
def step(
    env: AnyEnvironment, state: Any, action: jax.Array, params: Any
) -> tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
    """Make a step without auto-reset."""
    # The step is deterministic, so the key is not used.
    observation, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
    return observation, state, reward, terminated, env.is_truncated(state, params), info
