"""What all adapters share: a game with its options, programs that work on it, and arrays and spaces of the host."""

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
from jaxgym.options import is_integer, plain
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
    """An environment with the options that it plays under.

    Attributes:
        env: The environment.
        params: Its parameters, on the device.
    """

    env: AnyEnvironment
    params: EnvParams

    @classmethod
    def of(cls, env_id: str, options: Mapping[str, Any]) -> "Game":
        """Returns a game; options are those of `jaxgym.make`, `levels` and `max_steps` included."""
        env, params = registration.make(env_id, **options)
        return cls(env, jax.device_put(params))

    def under(self, env_id: str, options: Mapping[str, Any]) -> "Game":
        """Returns the game under other options.

        Raises:
            OptionError: If they are none, or change a space.
        """
        other = Game.of(env_id, options)
        for name in ("observation_space", "action_space"):
            before, after = getattr(self, name), getattr(other, name)
            if before != after:
                raise OptionError(
                    f"{env_id} was given options at a reset that change its {name} from {_brief(before)} to "
                    f"{_brief(after)}: give them to gymnasium.make."
                )
        return other

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of an observation."""
        return space_of(self.env.observation_space(self.params))

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of an action."""
        return space_of(self.env.action_space(self.params))

    def picture(self, state: Any, render_mode: str) -> np.ndarray:
        """Returns what a state looks like in a render mode: uint8 (height, width, 3), row first."""
        env = self.env
        if render_mode == _UNHIDDEN:
            return on_host(_draw_unhidden(env, state, self.params))
        if getattr(env, "observation", None) == "symbolic":
            env = dataclasses.replace(env, observation="pixels")
        drawn = draw(env, state, self.params)
        return on_host(drawn["visual_observation"] if isinstance(drawn, dict) else drawn)


def metadata_of(env_id: str) -> dict[str, Any]:
    """Returns the metadata of an environment, with the speed at which people watch its game."""
    is_seen = registration.spec_of(env_id).human is not None
    modes = [mode for mode in METADATA["render_modes"] if is_seen or mode != _UNHIDDEN]
    return {"render_modes": modes, "render_fps": _FRAMES_PER_S.get(env_id, METADATA["render_fps"])}


def checked_render_mode(env_id: str, render_mode: str | None) -> str | None:
    """Returns the render mode.

    Raises:
        OptionError: If there is no such mode.
    """
    allowed = metadata_of(env_id)["render_modes"]
    if render_mode is not None and render_mode not in allowed:
        modes = " or ".join(repr(mode) for mode in allowed)
        raise OptionError(f"{env_id} was given render_mode={render_mode!r}; give {modes}, or None to draw nothing.")
    return render_mode


def checked_options(env_id: str, options: Any) -> dict[str, Any]:
    """Returns the options of a reset; none for None.

    Raises:
        OptionError: If they are no mapping with names as keys.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise OptionError(f'{env_id} was given options={options!r}; give a dict by name, such as {{"max_steps": 64}}.')
    return dict(options)


def started(env_id: str, state: Any) -> Any:
    """Return the state of an environment in a process that can step it.

    Raises:
        ForkError: If JAX hangs in this process.
        ResetNeeded: If there is none yet.
    """
    forks.check()
    if state is None:
        raise gymnasium.error.ResetNeeded(f"{env_id} has no episode yet: call reset first.")
    return state


def _brief(space: gymnasium.Space[Any]) -> str:
    return f"Box{space.shape} of {space.dtype}" if isinstance(space, gymnasium.spaces.Box) else str(space)


def comparable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options in a form that tells by `==` whether they are the same; banks are the same if they are one."""
    return {
        name: id(value) if dataclasses.is_dataclass(value) else np.asarray(value).tolist()
        for name, value in options.items()
    }


def space_of(space: Box | Dict | Discrete | MultiDiscrete) -> gymnasium.Space[Any]:
    """Returns Gymnasium's form of a space."""
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
    """Returns a tree with its arrays on the host, as copies that may be written to."""
    return jax.tree.map(np.array, jax.device_get(tree))


def checked_action(env: AnyEnvironment, action: Any, space: gymnasium.Space[Any]) -> np.ndarray:
    """Returns an action of a space, which may be that of all lanes, as int32.

    One action of a `Discrete` space may also have the shape (1,), and those of all lanes the shape (lanes, 1): policies
    for `MultiDiscrete` spaces send these.

    What has another shape, or holds numbers that are no integers, is returned for the environment to refuse.

    Raises:
        ActionError: If it holds what is no number, an integer beyond int32, or one that the space does not have.
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
                f"{env.env_id} was given the action {given[tuple(index)]}{where}; "
                f"give an integer from 0 to {counts[tuple(index)] - 1}."
            )
    return given.astype(np.int32)


def checked_seed(env_id: str, seed: Any, most: int | None = None) -> int | None:
    """Returns the seed of a reset as Python's; None for None, which goes on with what was seeded before.

    Raises:
        LevelError: If it is no integer, below 0, or above `most`.
    """
    if seed is None:
        return None
    seed = plain(seed)
    if not is_integer(seed) or seed < 0 or (most is not None and seed > most):
        allowed = "from 0 up" if most is None else f"from 0 to {most}"
        raise LevelError(
            f"{env_id} was given seed={shown(seed)}; give an integer {allowed}, or None to go on with its episodes."
        )
    return seed


def word_of(seed: int | None) -> np.uint32:
    """Returns the start of a stream of keys for a seed, however large; a random one for None."""
    return np.random.SeedSequence(seed).generate_state(1)[0]


@partial(jax.jit, static_argnames=("env",))
def draw(env: AnyEnvironment, state: Any, params: Any) -> Any:
    """Returns the observation of a state."""
    return env.observe(jax.random.key(0), state, None, params)


@partial(jax.jit, static_argnames=("env",))
def _draw_unhidden(env: AnyEnvironment, state: Any, params: Any) -> jax.Array:
    human = registration.spec_of(env.env_id).human
    if human is None:
        raise OptionError(f"{env.env_id} has no picture of what is hidden; give render_mode='rgb_array'.")
    return human.view(env, state, params)


@partial(jax.jit, static_argnames=("env",))
def reset(env: AnyEnvironment, word: jax.Array, episode: jax.Array, params: Any) -> tuple[Any, Any]:
    """Starts the given episode of a stream of keys."""
    key = jax.random.fold_in(jax.random.key(word), episode)
    return env.reset_env(key, params)


@partial(jax.jit, static_argnames=("env",))
def step(
    env: AnyEnvironment, state: Any, action: jax.Array, params: Any
) -> tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
    """Makes a step; the last observation and state of an episode are returned as they are."""
    # A step is a function of the state and the action; the key is for the reset that does not follow here.
    observation, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
    return observation, state, reward, terminated, env.is_truncated(state, params), info
