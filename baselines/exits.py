"""How commands end: with a sentence, not with a traceback, where a person can put things right."""

import contextlib
import sys
from collections.abc import Iterator

from baselines.errors import ConfigError, RunError
from jaxgym import interrupts
from jaxgym.errors import LevelError, OptionError, UnknownIdError

RESUME = "add --resume to go on from the newest checkpoint"


@contextlib.contextmanager
def told(resume: str = "") -> Iterator[None]:
    """Ends the process with a sentence on stderr where a command fails or is interrupted.

    The exit code is 1, or that of shells after an interrupt. A reader of the output who leaves is told nothing.

    Args:
        resume: what a person can do who interrupted the command.
    """
    interrupts.keep()
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
