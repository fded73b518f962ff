"""Folder of a run: settings, metrics log, learning curve, video, checkpoints.

An interrupted write never breaks a later start. Files are replaced in one step, checkpoints appear under their name
when they are complete, and the metrics log is truncated to the checkpoint. One process at a time writes.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from baselines import plots
from baselines.config import Config, differences, from_json
from baselines.errors import ConfigError, RunError
from baselines.locks import hold

Row = dict[str, Any]

_CHECKPOINTS = "checkpoints"
_FRAME_SCALE = 4  # video pixels per frame pixel
_FRAME_MS = 100


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert errors of the block, which writes a file or a folder, to `RunError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot write {path} ({reason}). Free disk space or choose another folder.") from error


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def pack_state(state: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a train state on the host, by path; keys as key data, and no fields named `transient`."""
    leaves = ((_path_name(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state))
    return {name: on_host(_as_data(leaf)) for name, leaf in leaves if not _is_transient(name)}


def unpack_state(template: Any, packed: dict[str, np.ndarray]) -> Any:
    """Return the state that `pack_state` packed, on the device, in new arrays that may be donated.

    Fields named `transient` are zeros.

    Args:
        template: a state of the same shapes; `jax.ShapeDtypeStruct` leaves suffice.
        packed: arrays by path.

    Raises:
        RunError: if a leaf is missing, unexpected, or has another shape or dtype.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [_path_name(path) for path, _ in leaves]
    shapes = [jax.eval_shape(_as_data, leaf) for _, leaf in leaves]
    named = dict(zip(names, shapes, strict=True))
    expected = {name: (shape.shape, shape.dtype) for name, shape in named.items() if not _is_transient(name)}
    found = {name: (leaf.shape, leaf.dtype) for name, leaf in packed.items()}
    odd = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if odd:
        raise RunError(
            f"expected a checkpoint with {odd[0]} {expected.get(odd[0])}, got {found.get(odd[0])}: it is from another "
            "config or version. Start a new run with another --name."
        )
    # Copied, because on a CPU the arrays could share NumPy's memory, which must not be donated.
    arrays = [
        jnp.array(packed[name], copy=True) if name in packed else jnp.zeros(shape.shape, shape.dtype)
        for name, shape in named.items()
    ]
    paired = zip(arrays, leaves, strict=True)
    arrays = [jax.random.wrap_key_data(array) if is_key(leaf) else array for array, (_, leaf) in paired]
    return jax.tree_util.tree_unflatten(structure, arrays)


def is_key(leaf: Any) -> bool:
    """Return whether an array holds PRNG keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def on_host(leaf: jax.Array) -> np.ndarray:
    """Return an array as NumPy's, from any devices and hosts; all hosts have to call this together."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return np.asarray(jax.device_get(leaf))
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def _as_data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _is_transient(name: str) -> bool:
    return "transient" in name.split(".")


def _path_name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


class RunFolder:
    """Files of one run under `path`.

    A folder made by the constructor reads checkpoints, also during training. `create` and `reopen` return one that
    writes.
    """

    def __init__(self, path: Path, config: Any, *, writes: bool = False) -> None:
        """Open the checkpoints of a run; `writes` also removes incomplete ones.

        Only `keep_checkpoints` is read of `config`, the settings of the run.

        Raises:
            RunError: if there are no checkpoints to read, the folder is not writable, or another process writes it.
        """
        import orbax.checkpoint as ocp  # takes seconds, and reading a config does not need it

        if not (writes or (path / _CHECKPOINTS).is_dir()):
            raise _no_checkpoint(path)
        self.path = path
        self._held: int | None = None
        self._ocp = ocp
        options = ocp.CheckpointManagerOptions(
            max_to_keep=config.keep_checkpoints or None,
            enable_async_checkpointing=False,  # an error must be raised in the update that caused it
            cleanup_tmp_directories=writes,
            create=False,
            multiprocessing_options=self._alone(),
        )
        with writing(path / _CHECKPOINTS), _quiet("absl"):  # `restore` reports what cannot be read
            if writes:
                self._held = hold(path)
                (path / _CHECKPOINTS).mkdir(exist_ok=True)
            self._manager = ocp.CheckpointManager((path / _CHECKPOINTS).absolute(), options=options)

    def _alone(self) -> Any:
        """Return options for one writing host that does not wait for the other hosts."""
        options = self._ocp.options.MultiprocessingOptions
        if jax.process_count() == 1:
            return options()
        return options(primary_host=0, active_processes={0}, barrier_sync_key_prefix="leader")

    def __enter__(self) -> Self:
        """Return the folder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the checkpoints and release the lock of the folder."""
        self._manager.close()
        if self._held is not None:
            os.close(self._held)

    @classmethod
    def create(cls, path: Path, config: Any) -> Self:
        """Create a folder and write the config, a dataclass.

        Raises:
            RunError: if it holds a run already or cannot be written.
        """

        def reject_second() -> None:
            if (path / "config.json").exists():
                raise RunError(f"expected a new folder, got {path} with a run. Add --resume or choose another --name.")

        with writing(path):
            reject_second()
            path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as closing:
            folder = closing.enter_context(cls(path, config, writes=True))
            reject_second()  # another process may have started a run since
            folder.write_json("config.json", dataclasses.asdict(config))
            closing.pop_all()
        return folder

    @classmethod
    def reopen(cls, path: Path, config: Config) -> Self:
        """Open the folder of a run that continues under its own config.

        Raises:
            RunError: if there is no run, the settings would change what it learns, its checkpoints are gone, or another
                process writes it.
        """
        kept = read_config(path)
        changed = differences(config, kept)
        if changed == ["decay_steps"] and config.decay_steps == kept.decay_steps:
            raise RunError(
                f"{path}: expected --total-steps {kept.total_steps}, over which the rates decay, got "
                f"{config.total_steps}. Add --decay-steps {kept.decay_length} to keep the rates."
            )
        reject_changes(path, changed)
        with contextlib.ExitStack() as closing:
            folder = closing.enter_context(cls(path, config, writes=True))
            folder._refuse_loss(kept)
            with writing(path):
                for part in path.glob("*.tmp"):  # left by interrupted writes
                    part.unlink()
            if config != kept:
                folder.write_json("config.json", dataclasses.asdict(config))
            closing.pop_all()
        return folder

    def _refuse_loss(self, kept: Config) -> None:
        """Check that a run with progress has a checkpoint; without one, resuming would start it from the beginning."""
        if self.last_update is not None:
            return
        blocks_to_save = -(-kept.checkpoint_updates // kept.block_updates)
        logged = max([0, *(row["update"] for row in read_rows(self.log))])
        if logged > blocks_to_save * kept.block_updates or (self.path / "evaluation.json").exists():
            raise RunError(
                f"{self.path}: expected a checkpoint of the {logged} updates in the log, got none. "
                "Restore the checkpoints, or start a new run with another --name."
            )

    @property
    def last_update(self) -> int | None:
        """Number of updates in the newest complete checkpoint, None without any."""
        return self._manager.latest_step()

    def save(self, state: Any, update: int) -> None:
        """Write a checkpoint; return when it is complete on disk.

        Raises:
            RunError: if it cannot be written; older checkpoints stay.
        """
        packed = pack_state(state)
        last = self.last_update
        try:
            with _quiet("absl"):  # errors are reported once, below
                self._manager.save(update, args=self._ocp.args.StandardSave(packed))
        except (OSError, ValueError, RuntimeError) as error:
            kept = "there is no older one" if last is None else f"the one of update {last} is kept"
            first_line = str(error).partition("\n")[0]
            raise RunError(
                f"cannot write the checkpoint of update {update} to {self.path} ({first_line}); {kept}. "
                "Free disk space and continue with --resume."
            ) from error

    def restore(self, template: Any, update: int | None = None) -> Any:
        """Return the state of a checkpoint, by default of the newest.

        Raises:
            RunError: if there is no such checkpoint, or it is unreadable or does not match the template.
        """
        steps = sorted(self._manager.all_steps())
        update = self.last_update if update is None else update
        if not steps:
            raise _no_checkpoint(self.path)
        if update not in steps:
            raise RunError(f"{self.path}: expected a checkpoint among {steps}, got {update}")
        try:
            with _quiet("absl"):
                packed = self._manager.restore(update, args=self._ocp.args.StandardRestore())
        except (OSError, ValueError, KeyError) as error:
            older = [step for step in steps if step < update]
            place = self.path / _CHECKPOINTS / str(update)
            do = (
                f"remove {place} and resume from update {older[-1]}" if older else "start a new run with another --name"
            )
            raise RunError(f"cannot read checkpoint {update} of {self.path}. To continue, {do}.") from error
        return unpack_state(template, {name: np.asarray(leaf) for name, leaf in packed.items()})

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows to the metrics log.

        Raises:
            RunError: if they cannot be written.
        """
        with writing(self.log), self.log.open("a") as log:
            log.writelines(json.dumps(row) + "\n" for row in rows)

    def truncate_log(self, update: int) -> list[Row]:
        """Remove the rows after an update and return the rest.

        Raises:
            RunError: if the log cannot be read or written.
        """
        rows = [row for row in read_rows(self.log) if row["update"] <= update]
        with writing(self.log):
            _replace(self.log, "".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def draw_curve(self) -> None:
        """Draw the learning curve as curve.png and curve.svg, see `baselines.plots.draw_run`.

        Raises:
            RunError: if it cannot be written.
        """
        with writing(self.path / "curve.png"):
            plots.draw_run(self.path / "curve", read_config(self.path), read_rows(self.log))

    def write_json(self, name: str, content: Any) -> None:
        """Write a small result file; raises the errors of `write_text`."""
        self.write_text(name, json.dumps(content, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a small text file.

        Raises:
            RunError: if it cannot be written.
        """
        with writing(self.path / name):
            _replace(self.path / name, text)

    def write_video(self, frames: Sequence[np.ndarray]) -> None:
        """Write frames, uint8 (H, W, 3), as video.gif.

        Raises:
            RunError: if it cannot be written.
        """
        import imageio.v3 as iio

        large = np.stack(frames).repeat(_FRAME_SCALE, axis=1).repeat(_FRAME_SCALE, axis=2)
        with writing(self.path / "video.gif"):
            iio.imwrite(self.path / "video.gif", large, duration=_FRAME_MS, loop=0)

    @property
    def log(self) -> Path:
        """Path of the metrics log."""
        return self.path / "metrics.jsonl"


def reject_changes(path: Path, changed: Sequence[str]) -> None:
    """Raise `RunError` if settings of a resumed run have changed that change what it learns."""
    if changed:
        raise RunError(
            f"{path}: expected the settings of the run, got other values of {', '.join(changed)}. "
            "Resume with the same ones, or choose another --name."
        )


def read_rows(log: Path) -> list[Row]:
    """Read the rows of a metrics log without an incomplete last line.

    Raises:
        RunError: if the log cannot be read, or another line is not a JSON row.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    except OSError as error:
        raise RunError(f"cannot read {log} ({error.strerror}). Repair or remove it.") from error
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines):
                break
            row = None
        if not _is_row(row):
            raise RunError(f"{log}, line {number}: expected a JSON row. Repair or remove the line.")
        rows.append(row)
    return rows


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not {"update", "seconds"} <= {name for name in row if row[name] is not None}:
        return False
    return all(value is None or isinstance(value, int | float) for value in row.values())


def _no_checkpoint(path: Path) -> RunError:
    return RunError(f"expected a checkpoint in {path}, got none. Continue the run with --resume until it has one.")


def read_config(path: Path) -> Config:
    """Read the config of a run.

    Raises:
        RunError: if the folder holds no readable run.
    """
    if is_of_grpo(path):
        raise RunError(f"expected a run of baselines.train, got one of baselines.grpo in {path}. Name another folder.")
    try:
        return from_json(json.loads((path / "config.json").read_text()))
    except OSError as error:
        raise RunError(f"{path}: expected a run with config.json, got {error.strerror}. Name another.") from error
    except (ValueError, TypeError, ConfigError) as error:
        raise RunError(f"cannot use {path / 'config.json'}: {error}") from error


@dataclasses.dataclass(frozen=True)
class RunFlags:
    """Folder and resume flag of a run.

    Raises:
        ConfigError: if the name is not that of one folder.
    """

    name: str = ""
    """Name of the run folder. By default: the preset, or the environment and the method; then seed, date and time."""
    runs_dir: Path = Path("runs")
    """Folder of all runs."""
    resume: bool = False
    """Continue from the newest checkpoint of the run NAME, or of the newest run."""

    def __post_init__(self) -> None:
        if self.name and (self.name == ".." or Path(self.name).name != self.name):
            raise ConfigError(
                f"--name: expected the name of one folder, got {self.name!r}. Give its parent folder with --runs-dir."
            )


def newest_run(runs: Path, *, of_grpo: bool = False) -> Path:
    """Return the newest run of `baselines.train` or `baselines.grpo`.

    Raises:
        RunError: if there is none.
    """
    configs = sorted(runs.glob("*/config.json"), key=os.path.getmtime)
    found = [config.parent for config in configs if is_of_grpo(config.parent) == of_grpo]
    if not found:
        raise RunError(f"expected a run to resume in {runs}, got none. Start one without --resume.")
    return found[-1]


def is_of_grpo(path: Path) -> bool:
    """Return whether a folder holds a run of `baselines.grpo`."""
    try:
        return "group_size" in json.loads((path / "config.json").read_text())  # only GRPO runs have it
    except (OSError, ValueError, TypeError):
        return False


def _replace(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(text)
    part.replace(path)
