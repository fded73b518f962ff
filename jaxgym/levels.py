"""Level seeds, their two splits, and level buffers.

A level contains everything that is sampled for an episode. It follows from one uint32 seed and the parameters. Seeds
below 2^31 are training seeds, seeds from 2^31 are held out. Resets never sample a held-out seed, so agents can be
evaluated on levels that they were not trained on. If an environment has few levels, different seeds can give equal
levels; see `exclude`.

A level buffer is a stack of levels in `params.levels`. With a buffer, a reset only reads one level from an array.
Without one, auto-reset samples a level for each episode that ends, which is slower in environments whose levels need
long computations.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from jaxgym import level_buffer_files, level_draws, registry
from jaxgym.errors import LevelError, UnknownIdError, listed
from jaxgym.options import is_integer, plain, resolve, with_preset

SPLIT_SIZE = 1 << 31
"""Number of seeds in each split."""

NO_INDEX = np.int32(-1)
"""Level index of an episode whose level was not drawn from a level buffer."""

_ROOT_SEED = 0
_BUFFER_BATCH = 8192
_ORIGINALS_VERSION = 1
"""Part of the names of files with original levels; increase it when these levels change."""


def train_seeds(count: int, start: int = 0) -> np.ndarray:
    """Return `count` consecutive training seeds from the `start`-th, uint32 (count,).

    Raises:
        LevelError: If the range exceeds the 2^31 training seeds.
    """
    return _seeds(count, start, "training", 0)


def held_out_seeds(count: int, start: int = 0) -> np.ndarray:
    """Return `count` consecutive held-out seeds from the `start`-th, uint32 (count,).

    Raises:
        LevelError: If the range exceeds the 2^31 held-out seeds.
    """
    return _seeds(count, start, "held-out", SPLIT_SIZE)


def _seeds(count: int, start: int, split: str, first: int) -> np.ndarray:
    count, start = plain(count), plain(start)
    if not (is_integer(count) and is_integer(start)):
        raise LevelError(f"{split} seeds: expected integers, got count={count!r} and start={start!r}.")
    if count < 1:
        raise LevelError(f"{split} seeds: expected a count of at least 1, got {count}.")
    if start < 0 or start + count > SPLIT_SIZE:
        raise LevelError(
            f"{split} seeds: expected start >= 0 and start + count <= {SPLIT_SIZE}, got start={start}, count={count}."
        )
    return np.arange(first + start, first + start + count, dtype=np.int64).astype(np.uint32)


def level_key(seed: jax.Array | np.ndarray | int, impl: Any = "threefry2x32") -> jax.Array:
    """Return the PRNG key of a level seed; it does not depend on JAX's default generator.

    Args:
        seed: A level seed, uint32 ().
        impl: The generator; `jaxgym.threefry.FLAT` generates the same numbers, faster on a CPU.
    """
    root = jax.random.key(_ROOT_SEED, impl=impl)
    return jax.random.fold_in(root, jnp.asarray(seed, dtype=jnp.uint32))


def level_from_seed(env: Any, seed: Any, params: Any = None) -> Any:
    """Return the level of one uint32 seed for the given parameters (those of `make` if None).

    Raises:
        LevelError: If the seed is not one integer from 0 to 2^32 - 1; the range of a traced seed is not checked.
    """
    seed = checked_seeds(seed)
    if seed.shape:
        raise LevelError(
            f"level_from_seed: expected one seed, got shape {seed.shape}. Use make_level_buffer for several seeds."
        )
    return _level(env, seed, env.default_params if params is None else params)


def checked_seeds(seeds: Any) -> jax.Array | np.ndarray:
    """Return seeds as uint32.

    Raises:
        LevelError: If a seed is not an integer from 0 to 2^32 - 1; the range of a traced seed is not checked.
    """
    given = seeds if isinstance(seeds, Tracer) else _on_host(seeds)
    is_integer = jnp.issubdtype(given.dtype, jnp.integer)
    if not is_integer or (isinstance(given, np.ndarray) and ((given < 0).any() or (given >= 2 * SPLIT_SIZE).any())):
        raise LevelError(f"level seed: expected integers from 0 to {2 * SPLIT_SIZE - 1}, got {seeds!r}.")
    return given.astype(np.uint32)


def _on_host(seeds: Any) -> np.ndarray:
    """Return seeds as an array, or an object array with None if NumPy can't convert them."""
    try:
        return np.asarray(seeds)
    except (TypeError, ValueError):
        return np.asarray(None)


def check_level(env: Any, given: Any, params: Any, *, is_buffer: bool = False) -> None:
    """Check that a level, or a level buffer, has the structure, shapes and dtypes of the environment's levels.

    Raises:
        LevelError: If it does not.
    """
    what, advice = "a level", "Use jaxgym.levels.level_from_seed or a level buffer"
    if is_buffer:
        what, advice = "a level buffer", "Make it with jaxgym.levels.make_level_buffer"
    own = _level.eval_shape(env, jax.ShapeDtypeStruct((), jnp.uint32), dataclasses.replace(params, levels=None))
    try:
        leaves, structure = jax.tree_util.tree_flatten_with_path(jax.eval_shape(lambda tree: tree, given))
    except TypeError:  # a leaf is not an array
        leaves, structure = jax.tree_util.tree_flatten_with_path(None)
    if structure != jax.tree.structure(own):
        raise LevelError(f"{env.env_id}: expected {what} of this environment, got another type. {advice}.")
    every = jax.tree.leaves(own)
    leading = leaves[0][1].shape[: 1 if is_buffer else 0]
    if is_buffer and (leading in ((), (0,)) or len(leaves[0][1].shape) == len(every[0].shape)):
        raise LevelError(f"{env.env_id}: expected {what} with at least one level, got {_shapes_of(given)}. {advice}.")
    for (path, leaf), wanted in zip(leaves, every, strict=True):
        shape = (*leading, *wanted.shape)
        if (leaf.shape, leaf.dtype) != (shape, wanted.dtype):
            raise LevelError(
                f"{env.env_id}: expected {what} whose {jax.tree_util.keystr(path).lstrip('.')} is {wanted.dtype} "
                f"{shape}, got {leaf.dtype} {leaf.shape}. Make it with the same options"
                f"{'' if is_buffer else ', and vmap over a batch of levels'}."
            )


@partial(jax.jit, static_argnames=("env",))
def _level(env: Any, seed: jax.Array, params: Any) -> Any:
    return env.sample_level(level_key(seed), params)


def draw(env: Any, key: jax.Array, params: Any) -> tuple[Any, jax.Array]:
    """Draw the level of a reset: from the level buffer if there is one, else of a random training seed.

    Returns:
        The level and its index in the buffer, int32 (); the index is `NO_INDEX` without a buffer.

    Raises:
        LevelError: If `params.levels` is not a level buffer of the environment, or there is not one weight per level.
    """
    if params.levels is None:
        level_draws.check(env.env_id, params.level_weights, 0)
        return _level(env, random_training_seed(key), params), jnp.asarray(NO_INDEX)
    check_level(env, params.levels, params, is_buffer=True)
    index = level_draws.random_index(env.env_id, key, params.level_weights, num_levels(params.levels))
    level = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(jnp.asarray(leaf), index, keepdims=False), params.levels)
    return level, index


def random_training_seed(key: jax.Array) -> jax.Array:
    """Return a training seed, uint32 (); consumes `key`."""
    # Shifting right keeps the upper 31 bits, which makes it a training seed.
    return jax.random.bits(key, (), jnp.uint32) >> jnp.uint32(1)


def make_level_buffer(env: Any, params: Any, seeds: Sequence[int] | np.ndarray) -> Any:
    """Return a level buffer: the levels of the given seeds, stacked along a leading axis of `len(seeds)`.

    The buffer belongs to these parameters. Make it again if you change an option that levels depend on, such as the
    allowed commands or the arena size.

    Args:
        env: The environment.
        params: Unbatched parameters; their own level buffer is ignored.
        seeds: Level seeds, at least one.

    Raises:
        LevelError: If there are no seeds, or a seed is not an integer from 0 to 2^32 - 1.
    """
    seeds = _seed_axis("make_level_buffer", seeds)
    params = dataclasses.replace(params, levels=None)
    batch = min(_BUFFER_BATCH, len(seeds))
    # Batches of equal size compile once; the last one is padded with seeds whose levels are dropped.
    padded = np.resize(seeds, -(-len(seeds) // batch) * batch).reshape(-1, batch)
    parts = [_levels(env, part, params) for part in padded]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(seeds)], *parts)


def _seed_axis(function: str, seeds: Any) -> np.ndarray:
    given = _on_host(seeds)
    if given.ndim != 1 or not len(given):
        raise LevelError(f"{function}: expected a list of at least one seed, got shape {given.shape}.")
    return np.asarray(checked_seeds(given))


@partial(jax.jit, static_argnames=("env",))
def _levels(env: Any, seeds: jax.Array, params: Any) -> Any:
    return jax.vmap(lambda seed: env.sample_level(level_key(seed), params))(seeds)


def original(
    env_id: str,
    seeds: Sequence[int] | np.ndarray,
    *,
    directory: str | Path | None = None,
    preset: str | None = None,
    **options: Any,
) -> Any:
    """Return the levels that the original of an environment generates for `reset(seed=...)`, as a level buffer.

    The Memory Gym environments have an original, memory-gym 1.0.2; MiniGrid-Memory and BabyAI have minigrid 3.2.0.
    The levels of classic memory tasks are those of the first episode of an original with the seed; see their pages.
    The levels are generated on the host from the same random numbers, so they are equal to the original's. They include
    the random numbers that memory-gym draws during an episode:

    - Searing Spotlights: the spotlights of the whole episode.
    - Endless Mortar Mayhem: 64 commands, or the number of the option `max_given_commands`.
    - Endless Mystery Path: 64 segments, or the number of the option `max_given_segments`; without it, that of
      `max_segments`.
    - Endless Searing Spotlights: everything until the first coin is collected. Later draws depend on the actions and
      differ from the original's; `jaxgym.envs.common.episode_sequence` reproduces them.

    The original's seeds are unrelated to jaxgym's seeds and splits. Pass the same options to
    `jaxgym.make(env_id, levels=buffer, ...)`.

    Args:
        env_id: An id with an original.
        seeds: n seeds of the original, from 0 to 2^32 - 1.
        directory: Directory that caches the levels; if None, they are generated on every call.
        preset: A preset of `jaxgym.make`.
        **options: Options of `jaxgym.make`, including `max_steps`.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or the value of an option is invalid.
        LevelError: If the id has no original, the seeds are invalid, or the original fails to generate a
            level.
    """
    seeds = _seed_axis("original", seeds)
    maker, env, params, plain = build_original(env_id, options, preset)
    make = partial(maker.levels, env, plain, seeds)
    if directory is None:
        buffer = make()
    else:
        expected = jax.eval_shape(partial(_levels, env), seeds, params)
        buffer = level_buffer_files.load_or_make(Path(directory) / _file_name(env_id, plain, seeds), make, expected)
    return jax.tree.map(jnp.asarray, buffer)


def build_original(
    env_id: str, given: Mapping[str, Any], preset: str | None = None
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the `jaxgym.spec.Original` of an id, an environment, its parameters, and the options.

    The environment has the capacities that the original levels need. The options are the given values or the
    defaults, not rounded to float32 as the parameters are.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or the value of an option is invalid.
        LevelError: If the id has no original.
    """
    env_id = registry.import_module_of(env_id)
    spec = registry.load(env_id)
    if spec.original is None:
        known = [name for name in registry.ids() if _has_original(name)]
        raise LevelError(
            f"{env_id} has no original levels. Use jaxgym.levels.make_level_buffer, or an id with original levels: "
            f"{listed(known)}."
        )
    plain = resolve(env_id, spec.all_options, with_preset(env_id, spec.presets, preset, given))
    plain |= {name: size for name, size in spec.original.sizes(plain).items() if plain[name] is None}
    env, params = spec.build(env_id, resolve(env_id, spec.all_options, plain))
    return spec.original, env, params, plain


def _has_original(env_id: str) -> bool:
    try:
        return registry.load(env_id).original is not None
    except UnknownIdError:  # the installed package of this id can't be imported
        return False


def _file_name(env_id: str, options: Mapping[str, Any], seeds: np.ndarray) -> str:
    """Return a file name that identifies the levels."""
    description = repr((_ORIGINALS_VERSION, env_id, sorted(options.items()))).encode() + seeds.tobytes()
    return f"{env_id}-{len(seeds)}-{hashlib.sha256(description).hexdigest()[:32]}.npz"


def num_levels(buffer: Any) -> int:
    """Return the number of levels in a level buffer.

    Raises:
        LevelError: If it is not a stack of at least one level.
    """
    sizes = {np.shape(leaf)[0] if np.shape(leaf) else 0 for leaf in jax.tree.leaves(buffer)}
    if len(sizes) != 1 or 0 in sizes:
        raise LevelError(
            f"expected a level buffer with at least one level, got {_shapes_of(buffer)}. "
            "Make it with jaxgym.levels.make_level_buffer."
        )
    return sizes.pop()


def _shapes_of(tree: Any) -> str:
    return f"{type(tree).__name__} with arrays of shape {[np.shape(leaf) for leaf in jax.tree.leaves(tree)]}"


def num_distinct(buffer: Any) -> int:
    """Return the number of levels with different content in a level buffer."""
    return len(set(_contents(buffer)))


def contained(buffer: Any, others: Any) -> np.ndarray:
    """Return whether the content of each level is also in the level buffer `others`, bool (N,).

    Raises:
        LevelError: If the levels of the two buffers have different arrays.
    """
    if _kind(buffer) != _kind(others):
        raise LevelError(
            "expected two level buffers with the same arrays, got different ones. Make both with the same id and "
            "options."
        )
    taken = set(_contents(others))
    return np.asarray([content in taken for content in _contents(buffer)])


def exclude(buffer: Any, others: Any) -> Any:
    """Return a level buffer without the levels whose content is also in the level buffer `others`.

    Raises:
        LevelError: If no level is left, or the levels of the two buffers have different arrays.
    """
    kept = ~contained(buffer, others)
    if not kept.any():
        raise LevelError(
            f"exclude: expected at least one level to remain, got 0 of {num_levels(buffer)}: the other buffer "
            f"({num_levels(others)} levels) contains all of them. Exclude fewer levels."
        )
    return jax.tree.map(lambda leaf: leaf[kept], buffer)


def _kind(buffer: Any) -> Any:
    """Return the structure, shapes and dtypes of the levels in a level buffer."""
    num_levels(buffer)  # raises for any other value
    return jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), buffer)


def _contents(buffer: Any) -> list[bytes]:
    """Return the content of each level as bytes; equal levels have equal bytes."""
    count = num_levels(buffer)
    rows = [np.ascontiguousarray(leaf).reshape(count, -1).view(np.uint8) for leaf in jax.tree.leaves(buffer)]
    return [row.tobytes() for row in np.concatenate(rows, axis=1)]


def params_axes(params: Any) -> Any:
    """Return the `in_axes` tree of batched parameters: None for the shared level buffers, 0 for all other fields."""
    shared = dict.fromkeys(params.SHARED)
    axes = dataclasses.replace(jax.tree.map(lambda _: 0, dataclasses.replace(params, **shared)), **shared)
    inner = getattr(params, "inner", None)
    return axes if not hasattr(inner, "SHARED") else dataclasses.replace(axes, inner=params_axes(inner))


def stack_params(first: Any, *others: Any) -> Any:
    """Stack the parameters of several environments, except for fields that they share, such as the level buffer.

    Raises:
        LevelError: If a shared field differs between the parameters.
    """

    def stack(path: Any, axis: int | None, *parts: Any) -> Any:
        if axis is not None:
            return jnp.stack([jnp.asarray(part, jnp.result_type(*parts)) for part in parts])
        if not all(_equal(parts[0], part) for part in parts):
            raise LevelError(
                f"stack_params: expected the same {jax.tree_util.keystr(path).lstrip('.')} in all parameters, got "
                "different ones. Set it to one value with dataclasses.replace."
            )
        return parts[0]

    trees = params_axes(first), first, *others
    return jax.tree_util.tree_map_with_path(stack, *trees, is_leaf=lambda axis: axis is None)


def _equal(tree: Any, other: Any) -> bool:
    is_alike = jax.tree.structure(tree) == jax.tree.structure(other)
    return is_alike and jax.tree.all(jax.tree.map(lambda a, b: a is b or np.array_equal(a, b), tree, other))
