"""Measure the speedup of training over several devices of one host.

    python benchmarks/scaling.py --scale throughput --env MortarMayhemB-Grid-v0 --counts 1 2 4
    python benchmarks/scaling.py --scale paper --num-seeds 5 --counts 1

Flags are those of `python -m baselines.train`. The batch (environments, or seeds if there are several) grows with the
number of devices; `--fixed` divides the batch of one device among them instead. Whole updates are timed, and the best
of the repeats counts. "of linear" is the speed relative to that of the first count, divided by the ratio of the counts.
"""

import dataclasses
import json
import platform
import sys
import time
from pathlib import Path
from typing import Annotated

import jax
import tyro

import jaxgym
from baselines import devices, ppo
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import make_game
from baselines.train import defaults_of


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Time whole updates on several devices."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    counts: tuple[int, ...] = (1,)
    """Numbers of devices to measure."""
    fixed: bool = False
    """Divide the batch of one device among all devices, instead of giving each of them a full batch."""
    repeats: int = 5
    """Number of timed calls of a block; the best counts."""
    out: Path | None = None
    """File to which the results are also appended, as JSON lines."""


def spread(config: Config, count: int, fixed: bool) -> Config:
    """Return the config on a number of devices."""
    shared = "num_envs" if config.num_seeds == 1 else "num_seeds"
    times = 1 if fixed else count
    return dataclasses.replace(config, devices=count, **{shared: getattr(config, shared) * times})


def steps_per_second(config: Config, repeats: int) -> tuple[float, float]:
    """Return the environment steps per second of all seeds, and the seconds of compilation."""
    game = make_game(config)
    setup = ppo.make_setup(config, game)
    mesh = devices.make_mesh(config)
    state = devices.place_state(devices.make_init(setup)(ppo.seeds_of(setup), game.params), config, mesh)
    env_params = devices.replicate(game.params, mesh)
    block = devices.make_train_block(setup, mesh)
    times = list[float]()
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        state, metrics = block(state, env_params)
        jax.block_until_ready((state, metrics))
        times.append(time.perf_counter() - begin)
    steps = config.batch_steps * config.num_seeds * config.block_updates
    return steps / min(times[1:]), times[0] - min(times[1:])


def main() -> None:
    argv = sys.argv[1:]
    try:
        settings = tyro.cli(Arguments, args=argv, default=Arguments(defaults_of(argv)))
        base = dataclasses.replace(settings.config, block_updates=4)
        if base.devices > 1:
            raise ConfigError("expected numbers of devices as --counts, got --devices. Leave --devices out.")
        configs = [spread(base, count, settings.fixed) for count in settings.counts]
        print(
            f"{jax.devices()[0].device_kind} x {len(jax.devices())}, Python {platform.python_version()}, "
            f"jax {jax.__version__}, jaxgym {jaxgym.__version__}; {base.env}, {base.memory}, {base.dtype}, "
            f"{base.num_envs} environments x {base.num_steps} steps, {base.num_seeds} seeds; best of {settings.repeats}"
        )
        first = 0.0
        for config in configs:
            speed, compiling = steps_per_second(config, settings.repeats)
            first = first or speed / config.devices
            share = speed / (first * config.devices)
            shown = f"{config.devices} devices: {speed:12,.0f} steps/s  {share:6.1%} of linear"
            print(f"{shown}  compiled in {compiling:.0f} s", flush=True)
            if settings.out:
                row = {"env": base.env, "device": jax.devices()[0].device_kind, "count": config.devices}
                row |= {"num_envs": config.num_envs, "num_seeds": config.num_seeds, "steps_per_s": speed}
                with settings.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    except ConfigError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
