"""Fine-tune a model on the expert's episodes: `python examples/llm/sft.py GAME MODEL OUT`.

A base model that never succeeds gives GRPO no reward, so this stage comes first. It stops as soon as the success on
validation levels reaches `--until`, which leaves the rest to GRPO. It also stops after `--minutes` or `--steps`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import episodes
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer


class Validation(TrainerCallback):
    """Callback that plays the validation levels, and stops the training at a success or a time limit."""

    def __init__(self, game: episodes.Game, tokenizer: Any, args: argparse.Namespace):
        """Make a callback that writes its results to a file."""
        self.game, self.tokenizer, self.args = game, tokenizer, args
        self.seeds = episodes.seeds_of(game, "validation")
        self.start, self.path = time.monotonic(), args.out / "validation.jsonl"
        self.path.unlink(missing_ok=True)

    def on_step_end(self, settings: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Play the levels."""
        if state.global_step % self.args.every:
            return
        model.eval()
        result = episodes.summary(episodes.play(model, self.tokenizer, self.game, self.args.form, self.seeds))
        model.train()
        seconds = time.monotonic() - self.start
        with self.path.open("a") as file:
            file.write(json.dumps({"step": state.global_step, "seconds": round(seconds, 1), **result}) + "\n")
        print(f"update {state.global_step}: success {result['success']:.2f} on validation levels, {seconds:.0f} s")
        control.should_training_stop = result["success"] >= self.args.until or seconds > 60 * self.args.minutes


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=episodes.GAMES)
    parser.add_argument("model", type=episodes.model_folder, help="folder of a model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--form", choices=episodes.FORMS, default="tools", help="tools for TRL, replies for ms-swift")
    parser.add_argument("--episodes", type=episodes.positive, default=1024, help="episodes of the expert")
    parser.add_argument("--steps", type=episodes.positive, default=128, help="maximum number of updates")
    parser.add_argument("--minutes", type=float, default=2.0, help="time limit of the training")
    parser.add_argument("--batch", type=episodes.positive, default=64, help="episodes of an update")
    parser.add_argument(
        "--micro-batch", type=episodes.positive, default=16, help="episodes of a forward pass; 32 need about 70 GB"
    )
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16; the weights stay in float32")
    parser.add_argument("--learning-rate", type=episodes.positive_number, default=2e-4)
    parser.add_argument("--every", type=episodes.positive, default=8, help="updates between two validations")
    parser.add_argument("--until", type=float, default=0.4, help="success on validation levels that ends the training")
    args = parser.parse_args()
    if args.batch % args.micro_batch:
        parser.error(f"--batch: expected a multiple of --micro-batch {args.micro_batch}, got {args.batch}")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    game = episodes.GAMES[args.game]
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    seeds = episodes.seeds_of(game, "train", args.episodes)
    chats = episodes.demonstrations(game, args.form, seeds, tokenizer)
    settings = SFTConfig(
        output_dir=str(args.out),
        assistant_only_loss=True,
        max_length=4096,
        per_device_train_batch_size=args.micro_batch,
        gradient_accumulation_steps=args.batch // args.micro_batch,
        max_steps=args.steps,
        learning_rate=args.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
        bf16=args.bf16,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = SFTTrainer(
        AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
        settings,
        train_dataset=Dataset.from_list(chats),
        processing_class=tokenizer,
        callbacks=[Validation(game, tokenizer, args)],
    )
    trainer.train()
    (args.out / "log.json").write_text(json.dumps(trainer.state.log_history, indent=1))
    trainer.save_model(str(args.out / "model"))
    tokenizer.save_pretrained(args.out / "model")


if __name__ == "__main__":
    main()
