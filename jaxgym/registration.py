"""`make` and `register`: the ids of `jaxgym.registry` for JAX, gymnax and Gymnasium."""

import dataclasses
import reprlib
from operator import attrgetter
from typing import Any

import gymnax.registration as gymnax_registration
import jax
import numpy as np
from jax.core import Tracer

from jaxgym import forks, registry
from jaxgym import levels as level_buffers
from jaxgym.environment import AnyEnvironment, EnvParams
from jaxgym.errors import LevelError, OptionError
from jaxgym.options import Preset, plain, resolve, with_preset
from jaxgym.spec import Spec


def register(env_id: str, spec: Spec | str, *, short_name: str | None = None) -> None:
    """Add an environment to `jaxgym.make`, to `gymnax.make`, and as `jaxgym/<id>` to `gymnasium.make`.

    Args:
        env_id: A new id, such as `"MyGame-v0"`: ASCII letters, digits and `-`, `_` or `.`, and a version at the end.
        spec: The declaration of the environment, or the entry point `"module:NAME"` of one, imported on first use.
        short_name: Name of its text interface, of ASCII letters, digits and `_`; if None, `"my_game"` for
            `"MyGame-v0"`.

    Raises:
        ValueError: If the id, the short name or the spec is malformed, if the id or the short name is taken, or if a
            short name is given to a spec without text interface. Nothing is registered then.
    """
    if isinstance(spec, Spec) and spec.text is None and short_name is not None:
        raise ValueError(f"{env_id!r}: expected a spec with text for short_name={short_name!r}, got text=None. Add it.")
    if env_id in gymnax_registration.registered_envs and env_id not in registry.ids():
        raise ValueError(f"{env_id!r} is an id of gymnax. Choose another id.")
    registry.add(env_id, registry.Entry(spec, short_name))
    _add_to_gymnax(env_id)


def unregister(env_id: str) -> None:
    """Remove an environment, and its text interface, from `jaxgym.make`, `gymnax.make` and `gymnasium.make`.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    registry.remove(env_id)
    if env_id in gymnax_registration.registered_envs:
        gymnax_registration.registered_envs.remove(env_id)
        # gymnax has no public function that removes an id.
        del gymnax_registration._registry[env_id]  # pyright: ignore[reportPrivateUsage]


def registered_envs() -> tuple[str, ...]:
    """Return the registered environment ids."""
    return registry.ids()


def spec_of(env_id: str) -> Spec:
    """Return the spec of an environment; `"my_package.module:MyGame-v0"` imports the module first.

    Raises:
        UnknownIdError: If the id is not registered, or its module or entry point can't be imported.
    """
    return registry.load(registry.import_module_of(env_id))


def presets(env_id: str) -> dict[str, Preset]:
    """Return the presets of an environment by name, for `jaxgym.make(env_id, preset=name)`.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    return dict(spec_of(env_id).presets)


def make(
    env_id: str, /, *, preset: str | None = None, levels: Any = None, max_steps: int | None = None, **options: Any
) -> tuple[AnyEnvironment, EnvParams]:
    """Make an environment and its parameters.

    Args:
        env_id: One of `registered_envs()`, or `"my_package.module:MyGame-v0"`, which imports the module first.
        preset: Name of a preset of `presets(env_id)`, such as `"jmlr2025"`. Options that you pass override its values.
        levels: Source of the levels of resets. `"fresh"` samples a new training level at each reset. An integer n makes
            a level buffer of the first n training levels. A level buffer of `jaxgym.levels` is used as it is; it sets
            the sizes that the options leave open. None means `"fresh"`; for Mystery Path, where sampling is slow, it
            means a level buffer of the first 100 000 training levels, made on first use.
        max_steps: Time limit in steps, after which an episode is truncated; 0 or less means none. If None, the value
            of the preset, or else the environment's default.
        **options: Options of the environment, such as `command_count=[5]`.

    Returns:
        The environment and its parameters, a pytree of traced values that can be vmapped.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or the value of an option is invalid.
        LevelError: If `levels` has another type; if a level buffer has other arrays than this environment's levels, or
            values that these options never produce, such as a tile outside of the arena. Values of a traced buffer, or
            of one set by `dataclasses.replace(params, levels=buffer)`, are not checked.
        ForkError: In a forked child of a process that runs JAX.
    """
    forks.check()
    env_id = registry.import_module_of(env_id)
    return make_registered(env_id, preset=preset, levels=levels, max_steps=max_steps, **options)


def make_registered(
    env_id: str, /, *, preset: str | None = None, levels: Any = None, max_steps: int | None = None, **options: Any
) -> tuple[AnyEnvironment, EnvParams]:
    """Make an environment as `make` does, but import no module that the id names: for ids from requests."""
    forks.check()
    spec = registry.load(env_id)
    given = {**options, **({} if max_steps is None else {"max_steps": max_steps})}
    given = {**spec.sizes_of(levels), **with_preset(env_id, spec.presets, preset, given)}
    env, params = spec.build(env_id, resolve(env_id, spec.all_options, given))
    params = dataclasses.replace(params, levels=_buffer(spec, env, params, levels))
    return dataclasses.replace(env, initial_params=params), params


def _buffer(spec: Spec, env: AnyEnvironment, params: EnvParams, levels: Any) -> Any:
    if levels is None:
        return spec.default_level_buffer(params) if spec.default_level_buffer else None
    levels = plain(levels)
    if isinstance(levels, str | bool | float):
        if levels != "fresh":
            raise OptionError(
                f"{env.env_id}: levels: expected 'fresh', a number of training levels or a level buffer, "
                f"got {levels!r}."
            )
        return None
    if isinstance(levels, int):
        if not 1 <= levels <= level_buffers.SPLIT_SIZE:
            raise LevelError(f"{env.env_id}: levels: expected a number of levels from 1 to 2^31, got {levels}.")
        return level_buffers.make_level_buffer(env, params, level_buffers.train_seeds(levels))
    level_buffers.check_level(env, levels, params, is_buffer=True)
    _check_values(spec, env, params, levels)
    return levels


def _check_values(spec: Spec, env: AnyEnvironment, params: EnvParams, buffer: Any) -> None:
    """Raise `LevelError` if these options can't make the levels of a buffer; the values of a traced one are unknown."""
    if spec.valid_levels is None or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(buffer)):
        return
    buffer = jax.tree.map(np.asarray, buffer)
    for field, is_valid in spec.valid_levels(env, buffer, params).items():
        if not is_valid.all():
            row = int(np.argmin(is_valid))
            value = attrgetter(field)(buffer)[row].tolist()
            raise LevelError(
                f"{env.env_id}: expected a level buffer of these options, got {field}={reprlib.repr(value)} in level "
                f"{row}. Make the buffer with the same id and options."
            )


def _add_to_gymnax(env_id: str) -> None:
    if env_id not in gymnax_registration.registered_envs:
        gymnax_registration.register(env_id, lambda **options: make(env_id, **options)[0])


for _env_id in registry.ids():
    _add_to_gymnax(_env_id)
