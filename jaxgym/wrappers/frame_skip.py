"""Frame skipping: each action is repeated for a number of steps; the agent observes the last one."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym.environment import Transition
from jaxgym.errors import WrapperError
from jaxgym.wrappers.base import OuterParams, WrappedState, Wrapper, bare, inside


@struct.dataclass
class FrameSkipParams(OuterParams):
    """Parameters with a traced number of steps.

    Attributes:
        num_frames: Number of steps for each action, int32 (); values below 1 mean 1.
    """

    num_frames: jax.Array | np.ndarray | int = 1


@dataclasses.dataclass(unsafe_hash=True)
class FrameSkip(Wrapper):
    """Wrapper that repeats each action and sums the rewards.

    The repetition stops when the episode terminates or is truncated; `final_observation` is the observation of that
    step. `state.time`, `info["episode_length"]` and the time limit count steps of the inner environment. Only the last
    of the repeated steps is rendered.

    Attributes:
        num_frames: Number of steps for each action, at least 1. With None the number is traced: the parameters are
            `FrameSkipParams`, and the default is one step.
    """

    num_frames: int | None = 4

    def __post_init__(self) -> None:
        number = self.num_frames
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise WrapperError(f"FrameSkip: num_frames: expected an integer of at least 1, or None, got {number!r}.")
        if number is None and self.initial_params is None:
            inner = self.env.default_params
            traced = FrameSkipParams(
                inner.max_steps_in_episode, inner.levels, inner=dataclasses.replace(inner, levels=None)
            )
            object.__setattr__(self, "initial_params", traced)
        super().__post_init__()

    def inner_params(self, params: Any) -> Any:
        """Return the parameters of the inner environment."""
        return params if self.num_frames is not None else inside(params)

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Repeat the action until the number of steps is reached or the episode ends."""
        inner_params = self.inner_params(params)
        # The caller has already counted this step, and `_advance` counts it again.
        first = dataclasses.replace(self.inner_state(state), time=state.time - 1)

        def step(inner: Any) -> tuple[Any, jax.Array, jax.Array, dict[str, jax.Array]]:
            return self.env._advance(inner, action, inner_params)

        def repeat(_: jax.Array, carried: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            (inner, total, terminated, info), ended = carried
            stepped = step(inner)
            stepped = (stepped[0], total + stepped[1], *stepped[2:])
            kept = jax.tree.map(partial(jnp.where, ended), (inner, total, terminated, info), stepped)
            return kept, kept[2] | self.env.is_truncated(kept[0], inner_params)

        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(step, first))
        number = jnp.maximum(params.num_frames, 1) if self.num_frames is None else self.num_frames
        carried = ((first, *blank[1:]), jnp.bool_(False))
        (inner, reward, terminated, info), _ = lax.fori_loop(0, number, repeat, carried)
        metrics = {name: entry for name, entry in info.items() if name not in {"episode_return", "episode_length"}}
        return Transition(dataclasses.replace(state, time=inner.time, inner=bare(inner)), reward, terminated, metrics)
