"""Play a trained agent in the original memory-gym: `python -m baselines.transfer zoo:MysteryPath-Grid-v0`.

The agent plays the papers' seeds twice with the same sampling keys: in memory-gym and in jaxgym. If both draw the same
frames by the same rules, the agent acts identically in both. The pins of memory-gym exclude those of gymnax, so it
needs a virtual environment of its own: `make parity` makes `.parity`, whose Python runs this command.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from tqdm import tqdm

import jaxgym
from baselines import exits
from baselines.config import check_seed
from baselines.errors import ConfigError, RunError
from baselines.game import PAPER_SEEDS
from baselines.zoo import TrainedAgent, agent_of

_MAX_STEPS = 2048


@dataclasses.dataclass(frozen=True)
class TransferFlags:
    """Play an agent in memory-gym and in jaxgym, and compare the episodes."""

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder, or zoo:ID for a trained agent of the checkout."""
    episodes: int = len(PAPER_SEEDS)
    """Number of the papers' seeds to play, from the first one."""
    seed: int = 0
    """Seed of the sampled actions."""


class PlayedEpisode(NamedTuple):
    """One episode."""

    actions: list[Any]
    rewards: list[float]
    success: float


def play(envs: list[Any], agent: TrainedAgent, seeds: list[int], key: jax.Array) -> list[PlayedEpisode]:
    """Play the first episode of each environment; the environments run in step and have memory-gym's layout.

    Args:
        envs: Gymnasium environments, one per seed.
        agent: the agent; the environments are reset with its options.
        seeds: seeds of the levels.
        key: PRNG key of the sampled actions; equal keys and equal observations give equal actions.
    """
    options = _options_of(agent)
    observations = [env.reset(seed=seed, options=options)[0] for env, seed in zip(envs, seeds, strict=True)]
    played = [PlayedEpisode([], [], 0.0) for _ in envs]
    going = set(range(len(envs)))
    state, start, step = agent.initial_recurrent_state(len(envs)), jnp.ones(len(envs), bool), jax.jit(agent.act)
    for time in tqdm(range(_MAX_STEPS), leave=False):
        state, actions = step(jax.random.fold_in(key, time), state, _batch(observations), start)
        start = jnp.zeros_like(start)
        for index in sorted(going):
            action = np.asarray(actions[index]).tolist()
            observations[index], reward, terminated, truncated, info = envs[index].step(action)
            played[index].actions.append(action)
            played[index].rewards.append(float(np.float32(reward)))
            if terminated or truncated:
                played[index] = played[index]._replace(success=float(info.get("success", 0)))
                going.discard(index)
        if not going:
            break
    return played


def _options_of(agent: TrainedAgent) -> dict[str, Any]:
    """Return the options of the original, in which presets are replaced by their options."""
    given = agent.config.env_options
    preset = given.pop("preset", None)
    return {**jaxgym.presets(agent.config.env)[preset].options, **given} if preset else given


def _batch(observations: list[Any]) -> Any:
    """Stack observations into leaves (B, ...) with rows first; the original's frames have columns first."""
    if isinstance(observations[0], Mapping):
        return {name: _batch([observation[name] for observation in observations]) for name in observations[0]}
    stacked = np.stack(observations)
    return jnp.asarray(stacked.swapaxes(1, 2) if stacked.dtype == np.uint8 else stacked.astype(np.float32))


def transfer(arguments: TransferFlags) -> tuple[list[PlayedEpisode], list[PlayedEpisode]]:
    """Play the episodes in jaxgym and in memory-gym.

    Raises:
        RunError: if memory-gym is not installed, or there is no such run.
        ConfigError: if there is no such agent, it observes more than frames, or a number is out of range.
    """
    if not 1 <= arguments.episodes <= len(PAPER_SEEDS):
        raise ConfigError(f"--episodes: expected a number from 1 to {len(PAPER_SEEDS)}, got {arguments.episodes}")
    check_seed(arguments.seed)
    os.environ.update(SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy", PYGAME_HIDE_SUPPORT_PROMPT="1")
    try:
        import gymnasium
        import memory_gym  # pyright: ignore[reportMissingImports] — lives in an environment of its own
    except ImportError as error:
        raise RunError(
            f"{error.name} is not installed in {sys.executable}. "
            "Run make parity, then run this command with .parity/bin/python."
        ) from error
    gymnasium.register_envs(memory_gym)
    agent = agent_of(arguments.what)
    if "observation" in agent.config.env_options or agent.config.last_action_reward:
        raise ConfigError(f"expected an agent that observes only frames, as in memory-gym, got {arguments.what}")
    seeds = list(PAPER_SEEDS)[: arguments.episodes]
    key, env_id = jax.random.key(arguments.seed), agent.config.env
    here = [gymnasium.make(f"jaxgym/{env_id}", memory_gym_layout=True, disable_env_checker=True) for _ in seeds]
    there = [gymnasium.make(env_id, disable_env_checker=True) for _ in seeds]
    return play(here, agent, seeds, key), play(there, agent, seeds, jax.random.clone(key))


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        here, there = transfer(tyro.cli(TransferFlags, prog="python -m baselines.transfer"))
        equal = sum(one == other for one, other in zip(here, there, strict=True))
        tqdm.write(f"{equal} of {len(here)} episodes are equal step by step in actions, rewards and success")
        returns = [_mean(sum(one.rewards) for one in side) for side in (here, there)]
        successes = [_mean(one.success for one in side) for side in (here, there)]
        tqdm.write(f"mean returns: here {returns[0]:.3f} there {returns[1]:.3f}; success:")
        tqdm.write(f"here {successes[0]:.3f} there {successes[1]:.3f}")


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


if __name__ == "__main__":
    main()
