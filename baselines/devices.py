"""Several devices, on one host or on several: their programs, where arrays lie, and how hosts agree.

Several devices share either the seeds, which have nothing to do with each other, or the environments of one run. In the
latter case each part of the state that has environments has a leading axis of N devices, and so has the key: each
device acts, and shuffles its sequences, by itself. Minibatch m is what all devices take as their m-th, and gradients
are averaged over the devices. One device can do the work of all by vmap, with the same result up to rounding.

On several hosts every process runs the same program on its own devices. The first one, the leader, has the run's
folder; the others compute with it and write nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from baselines import ppo
from baselines.compiler import compiler_options
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.ppo import Metrics, Rates, Setup, TrainBlock, TrainState
from baselines.runs import Row, RunFolder, is_key, on_host, pack_state, unpack_state

DEVICE_AXIS = "devices"
# Which parts have an axis of devices where environments are split among these.
_SPLIT = TrainState._make([None, None, 0, 0, 0, 0, 0, None])
_LEADER_ALONE_S = 3600  # at the end the leader scores and draws, and the others wait


def start(coordinator: str, num_processes: int, process_id: int) -> None:
    """Joins the processes of a run that spans hosts; to be called before anything else of JAX.

    Raises:
        ConfigError: when the numbers do not fit each other, or the others cannot be reached.
    """
    if not 0 <= process_id < num_processes:
        raise ConfigError(f"process_id is {process_id}, but has to be from 0 to {num_processes - 1}")
    host, _, port = coordinator.rpartition(":")
    if not (host and port.isdecimal()):
        raise ConfigError(f"coordinator is {coordinator!r}, but has to be HOST:PORT of the first process")
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id, shutdown_timeout_seconds=_LEADER_ALONE_S)
    except (RuntimeError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ConfigError(f"process {process_id} cannot join {coordinator!r} ({first_line}): give HOST:PORT") from error


def make_mesh(config: Config) -> Mesh | None:
    """As many devices as the config shares its training among; None for one.

    Raises:
        ConfigError: when there are not so many, or a process would have none of them.
    """
    found = len(jax.devices())
    if config.devices > found:
        raise ConfigError(
            f"devices is {config.devices}, but JAX sees {found}: choose --devices {found} or less; "
            "a run that began with more goes on where there are as many"
        )
    if jax.process_count() > 1 and config.devices < found:
        raise ConfigError(f"devices is {config.devices}, but the processes have {found}: choose --devices {found}")
    if config.devices == 1:
        return None
    return Mesh(np.asarray(jax.devices()[: config.devices]), (DEVICE_AXIS,))


def make_init(setup: Setup) -> Callable[[jax.Array, Any], TrainState]:
    """Return `ppo.make_init` of a run; where devices split its environments, the state has an axis of devices."""
    if not setup.config.is_split:
        return ppo.make_init(setup)
    count = setup.config.devices

    def init(seed: jax.Array, env_params: Any) -> TrainState:
        state = ppo.init_state(setup, seed, env_params)
        keys = jax.random.split(state.key, count)
        state = _map_split(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]), state._replace(key=()))
        return state._replace(key=keys)

    return jax.jit(init)


def make_train_block(setup: Setup, mesh: Mesh | None = None) -> TrainBlock:
    """Return `ppo.make_train_block` of a run on the devices of a mesh; without one, a single device does their work.

    Args:
        setup: of the run.
        mesh: of as many devices as the config has, along the axis `DEVICE_AXIS`.
    """
    is_split = setup.config.is_split
    if is_split:
        setup = setup._replace(mean_axis=DEVICE_AXIS, vmap_axis=DEVICE_AXIS if mesh is None else None)
    elif mesh is None:
        return ppo.make_train_block(setup)
    block = function = ppo.seeds_block(setup)

    def local_block(state: TrainState, env_params: Any, rates: Rates) -> tuple[TrainState, Metrics]:
        state, metrics = block(_map_split(lambda leaf: leaf[0], state), env_params, rates)
        return _map_split(lambda leaf: leaf[None], state), metrics

    if mesh is None:
        function = jax.vmap(block, in_axes=(_SPLIT, None, None), out_axes=(_SPLIT, None), axis_name=DEVICE_AXIS)
    else:
        specs = state_specs(setup.config)
        of_seeds = P() if is_split else P(DEVICE_AXIS)
        in_specs, out_specs = (specs, P(), of_seeds), (specs, of_seeds)
        function = local_block if is_split else block
        # Gradients are averaged by hand, which the check of replication would do once more.
        function = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return ppo.with_rates(setup, jax.jit(function, donate_argnums=0, compiler_options=compiler_options()))


def state_specs(config: Config) -> TrainState:
    """Return how a state lies on a mesh of several devices."""
    if config.is_split:
        return TrainState._make(P() if axis is None else P(DEVICE_AXIS) for axis in _SPLIT)
    return TrainState._make(P(DEVICE_AXIS) for _ in _SPLIT)


def _map_split(function: Callable[[jax.Array], jax.Array], state: TrainState) -> TrainState:
    parts = zip(state, _SPLIT, strict=True)
    return TrainState._make(part if axis is None else jax.tree.map(function, part) for part, axis in parts)


def place_state(state: TrainState, config: Config, mesh: Mesh | None) -> TrainState:
    """The state, each device's part on that device."""
    if mesh is None:
        return state
    specs: Any = state_specs(config)
    parts = zip(state, specs, strict=True)
    return TrainState._make(_place(part, NamedSharding(mesh, spec)) for part, spec in parts)


def replicate(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays as they are on every device."""
    return tree if mesh is None else _place(tree, NamedSharding(mesh, P()))


def _place(tree: Any, sharding: NamedSharding) -> Any:
    def place(leaf: Any) -> jax.Array:
        if is_key(leaf):
            return jax.random.wrap_key_data(place(jax.random.key_data(leaf)))
        if jax.process_count() == 1:
            return jax.device_put(leaf, sharding)
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(lambda leaf: place(jnp.asarray(leaf)), tree)


def local(tree: Any) -> Any:
    """Arrays of a mesh on the host, so that this process can go on alone; others as they are."""
    return jax.tree.map(lambda leaf: on_host(leaf) if len(leaf.devices()) > 1 else leaf, tree)


def agreed_update(update: int | None) -> int | None:
    """The leader's number, on all hosts."""
    if jax.process_count() == 1:
        return update
    told = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if update is None else update)))
    return None if told < 0 else told


def agreed_state(template: Any, state: Any) -> Any:
    """The leader's state, on all hosts."""
    if jax.process_count() == 1:
        return state
    return unpack_state(template, jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(pack_state(state))))


class Follower(RunFolder):
    """Stands in for the run's folder where the leader has it."""

    def __init__(self, path: Path, config: Config) -> None:
        """Nothing is opened."""
        del config
        self.path = path

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to release."""

    @property
    def last_update(self) -> int | None:
        """None: the leader tells."""
        return None

    def save(self, state: Any, update: int) -> None:
        """Give the leader what lies here."""
        del update
        pack_state(state)

    def restore(self, template: Any, update: int | None = None) -> Any:
        """Zeros, in place of which the leader's state comes."""
        del update

        def zeros(leaf: Any) -> jax.Array:
            if is_key(leaf):
                return jax.random.wrap_key_data(zeros(jax.eval_shape(jax.random.key_data, leaf)))
            return jnp.zeros(leaf.shape, leaf.dtype)

        return jax.tree.map(zeros, template)

    def append(self, rows: Any) -> None:
        """Nothing: the leader has the same rows."""

    def cut_log(self, update: int) -> list[Row]:
        """No rows."""
        del update
        return []

    def draw_curve(self) -> None:
        """Nothing."""
