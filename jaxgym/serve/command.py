"""The command `jaxgym serve`: one folder for each protocol, which is imported when the socket listens already."""

import importlib
from collections.abc import Sequence

import tyro

from jaxgym.serve.web.serving import PROTOCOLS, exiting, listening

_ABOUT = "Serve games in words to the clients of a protocol: jaxgym serve openenv --env sudoku --port 8000"


def run(words: Sequence[str]) -> None:
    """Serves until the process is asked to end.

    Args:
        words: The command line after `jaxgym serve`.

    Raises:
        OptionError, UnknownIdError, LevelError: If something that was given does not exist.
        OSError: If the address can't be had, or the file of the token not read.
    """
    serving = tyro.extras.subcommand_cli_from_dict(
        dict(PROTOCOLS),
        prog="jaxgym serve",
        args=words,
        description=_ABOUT,
    )
    folder = next(f"jaxgym.serve.{name}" for name, kind in PROTOCOLS.items() if isinstance(serving, kind))
    with listening(serving) as listener:
        if serving.workers > 1:
            importlib.import_module("jaxgym.serve.web.workers").serve(serving, f"{folder}.front", listener)
        else:
            importlib.import_module(f"{folder}.server").serve(serving, listener)


def main(words: Sequence[str]) -> None:
    """The command line of the process, after `jaxgym serve`."""
    exiting(lambda: run(words))
