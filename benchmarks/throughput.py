"""Measure the steps per second of environments: random actions, auto-reset, a scan over steps.

    python benchmarks/throughput.py --env MortarMayhem-Grid-v0 --batch 1024 4096

Three rates per batch. "frames": the loop carries the previous observations and reads them completely (their maximum) on
every step, so that everything must be drawn. "one pixel": carried, but one number of each batch is read. "no frames":
nothing is read, so XLA removes the drawing; no agent can run at this speed, it is for comparison. Each figure is the
best of the repeats; compile time is that of the frames loop, including its first run.

"of copy" is the share of the device's measured copy bandwidth that the frames loop would use if it wrote and read each
observation once, and moved nothing else; "state" is the size of one environment's state in bytes.
"""

import argparse
import json
import platform
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import jaxgym

READS = ("frames", "one pixel", "no frames")
COPIED = {"cpu": 2**27}  # bytes of the timed copy, far more than caches hold
ACCELERATOR_COPIED = 2**31


def read(observations: Any, how: str) -> jax.Array:
    """Return a number that depends on the observations of a batch in the given way, int32 ()."""
    leaves = jax.tree.leaves(observations)
    if how == "frames":
        return sum((jnp.max(leaf).astype(jnp.int32) for leaf in leaves), start=jnp.int32(0))
    if how == "one pixel":
        return sum((leaf.reshape(-1)[0].astype(jnp.int32) for leaf in leaves), start=jnp.int32(0))
    return jnp.int32(0)


@partial(jax.jit, static_argnames=("env", "steps", "how"), donate_argnums=(3,))
def roll(env: Any, steps: int, how: str, carried: Any, key: jax.Array, params: Any) -> tuple[Any, jax.Array, jax.Array]:
    """Make `steps` random steps of a batch; return the carry, the sum of the numbers read, and the ended episodes."""
    batch = carried[1].time.shape[0]
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    sample = jax.vmap(env.action_space(params).sample)

    def body(carry: Any, key: jax.Array) -> tuple[Any, None]:
        (observations, states), total, endings = carry
        total = total + read(observations, how)
        key_action, key_step = jax.random.split(key)
        actions = sample(jax.random.split(key_action, batch))
        following, states, _, terminated, truncated, _ = step(
            jax.random.split(key_step, batch), states, actions, params
        )
        observations = observations if how == "no frames" else following
        return ((observations, states), total, endings + jnp.sum(terminated | truncated)), None

    keys = jax.random.split(key, steps)
    (carried, total, endings), _ = jax.lax.scan(body, (carried, jnp.int32(0), jnp.int32(0)), keys)
    return carried, total, endings


def measure(env: Any, params: Any, batch: int, steps: int, repeats: int, how: str) -> dict[str, float]:
    """Return steps/s, compile seconds and the share of steps that ended an episode."""
    reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    carried = reset(jax.random.split(jax.random.key(0), batch), params)
    begun = time.perf_counter()
    carried, _, _ = jax.block_until_ready(roll(env, steps, how, carried, jax.random.key(1), params))
    compile_s = time.perf_counter() - begun
    best, ended = float("inf"), 0
    for repeat in range(repeats):
        begun = time.perf_counter()
        carried, _, endings = jax.block_until_ready(roll(env, steps, how, carried, jax.random.key(2 + repeat), params))
        best = min(best, time.perf_counter() - begun)
        ended += int(endings)
    return {
        "steps_per_s": batch * steps / best,
        "compile_s": compile_s,
        "done_rate": ended / (batch * steps * repeats),
    }


def copy_bandwidth(repeats: int) -> float:
    """Return the bytes per second read and written by a copy in the device's memory."""
    size = COPIED.get(jax.devices()[0].platform, ACCELERATOR_COPIED)
    # The buffer is donated, so that no run waits for new memory from the system.
    copy = jax.jit(lambda given: given ^ jnp.uint32(1), donate_argnums=0)
    given = jax.block_until_ready(copy(jnp.zeros(size // 4, jnp.uint32)))
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        given = jax.block_until_ready(copy(given))
        best = min(best, time.perf_counter() - begun)
    return 2 * size / best


def bytes_of(tree: Any) -> int:
    """Return the number of bytes of all arrays of a tree of shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--env", nargs="+", default=["MortarMayhem-Grid-v0"], choices=jaxgym.registered_envs(), metavar="ID"
    )
    parser.add_argument("--batch", nargs="+", type=int, default=[1024], help="environments side by side")
    parser.add_argument("--steps", type=int, default=100, help="steps a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the best counts")
    parser.add_argument("--observation", default="pixels", choices=("pixels", "symbolic"))
    parser.add_argument(
        "--levels", help="'fresh', or the number of training levels in a level buffer; else as `make` has it"
    )
    parser.add_argument("--out", help="also append the rows to this file, as JSON lines")
    settings = parser.parse_args()
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({device.platform}), {platform.machine()}, Python {platform.python_version()}, "
        f"jax {jax.__version__}, jaxgym {jaxgym.__version__}, {settings.steps} steps a run, best of {settings.repeats}"
    )
    bandwidth = copy_bandwidth(settings.repeats)
    print(f"copy bandwidth, read and written: {bandwidth / 1e9:,.0f} GB/s")
    print(
        f"{'environment':24} {'batch':>7} "
        + " ".join(f"{how + ' /s':>14}" for how in READS)
        + "   done rate  compile s  of copy  state"
    )
    levels = int(settings.levels) if settings.levels and settings.levels.isdecimal() else settings.levels
    for env_id in settings.env:
        env, params = jaxgym.make(env_id, observation=settings.observation, levels=levels)
        observation, state = jax.eval_shape(env.reset, jax.random.key(0), params)
        for batch in settings.batch:
            rows = {how: measure(env, params, batch, settings.steps, settings.repeats, how) for how in READS}
            rates = " ".join(f"{rows[how]['steps_per_s']:14,.0f}" for how in READS)
            first = rows["frames"]
            share = 2 * bytes_of(observation) * first["steps_per_s"] / bandwidth
            print(
                f"{env_id:24} {batch:7} {rates} {first['done_rate']:11.4f} {first['compile_s']:10.1f} "
                f"{share:8.1%} {bytes_of(state):6,}",
                flush=True,
            )
            if settings.out:
                row = {"env": env_id, "batch": batch, "device": device.device_kind, "jax": jax.__version__, **rows}
                row |= {"copy_bytes_per_s": bandwidth, "share_of_copy": share, "state_bytes": bytes_of(state)}
                with open(settings.out, "a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
