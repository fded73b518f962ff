"""Measure the parts of the training time: environment, drawing, acting, learning.

    python benchmarks/training.py --scale throughput --env MortarMayhem-Grid-v0
    python benchmarks/training.py --scale cpu --options observation=symbolic --repeats 2

Flags are those of `python -m baselines.train`, including presets. Each part is a program of its own, and its time is
the best of the repeats. "environment" steps the game with random actions and draws nothing; "drawing" is the additional
time if every frame is read; "acting" is the additional time of the whole rollout; "learning" is the rest of the update.

The ceiling is the speed of one H100 with the published network, GRU and 84 x 84 frames, if its arithmetic (400 TFLOP/s
for float32 matrix products in TF32, 790 for bfloat16) or its memory (3.0 TB/s) were always busy, and the environment
took no time.
"""

import dataclasses
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro

import jaxgym
from baselines import ppo
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame, frame_shape, make_game
from baselines.train import defaults_of
from benchmarks.throughput import measure

PARTS = ("environment", "drawing", "acting", "learning")

FORWARD_FLOP, TRAINING_FLOP = 21.77e6, 60.4e6  # per frame; training includes the forward pass
DECODER_FLOP = 51.2e6
ACTING_BYTES, ACTING_FLOATS = 84.7e3, 97.9e3  # per frame: bytes of pixels and other numbers, read and written
TRAINING_BYTES, TRAINING_FLOATS = 63.5e3, 273.8e3
H100_FLOPS = {"float32": 400e12, "bfloat16": 790e12}
H100_BYTES = 3.0e12


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Time the parts of an update."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    repeats: int = 5
    """Number of runs of each part; the best counts."""
    out: Path | None = None
    """File to which the result is also appended, as a JSON line."""


def best_of(repeats: int, run: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the first run, which compiles, and of the best run after it."""
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - begin)
    return times[0], min(times[1:])


def ceiling(config: Config, game: TrainingGame) -> float | None:
    """Return the largest possible environment steps per second of one H100; None for other networks."""
    is_published = (
        config.memory == "gru" and config.memory_layers < 2 and config.memory_size == 512 and config.hidden_size == 512
    )
    plain = config.encoder == "nature" and config.embed and not config.residual and not config.ground_truth_head
    if not (is_published and plain) or frame_shape(game) != (84, 84, 3):
        return None
    width = jnp.dtype(config.dtype).itemsize
    decoder = DECODER_FLOP * config.reconstruction_share if config.reconstruction else 0.0
    flop = FORWARD_FLOP + config.epochs * (TRAINING_FLOP + decoder)
    moved = ACTING_BYTES + ACTING_FLOATS * width + config.epochs * (TRAINING_BYTES + TRAINING_FLOATS * width)
    by_memory = float("inf") if config.reconstruction else H100_BYTES / moved  # not computed for a decoder
    return min(H100_FLOPS[config.dtype] / flop, by_memory)


def time_parts(config: Config, repeats: int) -> dict[str, float]:
    """Return the seconds of each part of an update, of the whole, and of its compilation."""
    game = make_game(config)
    setup = ppo.make_setup(config, game)
    init = ppo.make_init(setup)
    state = init(ppo.seeds_of(setup), game.params)

    def collect_with(state: ppo.TrainState, env_params: Any) -> Any:
        return ppo.collect(setup, state, env_params)

    collect = jax.jit(collect_with, compiler_options=ppo.compiler_options())
    _, collecting = best_of(repeats, lambda: collect(state, game.params))
    rates = {
        how: measure(game.env, game.params, config.num_envs, config.num_steps, repeats, how)["steps_per_s"]
        for how in ("no frames", "frames")
    }
    stepping, drawn = (config.batch_steps / rates[how] for how in ("no frames", "frames"))
    block = ppo.make_train_block(setup)
    carried = [state]

    def run() -> Any:
        carried[0], metrics = block(carried[0], game.params)
        return metrics

    compiling, whole = best_of(repeats, run)
    parts = {"environment": stepping, "drawing": drawn - stepping, "acting": collecting - drawn}
    return {**parts, "learning": whole - collecting, "update": whole, "compile": compiling - whole}


def main() -> None:
    argv = sys.argv[1:]
    try:
        settings = tyro.cli(Arguments, args=argv, default=Arguments(defaults_of(argv)))
        config = dataclasses.replace(settings.config, block_updates=1)
        if config.num_seeds > 1 or config.devices > 1:
            raise ConfigError("expected one seed on one device, got more. Leave out --num-seeds and --devices.")
        device = jax.devices()[0]
        print(
            f"{device.device_kind} ({device.platform}), {platform.machine()}, Python {platform.python_version()}, "
            f"jax {jax.__version__}, jaxgym {jaxgym.__version__}, best of {settings.repeats}"
        )
        print(
            f"{config.env} {' '.join(config.options)}: {config.memory}, {config.dtype}, {config.num_envs} "
            f"environments x {config.num_steps} steps, {config.epochs} epochs of {config.minibatches} minibatches"
        )
        seconds = time_parts(config, settings.repeats)
        highest = ceiling(config, make_game(dataclasses.replace(config, train_levels=0)))
    except ConfigError as error:
        sys.exit(f"error: {error}")
    for part in PARTS:
        print(f"{part:12} {1e3 * seconds[part]:10.1f} ms  {seconds[part] / seconds['update']:6.1%}")
    speed = config.batch_steps / seconds["update"]
    print(f"{'update':12} {1e3 * seconds['update']:10.1f} ms  compiled in {seconds['compile']:.0f} s")
    print(f"in all: {speed:,.0f} steps/s")
    if highest is None:
        print("ceiling: not worked out for this network or observation")
    else:
        print(f"ceiling of one H100: {highest:,.0f} steps/s, of which this is {speed / highest:.1%}")
    if settings.out:
        row = {"env": config.env, "device": device.device_kind, "jax": jax.__version__, "steps_per_s": speed}
        with settings.out.open("a") as file:
            file.write(json.dumps({**row, "ceiling": highest, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
