"""What the options of an environment are: their defaults, the values they take, and the check in `make`.

An environment declares its options as a mapping from name to one of the kinds below. `make`, the command line and the
documentation read that mapping; nothing else knows an option's default or range.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym.errors import OptionError, nearest

MAX_CHOICES = 8
"""The longest list that an option may hold; a fixed size lets lists of different lengths be stacked and vmapped."""


@struct.dataclass
class Choices:
    """A set to sample from, uniformly, at every reset.

    Attributes:
        values: The choices, int32 (8,); entries from `count` on are not used.
        count: How many there are, int32 ().
    """

    values: jax.Array | np.ndarray
    count: jax.Array | np.ndarray

    @classmethod
    def of(cls, values: Sequence[int]) -> "Choices":
        """Packs 1 to 8 integers; the unused rest repeats the last one, so that every slot holds a legal value."""
        padded = [*values, *[values[-1]] * (MAX_CHOICES - len(values))]
        return cls(values=np.asarray(padded, dtype=np.int32), count=np.asarray(len(values), dtype=np.int32))

    def pick(self, bits: jax.Array) -> jax.Array:
        """Returns the choice that uint32 random `bits` () select, int32 ()."""
        index = (bits % jnp.asarray(self.count).astype(jnp.uint32)).astype(jnp.int32)
        return jnp.sum(jnp.where(jnp.arange(MAX_CHOICES) == index, self.values, 0))


@dataclasses.dataclass(frozen=True)
class Option:
    """What all kinds share: a default and a line of help."""

    default: Any
    help: str

    @property
    def allowed(self) -> str:
        """The allowed values in words, to stand behind 'give'."""
        raise NotImplementedError  # Every kind says its own.

    def accepts(self, value: Any) -> bool:
        """Whether `value` is allowed."""
        raise NotImplementedError  # Every kind says its own.

    def convert(self, value: Any) -> Any:
        """Returns an accepted value in the form that the environment stores."""
        return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral | np.integer) and not isinstance(value, bool | np.bool_)


def _range_words(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" from {low} up"
    return f" from {low} to {high}"


def _in_range(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


@dataclasses.dataclass(frozen=True)
class Integer(Option):
    """An integer in a closed range; stored as int32 ()."""

    low: int | None = None
    high: int | None = None

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"an integer{_range_words(self.low, self.high)}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is an integer (not a bool) in the range."""
        return _is_integer(value) and _in_range(value, self.low, self.high)

    def convert(self, value: Any) -> np.ndarray:
        """Returns int32 ()."""
        return np.asarray(value, dtype=np.int32)


@dataclasses.dataclass(frozen=True)
class Static(Integer):
    """An integer that fixes the shape of an array, so it stays a Python int and belongs to the environment.

    `None` stands for the smallest size that the other options need.
    """

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"{super().allowed}, or None for the smallest that the other options need"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is None or an integer in the range."""
        return value is None or super().accepts(value)

    def convert(self, value: Any) -> Any:
        """Returns an int or None."""
        return value if value is None else int(value)


@dataclasses.dataclass(frozen=True)
class Real(Option):
    """A finite number in a closed range, stored as float32 (); `static` ones stay a Python float."""

    low: float | None = None
    high: float | None = None
    static: bool = False

    @property
    def allowed(self) -> str:
        """The range in words."""
        return f"a number{_range_words(self.low, self.high)}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a finite number (not a bool) in the range."""
        is_number = isinstance(value, numbers.Real | np.number) and not isinstance(value, bool | np.bool_)
        return is_number and math.isfinite(value) and _in_range(float(value), self.low, self.high)

    def convert(self, value: Any) -> Any:
        """Returns float32 (), or a float if static."""
        return float(value) if self.static else np.asarray(value, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class Flag(Option):
    """True or False, stored as bool (); `static` ones stay a Python bool."""

    static: bool = False

    @property
    def allowed(self) -> str:
        """Both values in words."""
        return "True or False"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a bool."""
        return isinstance(value, bool | np.bool_)

    def convert(self, value: Any) -> Any:
        """Returns bool (), or a bool if static."""
        return bool(value) if self.static else np.asarray(value, dtype=np.bool_)


@dataclasses.dataclass(frozen=True)
class Word(Option):
    """One of a few words; it picks a program, so it stays a Python str."""

    words: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The words."""
        return " or ".join(repr(word) for word in self.words)

    def accepts(self, value: Any) -> bool:
        """Whether `value` is one of the words."""
        return isinstance(value, str) and value in self.words


@dataclasses.dataclass(frozen=True)
class IntegerList(Option):
    """A list of integers to sample from at every reset, stored as `Choices`."""

    low: int = 0
    high: int | None = None

    @property
    def allowed(self) -> str:
        """The form and range in words."""
        example = [self.default[0]] if isinstance(self.default, Sequence) else [self.low]
        return f"a list of 1 to {MAX_CHOICES} integers{_range_words(self.low, self.high)}, such as {example}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a sequence of 1 to 8 integers, each in the range."""
        if not isinstance(value, list | tuple | range | np.ndarray) or not 1 <= len(value) <= MAX_CHOICES:
            return False
        return all(_is_integer(item) and _in_range(item, self.low, self.high) for item in value)

    def convert(self, value: Any) -> Choices:
        """Returns the list as `Choices`."""
        return Choices.of([int(item) for item in value])


@dataclasses.dataclass(frozen=True)
class Preset:
    """Options that stand under one name.

    Attributes:
        options: Their values by name, `max_steps` included; the other options keep their defaults.
        help: One line that says what they make of the game.
        source: Where they come from: the paper and the part of it.
    """

    options: Mapping[str, Any]
    help: str
    source: str


def with_preset(
    env_id: str, presets: Mapping[str, Preset], preset: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the options of a preset, those that were given on top; the given ones alone for None.

    Raises:
        OptionError: If the environment has no such preset.
    """
    if preset is None:
        return dict(given)
    if preset not in presets:
        names = f"give one of {', '.join(presets)}" if presets else "it has none: give its options one by one"
        raise OptionError(f"{env_id} has no preset {preset!r}{nearest(preset, presets)}; {names}.")
    return {**presets[preset].options, **given}


def resolve(env_id: str, options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the given values and fills in the defaults.

    Args:
        env_id: The id to name in an error.
        options: All options of the environment.
        given: The values that the user gave, by name.

    Returns:
        A value for every option, converted to the form that the environment stores.

    Raises:
        OptionError: If a name is not among the options or a value is not allowed.
    """
    for name, value in given.items():
        if name not in options:
            raise OptionError(
                f"{env_id} has no option {name!r}{nearest(name, options)}; give one of {', '.join(sorted(options))}."
            )
        if not options[name].accepts(value):
            option = options[name]
            hint = nearest(value, option.words) if isinstance(option, Word) else ""
            raise OptionError(f"{env_id} was given {name}={value!r}{hint}; give {option.allowed}.")
    return {name: option.convert(given.get(name, option.default)) for name, option in options.items()}
