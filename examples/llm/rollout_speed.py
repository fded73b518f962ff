"""Measure the rollout of TRL's GRPO trainer in Frozen Lake: episodes per second, without vLLM.

    python examples/llm/rollout_speed.py MODEL --batch 512

MODEL is a folder that `examples/llm/sft.py frozen_lake` has written. The time is that of the trainer's generation with
all tool calls, without rewards and learning. `benchmarks/language_model_rollout.py` measures `baselines.grpo`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import episodes
import numpy as np
import torch
import transformers
import trl
from datasets import Dataset


class TimedTrainer(trl.GRPOTrainer):
    """GRPO trainer that measures its rollouts."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Make a trainer with no measurement."""
        super().__init__(*args, **kwargs)
        self.rollouts = list[dict[str, float]]()

    def _generate(self, prompts: list[Any]) -> Any:
        begin = time.perf_counter()
        made = super()._generate(prompts)
        seconds = time.perf_counter() - begin
        _, _, mask, completions, *_ = made
        self.rollouts.append(
            {
                "seconds": round(seconds, 3),
                "episodes_per_second": len(prompts) / seconds,
                "turns": sum(message["role"] == "assistant" for chat in completions for message in chat) / len(prompts),
                "written_tokens": sum(map(sum, mask)) / len(prompts),
            }
        )
        return made


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=episodes.model_folder, help="folder of a model")
    parser.add_argument("--batch", type=episodes.positive, default=512, help="episodes of a rollout")
    parser.add_argument("--generations", type=episodes.positive, default=8, help="episodes of a level")
    parser.add_argument(
        "--micro-batch", type=episodes.positive, default=32, help="episodes of a forward pass of the learning"
    )
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--repeats", type=episodes.positive, default=3, help="rollouts after the first one")
    parser.add_argument("--out", type=Path, default=Path("runs/trl-rollout"))
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    game = episodes.GAMES["frozen_lake"]
    trainer = TimedTrainer(
        transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype)),
        args=trl.GRPOConfig(
            output_dir=str(args.out),
            num_generations=args.generations,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.batch // args.micro_batch,
            max_tool_calling_iterations=game.max_turns,
            max_completion_length=2048,
            generation_kwargs={"max_new_tokens": episodes.MAX_NEW_TOKENS},
            max_steps=args.repeats + 1,
            learning_rate=0.0,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=Dataset.from_list(episodes.rows(episodes.seeds_of(game, "train", 512))),
        processing_class=transformers.AutoTokenizer.from_pretrained(args.model),
        environment_factory=game.make,
    )
    trainer.train()
    kept = trainer.rollouts[1:]
    result = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "trl": trl.__version__,
        "command": f"python examples/llm/rollout_speed.py {' '.join(sys.argv[1:])}",
        "batch": args.batch,
        "max_turns": game.max_turns,
        "max_reply_tokens": episodes.MAX_NEW_TOKENS,
        "dtype": args.dtype,
        "seconds": [rollout["seconds"] for rollout in kept],
        **{name: round(float(np.mean([one[name] for one in kept])), 4) for name in kept[0] if name != "seconds"},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
