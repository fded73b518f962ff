"""The command line: `python -m baselines.grpo --env FrozenLake-v0`."""

import dataclasses
import sys
from typing import Annotated

import jax
import tyro
from tqdm import tqdm

from baselines import exits
from baselines.config import check_lists, from_name, value_of
from baselines.grpo.settings import SCALES, Settings, read_settings
from baselines.runs import Place, newest_run

_PROG = "python -m baselines.grpo"


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Train a small language model by GRPO; the scale sets the defaults, any other flag overrides them."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    place: Annotated[Place, tyro.conf.arg(name="")]


def parse(arguments: list[str]) -> Arguments:
    """Settings from words of a command line; a resumed run brings its own as defaults.

    Raises:
        ConfigError: when a setting cannot be used.
        RunError: when there is no run to resume.
    """
    check_lists(["--options", "--replies"], arguments)
    place = tyro.cli(Place, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    if place.resume:
        path = place.runs_dir / place.name if place.name else newest_run(place.runs_dir, of_grpo=True)
        place, defaults = dataclasses.replace(place, name=path.name), read_settings(path)
    else:
        suited = "cpu" if jax.default_backend() == "cpu" else "gpu"
        defaults = from_name("scale", value_of("--scale", arguments) or suited, SCALES)
        if value_of("--env", arguments) not in (None, defaults.env):  # whose options are of no other game
            defaults = dataclasses.replace(defaults, options=())
    return tyro.cli(Arguments, prog=_PROG, args=arguments, default=Arguments(defaults, place))


def main() -> None:
    """Command line."""
    with exits.told(exits.RESUME):
        arguments = parse(sys.argv[1:])
        from baselines.grpo.train import train  # takes seconds; nobody waits for them who mistypes a flag

        tqdm.write(train(arguments.settings, arguments.place))
