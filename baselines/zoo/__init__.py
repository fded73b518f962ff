"""Trained agents that come with the package, one an environment: parameters in bfloat16, config, results.

`python -m baselines.zoo RUN` puts the agent of a run here.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from baselines.config import Config, from_json, from_name, to_json
from baselines.devices import make_init
from baselines.game import TrainingGame, make_game
from baselines.losses import sample_action
from baselines.memories.cell import State
from baselines.networks import Observation
from baselines.ppo import Setup, act, make_setup, seeds_of
from baselines.runs import RunFolder, pack_state, read_config, unpack_state

FOLDER = Path(__file__).parent
_PARAMS = "params.npz"
_DECODER = "params.decoder."


class AgentStep(NamedTuple):
    """Output of an agent for one step of B environments."""

    action: jax.Array  # for `env.step`, int32 (B,) or (B, branches)
    logits: jax.Array  # of the policy, float32 (B, actions), those of several branches side by side
    value: jax.Array  # estimate of the discounted return, float32 (B,)
    memory: State  # recurrent state for the next step, leaves (B, ...)


@dataclasses.dataclass(frozen=True)
class TrainedAgent:
    """A trained agent and the game that it was trained on.

    Attributes:
        game: levels of the training split are fresh, held-out ones as in training.
        setup: of its run.
        params: of its network.
        acting_params: the same in the form that acting reads, see `baselines.networks.ActorCritic.precompute`.
    """

    game: TrainingGame
    setup: Setup
    params: Any
    acting_params: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Computed here: in a program that `act` is a part of, parameters are constants, and XLA's constant folding
        # multiplies far slower than a program does.
        object.__setattr__(self, "acting_params", jax.jit(self.setup.network.precompute)(self.params))

    @property
    def config(self) -> Config:
        """The settings of its run."""
        return self.setup.config

    def initial_memory(self, batch: int) -> State:
        """What `batch` lanes remember before an episode."""
        return self.setup.network.memory.initial_state(batch)

    def act(self, key: jax.Array, memory: State, observation: Observation, start: jax.Array) -> tuple[State, jax.Array]:
        """Return the recurrent state and the actions of `step`."""
        taken = self.step(key, memory, observation, start)
        return taken.memory, taken.action

    def step(self, key: jax.Array, memory: State, observation: Observation, start: jax.Array) -> AgentStep:
        """Run the network for one step of B environments and sample actions; may be jitted and scanned.

        Args:
            key: PRNG key of the sampled actions; it is consumed.
            memory: recurrent state after the step before, leaves (B, ...); at first that of `initial_memory`.
            observation: leaves (B, ...).
            start: whether the observation is the first of an episode, bool (B,).
        """
        memory, output = act(self.setup, self.acting_params, memory, observation, start)
        action = sample_action(key, output.logits, self.setup.sizes)
        return AgentStep(action if self.setup.has_branches else action[..., 0], output.logits, output.value, memory)


def agents() -> tuple[str, ...]:
    """The environments that have an agent here."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{_PARAMS}")))


def results(env_id: str) -> dict[str, Any]:
    """What the agent's run scored at its end, as in its evaluation.json, in float32."""
    return json.loads((_folder(env_id) / "evaluation.json").read_text())


def load(env_id: str) -> TrainedAgent:
    """The agent of an environment.

    Raises:
        ConfigError: when there is none; the message has the environments that have one.
    """
    folder = _folder(env_id)
    # The decoder of the reconstruction is of no use after training, and is not kept.
    settings = json.loads((folder / "config.json").read_text())
    config = from_json({**settings, "train_levels": 0, "reconstruction": 0.0})
    game = make_game(config)
    setup = make_setup(config, game)
    template = jax.eval_shape(make_init(setup), jnp.int32(0), game.params).params
    with np.load(folder / _PARAMS) as packed:
        params = {name: packed[name].view(ml_dtypes.bfloat16).astype(np.float32) for name in packed.files}
    return TrainedAgent(game, setup, unpack_state(template, params))


def read(run: Path) -> TrainedAgent:
    """The agent of a run on disk, as its newest checkpoint has it; the first one where it has several seeds.

    Raises:
        RunError: when the folder holds no run, or no checkpoint.
    """
    config = read_config(run)
    game = make_game(config)
    setup = make_setup(config, game)
    template = jax.eval_shape(make_init(setup), seeds_of(setup), game.params)
    with RunFolder(run, config) as folder:
        params = folder.restore(template).params
    if setup.seed_axis:
        params = jax.tree.map(lambda leaf: leaf[0], params)
    return TrainedAgent(game, setup._replace(seed_axis=None, vmap_axis=None), params)


def keep(agent: TrainedAgent, evaluation: dict[str, Any], root: Path = FOLDER) -> Path:
    """Write an agent.

    Args:
        agent: what to keep.
        evaluation: content of its run's evaluation.json.
        root: where its folder is made.

    Returns:
        The folder.

    Raises:
        OSError: when it cannot be written; an agent that was there stays whole.
    """
    folder = root / agent.config.env
    folder.mkdir(exist_ok=True)
    halved: dict[str, Any] = {
        name: leaf.astype(ml_dtypes.bfloat16).view(np.uint16)
        for name, leaf in pack_state(agent.params).items()
        if not name.startswith(_DECODER)
    }
    parts = {name: folder / f"{name}.tmp" for name in (_PARAMS, "config.json", "evaluation.json")}
    with parts[_PARAMS].open("wb") as packed:
        np.savez_compressed(packed, **halved)
    for name, content in (("config.json", to_json(agent.config)), ("evaluation.json", evaluation)):
        parts[name].write_text(json.dumps(content, indent=2) + "\n")
    for name, part in parts.items():
        part.replace(folder / name)
    return folder


def _folder(env_id: str) -> Path:
    return FOLDER / from_name("agent", env_id, {name: name for name in agents()})
