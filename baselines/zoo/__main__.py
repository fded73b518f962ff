"""Add the agent of a finished run to the package."""

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
    """Add the agent of a finished run to the zoo."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder."""
    replace: bool = False
    """Replace the existing agent of the environment."""


def put(arguments: ZooFlags) -> Path:
    """Add the agent and return its folder.

    Raises:
        RunError: if the folder holds no finished run, or its environment has an agent and `replace` is False.
    """
    agent = read(arguments.run)
    evaluation = _evaluation(arguments.run / "evaluation.json")
    env_id = agent.config.env
    if env_id in agents() and not arguments.replace:
        returns = [evaluated["held_out"]["normalized_return"] for evaluated in (results(env_id), evaluation)]
        raise RunError(
            f"expected an environment without an agent, got {env_id}: the held-out normalized return of its agent is "
            f"{returns[0]:.2f}, that of this one {returns[1]:.2f}. Add --replace to replace it."
        )
    return keep(agent, evaluation)


def _evaluation(path: Path) -> dict[str, Any]:
    try:
        evaluation = json.loads(path.read_text())
        float(evaluation["held_out"]["normalized_return"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise RunError(
            f"expected a held-out normalized return in {path}, got none. Run baselines.evaluate first."
        ) from error
    return evaluation


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(f"kept in {put(tyro.cli(ZooFlags, prog='python -m baselines.zoo'))}")


if __name__ == "__main__":
    main()
