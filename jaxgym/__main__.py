"""Where `jaxgym` and `python -m jaxgym` start."""

import sys

from jaxgym import interrupts


def main() -> None:
    """Runs the command line, or says what it needs."""
    interrupts.start()
    try:
        if sys.argv[1:2] == ["serve"]:  # a server listens before anything is imported that takes time
            from jaxgym.serve import command

            command.main(sys.argv[2:])
            return
        from jaxgym import cli
    except ModuleNotFoundError as error:
        sys.exit(f"jaxgym: the command line needs {error.name}: pip install 'jaxgym[cli]'.")
    except KeyboardInterrupt:
        sys.exit(interrupts.CODE)
    cli.main()


if __name__ == "__main__":
    main()
