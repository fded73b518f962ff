"""Play held-out levels with a model: `python examples/llm/evaluate.py GAME MODEL OUT`.

Writes `OUT.json` with the success and its 95 % Wilson interval, sampled at temperature 1 and greedy, and `OUT.jsonl`
with some of the chats.
"""

import argparse
import json
import time
from pathlib import Path

import episodes
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NUM_CHATS = 8


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", choices=episodes.GAMES)
    parser.add_argument("model", type=episodes.model_folder, help="folder of a model")
    parser.add_argument("out", type=Path, help="files without their suffix")
    parser.add_argument("--form", choices=episodes.FORMS, default="tools", help="tools for TRL, replies for ms-swift")
    parser.add_argument("--episodes", type=episodes.positive, default=None, help="number of levels; all by default")
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    game = episodes.GAMES[args.game]
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    seeds = episodes.seeds_of(game, "held_out", args.episodes)
    results, lines = {"game": args.game, "form": args.form, "options": game.options}, []
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        start = time.monotonic()
        records = episodes.play(model, tokenizer, game, args.form, seeds, temperature)
        results[name] = {**episodes.summary(records), "seconds": round(time.monotonic() - start, 1)}
        low, high = results[name]["interval"]
        print(f"{name}: success {results[name]['success']:.3f} ({low} to {high}) on {len(records)} held-out levels")
        lines += [json.dumps({"sampling": name, **record}) for record in records[:NUM_CHATS]]
        args.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        args.out.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
