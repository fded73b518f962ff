"""The errors that jaxgym raises for a user's mistake.

Each message is one sentence: what was given, what is allowed, what to do next. All of them but `ForkError` are
`ValueError`s, so code that guards against bad input in general also guards against these.
"""

import difflib
import reprlib
from collections.abc import Iterable


class UnknownIdError(ValueError):
    """An environment id that is not registered."""


class OptionError(ValueError):
    """An option that an environment does not have, or a value that the option does not take."""


class ActionError(ValueError):
    """An action of a shape or dtype, or for Gymnasium of a value, that the environment does not take."""


class StateError(ValueError):
    """A state, or parameters, of another environment or library."""


class LevelError(ValueError):
    """A level, bank or seed that does not fit the environment."""


class WrapperError(ValueError):
    """An environment, or an argument, that a wrapper does not take."""


class ForkError(RuntimeError):
    """A forked child process, in which JAX hangs."""


_LETTERS = 120
"""How much of what was given a message repeats; it may come over a network."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _LETTERS


def shown(given: object) -> str:
    """Return what was given as a message repeats it: as Python writes it, long things cut in the middle."""
    return _short.repr(given)


def nearest(given: object, allowed: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest allowed name, or an empty string if none is close."""
    by_folded = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(str(given)[:_LETTERS].casefold(), by_folded, n=1, cutoff=0.5)
    return f" (did you mean {by_folded[close[0]]!r}?)" if close else ""
