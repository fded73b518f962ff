"""Exits of the commands: a message and an exit code, without a traceback, for errors that a user can fix."""

import contextlib
import os
import sys
from collections.abc import Iterator

from jax.errors import JaxRuntimeError

from baselines.errors import EXTRA, ConfigError, RunError
from jaxgym import extras, interrupts
from jaxgym.errors import ContractError, LevelError, OptionError, UnknownIdError

_FULL = "RESOURCE_EXHAUSTED"  # in XLA's message when a device is out of memory
_SMALLER = "reduce the number of environments, levels, episodes or steps, or --memory-window"
RESUME = "add --resume to continue from the newest checkpoint"


@contextlib.contextmanager
def exit_on_error(resume: str = "") -> Iterator[None]:
    """End the process with a message on stderr if a command fails or is interrupted.

    The exit code is 1, or 130 after an interrupt. If the output pipe is closed, nothing is printed. `resume` is what
    the user can do after an interrupt.
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
    except (ConfigError, RunError, ContractError, LevelError, OptionError, UnknownIdError) as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("baselines", "jaxgym")):
            raise
        sys.exit(f"error: {extras.missing(EXTRA, error.name)}")
    except (MemoryError, JaxRuntimeError) as error:
        if isinstance(error, JaxRuntimeError) and _FULL not in str(error):
            raise
        reason = str(error).partition("\n")[0]
        sys.exit(f"error: out of memory ({reason}). To use less memory, {_SMALLER}.")
    except OSError as error:
        _drop_output()
        sys.exit(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")


def _drop_output() -> None:
    """Discard an output that cannot be written, so that the interpreter does not report it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
