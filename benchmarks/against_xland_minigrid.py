"""Measure the steps per second of XLand-MiniGrid's environments in the loop of `throughput.py`.

    pip install xminigrid==0.9.3
    python -m benchmarks.against_xland_minigrid --env MiniGrid-MemoryS16 --view-size 7 --batch 262144

The loop takes random actions, resets ended episodes (`GymAutoResetWrapper`), carries the previous observations and
reads them completely. The figure is the best of the repeats, without compile time.
"""

import argparse
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.throughput import read


@partial(jax.jit, static_argnames=("env", "params", "steps", "batch"), donate_argnums=(4,))
def roll(env: Any, params: Any, steps: int, batch: int, timestep: Any, key: jax.Array) -> tuple[Any, jax.Array]:
    """Make `steps` random steps of a batch; return the last time step and the sum of the numbers read."""

    def body(carry: Any, key: jax.Array) -> tuple[Any, None]:
        timestep, total = carry
        total = total + read(timestep.observation, "frames")
        actions = jax.random.randint(key, (batch,), 0, env.num_actions(params))
        return (jax.vmap(partial(env.step, params))(timestep, actions), total), None

    return jax.lax.scan(body, (timestep, jnp.int32(0)), jax.random.split(key, steps))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="MiniGrid-MemoryS16", help="id of XLand-MiniGrid")
    parser.add_argument("--view-size", type=int, help="side of the view in cells; else that of the environment")
    parser.add_argument("--batch", type=int, default=65_536, help="environments side by side")
    parser.add_argument("--steps", type=int, default=100, help="steps a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the best counts")
    settings = parser.parse_args()
    import xminigrid
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = xminigrid.make(settings.env)
    env = GymAutoResetWrapper(env)
    if settings.view_size:
        params = params.replace(view_size=settings.view_size)
    timestep = jax.jit(jax.vmap(partial(env.reset, params)))(jax.random.split(jax.random.key(0), settings.batch))
    best = float("inf")
    for repeat in range(settings.repeats + 1):  # the first run compiles
        begun = time.perf_counter()
        timestep, _ = jax.block_until_ready(
            roll(env, params, settings.steps, settings.batch, timestep, jax.random.key(repeat))
        )
        best = min(best, time.perf_counter() - begun if repeat else float("inf"))
    rate = settings.batch * settings.steps / best
    print(
        f"{settings.env}, observation {timestep.observation.shape[1:]}, batch {settings.batch}, "
        f"{jax.devices()[0].device_kind}, jax {jax.__version__}, xminigrid {xminigrid.__version__}: {rate:,.0f} steps/s"
    )


if __name__ == "__main__":
    main()
