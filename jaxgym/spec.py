"""Declaration of an environment: `Spec`, and its parts `Original`, `Human` and `TextSpec`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import numpy as np

from jaxgym.environment import AnyEnvironment, Environment, EnvParams
from jaxgym.errors import shown
from jaxgym.observability import full_class
from jaxgym.options import Integer, OneOf, Option, Preset, declared
from jaxgym.registry import Declaration

Controls = Literal[
    "free",
    "grid",
    "path",
    "steps",
    "clockwise",
    "counterclockwise",
    "compass",
    "winds",
    "turns",
    "minigrid",
    "ship",
    "text",
]

_MAX_STEPS = Integer(0, "time limit in steps; 0 or less means none")
_OBSERVABILITY = OneOf(
    "partial", "whether the observation also shows the hidden facts of the game", values=("partial", "full")
)
_REQUIRED = ("sample_level", "initial_state", "transition", "action_space")


@dataclasses.dataclass(frozen=True)
class Original:
    """Levels that the original of an environment makes from its seeds.

    Options are given to these functions as the user gave them, or as their defaults, `max_steps` included.

    Attributes:
        levels: Takes an environment, the options and n seeds, uint32 (n,); returns a stack of n levels on the host.
        sequence: Takes an environment and the options; returns a `jaxgym.envs.common.episode_sequence.EpisodeSequence`.
            None if no adapter can continue the episodes of the original.
        sizes: Takes the options; returns those options that make room for whole levels, where the user gave none. By
            default, none: levels have one size only.
        package: The package of the original, whose interface the Gymnasium environment can have, if any.
    """

    levels: Callable[[Any, Mapping[str, Any], Any], Any]
    sequence: Callable[[Any, Mapping[str, Any]], Any] | None
    sizes: Callable[[Mapping[str, Any]], Mapping[str, int]] = lambda _: {}
    package: Literal["memory_gym", "minigrid"] | None = "memory_gym"


@dataclasses.dataclass(frozen=True)
class Human:
    """View and controls of a game for a person.

    Attributes:
        view: Takes environment, state and parameters; returns the image that hides nothing, uint8 (H, W, 3).
        controls: "free" for two times three actions, "grid" for nothing, turn left, turn right and forward, "path"
            for nothing, right, up and down, "steps" for left, down, right and up, "clockwise" for up, right, down
            and left, "counterclockwise" for right, up, left and down, "compass" for up, down, left and right, "winds"
            for eight directions clockwise from up, "turns" for forward, left and right, "minigrid" for the actions of
            MiniGrid, "ship" for nine directions and fire, "text" for moves that no key stands for.
        is_clue: Takes a state; whether its frame is a clue, in which the agent can't move; never by default.
        caption: Takes a state; returns what the frame lacks, such as an instruction, for the title of the window.
    """

    view: Callable[[Any, Any, Any], jax.Array]
    controls: Controls
    is_clue: Callable[[Any], Any] = lambda _: False
    caption: Callable[[Any], str] = lambda _: ""


@dataclasses.dataclass(frozen=True)
class TextSpec:
    """Text interface of an environment.

    Attributes:
        build: Takes the environment and a value for each option; returns a `jaxgym.text.TextInterface`.
        options: The options of the text interface by name; no name is one of the environment's options.

    Raises:
        ValueError: If `build` is not a function, or an option is of another kind.
    """

    build: Callable[[Any, Mapping[str, Any]], Any]
    options: Mapping[str, Option] = dataclasses.field(default_factory=dict[str, Option])

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise ValueError(f"build: expected a function of the environment and the options, got {shown(self.build)}.")
        if not isinstance(self.options, Mapping):
            raise ValueError(f"options: expected a mapping from names to options, got {shown(self.options)}.")
        for name, option in self.options.items():
            if not isinstance(option, Option):
                raise ValueError(f"options: {name}: expected an option such as Integer, got {shown(option)}.")


@dataclasses.dataclass(frozen=True)
class Spec(Declaration):
    """Declaration of an environment.

    Attributes:
        environment: The class of the environment; its fields declare the static options.
        params: The class of its parameters; its fields declare the traced options.
        fixed: Plain values of fields for this environment. An option among these fields is none of its options.
        changes: Attributes that differ from the declaration of an option, such as `{"size": {"default": 5}}`.
        max_steps: The default time limit.
        default_level_buffer: Takes the parameters; returns the level buffer where `levels` is not given. Resets sample
            if None.
        sizes_of: Takes a level buffer; returns the options that make room for its levels, none for levels of another
            kind.
        valid_levels: Takes the environment, a level buffer of n levels on the host and the parameters; returns which
            levels these options can make, bool (n,), for each field of a level by its name. Values are not checked if
            None.
        original: How the original makes levels, if there is one.
        presets: Options that stand under one name, by that name.
        expert: Takes environment, state and parameters; returns an action that leads to success. It is pure.
        human: How a person sees and plays it.
        text: The text interface, if there is one.

    Raises:
        ValueError: If a field has a value of another kind, the class of the environment lacks a method, an option of
            the text interface has the name of one of the environment's, or `changes` has a name that is none of the
            options.
    """

    environment: type[AnyEnvironment]
    params: type[EnvParams] = EnvParams
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    changes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict[str, Mapping[str, Any]])
    max_steps: int = 0
    default_level_buffer: Callable[[Any], Any] | None = None
    sizes_of: Callable[[Any], Mapping[str, int]] = lambda _: {}
    valid_levels: Callable[[Any, Any, Any], Mapping[str, np.ndarray]] | None = None
    original: Original | None = None
    presets: Mapping[str, Preset] = dataclasses.field(default_factory=dict[str, Preset])
    expert: Callable[[Any, Any, Any], jax.Array] | None = None
    human: Human | None = None
    text: TextSpec | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        unknown = self.changes.keys() - self.options.keys()
        if unknown:
            raise ValueError(f"expected options in changes, got {', '.join(sorted(unknown))}. Correct their names.")
        taken = self.all_options.keys() & (self.text.options.keys() if self.text else set())
        if taken:
            raise ValueError(
                f"expected other option names for the text interface than for the environment, got "
                f"{', '.join(sorted(taken))} for both. Rename them in the text interface."
            )

    def _check_kinds(self) -> None:
        """Raise `ValueError` if a field has a value of another kind, or the environment lacks a method."""
        for name, base in (("environment", Environment), ("params", EnvParams)):
            given = getattr(self, name)
            if not (isinstance(given, type) and issubclass(given, base)):
                raise ValueError(f"{name}: expected a subclass of jaxgym.{base.__name__}, got {shown(given)}.")
        missing = [name for name in _REQUIRED if getattr(self.environment, name) is getattr(Environment, name)]
        if missing:
            raise ValueError(f"environment: expected {self.environment.__name__} to define {missing[0]}. Add it.")
        if not _MAX_STEPS.accepts(self.max_steps):
            raise ValueError(f"max_steps: expected {_MAX_STEPS.allowed}, got {shown(self.max_steps)}.")
        for name, kind in (("original", Original), ("human", Human), ("text", TextSpec)):
            given = getattr(self, name)
            if not isinstance(given, kind | None):
                raise ValueError(f"{name}: expected a jaxgym.{kind.__name__} or None, got {shown(given)}.")
        for name in ("default_level_buffer", "valid_levels", "expert"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                raise ValueError(f"{name}: expected a function or None, got {shown(getattr(self, name))}.")

    @property
    def options(self) -> dict[str, Option]:
        """The options by name, without those of every environment: `levels`, `max_steps` and `observability`."""
        return {
            name: dataclasses.replace(option, **self.changes.get(name, {}))
            for name, option in declared(self.params, self.environment).items()
            if name not in self.fixed
        }

    @property
    def all_options(self) -> dict[str, Option]:
        """The options by name, with `max_steps` and `observability`."""
        limit = dataclasses.replace(_MAX_STEPS, default=self.max_steps)
        return {**self.options, "max_steps": limit, "observability": _OBSERVABILITY}

    def build(self, env_id: str, values: Mapping[str, Any]) -> tuple[AnyEnvironment, EnvParams]:
        """Return the environment and its parameters.

        Args:
            env_id: The id.
            values: A plain value for each of `all_options`.

        Raises:
            OptionError: If values do not fit each other.
        """
        values = {**values, **self.fixed, "max_steps_in_episode": _MAX_STEPS.convert(values["max_steps"])}
        values |= self.environment.derive(env_id, values)
        traced = {name: option.convert(values[name]) for name, option in declared(self.params).items()}
        params = self.params(**_fields_of(self.params, values | traced))
        kind = full_class(self.environment) if values["observability"] == "full" else self.environment
        return kind(**_fields_of(kind, values), env_id=env_id, initial_params=params), params


def _fields_of(each: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(each)}
    return {name: value for name, value in values.items() if name in names}
