"""Level seeds, their two splits, and level banks.

A level is everything that is sampled for an episode, and follows from one uint32 seed and the parameters. Seeds below
2^31 are for training, those from 2^31 on are held out; a reset never samples from a held-out seed, so agents can be
scored on levels that training did not use. (Different seeds may still give equal levels where a game has few of them:
see `exclude`.)

A bank is a stack of levels that travels in `params.levels`. A reset from a bank is one gather, which is far cheaper
than generating a level for every environment on every step, as auto-reset under `vmap` does.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from jaxgym import bank_files, registry
from jaxgym.errors import LevelError, UnknownIdError
from jaxgym.options import is_integer, plain, resolve, with_preset

SPLIT_SIZE = 1 << 31
"""The number of seeds in each split."""

NO_INDEX = np.int32(-1)
"""Level index of an episode whose level was not drawn from a level buffer."""

_ROOT_SEED = 0
_BANK_BATCH = 8192
_ORIGINALS_VERSION = 1
"""Part of the names of files with original levels; to be raised when these change."""


class LevelSampler(Protocol):
    """The part of `jaxgym.Environment` that samples levels."""

    @property
    def env_id(self) -> str:
        """The id."""
        ...

    @property
    def default_params(self) -> Any:
        """The parameters of the `make` call that built the environment."""
        ...

    def sample_level(self, key: jax.Array, params: Any, /) -> Any:
        """Sample everything that is random in an episode; consumes `key`."""
        ...


def train_seeds(count: int, start: int = 0) -> np.ndarray:
    """Returns `count` consecutive training seeds, uint32 (count,), from the `start`-th on.

    Raises:
        LevelError: If the range does not lie within the 2^31 training seeds.
    """
    return _seeds(count, start, "training", 0)


def held_out_seeds(count: int, start: int = 0) -> np.ndarray:
    """Returns `count` consecutive held-out seeds, uint32 (count,), from the `start`-th on.

    Raises:
        LevelError: If the range does not lie within the 2^31 held-out seeds.
    """
    return _seeds(count, start, "held-out", SPLIT_SIZE)


def _seeds(count: int, start: int, split: str, first: int) -> np.ndarray:
    count, start = plain(count), plain(start)
    if not (is_integer(count) and is_integer(start)):
        raise LevelError(f"{count!r} {split} seeds from {start!r} on were asked for; give two integers.")
    if count < 1:
        raise LevelError(f"{count} {split} seeds were asked for; give a count from 1 up.")
    if start < 0 or start + count > SPLIT_SIZE:
        raise LevelError(
            f"{split} seeds {start} to {start + count - 1} were asked for; there are {SPLIT_SIZE}: "
            f"give a start from 0 up with start + count up to {SPLIT_SIZE}."
        )
    return np.arange(first + start, first + start + count, dtype=np.int64).astype(np.uint32)


def level_key(seed: jax.Array | np.ndarray | int, impl: Any = "threefry2x32") -> jax.Array:
    """Returns the PRNG key of a level seed, the same whatever JAX's default generator is.

    Args:
        seed: A level seed, uint32 ().
        impl: How the generator is compiled; `jaxgym.threefry.FLAT` is the other one that makes the same numbers.
    """
    root = jax.random.key(_ROOT_SEED, impl=impl)
    return jax.random.fold_in(root, jnp.asarray(seed, dtype=jnp.uint32))


def level_from_seed(env: LevelSampler, seed: Any, params: Any = None) -> Any:
    """Returns the level of one uint32 seed under the given parameters (those of `make` if None).

    Raises:
        LevelError: If the seed is no single integer, or, unless it is traced, none from 0 to 2^32 - 1.
    """
    seed = checked_seeds(seed)
    if seed.shape:
        raise LevelError(
            f"level_from_seed was given seeds of shape {seed.shape}; give one seed, and make a bank of several."
        )
    return _level(env, seed, env.default_params if params is None else params)


def checked_seeds(seeds: Any) -> jax.Array | np.ndarray:
    """Returns seeds as uint32; of traced ones only the dtype can be checked.

    Raises:
        LevelError: If a seed is no integer, or one that is known is not from 0 to 2^32 - 1.
    """
    given = seeds if isinstance(seeds, Tracer) else _on_host(seeds)
    is_integer = jnp.issubdtype(given.dtype, jnp.integer)
    if not is_integer or (isinstance(given, np.ndarray) and ((given < 0).any() or (given >= 2 * SPLIT_SIZE).any())):
        raise LevelError(f"a level seed was given as {seeds!r}; give integers from 0 to {2 * SPLIT_SIZE - 1}.")
    return given.astype(np.uint32)


def _on_host(seeds: Any) -> np.ndarray:
    """Returns what was given as an array; an empty object where it makes none."""
    try:
        return np.asarray(seeds)
    except (TypeError, ValueError):
        return np.asarray(None)


def check_level(env: LevelSampler, level: Any, params: Any) -> None:
    """Checks that a level has the structure, shapes and dtypes of those that an environment samples.

    Raises:
        LevelError: If it has others.
    """
    _check_arrays(env, level, params, "a level", "give one of its own, from jaxgym.levels.level_from_seed or a bank")


def check_bank(env: LevelSampler, bank: Any, params: Any) -> None:
    """Checks that a bank is a stack of levels with the structure, shapes and dtypes of those of an environment.

    Raises:
        LevelError: If it is not.
    """
    _check_arrays(env, bank, params, "a bank", "give one that jaxgym.levels.make_bank made for it", is_bank=True)


def _check_arrays(env: Any, given: Any, params: Any, what: str, advice: str, *, is_bank: bool = False) -> None:
    own = _level.eval_shape(env, jax.ShapeDtypeStruct((), jnp.uint32), dataclasses.replace(params, levels=None))
    try:
        leaves, structure = jax.tree_util.tree_flatten_with_path(jax.eval_shape(lambda tree: tree, given))
    except TypeError:  # of what is no array
        leaves, structure = jax.tree_util.tree_flatten_with_path(None)
    if structure != jax.tree.structure(own):
        raise LevelError(f"{env.env_id} was given {what} of another kind; {advice}.")
    every = jax.tree.leaves(own)
    leading = leaves[0][1].shape[: 1 if is_bank else 0]
    if is_bank and (leading in ((), (0,)) or len(leaves[0][1].shape) == len(every[0].shape)):
        raise LevelError(f"{env.env_id} was given {what} that is no stack of at least one level; {advice}.")
    for (path, leaf), wanted in zip(leaves, every, strict=True):
        shape = (*leading, *wanted.shape)
        if (leaf.shape, leaf.dtype) != (shape, wanted.dtype):
            raise LevelError(
                f"{env.env_id} was given {what} whose {jax.tree_util.keystr(path).lstrip('.')} is "
                f"{leaf.dtype} {leaf.shape} and not {wanted.dtype} {shape}; make it with the same options"
                f"{'' if is_bank else ', and vmap over a batch of levels'}."
            )


@partial(jax.jit, static_argnames=("env",))
def _level(env: Any, seed: jax.Array, params: Any) -> Any:
    return env.sample_level(level_key(seed), params)


def draw(env: LevelSampler, key: jax.Array, params: Any) -> tuple[Any, jax.Array]:
    """Draw the level of a reset: from the level buffer if there is one, else of a random training seed.

    Returns:
        The level and its index in the buffer, int32 (); the index is `NO_INDEX` without a buffer.

    Raises:
        LevelError: If `params.levels` is no bank of the environment.
    """
    if params.levels is None:
        # The upper 31 bits: a training seed.
        seed = jax.random.bits(key, (), jnp.uint32) >> jnp.uint32(1)
        return env.sample_level(level_key(seed), params), jnp.asarray(NO_INDEX)
    check_bank(env, params.levels, params)
    index = jax.random.randint(key, (), 0, num_levels(params.levels))
    level = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(jnp.asarray(leaf), index, keepdims=False), params.levels)
    return level, index.astype(jnp.int32)


def make_bank(env: LevelSampler, params: Any, seeds: Sequence[int] | np.ndarray) -> Any:
    """Returns the levels of the given seeds, stacked: every leaf has a leading axis of `len(seeds)`.

    The bank is made for these parameters: change an option that a level depends on (the commands allowed, the size of
    the arena), and the bank has to be made again.

    Args:
        env: The environment.
        params: Unbatched parameters; their own bank, if any, is not looked at.
        seeds: Level seeds, at least one.

    Raises:
        LevelError: If there are no seeds, or one is no integer from 0 to 2^32 - 1.
    """
    seeds = _seed_axis("make_bank", seeds)
    params = dataclasses.replace(params, levels=None)
    batch = min(_BANK_BATCH, len(seeds))
    # Equal batches compile once; the last one is filled up with seeds that are cut off again.
    padded = np.resize(seeds, -(-len(seeds) // batch) * batch).reshape(-1, batch)
    parts = [_levels(env, part, params) for part in padded]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(seeds)], *parts)


def _seed_axis(function: str, seeds: Any) -> np.ndarray:
    given = _on_host(seeds)
    if given.ndim != 1 or not len(given):
        raise LevelError(f"{function} was given seeds of shape {given.shape}; give one axis with at least one seed.")
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
    """Returns the levels that the original of an environment makes for `reset(seed=...)`, stacked as in `make_bank`.

    They are made on the host, of the random numbers that the original draws, so they are equal to it to the last coin.
    The games of Memory Gym have an original, memory-gym 1.0.2. What it draws during an episode is listed too:

    - Searing Spotlights: the spotlights of the whole episode.
    - Endless Mortar Mayhem: 64 commands, or as many as `max_given_commands` says.
    - Endless Mystery Path: all segments, or as many as `max_given_segments` says.
    - Endless Searing Spotlights: what comes until the first coin is taken. What follows depends on play, and differs
      from the original's. `jaxgym.envs.memory_gym.course` gives the later draws as well.

    An original's seeds have nothing to do with ours, nor with our two splits. `jaxgym.make(env_id, levels=bank, ...)`
    takes the bank if it is given the same options.

    Args:
        env_id: An id with an original.
        seeds: Seeds of the original, n of them, from 0 to 2^32 - 1.
        directory: Where to keep the levels, to be read from there next time; they are made each time if None.
        preset: The preset of `jaxgym.make`, if any.
        **options: The options of `jaxgym.make`, `max_steps` included.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or an option does not take the given value.
        LevelError: If the id has no original, if there are no seeds or one is no integer of that range, and where the
            original fails to make a level.
    """
    seeds = _seed_axis("original", seeds)
    maker, env, params, plain = build_original(env_id, options, preset)
    make = partial(maker.levels, env, plain, seeds)
    if directory is None:
        bank = make()
    else:
        expected = jax.eval_shape(partial(_levels, env), seeds, params)
        bank = bank_files.load_or_make(Path(directory) / _file_name(env_id, plain, seeds), make, expected)
    return jax.tree.map(jnp.asarray, bank)


def build_original(
    env_id: str, given: Mapping[str, Any], preset: str | None = None
) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return the `jaxgym.spec.Original` of an id, an environment with room for its levels, its parameters, the options.

    The options are as they were given, or their defaults: what parameters hold is rounded to float32.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or an option does not take the given value.
        LevelError: If the id has no original.
    """
    env_id = registry.import_module_of(env_id)
    spec = registry.load(env_id)
    if spec.original is None:
        known = [name for name in registry.ids() if _has_original(name)]
        raise LevelError(
            f"{env_id} was asked for original levels and has none; ids with original levels are {', '.join(known)}: "
            "for this one, make a bank with jaxgym.levels.make_bank."
        )
    given = with_preset(env_id, spec.presets, preset, given)
    plain = resolve(env_id, spec.all_options, given)
    plain |= {name: size for name, size in spec.original.sizes(plain).items() if plain[name] is None}
    env, params = spec.build(env_id, resolve(env_id, spec.all_options, plain))
    return spec.original, env, params, plain


def _has_original(env_id: str) -> bool:
    try:
        return registry.load(env_id).original is not None
    except UnknownIdError:  # of an installed package that can't be imported
        return False


def _file_name(env_id: str, options: Mapping[str, Any], seeds: np.ndarray) -> str:
    """Returns a name that says of which levels a file is."""
    told = repr((_ORIGINALS_VERSION, env_id, sorted(options.items()))).encode() + seeds.tobytes()
    return f"{env_id}-{len(seeds)}-{hashlib.sha256(told).hexdigest()[:32]}.npz"


def num_levels(bank: Any) -> int:
    """Returns the number of levels in a bank.

    Raises:
        LevelError: If it is no stack of at least one level.
    """
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(bank)]
    sizes = {shape[0] if shape else 0 for shape in shapes}
    if len(sizes) != 1 or 0 in sizes:
        raise LevelError(
            f"a bank was given as {type(bank).__name__} with arrays of shape {shapes}; "
            "give a stack of at least one level, from jaxgym.levels.make_bank."
        )
    return sizes.pop()


def num_distinct(bank: Any) -> int:
    """Returns the number of levels in a bank that differ in content."""
    return len(set(_contents(bank)))


def exclude(bank: Any, others: Any) -> Any:
    """Returns `bank` without the levels whose content is also in the bank `others`.

    Raises:
        LevelError: If no level is left, or the two are no banks of levels with the same arrays.
    """
    if _kind(bank) != _kind(others):
        raise LevelError(
            "a bank was given with levels to exclude that have other arrays; make both with the same id and options."
        )
    taken = set(_contents(others))
    kept = np.asarray([content not in taken for content in _contents(bank)])
    if not kept.any():
        raise LevelError(
            f"all {num_levels(bank)} levels of the bank are also among the {num_levels(others)} to exclude: "
            "exclude fewer levels, or train on fresh ones with levels='fresh', which may be among the excluded ones."
        )
    return jax.tree.map(lambda leaf: leaf[kept], bank)


def _kind(bank: Any) -> Any:
    """Returns the structure, shapes and dtypes of the levels in a bank."""
    num_levels(bank)  # refuses what is none
    return jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), bank)


def _contents(bank: Any) -> list[bytes]:
    """Returns the content of each level as bytes; equal bytes mean equal levels."""
    count = num_levels(bank)
    rows = [np.ascontiguousarray(leaf).reshape(count, -1).view(np.uint8) for leaf in jax.tree.leaves(bank)]
    return [row.tobytes() for row in np.concatenate(rows, axis=1)]


def params_axes(params: Any) -> Any:
    """Returns the `in_axes` tree for parameters with a leading axis on every field but the banks, which are shared."""
    shared = dict.fromkeys(params.SHARED)
    axes = dataclasses.replace(jax.tree.map(lambda _: 0, dataclasses.replace(params, **shared)), **shared)
    inner = getattr(params, "inner", None)
    return axes if not hasattr(inner, "SHARED") else dataclasses.replace(axes, inner=params_axes(inner))
