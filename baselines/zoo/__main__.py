"""Puts the agent of a finished run among those that come with the package."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import tyro
from tqdm import tqdm

from baselines import exits
from baselines.errors import RunError
from baselines.zoo import agents, keep, read, results


@dataclasses.dataclass(frozen=True)
class ZooFlags:
    """Keep the agent of a finished run in the zoo."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    replace: bool = False
    """Put it in the place of the agent that its environment has."""


def put(arguments: ZooFlags) -> Path:
    """Keep the agent; returns its folder.

    Raises:
        RunError: when the folder holds no finished run, or its environment has an agent that is not to be replaced.
    """
    agent = read(arguments.run)
    evaluation = _evaluation(arguments.run / "evaluation.json")
    env_id = agent.config.env
    if env_id in agents() and not arguments.replace:
        scores = [scored["held_out"]["score"] for scored in (results(env_id), evaluation)]
        raise RunError(
            f"{env_id} has an agent with a held-out score of {scores[0]:.2f}, and this one has {scores[1]:.2f}: "
            "add --replace to put it in its place"
        )
    return keep(agent, evaluation)


def _evaluation(path: Path) -> dict[str, Any]:
    try:
        evaluation = json.loads(path.read_text())
        float(evaluation["held_out"]["score"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RunError(f"{path} has no held-out score: finish the run, or score it by baselines.evaluate") from error
    return evaluation


def main() -> None:
    """Command line."""
    with exits.told():
        tqdm.write(f"kept in {put(tyro.cli(ZooFlags, prog='python -m baselines.zoo'))}")


if __name__ == "__main__":
    main()
