"""Train in a loop of your own with the Python API of `baselines`: save, resume, and act with trained agents.

    python examples/own_loop.py runs/own-loop --updates 400

The loop stops early once the mean return of a block is at least `--target`. The page
docs/tutorials/own_training_loop.md explains each call. The example needs `pip install -e ".[baselines]"` in a checkout.
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp

import baselines
from baselines import zoo
from baselines.config import SCALES, Config
from baselines.game import make_game
from baselines.ppo import make_init, make_setup, make_train_block, seeds_of
from baselines.runs import RunFolder

CONFIG = dataclasses.replace(
    SCALES["cpu"],
    env="MortarMayhemB-Grid-v0",
    options=("command_count=[2]", "observation=symbolic"),
    train_levels=1000,
    num_envs=64,
    num_steps=32,
    memory_size=64,
    hidden_size=64,
    block_updates=20,
)


def train(config: Config, path: Path, num_updates: int, target: float) -> None:
    """Train until `num_updates` or until a block reaches the target; continue the run in `path` if there is one."""
    game = make_game(config)
    setup = make_setup(config, game)
    init, block = make_init(setup), make_train_block(setup)
    is_new = not (path / "config.json").exists()
    with RunFolder.create(path, config) if is_new else RunFolder.reopen(path, config) as folder:
        if folder.last_update is None:
            state = init(seeds_of(setup), game.params)
        else:
            state = folder.restore(jax.eval_shape(init, seeds_of(setup), game.params))
            print(f"resumed at update {state.update}")
        while state.update < num_updates:
            state, metrics = block(state, game.params)  # `state` is donated: use the returned one
            mean_return = float(metrics["return"].sum() / metrics["episodes"].sum())
            print(f"update {state.update}: return {mean_return:.3f}, entropy {metrics['entropy'].mean():.2f}")
            folder.save(state, int(state.update))
            if mean_return >= target:
                break


def play(agent, num_envs: int, num_steps: int) -> float:
    """Return the mean return of the episodes that end within some steps on fresh training levels."""
    env, params = agent.game.env, agent.game.params

    def step(carry, key):
        env_state, observation, start, recurrent_state = carry
        key_action, key_step = jax.random.split(key)
        taken = agent.step(key_action, recurrent_state, observation, start)
        observation, env_state, _, terminated, truncated, info = jax.vmap(env.step, (0, 0, 0, None))(
            jax.random.split(key_step, num_envs), env_state, taken.action, params
        )
        ended = terminated | truncated
        return (env_state, observation, ended, taken.recurrent_state), (ended, info["episode_return"])

    @jax.jit
    def run(key):
        key_reset, key = jax.random.split(key)
        observation, env_state = jax.vmap(env.reset, (0, None))(jax.random.split(key_reset, num_envs), params)
        first = (env_state, observation, jnp.ones(num_envs, bool), agent.initial_recurrent_state(num_envs))
        ended, returns = jax.lax.scan(step, first, jax.random.split(key, num_steps))[1]
        return returns.sum(where=ended) / ended.sum().astype(jnp.float32)

    return float(run(jax.random.key(0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="directory of the run; a second call continues it")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--target", type=float, default=0.19, help="mean return; 0.2 is the best")
    parser.add_argument("--zoo", default="MysteryPath-Grid-v0", help="environment whose trained agent also plays")
    settings = parser.parse_args()
    train(CONFIG, settings.path, settings.updates, settings.target)
    print(f"your agent: mean return {play(zoo.read(settings.path), 64, 64):.3f}")
    print(f"{settings.zoo}, trained agent: mean return {play(baselines.load(settings.zoo), 4, 32):.3f}")


if __name__ == "__main__":
    main()
