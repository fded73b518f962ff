"""The command `jaxgym serve`; the module of a protocol is imported after the address is bound."""

import dataclasses
import importlib
import sys
from collections.abc import Sequence

import tyro

from jaxgym import registry
from jaxgym.errors import OptionError
from jaxgym.serve.web import log
from jaxgym.serve.web.serving import PROTOCOLS, AgentGym, Serving, starting

MISUSED, FAILED = 2, 1
"""Exit codes: an argument is invalid; the port is in use, or a file can't be read."""

_NO_WORKERS = (
    "--workers is not supported, because a server is one process. Run several servers on Ray Serve or behind a reverse "
    "proxy; docs/how_to/scale_out.md has both recipes."
)
_ABOUT = "Serve text environments to the clients of a protocol: jaxgym serve openenv --env sudoku --port 8001"


def run(argv: Sequence[str]) -> None:
    """Serve until the process receives a signal to stop.

    Raises:
        OptionError, UnknownIdError, LevelError: If a flag, an id or an option is invalid.
        OSError: If the address can't be bound, or the token file can't be read.
    """
    if any(word.partition("=")[0] == "--workers" for word in argv):
        raise OptionError(_NO_WORKERS)
    serving = tyro.extras.subcommand_cli_from_dict(dict(PROTOCOLS), prog="jaxgym serve", args=argv, description=_ABOUT)
    with starting(serving) as bound:
        serving = _with_modules_imported(serving)
        if isinstance(serving, AgentGym):
            server = importlib.import_module("jaxgym.serve.agentgym.server")
        else:
            server = importlib.import_module("jaxgym.serve.openenv.server")
        importlib.import_module("jaxgym.serve.web.http").serve(server.load, serving, bound)


def _with_modules_imported(serving: Serving) -> Serving:
    """Import the modules of names such as `--env my_package:MyGame-v0`, and return the flags with the ids."""
    options = (word if "=" in word else registry.import_module_of(word) for word in serving.options)
    return dataclasses.replace(serving, env=registry.import_module_of(serving.env), options=tuple(options))


def main(argv: Sequence[str]) -> None:
    """Run the command line of the process after `jaxgym serve`; on an error, log its message and exit."""
    try:
        run(argv)
    except OSError as error:
        log.print_line(f"{error}")
        sys.exit(FAILED)
    except ValueError as error:
        if type(error).__module__ not in ("jaxgym.errors", "jaxgym.serve.errors"):
            raise
        log.print_line(f"{error}")
        sys.exit(MISUSED)
