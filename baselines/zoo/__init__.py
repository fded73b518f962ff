"""Trained agents, one per environment: config and results in the package, weights in files of their own.

`python -m baselines.zoo RUN` adds the agent of a run.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from baselines.config import Config, from_json, from_name
from baselines.devices import make_init
from baselines.encoders import Observation
from baselines.game import TrainingGame, make_game
from baselines.losses import sample_action
from baselines.memories.cell import State
from baselines.ppo import Setup, act, make_setup, seeds_of
from baselines.runs import RunFolder, pack_state, read_config, unpack_state
from baselines.zoo import files

FOLDER = Path(__file__).parent
_HASHES = "sha256.json"  # SHA-256 of the weights by agent
_WEIGHTS = "weights"  # folder of the weights files, which the wheel leaves out
_PREFIX = "zoo:"  # of the agents' ids in commands
_DECODER = "params.decoder."


class AgentStep(NamedTuple):
    """Output of an agent for one step of B environments."""

    action: jax.Array  # for `env.step`, int32 (B,) or (B, branches)
    logits: jax.Array  # logits of the policy, float32 (B, actions), branches side by side
    value: jax.Array  # estimate of the discounted return, float32 (B,)
    recurrent_state: State  # for the next step, leaves (B, ...)


@dataclasses.dataclass(frozen=True)
class TrainedAgent:
    """A trained agent and its game.

    Attributes:
        game: environment with fresh training levels and the held-out levels of the training.
        setup: setup of its run.
        params: network parameters.
        acting_params: parameters in the form for acting, see `baselines.networks.ActorCritic.precompute`.
    """

    game: TrainingGame
    setup: Setup
    params: Any
    acting_params: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Computed here: if `act` is part of a program, its parameters are constants, and XLA's constant folding is far
        # slower than a program.
        object.__setattr__(self, "acting_params", jax.jit(self.setup.network.precompute)(self.params))

    @property
    def config(self) -> Config:
        """Settings of its run."""
        return self.setup.config

    def initial_recurrent_state(self, batch: int) -> State:
        """Return the recurrent state of `batch` environments before an episode."""
        return self.setup.network.memory.initial_state(batch)

    def act(
        self, key: jax.Array, recurrent_state: State, observation: Observation, start: jax.Array
    ) -> tuple[State, jax.Array]:
        """Return the recurrent state and the actions of `step`."""
        taken = self.step(key, recurrent_state, observation, start)
        return taken.recurrent_state, taken.action

    def step(self, key: jax.Array, recurrent_state: State, observation: Observation, start: jax.Array) -> AgentStep:
        """Run the network for one step of B environments and sample actions; may be jitted and scanned.

        Args:
            key: PRNG key of the sampled actions; it is consumed.
            recurrent_state: that of the previous step, leaves (B, ...); at first `initial_recurrent_state(B)`.
            observation: leaves (B, ...).
            start: whether the observation is the first of an episode, bool (B,).
        """
        state, output = act(self.setup, self.acting_params, recurrent_state, observation, start)
        action = sample_action(key, output.logits, self.setup.sizes)
        return AgentStep(action if self.setup.has_branches else action[..., 0], output.logits, output.value, state)


def agents() -> tuple[str, ...]:
    """Return the ids of the environments with a trained agent."""
    return tuple(sorted(_hashes(FOLDER)))


def results(env_id: str) -> dict[str, Any]:
    """Return the results of the agent's run, as in its evaluation.json, in float32."""
    return json.loads((_folder(env_id) / "evaluation.json").read_text())


def load(env_id: str, folder: Path | None = None) -> TrainedAgent:
    """Load the trained agent of an environment.

    The weights are those of the checkout, else those in the cache, else they are downloaded to the cache, see
    `baselines.zoo.files`.

    Args:
        env_id: id of the environment.
        folder: folder of the weights file, such as baselines/zoo/weights of a checkout; no other one is read.

    Raises:
        ConfigError: if there is no agent; the message lists the environments with an agent.
        RunError: if there are no weights, or they are corrupt; the message has the folder to copy them to.
    """
    own = _folder(env_id)
    content = files.read_file(env_id, _hashes(FOLDER)[env_id], FOLDER / _WEIGHTS, folder)
    # Training alone uses the reconstruction's decoder, so the package leaves it out.
    settings = json.loads((own / "config.json").read_text())
    config = from_json({**settings, "train_levels": 0, "reconstruction": 0.0})
    game = make_game(config)
    setup = make_setup(config, game)
    template = jax.eval_shape(make_init(setup), jnp.int32(0), game.params).params
    return TrainedAgent(game, setup, unpack_state(template, files.unpack(content)))


def read(run: Path) -> TrainedAgent:
    """Load the agent of a run from its newest checkpoint; with several seeds, the first one.

    Raises:
        RunError: if the folder holds no run or no checkpoint.
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


def agent_of(name: str) -> TrainedAgent:
    """Load a trained agent by "zoo:ID" or the path of its run folder; raises the errors of `load` or `read`."""
    return load(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else read(Path(name))


def keep(agent: TrainedAgent, evaluation: dict[str, Any], root: Path = FOLDER) -> Path:
    """Write an agent to the zoo.

    Args:
        agent: the agent to write.
        evaluation: content of the run's evaluation.json.
        root: parent of the agent's folder.

    Returns:
        The folder of its config and results.

    Raises:
        OSError: if it cannot be written; an existing agent stays complete.
    """
    env_id, hashes = agent.config.env, _hashes(root)
    packed = {name: leaf for name, leaf in pack_state(agent.params).items() if not name.startswith(_DECODER)}
    content = files.pack(packed)
    old, sha256 = hashes.get(env_id), hashlib.sha256(content).hexdigest()
    contents = {
        root / _WEIGHTS / files.file_name(env_id, sha256): content,
        root / env_id / "config.json": _as_json(dataclasses.asdict(agent.config)),
        root / env_id / "evaluation.json": _as_json(evaluation),
        root / _HASHES: _as_json(dict(sorted({**hashes, env_id: sha256}.items()))),
    }
    parts = {path: path.with_name(f"{path.name}.tmp") for path in contents}
    for path, part in parts.items():
        path.parent.mkdir(exist_ok=True)
        part.write_bytes(contents[path])
    for path, part in parts.items():
        part.replace(path)
    if old not in (None, sha256):
        (root / _WEIGHTS / files.file_name(env_id, old)).unlink(missing_ok=True)
    return root / env_id


def _as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _hashes(root: Path) -> dict[str, str]:
    path = root / _HASHES
    return json.loads(path.read_text()) if path.exists() else {}


def _folder(env_id: str) -> Path:
    return FOLDER / from_name("agent", env_id, {name: name for name in agents()})
