"""Command line: `python -m baselines.grpo --env FrozenLake-v0`."""

import dataclasses
import sys
from typing import Annotated

import jax
import tyro
from tqdm import tqdm

from baselines import exits
from baselines.config import check_lists, from_name
from baselines.grpo.settings import SCALES, Settings, read_settings
from baselines.runs import RunFlags, newest_run

_PROG = "python -m baselines.grpo"


@dataclasses.dataclass(frozen=True)
class GrpoFlags:
    """Train a small language model by GRPO. The scale sets the defaults; other flags override them."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    run_flags: Annotated[RunFlags, tyro.conf.arg(name="")]


@dataclasses.dataclass(frozen=True)
class _EarlyFlags:
    """Flags that set the defaults of all others."""

    scale: str | None = None
    env: str | None = None
    model: str | None = None


def parse(arguments: list[str]) -> GrpoFlags:
    """Parse the command line; the defaults of a resumed run are its own settings.

    Raises:
        ConfigError: if a setting is invalid.
        RunError: if there is no run to resume.
    """
    check_lists(["--options", "--replies"], arguments)
    run_flags = tyro.cli(RunFlags, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    if run_flags.resume:
        path = run_flags.runs_dir / run_flags.name if run_flags.name else newest_run(run_flags.runs_dir, of_grpo=True)
        run_flags, defaults = dataclasses.replace(run_flags, name=path.name), read_settings(path)
    else:
        given = tyro.cli(_EarlyFlags, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
        suited = "pretrained" if given.model else "cpu" if jax.default_backend() == "cpu" else "gpu"
        defaults = from_name("scale", given.scale or suited, SCALES)
        if given.env not in (None, defaults.env):  # the default options belong to another environment
            defaults = dataclasses.replace(defaults, options=())
    return tyro.cli(GrpoFlags, prog=_PROG, args=arguments, default=GrpoFlags(defaults, run_flags))


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error(exits.RESUME):
        arguments = parse(sys.argv[1:])
        from baselines.grpo import pretrained, train  # the import takes seconds, so flags are parsed first

        run = pretrained.train if arguments.settings.model else train.train
        tqdm.write(run(arguments.settings, arguments.run_flags))
