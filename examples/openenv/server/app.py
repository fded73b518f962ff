"""Server of the game: `python -m server.app`, or `uvicorn server.app:app`."""

import os

from jaxgym.serve.openenv.server import listen_and_serve, make_app, settings

SERVING = settings(os.environ.get("JAXGYM_ENV", "sudoku"), os.environ.get("JAXGYM_OPTIONS", "").split())
app = make_app(SERVING)


def main() -> None:
    """Serve until the process is terminated."""
    listen_and_serve(SERVING)


if __name__ == "__main__":
    main()
