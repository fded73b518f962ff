"""Run by test_devices.py in a process with two simulated devices: print comparisons as JSON."""

import dataclasses
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from baselines import devices, ppo, train
from baselines.config import SCALES, Config
from baselines.game import TrainingGame
from baselines.runs import RunFolder, read_rows

CONFIG = dataclasses.replace(
    SCALES["cpu"],
    **dict(num_envs=8, num_steps=8, minibatches=2, memory_size=8, hidden_size=8, normalize_advantage=True),
    **dict(block_updates=2, checkpoint_updates=2, total_steps=256, devices=2),
)


def recall() -> TrainingGame:
    spec = importlib.util.spec_from_file_location("conftest", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["conftest"] = module
    spec.loader.exec_module(module)
    return module.make_recall()


def furthest(left: Any, right: Any) -> float:
    """Return the largest difference of two trees."""
    differences = jax.tree.map(lambda a, b: float(np.abs(_numbers(a) - _numbers(b)).max()), left, right)
    return max(jax.tree.leaves(differences))


def _numbers(leaf: Any) -> np.ndarray:
    return np.asarray(leaf, np.float64)


def block_on(config: Config, game: TrainingGame, *, shared: bool) -> Any:
    setup = ppo.make_setup(config, game)
    mesh = devices.make_mesh(config) if shared else None
    state = devices.make_init(setup)(ppo.seeds_of(setup), game.params)
    state = devices.place_state(state, config, mesh)
    state, metrics = devices.make_train_block(setup, mesh)(state, devices.replicate(game.params, mesh))
    return (state.params, metrics, state.start, state.observation), jax.tree.leaves(state.observation)[0].sharding


def main() -> None:
    game = recall()
    found: dict[str, Any] = {}
    together, sharding = block_on(CONFIG, game, shared=True)
    found["devices"] = len(sharding.device_set)
    alone, _ = block_on(CONFIG, game, shared=False)
    found["difference"] = furthest(together, alone)
    found["episodes"] = np.asarray(together[1]["episodes"]).tolist()
    seeds = dataclasses.replace(CONFIG, num_seeds=2, block_updates=1)
    found["seeds difference"] = furthest(block_on(seeds, game, shared=True)[0], block_on(seeds, game, shared=False)[0])
    mesh = devices.make_mesh(CONFIG)
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place)
        jax.config.update("jax_compilation_cache_dir", str(runs / "programs"))  # one program is used three times
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        with RunFolder.create(runs / "whole", CONFIG) as folder:
            whole = train.run_blocks(CONFIG, game, folder, mesh)
        half = dataclasses.replace(CONFIG, total_steps=128, decay_steps=256)
        with RunFolder.create(runs / "cut", half) as folder:
            train.run_blocks(half, game, folder, mesh)
        with RunFolder.reopen(runs / "cut", CONFIG) as folder:
            again = train.run_blocks(CONFIG, game, folder, mesh)
        rows = [read_rows(runs / name / "metrics.jsonl") for name in ("whole", "cut")]
        found["resumed difference"] = furthest(whole.params, again.params)
        found["rows equal"] = [row["loss"] for row in rows[0]] == [row["loss"] for row in rows[1]]
        found["updates"] = [row["update"] for row in rows[1]]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
