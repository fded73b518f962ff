"""Options of an environment: their defaults, the values they take, and the check in `make`.

An option is declared once, as one of the kinds below on the field that holds its value: `traced` declares it on a field
of `Params`, `static` on a field of the environment. `make`, the command line, the documentation and `check_env` read
these declarations.
"""

import dataclasses
import functools
import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer

from jaxgym.errors import OptionError, nearest

MAX_CHOICES = 8
"""The longest list that an option may hold; a fixed size lets lists of different lengths be stacked and vmapped."""

LOWEST_INT, HIGHEST_INT = -(2**31), 2**31 - 1
"""What int32 holds."""

_WORDS = {"True": True, "False": False, "None": None}
_NAMED_BOUNDS = {LOWEST_INT: "-2^31", HIGHEST_INT: "2^31 - 1"}


def plain(value: Any) -> Any:
    """Returns an array or scalar of NumPy or JAX, or a list of them, as plain Python values; all else as it is."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        is_known = not isinstance(value, Tracer) and not jnp.issubdtype(value.dtype, jax.dtypes.extended)
        return np.asarray(value).tolist() if is_known else value
    return [plain(item) for item in value] if isinstance(value, list | tuple | range) else value


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
        """Packs 1 to 8 integers; the unused rest repeats the last one, so that every slot holds a legal value.

        Raises:
            OptionError: If there are none or more, or one is no integer that int32 holds.
        """
        option = IntegerList(None, "", low=LOWEST_INT)
        listed = plain(values)
        if not option.accepts(listed):
            raise OptionError(f"Choices.of was given {values!r}; give {option.allowed}.")
        padded = [*listed, *[listed[-1]] * (MAX_CHOICES - len(listed))]
        return cls(values=np.asarray(padded, dtype=np.int32), count=np.asarray(len(listed), dtype=np.int32))

    def pick(self, bits: jax.Array) -> jax.Array:
        """Returns the choice that uint32 random `bits` () select, int32 ()."""
        index = (bits % jnp.asarray(self.count).astype(jnp.uint32)).astype(jnp.int32)
        return jnp.sum(jnp.where(jnp.arange(MAX_CHOICES) == index, self.values, 0), dtype=jnp.int32)


@dataclasses.dataclass(frozen=True)
class Option:
    """What all kinds share: a default and a line of help."""

    default: Any
    help: str

    @property
    def allowed(self) -> str:
        """The allowed values as text, to stand behind 'give'."""
        raise NotImplementedError  # Every kind says its own.

    def accepts(self, value: Any) -> bool:
        """Whether `value` is allowed."""
        raise NotImplementedError  # Every kind says its own.

    def plain(self, value: Any) -> Any:
        """Return an accepted value as a plain Python value."""
        return plain(value)

    def convert(self, value: Any) -> Any:
        """Return an accepted value as the arrays that parameters hold."""
        raise NotImplementedError(f"expected a kind that can be traced, got {type(self).__name__}. Use `static`.")


def is_integer(value: Any) -> bool:
    """Whether a plain value is an integer, and no bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _as_float32(value: Any) -> float:
    """Returns a number rounded to float32: inf where that is too small for it, NaN for what is no number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    except OverflowError:
        return math.inf


@dataclasses.dataclass(frozen=True)
class Integer(Option):
    """An integer in a closed range; int32 () where it is traced."""

    low: int = LOWEST_INT
    high: int = HIGHEST_INT

    @property
    def allowed(self) -> str:
        """The range as text."""
        return f"an integer from {_bound(self.low)} to {_bound(self.high)}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is an integer (not a bool) in the range."""
        value = plain(value)
        return is_integer(value) and self.low <= value <= self.high

    def plain(self, value: Any) -> Any:
        """Return an int."""
        return int(plain(value))

    def convert(self, value: Any) -> np.ndarray:
        """Return int32 ()."""
        return np.asarray(value, dtype=np.int32)


def _bound(bound: int) -> str:
    return _NAMED_BOUNDS.get(bound, str(bound))


@dataclasses.dataclass(frozen=True)
class Static(Integer):
    """An integer or None that fixes the shape of an array, so it is static.

    Attributes:
        none: What `None` stands for, as text.
    """

    none: str = "the smallest that the other options need"

    @property
    def allowed(self) -> str:
        """The range as text."""
        return f"{super().allowed}, or None for {self.none}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is None or an integer in the range."""
        return value is None or super().accepts(value)

    def plain(self, value: Any) -> Any:
        """Return an int or None."""
        return None if value is None else super().plain(value)


@dataclasses.dataclass(frozen=True)
class Real(Option):
    """A number in a closed range that float32 holds; float32 () where it is traced."""

    low: float | None = None
    high: float | None = None

    @property
    def allowed(self) -> str:
        """The range as text."""
        low = "" if self.low is None else f" from {self.low}"
        if self.high is None:
            return f"a finite float32 number{low and low + ' up'}"
        return f"a number{low} to {self.high}" if low else f"a finite float32 number up to {self.high}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a number (not a bool) that is finite and in the range once rounded to float32."""
        rounded = _as_float32(plain(value))
        low = -math.inf if self.low is None else _as_float32(self.low)
        high = math.inf if self.high is None else _as_float32(self.high)
        return math.isfinite(rounded) and low <= rounded <= high

    def plain(self, value: Any) -> float:
        """Return a float."""
        return float(plain(value))

    def convert(self, value: Any) -> np.ndarray:
        """Return float32 ()."""
        return np.asarray(value, dtype=np.float32)


@dataclasses.dataclass(frozen=True)
class Flag(Option):
    """True or False; bool () where it is traced."""

    @property
    def allowed(self) -> str:
        """Both values as text."""
        return "True or False"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a bool."""
        return isinstance(plain(value), bool)

    def convert(self, value: Any) -> np.ndarray:
        """Return bool ()."""
        return np.asarray(value, dtype=np.bool_)


@dataclasses.dataclass(frozen=True)
class OneOf(Option):
    """One of a few strings; it picks a program, so it is static.

    Attributes:
        values: The strings.
        none: What `None` stands for, as text; empty where None is not allowed.
    """

    values: tuple[str, ...] = ()
    none: str = ""

    @property
    def allowed(self) -> str:
        """The strings."""
        return " or ".join(repr(word) for word in self.values) + (f", or None for {self.none}" if self.none else "")

    def accepts(self, value: Any) -> bool:
        """Whether `value` is one of the strings, or an allowed None."""
        return value in self.values if isinstance(value, str) else value is None and bool(self.none)


@dataclasses.dataclass(frozen=True)
class IntegerList(Option):
    """A list of integers to sample from at every reset; `Choices` where it is traced."""

    low: int = 0
    high: int = HIGHEST_INT

    @property
    def allowed(self) -> str:
        """The form and range as text."""
        example = [self.default[0]] if isinstance(self.default, Sequence) else [max(self.low, 1)]
        span = f"from {_bound(self.low)} to {_bound(self.high)}"
        return f"a list of 1 to {MAX_CHOICES} integers {span}, such as {example}"

    def accepts(self, value: Any) -> bool:
        """Whether `value` is a sequence of 1 to 8 integers, each in the range."""
        listed = plain(value)
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_CHOICES:
            return False
        return all(is_integer(item) and self.low <= item <= self.high for item in listed)

    def convert(self, value: Any) -> Choices:
        """Return the list as `Choices`."""
        return Choices.of(value)


OBSERVATION = OneOf("pixels", "what an observation is", values=("pixels", "symbolic"))
"""The option `observation` of every game of the package."""

_KEY = "option"


def traced(kind: Option, **changes: Any) -> Any:
    """Declare a field of `Params` as an option; the field holds arrays, so that its values can be vmapped.

    Args:
        kind: The default, the allowed values and the line of help.
        **changes: Attributes of `kind` that differ here.
    """
    kind = dataclasses.replace(kind, **changes)
    default = functools.partial(kind.convert, kind.default)
    return dataclasses.field(default_factory=default, kw_only=True, metadata={_KEY: kind})


def static(kind: Option, **changes: Any) -> Any:
    """Declare a field of an environment as an option; the field holds a plain Python value, and fixes the program.

    If the option's default is `None`, the field has no default; `Environment.derive` may return a value in its place.

    Args:
        kind: The default, the allowed values and the line of help.
        **changes: Attributes of `kind` that differ here.
    """
    kind = dataclasses.replace(kind, **changes)
    default = {} if kind.default is None else {"default": kind.plain(kind.default)}
    return dataclasses.field(**default, kw_only=True, metadata={_KEY: kind})


def declared(*classes: type) -> dict[str, Option]:
    """Return the options that dataclasses declare, by name in the order of the fields."""
    fields = [field for each in classes for field in dataclasses.fields(each)]
    return {field.name: field.metadata[_KEY] for field in fields if _KEY in field.metadata}


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
    if not isinstance(preset, str) or preset not in presets:
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
        A plain Python value for every option.

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
            hint = nearest(value, option.values) if isinstance(option, OneOf) else ""
            raise OptionError(f"{env_id} was given {name}={value!r}{hint}; give {option.allowed}.")
    return {name: option.plain(given.get(name, option.default)) for name, option in options.items()}


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the options that NAME=VALUE pairs give, as every command line and server of the package reads them.

    A value is JSON, `True`, `False` or `None` as Python writes them, or else a string.

    Raises:
        OptionError: If a word has no `=`, or a name comes twice.
    """
    options = {}
    for word in pairs:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise OptionError(f"{word!r} is no option: give NAME=VALUE, such as observation=symbolic.")
        if name in options:
            raise OptionError(f"{name!r} is given twice: keep one of its values.")
        try:
            options[name] = _WORDS[value] if value in _WORDS else json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
