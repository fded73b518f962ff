"""Measure the rollout of a pretrained model in Frozen Lake: episodes per second, model and environments in one program.

    python benchmarks/language_model_rollout.py --model PATH
    python benchmarks/language_model_rollout.py --model PATH --warm-updates 0 --max-turns 12 --reply-tokens 24

PATH is the folder or the GGUF file of a model of the Llama architecture. Flags are those of `python -m baselines.grpo
--model PATH`. An update has `--groups` times `--group-size` episodes, which are played at once. After the warm start
nearly all replies are valid and short; with `--warm-updates 0`, the model is measured as it is. The time is that of a
whole call, from the levels to the episodes on the host, without compilation. A longer `--reply-tokens` has no cost if
all replies end before it.
"""

import dataclasses
import json
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

import jaxgym
from baselines.grpo.pretrained import Chats, tally, warm_up
from baselines.grpo.settings import SCALES, Settings


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Time the rollout of an update."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    repeats: int = 5
    """Number of rollouts after the one that compiles."""
    out: Path | None = None
    """File to which the result is also appended, as a JSON line."""


def measure(chats: Chats, params: Any, repeats: int) -> dict[str, Any]:
    """Return the time of the first rollout, and the speed of each one after it."""
    settings, seconds, speeds = chats.settings, list[float](), list[dict[str, float]]()
    levels = np.random.default_rng(settings.seed).integers(chats.num_training, size=(repeats + 1, settings.groups))
    for number, row in enumerate(levels):
        begin = time.perf_counter()
        episodes = chats.play(params, np.repeat(row, settings.group_size), chats.key(0, number))
        seconds.append(time.perf_counter() - begin)
        counts = {
            "episodes": len(episodes.is_solved),
            "turns": int(episodes.is_turn.sum()),
            "reply_tokens": int((episodes.replies != 0).sum()),
        }
        speeds.append({f"{name}_per_second": count / seconds[-1] for name, count in counts.items()} | tally(episodes))
    names = speeds[0]
    means = {name: round(float(np.mean([speed[name] for speed in speeds[1:]])), 4) for name in names}
    return {"first_seconds": round(seconds[0], 2), "seconds": [round(each, 4) for each in seconds[1:]], **means}


def main(argv: Sequence[str]) -> None:
    defaults = Arguments(dataclasses.replace(SCALES["pretrained"], new_openings=False))
    arguments = tyro.cli(Arguments, args=list(argv), default=defaults)
    settings = arguments.settings
    chats, params = Chats.of(settings)
    params = warm_up(chats, params).params
    result = {
        "device": jax.devices()[0].device_kind,
        "cpu": platform.processor() or platform.machine(),
        "jax": jax.__version__,
        "jaxgym": jaxgym.__version__,
        "python": platform.python_version(),
        "command": f"python benchmarks/language_model_rollout.py {' '.join(argv)}",
        "batch": settings.sessions,
        "prefix_tokens": len(chats.chat.prefix),
        "piece_tokens": chats.chat.piece,
        "max_turns": settings.max_turns,
        "max_reply_tokens": settings.reply_tokens,
        "dtype": settings.dtype,
        **measure(chats, params, arguments.repeats),
    }
    line = json.dumps(result)
    print(line)
    if arguments.out:
        with arguments.out.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
