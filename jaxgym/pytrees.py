"""States, parameters and observations as pytrees: validation, frames, and registration with `jax.export`."""

import contextlib
import dataclasses
import functools
from collections.abc import Collection
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.tree_util import keystr, tree_leaves_with_path

from jaxgym.errors import ContractError, RandomKeyError, StateError, shown

Kind = TypeVar("Kind")


def check_key(env_id: str, key: Any) -> None:
    """Check that a value is one PRNG key, typed or of `jax.random.PRNGKey`.

    Raises:
        RandomKeyError: If it is not.
    """
    try:
        is_typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        shape = key.shape if is_typed else jax.random.wrap_key_data(key).shape
    except TypeError:
        raise RandomKeyError(
            f"{env_id}: key: expected a PRNG key, got {shown(key)}. Make one with jax.random.key(seed)."
        ) from None
    if shape:
        raise RandomKeyError(
            f"{env_id}: key: expected one PRNG key, got keys of shape {shape}. For a batch of keys, use jax.vmap."
        )


def check_params(env_id: str, params: Any, own: type) -> None:
    """Check that parameters are of an environment's own class, and that options with several choices hold `Choices`.

    Raises:
        StateError: If they are of another class, or an option with several choices holds another value.
    """
    if not isinstance(params, own):
        raise StateError(
            f"{env_id}: expected parameters of class {_name(own)}, got {_name(type(params))}. "
            "Pass the parameters that make returned, or dataclasses.replace of them."
        )
    for name, kind in _dataclass_fields(own):
        value = getattr(params, name)
        if not isinstance(value, kind):
            raise StateError(
                f"{env_id}: params.{name}: expected {_name(kind)}, got {type(value).__name__}. "
                f"Convert a list with {kind.__name__}.of(list), or pass it to make."
            )


@functools.cache
def _dataclass_fields(own: type) -> tuple[tuple[str, type], ...]:
    """Return the fields with a dataclass, such as `Choices`, and its class."""
    fields = [(field.name, field.type) for field in dataclasses.fields(own)]
    return tuple((name, kind) for name, kind in fields if isinstance(kind, type) and dataclasses.is_dataclass(kind))


def check_state(env_id: str, state: Any, own: Any) -> None:
    """Check that a state has the structure and shapes of an environment's states.

    `own` is the class of these states, or one of them.

    Raises:
        StateError: If the class, the structure or a shape differs.
    """
    kind = own if isinstance(own, type) else type(own)
    if not isinstance(state, kind):
        _raise(env_id, f"a state of class {_name(kind)}, got {_name(type(state))}")
    if isinstance(own, type):
        return
    if jax.tree.structure(state) != jax.tree.structure(own):
        _raise(env_id, f"a state with the pytree structure of its own states, got another {_name(kind)}")
    for (path, leaf), wanted in zip(tree_leaves_with_path(state), jax.tree.leaves(own), strict=True):
        shape, own_shape = jax.numpy.shape(leaf), jax.numpy.shape(wanted)
        if shape != own_shape:
            _raise(
                env_id,
                f"a state whose {keystr(path).lstrip('.')} has shape {own_shape}, got {shape}",
                "jax.vmap the step over a batch of states.",
            )


def checked_kind(env_id: str, method: str, value: Any, own: type[Kind]) -> Kind:
    """Return the value of a method of an environment.

    Raises:
        ContractError: If it is not an instance of `own`.
    """
    if not isinstance(value, own):
        raise ContractError(f"{env_id}: {method}: expected {_name(own)}, got {shown(value)}.")
    return value


def check_transition(env_id: str, made: Any, before: Any, reserved: Collection[str]) -> None:
    """Check the fields of a transition; inside jit, it runs while a program is traced.

    Args:
        env_id: The environment id.
        made: The transition.
        before: The state that `transition` was called with.
        reserved: Names that its metrics can't have.

    Raises:
        ContractError: If the state has another class, structure, shape or dtype than before, the reward is not a
            floating-point scalar, `terminated` is not a bool scalar, or the metrics are not a dict of arrays with
            names of their own.
    """
    checked_kind(env_id, "transition: state", made.state, type(before))
    difference = first_difference(before, made.state)
    if difference is not None:
        path, wanted, found = difference
        raise ContractError(f"{env_id}: transition: state{path}: expected {wanted}, as before the step, got {found}.")
    for name, kind, wanted in (("reward", np.floating, "float32"), ("terminated", np.bool_, "bool")):
        value = getattr(made, name)
        found = array_of(value)
        if found is None or found.shape or not jax.numpy.issubdtype(found.dtype, kind):
            raise ContractError(f"{env_id}: transition: {name}: expected {wanted} (), got {described(value)}.")
    checked_kind(env_id, "transition: metrics", made.metrics, dict)
    for name, metric in made.metrics.items():
        if not isinstance(name, str) or name in reserved:
            raise ContractError(
                f"{env_id}: transition: metrics: expected other names than {', '.join(reserved)}, got {name!r}. "
                "Rename it."
            )
        for leaf in jax.tree.leaves(metric, is_leaf=lambda node: node is None):
            if array_of(leaf) is None:
                raise ContractError(f"{env_id}: transition: metrics: {name}: expected an array, got {shown(leaf)}.")


def first_difference(one: Any, other: Any) -> tuple[str, str, str] | None:
    """Return path, first and second description of the first arrays whose shape or dtype differs, or None."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return "", shown(jax.tree.structure(one)), shown(jax.tree.structure(other))
    for (path, left), right in zip(tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        if described(left) != described(right):
            return keystr(path), described(left), described(right)
    return None


def array_of(value: Any) -> jax.ShapeDtypeStruct | None:
    """Return the shape and dtype of an array or a number, or None for another value."""
    if isinstance(value, bool | int | float):
        return jax.ShapeDtypeStruct((), jax.numpy.result_type(value))
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    if jax.numpy.issubdtype(value.dtype, jax.dtypes.extended):  # PRNG keys
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    try:
        return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))
    except TypeError:  # a dtype that JAX does not have
        return None


def described(value: Any) -> str:
    """Return the dtype and shape of an array, such as `int32 (3,)`, or the shortened `repr` of another value."""
    found = array_of(value)
    return shown(value) if found is None else f"{found.dtype} {found.shape}"


def frame_of(env: Any, observation: Any) -> Any:
    """Return the frame in an observation of an environment, uint8 (H, W, 3), or None if it has none."""
    # A grid of symbols can have the shape of a frame.
    return first_frame(observation) if "pixels" in getattr(env, "observation", "pixels") else None


def first_frame(observation: Any, batch_dims: int = 0) -> Any:
    """Return the first frame of an observation, uint8 (…, H, W, C) with `batch_dims` axes before H; None without one.

    The leaves may also be `jax.ShapeDtypeStruct`s.
    """
    num_axes = batch_dims + len("HWC")
    leaves = jax.tree.leaves(observation)
    return next((leaf for leaf in leaves if leaf.dtype == np.uint8 and leaf.ndim == num_axes), None)


def register_nodes(tree: Any) -> None:
    """Register the dataclasses in a pytree with `jax.export`, which can then serialize functions over such pytrees."""
    _register_nodes(jax.tree.structure(tree))


def _register_nodes(node: Any) -> None:
    data = node.node_data()
    if data is not None and dataclasses.is_dataclass(data[0]) and data[1] == ():
        _register(data[0])
    for child in node.children():
        _register_nodes(child)


@functools.cache
def _register(kind: type) -> None:
    # JAX raises ValueError if the user has registered the class, or a notebook cell has defined it again.
    with contextlib.suppress(ValueError):
        export.register_pytree_node_serialization(
            kind,
            serialized_name=_name(kind),
            serialize_auxdata=lambda _: b"",  # the dataclasses have no static fields
            deserialize_auxdata=lambda _: (),
        )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _raise(
    env_id: str, mismatch: str, fix: str = "Pass the state that reset or step of this environment returned."
) -> None:
    raise StateError(f"{env_id}: expected {mismatch}. {fix}")
