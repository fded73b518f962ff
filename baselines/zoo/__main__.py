"""Puts the agent of a finished run among those that come with the package."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from baselines.errors import ConfigError, RunError
from baselines.zoo import keep, read


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Keep the agent of a finished run in the zoo, in place of the one that its environment has."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""


def main() -> None:
    """Command line."""
    run = tyro.cli(Arguments).run
    try:
        agent = read(run)
        if not (run / "evaluation.json").exists():
            raise RunError(f"{run} has no evaluation.json: finish it, or score it by baselines.evaluate")
        tqdm.write(f"kept in {keep(agent, json.loads((run / 'evaluation.json').read_text()))}")
    except (ConfigError, RunError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
