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
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer

from jaxgym.errors import OptionError, nearest

MAX_CHOICES = 8
"""Maximum length of a list option. With this fixed size, lists of different lengths can be stacked and vmapped."""

LOWEST_INT, HIGHEST_INT = -(2**31), 2**31 - 1
"""Range of int32."""

_WORDS = {"True": True, "False": False, "None": None}
_NAMED_BOUNDS = {LOWEST_INT: "-2^31", HIGHEST_INT: "2^31 - 1"}


def plain(value: Any) -> Any:
    """Convert arrays and scalars of NumPy or JAX, and lists of them, to Python values; return others unchanged."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        is_known = not isinstance(value, Tracer) and not jnp.issubdtype(value.dtype, jax.dtypes.extended)
        return np.asarray(value).tolist() if is_known else value
    return [plain(item) for item in value] if isinstance(value, list | tuple | range) else value


@struct.dataclass
class Choices:
    """Set of integers from which every reset samples uniformly.

    Attributes:
        values: The choices, int32 (8,); entries from `count` on are not used.
        count: How many there are, int32 ().
    """

    values: jax.Array | np.ndarray
    count: jax.Array | np.ndarray

    @classmethod
    def of(cls, values: Sequence[int]) -> "Choices":
        """Pack 1 to 8 integers. Unused slots repeat the last one, so that every slot holds a valid value.

        Raises:
            OptionError: If there are none or more than 8, or one is not an integer in the range of int32.
        """
        option = IntegerList(None, "", low=LOWEST_INT)
        listed = plain(values)
        if not option.accepts(listed):
            raise OptionError(f"Choices.of: expected {option.allowed}, got {values!r}.")
        padded = [*listed, *[listed[-1]] * (MAX_CHOICES - len(listed))]
        return cls(values=np.asarray(padded, dtype=np.int32), count=np.asarray(len(listed), dtype=np.int32))

    def pick(self, bits: jax.Array) -> jax.Array:
        """Return the choice selected by random `bits`, uint32 (), as int32 ()."""
        index = (bits % jnp.asarray(self.count).astype(jnp.uint32)).astype(jnp.int32)
        return jnp.sum(jnp.where(jnp.arange(MAX_CHOICES) == index, self.values, 0), dtype=jnp.int32)


@dataclasses.dataclass(frozen=True)
class Option:
    """Declaration of an option; the base class of all kinds.

    Attributes:
        default: Default value.
        help: One line of help.
    """

    default: Any
    help: str

    @property
    def allowed(self) -> str:
        """Description of the allowed values, for error messages after "expected"."""
        raise NotImplementedError  # Every kind has its own.

    def accepts(self, value: Any) -> bool:
        """Return whether a value is allowed."""
        raise NotImplementedError  # Every kind has its own.

    def plain(self, value: Any) -> Any:
        """Return an accepted value as a plain Python value."""
        return plain(value)

    def convert(self, value: Any) -> Any:
        """Return an accepted value as the arrays that parameters hold."""
        raise NotImplementedError(f"expected a kind that can be traced, got {type(self).__name__}. Use `static`.")


def is_integer(value: Any) -> bool:
    """Return whether a Python value is an integer and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _as_float32(value: Any) -> float:
    """Round a number to float32; return inf if it is out of range, and NaN if the value is not a number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    except OverflowError:
        return math.inf


@dataclasses.dataclass(frozen=True)
class Integer(Option):
    """An integer in a closed range; int32 () if it is traced."""

    low: int = LOWEST_INT
    high: int = HIGHEST_INT

    @property
    def allowed(self) -> str:
        """Description of the range."""
        return f"an integer from {_bound(self.low)} to {_bound(self.high)}"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is an integer (not a bool) in the range."""
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
        none: Meaning of `None`, for the help.
    """

    none: str = "the smallest that the other options need"

    @property
    def allowed(self) -> str:
        """Description of the range."""
        return f"{super().allowed}, or None for {self.none}"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is None or an integer in the range."""
        return value is None or super().accepts(value)

    def plain(self, value: Any) -> Any:
        """Return an int or None."""
        return None if value is None else super().plain(value)


@dataclasses.dataclass(frozen=True)
class Real(Option):
    """A float32 number in a closed range; float32 () if it is traced."""

    low: float | None = None
    high: float | None = None

    @property
    def allowed(self) -> str:
        """Description of the range."""
        low = "" if self.low is None else f" from {self.low}"
        if self.high is None:
            return f"a finite float32 number{low and low + ' up'}"
        return f"a number{low} to {self.high}" if low else f"a finite float32 number up to {self.high}"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a number (not a bool) that is finite and in the range after rounding to float32."""
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
    """True or False; bool () if it is traced."""

    @property
    def allowed(self) -> str:
        """Both values."""
        return "True or False"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a bool."""
        return isinstance(plain(value), bool)

    def convert(self, value: Any) -> np.ndarray:
        """Return bool ()."""
        return np.asarray(value, dtype=np.bool_)


@dataclasses.dataclass(frozen=True)
class OneOf(Option):
    """One of several strings; it selects a program, so it is static.

    Attributes:
        values: The strings.
        none: Meaning of `None`, for the help; empty if None is not allowed.
    """

    values: tuple[str, ...] = ()
    none: str = ""

    @property
    def allowed(self) -> str:
        """The strings."""
        return " or ".join(repr(word) for word in self.values) + (f", or None for {self.none}" if self.none else "")

    def accepts(self, value: Any) -> bool:
        """Return whether a value is one of the strings, or None where it is allowed."""
        return value in self.values if isinstance(value, str) else value is None and bool(self.none)


@dataclasses.dataclass(frozen=True)
class IntegerList(Option):
    """A list of integers, from which every reset samples; `Choices` if it is traced."""

    low: int = 0
    high: int = HIGHEST_INT

    @property
    def allowed(self) -> str:
        """Description of the form and the range."""
        example = [self.default[0]] if isinstance(self.default, Sequence) else [max(self.low, 1)]
        span = f"from {_bound(self.low)} to {_bound(self.high)}"
        return f"a list of 1 to {MAX_CHOICES} integers {span}, such as {example}"

    def accepts(self, value: Any) -> bool:
        """Return whether a value is a sequence of 1 to 8 integers in the range."""
        listed = plain(value)
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_CHOICES:
            return False
        return all(is_integer(item) and self.low <= item <= self.high for item in listed)

    def convert(self, value: Any) -> Choices:
        """Return the list as `Choices`."""
        return Choices.of(value)


OBSERVATION = OneOf("pixels", "format of the observation", values=("pixels", "symbolic"))
"""The option `observation` of the package's environments."""

_KEY = "option"


def traced(kind: Option, **changes: Any) -> Any:
    """Declare a field of `Params` as an option; the field holds arrays, so that its values can be vmapped.

    `changes` are attributes of `kind` that differ here.
    """
    kind = dataclasses.replace(kind, **changes)
    default = functools.partial(kind.convert, kind.default)
    return dataclasses.field(default_factory=default, kw_only=True, metadata={_KEY: kind})


def static(kind: Option, **changes: Any) -> Any:
    """Declare a field of an environment as an option; the field holds a plain Python value, and fixes the program.

    If the option's default is `None`, the field has no default; `Environment.derive` may return a value in its place.
    `changes` are attributes of `kind` that differ here.
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
    """Named set of option values.

    Attributes:
        options: Values by name, `max_steps` included; the other options keep their defaults.
        help: One line of help.
        source: The paper and its section.
    """

    options: Mapping[str, Any]
    help: str
    source: str


def with_preset(
    env_id: str, presets: Mapping[str, Preset], preset: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of a preset, overridden by the given ones; for None, return the given ones.

    Raises:
        OptionError: If the environment has no such preset.
    """
    if preset is None:
        return dict(given)
    if not isinstance(preset, str) or preset not in presets:
        fix = f"Use one of {', '.join(presets)}" if presets else "It has no presets. Pass options instead"
        raise OptionError(f"{env_id}: expected a preset, got {preset!r}{nearest(preset, presets)}. {fix}.")
    return {**presets[preset].options, **given}


def check_names(env_id: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise an error if a name is not the name of an option.

    Raises:
        OptionError: If a name is unknown.
    """
    for name in given:
        if name not in known:
            fix = f"Use one of {', '.join(sorted(known))}"
            raise OptionError(f"{env_id}: expected an option, got {name!r}{nearest(name, known)}. {fix}.")


def resolve(env_id: str, options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the given values and fill in the defaults; return a plain Python value for every option.

    Raises:
        OptionError: If a name is unknown or a value is invalid.
    """
    check_names(env_id, given, options)
    for name, value in given.items():
        if not options[name].accepts(value):
            option = options[name]
            hint = nearest(value, option.values) if isinstance(option, OneOf) else ""
            raise OptionError(f"{env_id}: {name}: expected {option.allowed}, got {value!r}{hint}.")
    return {name: option.plain(given.get(name, option.default)) for name, option in options.items()}


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs, as every command line and server of the package does.

    A value is JSON, or `True`, `False` or `None` as in Python; any other value is a string.

    Raises:
        OptionError: If a pair has no `=`, or a name occurs twice.
    """
    options = {}
    for word in pairs:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise OptionError(f"expected NAME=VALUE, such as observation=symbolic, got {word!r}.")
        if name in options:
            raise OptionError(f"expected each option once, got {name!r} twice. Remove one.")
        try:
            options[name] = _WORDS[value] if value in _WORDS else json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
