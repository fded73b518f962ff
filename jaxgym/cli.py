"""The command `jaxgym`: list games, look at them, record them, play them with keys or in words."""

import io
import sys
from collections.abc import Sequence

import tyro

from jaxgym import interrupts
from jaxgym.errors import ActionError, LevelError, OptionError, UnknownIdError
from jaxgym.flags import FailureError, InWords, List, Play, Record, Rollout, Serve, Show
from jaxgym.serve.command import run as run_server

MISUSED, FAILED = 2, 1
"""Exit codes: what was asked for does not exist; what it needs is missing."""


def run(words: Sequence[str] | None = None) -> str:
    """Run a command; returns what it prints.

    Args:
        words: The command line without the program's name; that of the process if None.
    """
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["serve"]:
        run_server(words[1:])
        return ""
    kinds = {"list": List, "show": Show, "record": Record, "play": Play, "talk": InWords}
    kinds |= {"rollout": Rollout, "serve": Serve}
    arguments = tyro.extras.subcommand_cli_from_dict(kinds, prog="jaxgym", args=words, description=__doc__)

    from jaxgym import commands  # takes seconds; nobody waits for them who asks for --help or mistypes a flag

    interrupts.started()
    return commands.run(arguments)


def main() -> None:
    """The command line of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Not every terminal has every letter of a game.
    try:
        sys.stdout.write(run())
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(interrupts.CODE)
    except BrokenPipeError:
        interrupts.end_unread()
    except (UnknownIdError, OptionError, LevelError, ActionError) as error:
        sys.stderr.write(f"jaxgym: {error}\n")
        sys.exit(MISUSED)
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        told = f"{error.filename} can't be used: {error.strerror}; give another place." if named else error
        sys.stderr.write(f"jaxgym: {told}\n")
        sys.exit(FAILED)
    except FailureError as error:
        sys.stderr.write(f"jaxgym: {error}\n")
        sys.exit(FAILED)
