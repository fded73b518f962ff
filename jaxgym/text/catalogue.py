"""The one table of environments that have words, and `make`, which returns both."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxgym import registration
from jaxgym.errors import OptionError, UnknownIdError, nearest, shown
from jaxgym.options import Option, resolve
from jaxgym.text.words import Words


@dataclasses.dataclass(frozen=True)
class TextSpec:
    """How an environment is put into words.

    Attributes:
        build: Takes the environment and a value for each option; returns its words.
        options: What can be chosen about the words, by name; no name is one of the environment's options.
        nick: The name under which frameworks of language models know it, such as `"frozen_lake"`.
    """

    build: Callable[[Any, Mapping[str, Any]], Words[Any]]
    nick: str
    options: Mapping[str, Option] = dataclasses.field(default_factory=dict[str, Option])


_specs: dict[str, TextSpec] = {}


def register(env_id: str, spec: TextSpec) -> None:
    """Gives words to an environment of `jaxgym.register`.

    Raises:
        UnknownIdError: If the environment is not registered.
        ValueError: If it has words already, the nick is taken, or an option has the name of one of the environment's.
    """
    taken = registration.spec_of(env_id).all_options.keys() & spec.options.keys()
    if env_id in _specs or spec.nick in {other.nick for other in _specs.values()}:
        raise ValueError(f"{env_id!r} or the nick {spec.nick!r} already has words; choose another.")
    if taken:
        raise ValueError(f"{env_id} has options {', '.join(sorted(taken))} itself; name those of its words otherwise.")
    _specs[env_id] = spec


def text_envs() -> dict[str, str]:
    """Returns the ids that have words, by nick."""
    return {spec.nick: env_id for env_id, spec in _specs.items()}


def text_spec_of(name: str) -> tuple[str, TextSpec]:
    """Returns the id and the words of an environment, by its id or its nick.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
    """
    env_id = text_envs().get(name, name) if isinstance(name, str) else name
    if not isinstance(env_id, str) or env_id not in _specs:
        known = [*_specs, *text_envs()]
        raise UnknownIdError(
            f"{shown(name)} is no environment with words{nearest(name, known)}; the ids are {', '.join(_specs)}, "
            f"or in short {', '.join(text_envs())}."
        )
    return env_id, _specs[env_id]


def make(name: str, **options: Any) -> tuple[Any, Any, Words[Any]]:
    """Makes an environment that is played in words.

    Args:
        name: An id of `jaxgym.make` that has words, or its nick.
        **options: Options of the environment and of its words, `preset`, `levels` and `max_steps` included.

    Returns:
        The environment, its parameters, and its words.

    Raises:
        UnknownIdError: If there is no such environment, or it has no words.
        OptionError: If an option does not exist or does not take the given value.
        LevelError: See `jaxgym.make`.
    """
    env_id, spec = text_spec_of(name)
    known = {*registration.spec_of(env_id).all_options, *spec.options, "preset", "levels"}
    for option in options:
        if option not in known:
            raise OptionError(
                f"{env_id} in words has no option {option!r}{nearest(option, known)}; "
                f"give one of {', '.join(sorted(known))}."
            )
    own = {option: value for option, value in options.items() if option in spec.options}
    values = resolve(env_id, spec.options, own)
    env, params = registration.make(env_id, **{name: value for name, value in options.items() if name not in own})
    return env, params, spec.build(env, values)
