"""Options that each episode samples from a range, such as the length of a corridor."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.environment import AnyEnvironment, Transition
from jaxgym.errors import WrapperError
from jaxgym.facts import Facts
from jaxgym.options import Integer, Real, declared
from jaxgym.wrappers.base import WrappedState, Wrapper, bare


@struct.dataclass
class SampledLevel:
    """Level with options of its own.

    Attributes:
        inner: Level of the inner environment.
        values: Values of the sampled options by name, int32 () or float32 () each.
    """

    inner: Any
    values: dict[str, jax.Array]


@dataclasses.dataclass(unsafe_hash=True)
class SampledOptions(Wrapper):
    """Environment whose levels sample some traced options log-uniformly from a range; make one with `of`.

    The values belong to the level: they stay the same during an episode, and a level buffer contains them. The values
    of these options in the parameters have no effect, except in `at_params`.

    Attributes:
        ranges: Name, lowest and highest value of each sampled option.
    """

    ranges: tuple[tuple[str, float, float], ...] = dataclasses.field(default=(), kw_only=True)

    @classmethod
    def of(cls, env: AnyEnvironment, params: Any, **ranges: tuple[float, float]) -> tuple["SampledOptions", Any]:
        """Wrap an environment.

        Args:
            env: The environment.
            params: Its parameters, without a level buffer.
            **ranges: Lowest and highest value of each sampled option, both above 0.

        Returns:
            The wrapped environment and its parameters.

        Raises:
            WrapperError: If an option is not a traced number, a range is invalid, or there is a level buffer.
        """
        if params.levels is not None:
            raise WrapperError("SampledOptions: expected params without a level buffer, got one. Set levels to None.")
        options = {name: kind for name, kind in declared(type(params)).items() if isinstance(kind, Integer | Real)}
        for name, given in ranges.items():
            if name not in options:
                raise WrapperError(
                    f"SampledOptions: expected one of the options {', '.join(sorted(options))}, got {name!r}. "
                    "Only traced numbers can be sampled."
                )
            low, high = given
            if not (0 < low <= high and options[name].accepts(low) and options[name].accepts(high)):
                raise WrapperError(
                    f"SampledOptions: {name}: expected two values above 0 in ascending order, each of them "
                    f"{options[name].allowed}, got {low} and {high}."
                )
        return cls(env, ranges=tuple((name, *given) for name, given in ranges.items())), params

    def at_params(self, levels: Any, params: Any) -> SampledLevel:
        """Return levels of the inner environment, leaves (n, ...), whose options have the values in the parameters."""
        count = jax.tree.leaves(levels)[0].shape[0]
        return SampledLevel(levels, {name: jnp.repeat(getattr(params, name), count) for name, _, _ in self.ranges})

    def sample_level(self, key: jax.Array, params: Any) -> SampledLevel:
        """Sample the options, and a level of the inner environment with them; consumes `key`."""
        keys = jax.random.split(key, len(self.ranges) + 1)
        values = {
            name: _log_uniform(own, low, high, jnp.result_type(getattr(params, name)))
            for own, (name, low, high) in zip(keys[1:], self.ranges, strict=True)
        }
        return SampledLevel(self.env.sample_level(keys[0], dataclasses.replace(params, **values)), values)

    def inner_level(self, level: SampledLevel) -> Any:
        """Return the level of the inner environment."""
        return level.inner

    def outer_level(self, level: SampledLevel, inner: Any) -> SampledLevel:
        """Return the level with another level of the inner environment."""
        return dataclasses.replace(level, inner=inner)

    def initial_state(self, level: SampledLevel, params: Any) -> WrappedState:
        """Return the state in which an episode of `level` starts."""
        return WrappedState(level=level, inner=bare(self.env.initial_state(level.inner, _with(params, level))))

    def transition(self, state: WrappedState, action: jax.Array, params: Any) -> Transition:
        """Apply the rules of the inner environment."""
        made = self.env.transition(self.inner_state(state), action, _with(params, state.level))
        return dataclasses.replace(made, state=dataclasses.replace(state, time=made.state.time, inner=bare(made.state)))

    def normalized_return(self, info: Mapping[str, jax.Array], state: WrappedState, params: Any) -> jax.Array:
        """Return the normalized return of the inner environment."""
        return self.env.normalized_return(info, self.inner_state(state), _with(params, state.level))

    def is_truncated(self, state: WrappedState, params: Any) -> jax.Array:
        """Return whether the inner environment is truncated."""
        return self.env.is_truncated(self.inner_state(state), _with(params, state.level))

    def scene(self, state: WrappedState, params: Any) -> Any:
        """Return the scene of the inner environment."""
        return self.env.scene(self.inner_state(state), _with(params, state.level))

    def hidden(self, state: WrappedState, params: Any) -> Facts:
        """Return the hidden facts of the inner environment."""
        return self.env.hidden(self.inner_state(state), _with(params, state.level))


def _with(params: Any, level: SampledLevel) -> Any:
    return dataclasses.replace(params, **level.values)


def _log_uniform(key: jax.Array, low: float, high: float, dtype: Any) -> jax.Array:
    """Sample a number between two others, () of a dtype; integers include both."""
    is_integer = jnp.issubdtype(dtype, jnp.integer)
    ends = np.log([low, high + is_integer])
    value = jnp.exp(jax.random.uniform(key, (), jnp.float32, *ends.astype(np.float32)))
    return jnp.clip(value.astype(dtype), low, high).astype(dtype)
