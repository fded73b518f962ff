"""Where `jaxgym` and `python -m jaxgym` start."""

import sys


def main() -> None:
    """Runs the command line, or says what it needs."""
    try:
        from jaxgym import cli
    except ModuleNotFoundError as error:
        sys.exit(f"jaxgym: the command line needs {error.name}: pip install 'jaxgym[cli]'.")
    cli.main()


if __name__ == "__main__":
    main()
