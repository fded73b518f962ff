"""Text environments by name, and `make`, which returns an environment with its text interface."""

import dataclasses
from typing import Any

from jaxgym import registration, registry
from jaxgym.errors import UnknownIdError, nearest, shown
from jaxgym.options import check_names, resolve
from jaxgym.spec import TextSpec
from jaxgym.text.contract import check_interface
from jaxgym.text.full import with_facts
from jaxgym.text.interface import PARSING, TextInterface


def text_envs() -> dict[str, str]:
    """Return the ids that have a text interface, by short name.

    An environment that is registered by an entry point is listed once its spec is loaded.
    """
    return registry.short_names()


def short_name_of(name: str) -> str:
    """Return the short name of an environment, by its id or its short name; raises the errors of `text_spec_of`."""
    env_id, _ = text_spec_of(name)
    return next(short_name for short_name, known in text_envs().items() if known == env_id)


def text_spec_of(name: str) -> tuple[str, TextSpec]:
    """Return the id and the text interface of an environment, by its id or its short name.

    Names can come from requests, so the module of a name such as `"my_package.module:MyGame-v0"` is not imported.

    Raises:
        UnknownIdError: If there is no such environment, or it has no text interface.
    """
    env_id = registry.id_of(name) if isinstance(name, str) else name
    spec = registry.load(env_id).text if env_id in registry.ids() else None
    if spec is None:
        short_names = text_envs()
        known = [*short_names.values(), *short_names]
        hint = nearest(name, known)
        fix = "" if hint else " `jaxgym list` and `jaxgym.text.text_envs()` list all."
        raise UnknownIdError(f"Unknown text environment {shown(name)}{hint}.{fix}")
    return env_id, spec


def make(name: str, /, **options: Any) -> tuple[Any, Any, TextInterface[Any]]:
    """Make an environment and its text interface.

    Args:
        name: Id or short name of an environment with a text interface. `"my_package.module:MyGame-v0"` imports the
            module first.
        **options: Options of the environment and of its text interface, including `parsing`, `preset`, `levels` and
            `max_steps`.

    Returns:
        The environment, its parameters, and its text interface.

    Raises:
        UnknownIdError: If there is no such environment, or it has no text interface.
        OptionError: If an option does not exist or its value is invalid.
        LevelError: See `jaxgym.make`.
        ContractError: If the spec does not build a text interface, or its prompt is no string.
    """
    return make_registered(registry.import_module_of(name), **options)


def make_registered(name: str, /, **options: Any) -> tuple[Any, Any, TextInterface[Any]]:
    """Make an environment as `make` does, but never import the module of a name; for names from requests."""
    env_id, spec = text_spec_of(name)
    declared = {**spec.options, **PARSING}
    known = {*registry.load(env_id).all_options, *declared, "preset", "levels"}
    check_names(env_id, options, known)
    own = {option: value for option, value in options.items() if option in declared}
    values = resolve(env_id, declared, own)
    others = {option: value for option, value in options.items() if option not in own}
    env, params = registration.make_registered(env_id, **others)
    interface = spec.build(env, values)
    check_interface(env_id, interface, params)
    interface = with_facts(interface, env, params)
    return env, params, dataclasses.replace(interface, parsing=values["parsing"])
