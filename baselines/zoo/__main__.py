"""Puts the agent of a finished run among those that come with the package."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import jax
import tyro
from tqdm import tqdm

from baselines.errors import ConfigError, RunError
from baselines.evaluate import seeds_of
from baselines.game import make_game
from baselines.ppo import make_init, make_setup
from baselines.runs import RunFolder, pack_state, read_config
from baselines.zoo import keep


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Keep the agent of a finished run of one seed in the zoo, in place of the one that its environment has."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""


def main() -> None:
    """Command line."""
    arguments = tyro.cli(Arguments)
    try:
        config = read_config(arguments.run)
        if config.num_seeds > 1:
            raise ConfigError(
                f"{arguments.run} has {config.num_seeds} seeds, but the zoo keeps one agent: train one seed"
            )
        if not (arguments.run / "evaluation.json").exists():
            raise RunError(f"{arguments.run} has no evaluation.json: finish it, or score it by baselines.evaluate")
        game = make_game(config)
        setup = make_setup(config, game)
        template = jax.eval_shape(make_init(setup), seeds_of(setup), game.params)
        with RunFolder(arguments.run, config) as folder:
            packed = pack_state(folder.restore(template))
        evaluation = json.loads((arguments.run / "evaluation.json").read_text())
        tqdm.write(f"kept in {keep(config, packed, evaluation)}")
    except (ConfigError, RunError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
