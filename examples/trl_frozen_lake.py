"""Train a language model with TRL's GRPO trainer on Frozen Lake: `python examples/trl_frozen_lake.py [MODEL]`.

It needs a GPU, and `pip install -e . "trl[vllm]==1.16.0" "transformers>=5.2" jmespath` in a checkout.
"""

import functools
import os
import sys
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of JAX; the GPU is for the model

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from jaxgym.serve import trl

MODEL = "Qwen/Qwen3-1.7B"
MAX_TURNS = 16


def make_trainer(model: Any, tokenizer: Any = None, num_levels: int = 1000, **changes: Any) -> GRPOTrainer:
    """Return a trainer of a model; `changes` are fields of `GRPOConfig`."""
    rows = [
        {
            "prompt": [{"role": "user", "content": "Play this game.\n\n"}],
            "seed": seed,
            "env_config": {"max_turns": MAX_TURNS},
        }
        for seed in range(num_levels)
    ]
    settings: dict[str, Any] = {
        "output_dir": "runs/trl_lake",
        "num_generations": 8,
        "per_device_train_batch_size": 8,
        "max_tool_calling_iterations": MAX_TURNS,
        "max_completion_length": 4096,  # of all turns of an episode, with the texts of the game
        "use_vllm": True,
        "vllm_mode": "colocate",
    }
    return GRPOTrainer(
        model=model,
        args=GRPOConfig(**settings | changes),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,  # None loads that of the model
        environment_factory=functools.partial(trl.make, "frozen_lake", size=4),
    )


if __name__ == "__main__":
    make_trainer(sys.argv[1] if sys.argv[1:] else MODEL).train()
