"""Actions as arrays, and their validation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym.errors import ActionError, ContractError, shown
from jaxgym.spaces import Discrete, MultiDiscrete

_RANGE = np.iinfo(np.int32)


def as_array(env: Any, action: Any) -> jax.Array | np.ndarray:
    """Return an action or a batch of actions as an array that JAX accepts.

    Raises:
        ActionError: If the value is not a number or a list of numbers, or contains an integer beyond int32.
    """
    if isinstance(action, jax.Array):
        return action
    try:
        given = np.asarray(action)
    except jax.errors.TracerArrayConversionError:  # a list of traced numbers
        return jnp.asarray(action)
    except ValueError:  # lists of different lengths
        given = np.asarray(None)
    is_integer = np.issubdtype(given.dtype, np.integer)
    is_number = is_integer or np.issubdtype(given.dtype, np.floating) or given.dtype == np.bool_
    if not is_number or (is_integer and ((given < _RANGE.min) | (given > _RANGE.max)).any()):
        space = env.action_space(env.default_params)
        raise ActionError(
            f"{env.env_id}: action must be an int32 array of shape {space.shape} ({space!r}), got {action!r}."
        )
    return given


def checked_action(env: Any, action: Any, params: Any) -> jax.Array:
    """Return one action as int32.

    Raises:
        ActionError: If the action does not have the shape of the action space and an integer dtype.
        ContractError: If `env.action_space` is not a space of jaxgym.
    """
    space = checked_space(env.env_id, env.action_space(params))
    action = jnp.asarray(as_array(env, action))
    if action.shape != space.shape:
        raise ActionError(
            f"{env.env_id}: action must have shape {space.shape} ({space!r}), got {action.shape}. "
            "For a batch of actions, jax.vmap the step."
        )
    if not jnp.issubdtype(action.dtype, jnp.integer):
        raise ActionError(
            f"{env.env_id}: action must be an integer array ({space!r}), got {action.dtype}. "
            "Cast it with action.astype(jnp.int32)."
        )
    return action.astype(jnp.int32)


def checked_space(env_id: str, space: Any) -> Discrete | MultiDiscrete:
    """Return an action space.

    Raises:
        ContractError: If it is of another kind.
    """
    if not isinstance(space, Discrete | MultiDiscrete):
        raise ContractError(
            f"{env_id}: action_space: expected a Discrete or MultiDiscrete of jaxgym.spaces, got {shown(space)}."
        )
    return space
