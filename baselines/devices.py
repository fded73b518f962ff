"""Training on several devices, on one host or several: programs, placement of arrays, agreement between hosts.

Several devices share either the independent seeds or the environments of one run. In the latter case, the parts of the
state that have environments, and the key, get a leading axis of N devices: each device acts and shuffles its own
sequences. Minibatch m consists of the m-th minibatch of every device, and gradients are averaged over the devices. One
device can do the work of all of them by vmap, with the same result up to rounding.

On several hosts, every process runs the same program on its own devices. The first process, the leader, has the run
folder; the others compute with it and write nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from baselines import ppo
from baselines.config import Config
from baselines.errors import ConfigError
from baselines.ppo import Metrics, Rates, Setup, TrainBlock, TrainState
from baselines.runs import Row, RunFolder, is_key, on_host, pack_state, unpack_state

DEVICE_AXIS = "devices"
# Parts with a device axis when the environments are split over devices.
_SPLIT = TrainState._make([None, None, 0, 0, 0, 0, 0, None, None])
_LEADER_ALONE_S = 3600  # at the end, the others wait while the leader evaluates and draws


def start(coordinator: str, num_processes: int, process_id: int) -> None:
    """Join the processes of a run that spans hosts; call this before any other JAX function.

    Raises:
        ConfigError: if the process numbers are inconsistent, or the others cannot be reached.
    """
    if not 0 <= process_id < num_processes:
        raise ConfigError(f"process_id: expected a number from 0 to {num_processes - 1}, got {process_id}")
    host, _, port = coordinator.rpartition(":")
    if not (host and port.isdecimal()):
        raise ConfigError(f"coordinator: expected HOST:PORT of the first process, got {coordinator!r}")
    try:
        jax.distributed.initialize(coordinator, num_processes, process_id, shutdown_timeout_seconds=_LEADER_ALONE_S)
    except (RuntimeError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        raise ConfigError(
            f"process {process_id} cannot join {coordinator!r} ({first_line}). Give HOST:PORT of the first process."
        ) from error


def make_mesh(config: Config) -> Mesh | None:
    """Return a mesh of the devices that share the training; None for one device.

    Raises:
        ConfigError: if there are too few devices, or a process would have none.
    """
    found = len(jax.devices())
    if config.devices > found:
        raise ConfigError(
            f"expected at least {config.devices} devices, got {found}. Choose --devices {found} or fewer; "
            "a run that has started needs its own number."
        )
    if jax.process_count() > 1 and config.devices < found:
        raise ConfigError(
            f"expected as many devices as the processes have, {found}, got {config.devices}. Choose --devices {found}."
        )
    if config.devices == 1:
        return None
    return Mesh(np.asarray(jax.devices()[: config.devices]), (DEVICE_AXIS,))


def make_init(setup: Setup) -> Callable[[jax.Array, Any], TrainState]:
    """Return `ppo.make_init` of a run; the state has a device axis if devices split its environments."""
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
    """Return `ppo.make_train_block` of a run on a mesh of `config.devices` devices along the axis `DEVICE_AXIS`.

    Without a mesh, one device does all the work.
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
        # The loop averages gradients explicitly; the check of replication would average them again.
        function = jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return ppo.compiled_block(setup, function)


def state_specs(config: Config) -> TrainState:
    """Return the partition specs of a state on a mesh of several devices."""
    if config.is_split:
        return TrainState._make(P() if axis is None else P(DEVICE_AXIS) for axis in _SPLIT)
    return TrainState._make(P(DEVICE_AXIS) for _ in _SPLIT)


def _map_split(function: Callable[[jax.Array], jax.Array], state: TrainState) -> TrainState:
    parts = zip(state, _SPLIT, strict=True)
    return TrainState._make(part if axis is None else jax.tree.map(function, part) for part, axis in parts)


def place_state(state: TrainState, config: Config, mesh: Mesh | None) -> TrainState:
    """Place each device's part of the state on that device."""
    if mesh is None:
        return state
    specs: Any = state_specs(config)
    parts = zip(state, specs, strict=True)
    return TrainState._make(_place(part, NamedSharding(mesh, spec)) for part, spec in parts)


def replicate(tree: Any, mesh: Mesh | None) -> Any:
    """Replicate arrays on every device."""
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
    """Gather the arrays of a mesh on the host, for work without the other processes; others are unchanged."""
    return jax.tree.map(lambda leaf: on_host(leaf) if len(leaf.devices()) > 1 else leaf, tree)


def agreed_update(update: int | None) -> int | None:
    """Return the leader's number on all hosts."""
    if jax.process_count() == 1:
        return update
    agreed = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if update is None else update)))
    return None if agreed < 0 else agreed


def agreed_state(template: Any, state: Any) -> Any:
    """Return the leader's state on all hosts."""
    if jax.process_count() == 1:
        return state
    return unpack_state(template, jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(pack_state(state))))


class Follower(RunFolder):
    """Stand-in for the run folder in processes other than the leader; it writes nothing."""

    def __init__(self, path: Path, config: Config) -> None:
        """Open nothing."""
        self.path = path

    def __exit__(self, *_: object) -> None:
        """Release nothing."""

    @property
    def last_update(self) -> int | None:
        """None, because the leader has the number."""
        return None

    def save(self, state: Any, update: int) -> None:
        """Send this process's part to the leader."""
        pack_state(state)

    def restore(self, template: Any, update: int | None = None) -> Any:
        """Return zeros, which the leader's state replaces."""
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), template)

    def append(self, rows: Any) -> None:
        """Do nothing, because the leader writes the same rows."""

    def truncate_log(self, update: int) -> list[Row]:
        """Return no rows."""
        return []

    def draw_curve(self) -> None:
        """Do nothing."""
