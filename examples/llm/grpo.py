"""Train a model with TRL's GRPO trainer: `python examples/llm/grpo.py GAME MODEL OUT`.

TRL generates with transformers; vLLM is not needed. The weights with the highest success on validation levels are saved
in `OUT/model`. `OUT/curve.jsonl` has the metrics of each update, `OUT/validation.jsonl` those of the validations.
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
from trl import GRPOConfig, GRPOTrainer


class Validation(TrainerCallback):
    """Callback that plays the validation levels, saves the best weights, and stops at a time limit."""

    def __init__(self, game: episodes.Game, tokenizer: Any, out: Path, every: int, minutes: float):
        """Make a callback that validates before the first update and after each `every` updates."""
        self.game, self.tokenizer, self.out, self.every = game, tokenizer, out, every
        self.seeds = episodes.seeds_of(game, "validation")
        self.start, self.limit, self.best = time.monotonic(), 60 * minutes, -1.0
        for name in ("curve.jsonl", "validation.jsonl"):
            (out / name).unlink(missing_ok=True)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Validate the weights that the training starts with."""
        self._validate(model, 0)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Validate, or stop the training."""
        is_over = time.monotonic() - self.start > self.limit
        if state.global_step % self.every == 0 or state.global_step == state.max_steps or is_over:
            self._validate(model, state.global_step)
        control.should_training_stop = is_over

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Append the metrics of an update."""
        self._append("curve.jsonl", {"step": state.global_step, **(logs or {})})

    def _validate(self, model: Any, step: int) -> None:
        model.eval()
        records = episodes.play(model, self.tokenizer, self.game, "tools", self.seeds)
        model.train()
        result = episodes.summary(records)
        self._append("validation.jsonl", {"step": step, **result})
        print(f"update {step}: success {result['success']:.2f} on validation levels")
        if result["success"] > self.best:
            self.best = result["success"]
            model.save_pretrained(self.out / "model")
            self.tokenizer.save_pretrained(self.out / "model")

    def _append(self, name: str, row: dict[str, Any]) -> None:
        with (self.out / name).open("a") as file:
            file.write(json.dumps({"seconds": round(time.monotonic() - self.start, 1), **row}) + "\n")


def invalid_replies(completions: Any, environments: Any, log_metric: Any, **_: Any) -> list[float]:
    """Log the share of replies that the game rejects, or that end it early; a reward function that returns 0."""
    played = [env.episode for env in environments]
    replies = sum(message["role"] == "assistant" for completion in completions for message in completion)
    log_metric("invalid_reply_rate", sum(one.invalid_replies + (not one.has_ended) for one in played) / replies)
    return [0.0] * len(completions)


def exploration(temperature: float, entropy_target: float | None) -> dict[str, Any]:
    """Return the settings of `GRPOConfig` for the exploration of the rollouts."""
    if entropy_target is None:
        return {"temperature": temperature}
    return {
        "temperature": temperature,
        "use_adaptive_entropy": True,  # each update with less entropy than the target raises the coefficient by `delta`
        "entropy_target": entropy_target,
        "entropy_coef_delta": 0.002,
        "entropy_coef_max": 0.05,
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=episodes.GAMES)
    parser.add_argument("model", type=episodes.model_folder, help="folder of a model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--levels", type=episodes.positive, default=4096, help="training levels")
    parser.add_argument("--steps", type=episodes.positive, default=1000, help="maximum number of updates")
    parser.add_argument("--minutes", type=float, default=4.0, help="time limit of the training")
    parser.add_argument("--generations", type=episodes.positive, default=8, help="episodes of a level")
    parser.add_argument("--batch", type=episodes.positive, default=128, help="episodes of an update")
    parser.add_argument("--micro-batch", type=episodes.positive, default=32, help="episodes of a forward pass")
    parser.add_argument("--updates", type=episodes.positive, default=2, help="updates on the episodes of one rollout")
    parser.add_argument("--learning-rate", type=episodes.positive_number, default=2e-5)
    parser.add_argument("--every", type=episodes.positive, default=20, help="updates between two validations")
    parser.add_argument("--temperature", type=episodes.positive_number, default=1.0, help="sampling temperature")
    parser.add_argument(
        "--entropy-target",
        type=episodes.positive_number,
        help="entropy of a token, in nats, below which a bonus is added",
    )
    args = parser.parse_args()
    if args.batch % args.micro_batch:
        parser.error(f"--batch: expected a multiple of --micro-batch {args.micro_batch}, got {args.batch}")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    game = episodes.GAMES[args.game]
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    settings = GRPOConfig(
        output_dir=str(args.out),
        num_generations=args.generations,
        per_device_train_batch_size=args.micro_batch,
        gradient_accumulation_steps=args.batch // args.micro_batch,
        steps_per_generation=args.updates * args.batch // args.micro_batch,
        max_tool_calling_iterations=game.max_turns,
        max_completion_length=2048,  # of a whole episode, with the texts of the game
        generation_kwargs={"max_new_tokens": episodes.MAX_NEW_TOKENS},  # of one reply
        max_steps=args.steps,
        learning_rate=args.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
        reward_weights=[0.0],  # of `invalid_replies`; the return of the episode is added with weight 1
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        **exploration(args.temperature, args.entropy_target),
    )
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
        args=settings,
        reward_funcs=[invalid_replies],
        train_dataset=Dataset.from_list(episodes.rows(episodes.seeds_of(game, "train", args.levels))),
        processing_class=tokenizer,
        environment_factory=game.make,
        callbacks=[Validation(game, tokenizer, args.out, args.every, args.minutes)],
    )
    trainer.train()


if __name__ == "__main__":
    main()
