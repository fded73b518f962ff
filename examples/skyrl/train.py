"""Train a language model with SkyRL on the rows of `frozen_lake.jsonl`: `python examples/skyrl/train.py [SETTINGS]`.

It needs a GPU, Python 3.12, and SkyRL 0.4.0 with its extra `fsdp`. Settings are those of SkyRL, such as
`trainer.policy.model.path=Qwen/Qwen2.5-3B-Instruct`.
"""

import os
import sys
from pathlib import Path

import ray
import skyrl_gym
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

ROWS = Path(__file__).with_name("frozen_lake.jsonl")
GAME_ACTORS = 2  # Ray actors on which the games run
SETTINGS = (
    f"data.train_data=['{ROWS}']",
    f"data.val_data=['{ROWS}']",
    "environment.env_class=jaxgym",
    "generator.max_turns=16",
    "generator.max_input_length=8192",  # tokens of a whole episode
    "generator.n_samples_per_prompt=8",
    "generator.batched=false",
    "trainer.train_batch_size=16",
    "trainer.policy_mini_batch_size=16",
    "trainer.algorithm.advantage_estimator=grpo",
)


@ray.remote(num_cpus=1)
def train(config: SkyRLTrainConfig) -> None:
    """Register the environment in the process that generates, and train."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of JAX; the GPU is for the model
    from jaxgym.serve.ray import share

    share(GAME_ACTORS)
    skyrl_gym.register(id="jaxgym", entry_point="jaxgym.serve.trainers.skyrl:SkyRLEnv")
    BasePPOExp(config).run()


if __name__ == "__main__":
    settings = SkyRLTrainConfig.from_cli_overrides([*SETTINGS, *sys.argv[1:]])
    validate_cfg(settings)
    initialize_ray(settings)
    ray.get(train.remote(settings))
