"""Demonstrations as a Minari dataset, for offline reinforcement learning."""

import copy
import importlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from jaxgym import extras
from jaxgym.demos.episodes import Demonstration, play
from jaxgym.errors import OptionError
from jaxgym.gymnasium_api.games import Game

_DATASET_ID = re.compile(r"[-\w]+-v\d+")


def write_dataset(
    folder: Path, env_id: str, options: Mapping[str, Any], seeds: Sequence[int] | np.ndarray, max_steps: int
) -> list[tuple[float, bool]]:
    """Write an episode of the expert for each level seed, and return the return and the success of each.

    The spaces are those of the Gymnasium environment `jaxgym/<id>`, which `recover_environment` makes. The metadata of
    each episode has its `level_seed`, its `return` and its `success`. Frames are stored without loss.

    Args:
        folder: A new folder, whose name is the id of the dataset, such as `lake-expert-v0`.
        env_id: Id of an environment with an expert.
        options: Options of `jaxgym.make`.
        seeds: Level seeds, at least one.
        max_steps: Number of steps after which an episode is truncated.

    Raises:
        UnknownIdError, OptionError, LevelError: If the environment, the folder, an option or a seed is invalid.
        ImportError: If Minari is missing.
    """
    if not _DATASET_ID.fullmatch(folder.name):
        raise OptionError(f"expected a folder with a name like lake-expert-v0, got {folder.name!r}. Add a version.")
    if folder.exists():
        raise OptionError(f"{folder}: expected a new folder, got an existing one. Choose another name or version.")
    minari, storages, collector = _imported()
    options = {"levels": "fresh", **options}
    game = Game.of(env_id, options)
    played = play(game.env, game.params, seeds, max_steps, observe=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as beside:
        made = Path(beside) / "dataset"
        made.mkdir()
        storage = storages.MinariStorage.new(
            made / "data",
            observation_space=game.observation_space,
            action_space=game.action_space,
            env_spec=_spec_of(env_id, options),
            jpeg_encoding=False,
        )
        storage.update_metadata(
            {
                "dataset_id": folder.name,
                "minari_version": minari.__version__,
                "algorithm_name": "scripted expert",
                "description": f"Episodes of the scripted expert of {env_id}.",
            }
        )
        results = list[tuple[float, bool]]()
        for batch in played:
            outcomes = [(float(one.rewards.sum()), one.is_success) for one in batch]
            storage.update_episodes([collector.EpisodeBuffer(**_columns(game, one)) for one in batch])
            metadata = [
                {"level_seed": one.seed, "return": total, "success": is_success}
                for one, (total, is_success) in zip(batch, outcomes, strict=True)
            ]
            storage.update_episode_metadata(metadata, range(len(results), len(results) + len(batch)))
            results += outcomes
        made.rename(folder)
    return results


def _imported() -> tuple[Any, Any, Any]:
    try:
        importlib.import_module("h5py")
        names = ("minari", "minari.dataset.minari_storage", "minari.data_collector")
        minari, storages, collector = map(importlib.import_module, names)
    except ImportError as error:
        raise ImportError(extras.missing("minari", error.name)) from error
    return minari, storages, collector


def _spec_of(env_id: str, options: Mapping[str, Any]) -> Any:
    """Return the Gymnasium spec of an environment with these options."""
    spec = copy.deepcopy(gymnasium.spec(f"jaxgym/{env_id}"))
    spec.kwargs.update(options)
    return spec


def _columns(game: Game, one: Demonstration) -> dict[str, Any]:
    """Return the columns of an episode, with the dtypes of the Gymnasium spaces."""
    terminations, truncations = np.zeros((2, len(one.rewards)), bool)
    terminations[-1], truncations[-1] = one.terminated, one.truncated
    return {
        "observations": _in_space(game.observation_space, one.observations),
        "actions": _in_space(game.action_space, one.actions),
        "rewards": one.rewards,
        "terminations": terminations,
        "truncations": truncations,
    }


def _in_space(space: gymnasium.Space[Any], leaves: Any) -> Any:
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: _in_space(part, leaves[name]) for name, part in space.spaces.items()}
    return np.asarray(leaves, space.dtype)
