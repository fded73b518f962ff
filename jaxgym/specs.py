"""The one table of environment ids: how each environment is made, and how its original makes levels."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from jaxgym.errors import LevelError, UnknownIdError, nearest, shown
from jaxgym.options import Integer, Option, Preset, resolve, with_preset

if TYPE_CHECKING:
    from jaxgym.environment import Environment, EnvParams

    Builder = Callable[[str, Mapping[str, Any]], tuple[Environment[Any, Any, Any, Any], EnvParams]]

_MAX_STEPS = Integer(0, "time limit in steps; 0 or less means none")


def no_sizes(_: Any) -> dict[str, int]:
    """Returns no options: for levels that have one size only."""
    return {}


@dataclasses.dataclass(frozen=True)
class Original:
    """How the original of an environment makes the levels of its seeds.

    Options are given to these functions as the user gave them, or as their defaults, `max_steps` included.

    Attributes:
        levels: Takes an environment, the options and n seeds, uint32 (n,); returns a stack of n levels on the host.
        course: Takes an environment and the options; returns a `jaxgym.originals.course.Course`.
        sizes: Takes the options; returns those options that make room for whole levels, where the user gave none.
    """

    levels: Callable[[Any, Mapping[str, Any], Any], Any]
    course: Callable[[Any, Mapping[str, Any]], Any]
    sizes: Callable[[Mapping[str, Any]], Mapping[str, int]] = no_sizes


def never(_: Any) -> bool:
    """Returns False: for games that never show a clue."""
    return False


@dataclasses.dataclass(frozen=True)
class Human:
    """How a person sees and plays a game.

    Attributes:
        view: Takes environment, state and parameters; returns the picture that hides nothing, uint8 (H, W, 3).
        controls: "free" for two times three actions, "grid" for nothing, turn left, turn right and forward, "course"
            for nothing, right, up and down, "steps" for left, down, right and up, "words" for moves
            that no key stands for.
        is_clue: Takes a state; whether its frame is a clue, in which the agent can't move.
    """

    view: Callable[[Any, Any, Any], jax.Array]
    controls: Literal["free", "grid", "course", "steps", "words"]
    is_clue: Callable[[Any], Any] = never


@dataclasses.dataclass(frozen=True)
class Spec:
    """How an environment is made.

    Attributes:
        build: Takes the id and a value for each option; returns the environment and its parameters.
        options: The options by name, `levels` and `max_steps` apart, which every environment has.
        max_steps: The default time limit.
        default_bank: Takes the parameters; returns the bank where `levels` is not given. Resets sample if None.
        sizes_of: Takes a bank; returns the options that make room for its levels, none for levels of another kind.
        fits: Takes the environment, a bank of n levels on the host and the parameters; returns which levels these
            options can make, bool (n,), for each field of a level by its name. Values are not checked if None.
        original: How the original makes levels, if there is one.
        presets: Options that stand under one name, by that name.
        expert: Takes environment, state and parameters; returns an action that leads to success. It is pure.
        human: How a person sees and plays it.
    """

    build: "Builder"
    options: Mapping[str, Option]
    max_steps: int = 0
    default_bank: Callable[[Any], Any] | None = None
    sizes_of: Callable[[Any], Mapping[str, int]] = no_sizes
    fits: Callable[[Any, Any, Any], Mapping[str, np.ndarray]] | None = None
    original: Original | None = None
    presets: Mapping[str, Preset] = dataclasses.field(default_factory=dict[str, Preset])
    expert: Callable[[Any, Any, Any], jax.Array] | None = None
    human: Human | None = None

    @property
    def all_options(self) -> dict[str, Option]:
        """The options by name, with `max_steps`."""
        return {**self.options, "max_steps": dataclasses.replace(_MAX_STEPS, default=self.max_steps)}


_specs: dict[str, Spec] = {}


def add(env_id: str, spec: Spec) -> None:
    """Adds a row to the table.

    Raises:
        ValueError: If the id is taken.
    """
    if env_id in _specs:
        raise ValueError(f"{env_id!r} is already registered; choose another id.")
    _specs[env_id] = spec


def remove(env_id: str) -> None:
    """Remove a row from the table.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    spec_of(env_id)
    del _specs[env_id]


def _table() -> dict[str, Spec]:
    """Returns the table with the rows of the package, however the process began.

    The rows need the environments, which need this module: it can't import them before somebody reads.
    """
    importlib.import_module("jaxgym.registration")
    return _specs


def registered_envs() -> tuple[str, ...]:
    """Returns the ids that `jaxgym.make` takes."""
    return tuple(_table())


def spec_of(env_id: str) -> Spec:
    """Returns how an environment is made.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    table = _table()
    if not isinstance(env_id, str) or env_id not in table:
        known = ", ".join(table)
        raise UnknownIdError(f"{shown(env_id)} is no environment id{nearest(env_id, table)}; the ids are {known}.")
    return table[env_id]


def presets(env_id: str) -> dict[str, Preset]:
    """Returns the presets of an environment by name, for `jaxgym.make(env_id, preset=name)`.

    Raises:
        UnknownIdError: If the id is not registered.
    """
    return dict(spec_of(env_id).presets)


def original_of(env_id: str) -> Original:
    """Returns how the original of an environment makes levels.

    Raises:
        UnknownIdError: If the id is not registered.
        LevelError: If the environment has no original that is known here.
    """
    original = spec_of(env_id).original
    if original is None:
        known: Sequence[str] = [name for name, spec in _table().items() if spec.original is not None]
        raise LevelError(
            f"{env_id} was asked for original levels and has none; ids with original levels are {', '.join(known)}: "
            "for this one, make a bank with jaxgym.levels.make_bank."
        )
    return original


def build_original(
    env_id: str, given: Mapping[str, Any], preset: str | None = None
) -> tuple[Original, Any, Any, dict[str, Any]]:
    """Returns the original of an id, an environment with room for its levels and its parameters, and the options.

    The options are as they were given, or their defaults: what parameters hold is rounded to float32.

    Raises:
        UnknownIdError: If the id is not registered.
        OptionError: If an option or the preset does not exist, or an option does not take the given value.
        LevelError: If the id has no original.
    """
    original, spec = original_of(env_id), spec_of(env_id)
    given = with_preset(env_id, spec.presets, preset, given)
    resolve(env_id, spec.all_options, given)
    plain = {name: np.asarray(given.get(name, option.default)).tolist() for name, option in spec.all_options.items()}
    plain |= {name: size for name, size in original.sizes(plain).items() if plain[name] is None}
    values = resolve(env_id, spec.all_options, plain)
    env, params = spec.build(env_id, {name: value for name, value in values.items() if name != "max_steps"})
    return original, env, params, plain
