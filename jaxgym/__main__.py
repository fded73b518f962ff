"""Entry point of `jaxgym` and `python -m jaxgym`."""

import sys
from collections.abc import Sequence

import jaxgym
from jaxgym import extras, interrupts


def main() -> None:
    """Run the command line, or print one line that names the missing packages."""
    interrupts.start()
    argv = sys.argv[1:]
    if "" not in sys.path:
        sys.path.append("")  # `module:id` finds a module of the current folder, as with `python -m jaxgym`
    interrupts.open_closed_streams()
    try:
        if argv == ["--version"]:
            sys.stdout.write(f"jaxgym {jaxgym.__version__}\n")
            return
        if argv[:1] == ["serve"]:  # `jaxgym.cli` imports NumPy and JAX; a server sets their environment first
            from jaxgym.serve import command

            command.main(argv[1:])
            return
        from jaxgym import cli

        cli.main()
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "jaxgym":
            raise
        sys.exit(f"jaxgym: {extras.missing(_extra_of(argv), error.name)}")
    except KeyboardInterrupt:
        sys.exit(interrupts.CODE)


def _extra_of(argv: Sequence[str]) -> str:
    """Return the extra that contains the packages of a command."""
    command = "".join(argv[:1])
    if command == "record" and any(word.removeprefix("--policy=").partition(":")[0] == "zoo" for word in argv):
        return "baselines"
    return {"eval": "rollout"}.get(command, command if command in ("play", "rollout", "serve") else "cli")


if __name__ == "__main__":
    main()
