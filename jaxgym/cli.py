"""The command `jaxgym`: list, show, record and play environments; play, evaluate and serve them as text."""

import io
import re
import sys
from collections.abc import Sequence

import tyro

from jaxgym import interrupts
from jaxgym.errors import ActionError, ContractError, LevelError, OptionError, UnknownIdError
from jaxgym.flags import Dataset, Demos, Eval, FailureError, List, Play, Record, Rollout, Serve, Show, Talk
from jaxgym.serve.web.serving import use_cpu_by_default

MISUSED, FAILED = 2, 1
"""Exit codes: an argument is invalid; a requirement of the command is missing."""


def run(argv: Sequence[str] | None = None) -> str:
    """Run a command line without the program's name, by default that of the process, and return the output."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] in (["rollout"], ["dataset"]):
        _check_order(argv, "--env" if argv[0] == "rollout" else "--game")
    kinds = {"list": List, "show": Show, "record": Record, "play": Play, "demos": Demos, "talk": Talk}
    kinds |= {"rollout": Rollout, "eval": Eval, "dataset": Dataset, "serve": Serve}
    arguments = tyro.extras.subcommand_cli_from_dict(kinds, prog="jaxgym", args=argv, description=__doc__)
    if isinstance(arguments, Rollout | Eval | Dataset):
        use_cpu_by_default()

    from jaxgym import commands  # imported after the flags are read: it takes seconds, and --help does not need it

    interrupts.started()
    return commands.run(arguments)


def _check_order(argv: Sequence[str], env_flag: str) -> None:
    """Raise `OptionError` if NAME=VALUE follows another flag than `env_flag`, and that flag already has a value."""
    flag, has_value = "", False
    for word in argv:
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            has_value = bool(value)
        elif flag not in ("", env_flag) and has_value and re.match(r"[a-z_]+=", word):
            raise OptionError(f"{word}: expected NAME=VALUE directly after {env_flag} ID, got it after {flag}.")
        else:
            has_value = True


def main() -> None:
    """Run the command line of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not be able to encode every character of a game
    try:
        sys.stdout.write(run())
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(interrupts.CODE)
    except BrokenPipeError:
        interrupts.end_unread()
    except (UnknownIdError, OptionError, LevelError, ActionError, ContractError) as error:
        sys.stderr.write(f"jaxgym: {error}\n")
        sys.exit(MISUSED)
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        message = f"{error.filename} can't be used: {error.strerror}. Choose another path." if named else error
        sys.stderr.write(f"jaxgym: {message}\n")
        sys.exit(FAILED)
    except FailureError as error:
        sys.stderr.write(f"jaxgym: {error}\n")
        sys.exit(FAILED)
