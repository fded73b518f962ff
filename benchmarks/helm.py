"""Measure acting and learning with a frozen language model as memory, beside the limits of one H200.

    python benchmarks/helm.py --preset helm/mmg-helm --memory-model models/smollm2 --envs 1024 2048 4096

Flags are those of `python -m baselines.train`; `--envs` replaces `--num-envs`. "model" runs the model alone, on
random embeddings; "acting" collects rollouts; "training" also learns from them. The best of the repeats counts.

The roofline of the model is the speed of one H200 if only its memory (4.8 TB/s) or its arithmetic (989 TFLOP/s for
bfloat16) limited it. A step reads the window of keys and values, and each batch reads the weights once.
"""

import dataclasses
import json
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro
from jax import lax

import jaxgym
from baselines import ppo
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.game import TrainingGame, make_game
from baselines.helm import pinned
from baselines.language_model import ModelConfig, empty_cache, forward
from baselines.train import defaults_of
from benchmarks.training import best_of

H200_FLOPS, H200_BYTES = 989e12, 4.8e12
PIXELS = 84 * 84


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Time the model, rollouts and updates."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    envs: tuple[int, ...] = (1024,)
    """Numbers of environments to measure."""
    repeats: int = 3
    """Number of runs of each part; the best counts."""
    out: Path | None = None
    """File to which the results are appended, as JSON lines."""


def roofline(model: ModelConfig, window: int, num_envs: int, width_bytes: int) -> dict[str, float]:
    """Return the limits of the model's steps per second on one H200: of its memory, and of its arithmetic."""
    heads, shared = model.heads * model.head_dim, model.kv_heads * model.head_dim
    layer = 2 * model.width * (heads + shared) + 3 * model.width * model.hidden
    weights = model.layers * layer + 2 * model.vocabulary * model.width  # each product with the tokens reads them
    cache = 2 * model.layers * window * shared * width_bytes
    attention = 2 * 2 * model.layers * window * heads
    flop = 2 * weights + 2 * PIXELS * model.width + attention
    return {"memory": H200_BYTES / (cache + weights * width_bytes / num_envs), "arithmetic": H200_FLOPS / flop}


def time_model(game: TrainingGame, config: Config, repeats: int) -> float:
    """Return the seconds of `num_steps` steps of the language model in all environments."""
    model, weights = game.env.model, game.params.model
    dtype = jnp.dtype(config.dtype)
    shape = config.num_envs, 1, model.width
    inputs = jax.random.normal(jax.random.key(0), shape).astype(dtype)

    @partial(jax.jit, donate_argnums=0)
    def run(cache: Any, weights: Any) -> tuple[Any, jax.Array]:
        def step(cache: Any, _: None) -> tuple[Any, jax.Array]:
            hidden, cache = forward(model, weights, inputs, cache, empty=config.memory_empty)
            return cache, hidden.sum()

        return lax.scan(step, cache, length=config.num_steps)

    carried = [empty_cache(model, config.num_envs, config.memory_window, dtype)]

    def once() -> jax.Array:
        carried[0], sums = run(carried[0], weights)
        return sums

    return best_of(repeats, once)[1]


def time_training(game: TrainingGame, config: Config, repeats: int) -> tuple[float, float]:
    """Return the seconds of one rollout and of one update."""
    setup = ppo.make_setup(config, game)
    carried = [ppo.make_init(setup)(ppo.seeds_of(setup), game.params)]

    @partial(jax.jit, donate_argnums=0, compiler_options=ppo.compiler_options())
    def collect(state: ppo.TrainState, env_params: Any) -> tuple[ppo.TrainState, ppo.Metrics]:
        state, rollout, _, metrics = ppo.collect(setup, state, env_params)
        # The sums keep the whole rollout in the program.
        sums = jax.tree.map(lambda leaf: leaf.sum(dtype=jnp.float32), rollout)
        return state, {**metrics, "rollout": sum(jax.tree.leaves(sums))}

    block = ppo.make_train_block(setup)

    def run(function: Any) -> Any:
        carried[0], metrics = function(carried[0], game.params)
        return metrics

    return best_of(repeats, lambda: run(collect))[1], best_of(repeats, lambda: run(block))[1]


def main() -> None:
    argv = sys.argv[1:]
    try:
        settings = tyro.cli(Arguments, args=argv, default=Arguments(defaults_of(argv)))
        config = pinned(dataclasses.replace(settings.config, block_updates=1))
        game = make_game(config)
    except ConfigError as error:
        sys.exit(f"error: {error}")
    device = jax.devices()[0]
    print(
        f"{device.device_kind} ({device.platform}), {platform.machine()}, Python {platform.python_version()}, "
        f"jax {jax.__version__}, jaxgym {jaxgym.__version__}, best of {settings.repeats}"
    )
    print(f"{config.env} {' '.join(config.options)}: {config.memory_model}, SHA-256 {config.memory_model_sha256}")
    for num_envs in settings.envs:
        shown = dataclasses.replace(config, num_envs=num_envs)
        acting, training = time_training(game, shown, settings.repeats)
        seconds = {"model": time_model(game, shown, settings.repeats), "acting": acting, "training": training}
        speeds = {name: shown.batch_steps / taken for name, taken in seconds.items()}
        limits = roofline(game.env.model, shown.memory_window, num_envs, jnp.dtype(shown.dtype).itemsize)
        shares = speeds["model"] / min(limits.values())
        print(
            f"{num_envs} environments x {shown.num_steps} steps, window {shown.memory_window}, {shown.dtype}: "
            f"model {speeds['model']:,.0f}, acting {speeds['acting']:,.0f}, "
            f"training {speeds['training']:,.0f} steps/s; "
            f"roofline: memory {limits['memory']:,.0f}, arithmetic {limits['arithmetic']:,.0f} steps/s; "
            f"the model has {shares:.0%}"
        )
        if settings.out:
            row = {"device": device.device_kind, "envs": num_envs, "steps_per_s": speeds, "roofline": limits}
            with settings.out.open("a") as file:
                file.write(json.dumps({"env": config.env, "jax": jax.__version__, **row}) + "\n")


if __name__ == "__main__":
    main()
