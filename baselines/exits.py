"""How commands end: with a sentence, not with a traceback, where a person can put things right."""

import contextlib
import os
import sys
from collections.abc import Iterator

from jax.errors import JaxRuntimeError

from baselines.errors import EXTRA, ConfigError, RunError
from jaxgym import extras, interrupts
from jaxgym.errors import LevelError, OptionError, UnknownIdError

_FULL = "RESOURCE_EXHAUSTED"  # how a device says that its memory is
_SMALLER = "take less at once, for instance by --num-envs, --memory-window, --levels or --repeats"
RESUME = "add --resume to go on from the newest checkpoint"


@contextlib.contextmanager
def told(resume: str = "") -> Iterator[None]:
    """End the process with a sentence on stderr where a command fails or is interrupted.

    The exit code is 1, or that of shells after an interrupt. A reader of the output who leaves is told nothing.

    Args:
        resume: what a person can do who interrupted the command.
    """
    interrupts.keep()
    interrupts.open_closed_streams()
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted{': ' if resume else ''}{resume}\n")
        sys.exit(interrupts.CODE)
    except BrokenPipeError:
        interrupts.end_unread()
    except (ConfigError, RunError, LevelError, OptionError, UnknownIdError) as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("baselines", "jaxgym")):
            raise
        sys.exit(f"error: {extras.missing(EXTRA, error.name)}")
    except (MemoryError, JaxRuntimeError) as error:
        if isinstance(error, JaxRuntimeError) and _FULL not in str(error):
            raise
        reason = str(error).partition("\n")[0]
        sys.exit(f"error: out of memory ({reason}): {_SMALLER}")
    except OSError as error:
        _drop_output()
        sys.exit(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")


def _drop_output() -> None:
    """Where stdout is what cannot be written, the interpreter would tell it a second time at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
