"""Checks of memory cells: shapes, which `make_memory` checks, and values, which `baselines.check_memory` checks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from baselines.config import Config
from baselines.errors import ConfigError
from baselines.memories.cell import MemoryCell, Shape
from jaxgym.errors import ContractError, shown
from jaxgym.pytrees import described, first_difference

_TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}


def build(name: str, cell: type[MemoryCell], config: Config, frame: Shape | None) -> MemoryCell:
    """Return `cell.from_config(config, frame)`.

    Raises:
        ConfigError: if a setting or the observation does not suit the cell.
        ContractError: if `from_config` raises another error, or returns anything else than a cell.
    """
    try:
        made = cell.from_config(config, frame)
    except ConfigError:
        raise
    except Exception as error:
        raise ContractError(f"memory {name!r}: from_config: expected a MemoryCell, got {_cause(error)}.") from error
    if not isinstance(made, MemoryCell):
        raise ContractError(f"memory {name!r}: from_config: expected a MemoryCell, got {shown(made)}.")
    return made


def check_shapes(name: str, cell: MemoryCell, inputs: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """Check the shapes of a cell's state and outputs without computing them.

    Args:
        name: the name of the cell, for errors.
        cell: the cell.
        inputs: shape (T, B, D) and dtype of its inputs.

    Returns:
        The shape of the outputs, (T, B, H).

    Raises:
        ContractError: if a method raises, or a shape or dtype differs from the documented one.
    """
    steps, num_envs, _ = inputs.shape
    starts = jax.ShapeDtypeStruct((steps, num_envs), jnp.bool_)
    state = _shapes(name, "initial_state", lambda: cell.initial_state(num_envs))
    for path, leaf in tree_leaves_with_path(state):
        if leaf.shape[:1] != (num_envs,):
            raise ContractError(
                f"memory {name!r}: initial_state({num_envs}){keystr(path)}: expected an array of shape "
                f"({num_envs}, ...), got {described(leaf)}."
            )
    arguments = jax.random.key(0), state, inputs, starts
    result = _shapes(name, "__call__", lambda *given: cell.init_with_output(*given)[0], *arguments)
    if not isinstance(result, tuple) or len(result) != len(("state", "outputs")):
        raise ContractError(f"memory {name!r}: __call__: expected a state and outputs, got {shown(result)}.")
    after, outputs = result
    difference = first_difference(state, after)
    if difference is not None:
        path, expected, got = difference
        raise ContractError(
            f"memory {name!r}: __call__: state{path}: expected {expected}, as in initial_state, got {got}."
        )
    leaves = jax.tree.leaves(outputs)
    is_array = len(leaves) == 1 and leaves[0] is outputs and jnp.issubdtype(outputs.dtype, jnp.floating)
    if not is_array or outputs.shape[:-1] != (steps, num_envs):
        got = described(outputs) if is_array else shown(outputs)
        raise ContractError(
            f"memory {name!r}: __call__: expected outputs of shape ({steps}, {num_envs}, H), got {got}."
        )
    return outputs


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")


def _shapes(name: str, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except (ConfigError, ContractError):
        raise
    except Exception as error:
        raise ContractError(f"memory {name!r}: {method}: expected arrays, got {_cause(error)}.") from error


def check_values(name: str, cell: MemoryCell, inputs: jax.ShapeDtypeStruct, key: jax.Array) -> None:
    """Check the values of a cell's outputs; the methods of `MemoryCell` document them.

    Args:
        name: the name of the cell, for errors.
        cell: the cell.
        inputs: shape (T, B, D) and dtype of its inputs; T is at least 2, and B at least 2.
        key: a PRNG key for the parameters, inputs and starts; it is consumed.

    Raises:
        ContractError: if outputs of single steps and of a sequence differ, an episode depends on the episode before it
            or on another environment, `precompute` changes the outputs, or an output or a gradient is not finite.
    """
    keys = jax.random.split(key, 4)
    steps, num_envs, _ = inputs.shape
    given = jax.random.normal(keys[0], inputs.shape, jnp.float32).astype(inputs.dtype)
    before = jax.random.normal(keys[1], inputs.shape, jnp.float32).astype(inputs.dtype)
    none = jnp.zeros((steps, num_envs), bool)
    some = jax.random.bernoulli(keys[2], 0.3, none.shape).at[0, 0].set(True).at[steps // 2, 1].set(True)
    initial = cell.initial_state(num_envs)
    variables = jax.jit(cell.init)(keys[3], initial, given, none)
    apply = jax.jit(cell.apply)
    state = apply(variables, initial, before, none)[0]

    def outputs_of(inputs: jax.Array, starts: jax.Array, state: Any = state, variables: Any = variables) -> np.ndarray:
        return np.asarray(apply(variables, state, inputs, starts)[1], np.float32)

    def require_equal(found: Any, expected: Any, fault: str) -> None:
        tolerance = _TOLERANCE[jnp.dtype(inputs.dtype).name]
        if not np.allclose(found, expected, rtol=tolerance, atol=tolerance):
            difference = np.abs(np.asarray(found) - np.asarray(expected)).max()
            raise ContractError(f"memory {name!r}: {fault}, got outputs that differ by up to {difference:.3g}.")

    sequence = outputs_of(given, some)
    if not np.isfinite(sequence).all():
        raise ContractError(f"memory {name!r}: __call__: expected finite outputs, got NaN or infinity.")
    at_step, singles = _step_by_step(partial(apply, variables), state, given, some)
    require_equal(singles, sequence, "__call__: expected the same outputs from T = 1 and from a sequence")
    after_sequence, _ = apply(variables, state, given, some)
    expected = outputs_of(before, none, after_sequence)
    require_equal(outputs_of(before, none, at_step), expected, "__call__: expected the same state from T = 1 and T > 1")
    fresh = outputs_of(given, none, initial)
    for first in (0, steps // 2):
        started = outputs_of(jnp.roll(given, first, axis=0), none.at[first].set(True))
        fault = f"starts: expected an episode that starts at step {first} to begin from initial_state"
        require_equal(started[first:], fresh[: steps - first], fault)
    changed = outputs_of(given.at[:, 1:].add(1), some)
    require_equal(changed[:, 0], sequence[:, 0], "__call__: expected environments to be independent")
    if variables.get("params"):
        ready = {**variables, "params": cell.precompute(variables["params"])}
        require_equal(outputs_of(given, some, variables=ready), sequence, "precompute: expected the same outputs")

    def loss(variables: Any, given: jax.Array) -> jax.Array:
        return (apply(variables, state, given, some)[1].astype(jnp.float32) ** 2).mean()

    gradients = jax.jit(jax.grad(loss, argnums=(0, 1)))(variables, given)
    if not all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients)):
        raise ContractError(f"memory {name!r}: expected finite gradients, got NaN or infinity.")


def _step_by_step(call: Callable[..., Any], state: Any, inputs: jax.Array, starts: jax.Array) -> tuple[Any, np.ndarray]:
    """Return the state and the outputs of calls with T = 1."""
    outputs = []
    for step in range(len(inputs)):
        state, output = call(state, inputs[step : step + 1], starts[step : step + 1])
        outputs.append(np.asarray(output[0], np.float32))
    return state, np.stack(outputs)
