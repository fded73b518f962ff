"""Serves the game: `python -m server.app`, or `uvicorn server.app:app`."""

import os

from jaxgym.serve import openenv_server

SERVING = openenv_server.settings(os.environ.get("JAXGYM_ENV", "sudoku"), os.environ.get("JAXGYM_OPTIONS", "").split())
app = openenv_server.make_app(SERVING)


def main() -> None:
    """Serves until the process is asked to end."""
    openenv_server.listen_and_serve(SERVING)


if __name__ == "__main__":
    main()
