"""GRPO on a game with AReaL.

    jaxgym dataset --game frozen_lake size=4 max_turns=16 --format areal --rows 1024 >train.jsonl
    JAX_PLATFORMS=cpu python train.py --config config.yaml train_dataset.path=train.jsonl

The configuration is one of AReaL's own for GRPO, such as `examples/math/gsm8k_grpo.yaml` in its repository.
"""

import sys
from collections.abc import Sequence

from areal import PPOTrainer
from areal.api.cli_args import GRPOConfig, load_expr_config
from datasets import load_dataset

WORKFLOW = "jaxgym.serve.trainers.areal.GameWorkflow"


def main(argv: Sequence[str]) -> None:
    config, _ = load_expr_config(list(argv), GRPOConfig)
    rows = load_dataset("json", data_files=config.train_dataset.path, split="train")
    sampling = {"temperature": config.gconfig.temperature, "max_completion_tokens": config.gconfig.max_new_tokens}
    with PPOTrainer(config, train_dataset=rows) as trainer:
        trainer.train(workflow=WORKFLOW, workflow_kwargs={"sampling": sampling})


if __name__ == "__main__":
    main(sys.argv[1:])
