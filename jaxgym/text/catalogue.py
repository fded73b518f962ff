"""The one table of environments that have words, and `make`, which returns both."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym import registration
from jaxgym.errors import OptionError, UnknownIdError, nearest, shown
from jaxgym.options import Option, Word, resolve
from jaxgym.text.words import Words


@dataclasses.dataclass(frozen=True)
class TextSpec:
    """How an environment is put into words.

    Attributes:
        build: Takes the environment and a value for each option; returns its words.
        options: What can be chosen about the words, by name; no name is one of the environment's options.
        short_name: The name under which frameworks of language models know it, such as `"frozen_lake"`.
    """

    build: Callable[[Any, Mapping[str, Any]], Words[Any]]
    short_name: str
    options: Mapping[str, Option] = dataclasses.field(default_factory=dict[str, Option])


PARSING: Mapping[str, Option] = {
    "parsing": Word(
        "strict",
        "whether a reply counts only if its explicit answer is exactly valid, or prose is searched as well",
        words=("strict", "lenient"),
    ),
}
"""The option that every environment with words has."""

_specs: dict[str, TextSpec] = {}


def register(env_id: str, spec: TextSpec) -> None:
    """Gives words to an environment of `jaxgym.register`.

    Raises:
        UnknownIdError: If the environment is not registered.
        ValueError: If it has words already, the short name is taken, or an option has the name of one of the
            environment's.
    """
    taken = registration.spec_of(env_id).all_options.keys() & spec.options.keys()
    if env_id in _specs or spec.short_name in {other.short_name for other in _specs.values()}:
        raise ValueError(f"{env_id!r} or the short name {spec.short_name!r} already has words; choose another.")
    if taken:
        raise ValueError(f"{env_id} has options {', '.join(sorted(taken))} itself; name those of its words otherwise.")
    _specs[env_id] = spec


def unregister(env_id: str) -> None:
    """Remove the text interface of an environment; the environment stays registered.

    Raises:
        UnknownIdError: If the environment is not registered, or has no text interface.
    """
    del _specs[text_spec_of(env_id)[0]]


def text_envs() -> dict[str, str]:
    """Returns the ids that have words, by short name."""
    return {spec.short_name: env_id for env_id, spec in _specs.items()}


def text_spec_of(name: str) -> tuple[str, TextSpec]:
    """Returns the id and the words of an environment, by its id or its short name.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    env_id = text_envs().get(name, name) if isinstance(name, str) else name
    if not isinstance(env_id, str) or env_id not in _specs:
        known = [*_specs, *text_envs()]
        raise UnknownIdError(
            f"{shown(name)} is no environment with words{nearest(name, known)}; give one of {', '.join(text_envs())}, "
            "or its id."
        )
    return env_id, _specs[env_id]


def make(name: str, **options: Any) -> tuple[Any, Any, Words[Any]]:
    """Makes an environment that is played in words.

    Args:
        name: An id of `jaxgym.make` that has words, or its short name.
        **options: Options of the environment and of its words, `parsing`, `preset`, `levels` and `max_steps` included.

    Returns:
        The environment, its parameters, and its words.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
        OptionError: If an option does not exist or does not take the given value.
        LevelError: See `jaxgym.make`.
    """
    env_id, spec = text_spec_of(name)
    declared = {**spec.options, **PARSING}
    known = {*registration.spec_of(env_id).all_options, *declared, "preset", "levels"}
    for option in options:
        if option not in known:
            raise OptionError(
                f"{env_id} in words has no option {option!r}{nearest(option, known)}; "
                f"give one of {', '.join(sorted(known))}."
            )
    own = {option: value for option, value in options.items() if option in declared}
    values = resolve(env_id, declared, own)
    env, params = registration.make(env_id, **{name: value for name, value in options.items() if name not in own})
    return env, params, dataclasses.replace(spec.build(env, values), parsing=values["parsing"])
