"""Errors that jaxgym raises for a user's mistake.

A message gives the expected and the actual value first, then the fix. All errors except `ForkError` are subclasses of
`ValueError`.
"""

import difflib
import re
import reprlib
from collections import Counter
from collections.abc import Iterable


class UnknownIdError(ValueError):
    """Unknown environment id."""


class OptionError(ValueError):
    """Unknown option, or an invalid value of one."""


class ActionError(ValueError):
    """Action of a wrong shape or dtype, or, in the Gymnasium interface, outside of the action space."""


class RandomKeyError(ValueError):
    """Value that is not one PRNG key."""


class StateError(ValueError):
    """State or parameters of another environment or library."""


class LevelError(ValueError):
    """Level, level buffer or seed that the environment can't use."""


class WrapperError(ValueError):
    """Environment or argument that a wrapper does not support."""


class ContractError(ValueError):
    """Environment, text interface or memory cell whose methods return other values than documented."""


class ForkError(RuntimeError):
    """Use of JAX in a forked child process, where it hangs."""


_LETTERS = 120
"""Maximum number of input characters echoed in an error message."""

_LARGEST_FAMILY = 10
"""Maximum number of names with the same first word that a list contains one by one."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _LETTERS


def shown(given: object) -> str:
    """Return the `repr` of an input for an error message, shortened in the middle if it is long."""
    return _short.repr(given)


def nearest(given: object, allowed: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest allowed name, or an empty string if no name is close."""
    by_folded = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(str(given)[:_LETTERS].casefold(), by_folded, n=1, cutoff=0.5)
    return f" (did you mean {by_folded[close[0]]!r}?)" if close else ""


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names for a list: a family of more than ten, such as `"BabyAI-*"`, and any other name by itself.

    A family is the names with the same word before the first hyphen or underscore.
    """
    first_words = {name: re.split("(?<=[-_])", name, maxsplit=1)[0] for name in names}
    sizes, groups = Counter(first_words.values()), dict[str, list[str]]()
    for name, word in first_words.items():
        groups.setdefault(f"{word}*" if sizes[word] > _LARGEST_FAMILY else name, []).append(name)
    return groups


def listed(names: Iterable[str]) -> str:
    """Return names, separated by commas; a family of more than ten is one entry, such as `BabyAI-* (98 ids)`."""
    groups = grouped(names).items()
    return ", ".join(group if len(members) == 1 else f"{group} ({len(members)} ids)" for group, members in groups)
