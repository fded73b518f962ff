"""A run's folder: settings, metrics log, learning curve, video, checkpoints.

Nothing here can be half-written in a way that a later start trips over: files are replaced in one step, checkpoints
appear under their name when complete, and the one file that grows, the metrics log, is cut back to the checkpoint. One
process at a time writes.
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

from baselines.config import Config, differences, from_json, to_json
from baselines.errors import ConfigError, RunError
from baselines.locks import hold

Row = dict[str, Any]

_CHECKPOINTS = "checkpoints"
_FRAME_SCALE = 4  # video pixels per frame pixel
_FRAME_MS = 100


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot write {path} ({reason}): make room or choose another folder") from error


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
    """Leaves of a train state on the host by their path; keys as their data."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {_path_name(path): on_host(_as_data(leaf)) for path, leaf in leaves}


def unpack_state(template: Any, packed: dict[str, np.ndarray]) -> Any:
    """The state that `pack_state` packed, on the device, in arrays of its own that may be donated.

    Args:
        template: a state of the same shapes; `jax.ShapeDtypeStruct` leaves suffice.
        packed: arrays by path.

    Raises:
        RunError: when a leaf is missing, superfluous, or of another shape or dtype.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [_path_name(path) for path, _ in leaves]
    shapes = [jax.eval_shape(_as_data, leaf) for _, leaf in leaves]
    expected = {name: (shape.shape, shape.dtype) for name, shape in zip(names, shapes, strict=True)}
    found = {name: (leaf.shape, leaf.dtype) for name, leaf in packed.items()}
    odd = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if odd:
        raise RunError(
            f"the checkpoint is of another config or version: {odd[0]} is {found.get(odd[0])} in it, "
            f"{expected.get(odd[0])} here; start anew with another --name"
        )
    # A copy: on a CPU the arrays could otherwise share NumPy's memory, which must not be donated.
    arrays = [jnp.array(packed[name], copy=True) for name in names]
    paired = zip(arrays, leaves, strict=True)
    arrays = [jax.random.wrap_key_data(array) if is_key(leaf) else array for array, (_, leaf) in paired]
    return jax.tree_util.tree_unflatten(structure, arrays)


def is_key(leaf: Any) -> bool:
    """Whether it is an array of PRNG keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def on_host(leaf: jax.Array) -> np.ndarray:
    """An array as NumPy's, whichever devices and hosts it lies on; all hosts have to call it together."""
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return np.asarray(jax.device_get(leaf))
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def _as_data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _path_name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


class RunFolder:
    """Files of one run under `path`.

    Made by itself it reads checkpoints, also while the run goes on; `create` and `reopen` make one that writes them.
    """

    def __init__(self, path: Path, config: Config, *, writes: bool = False) -> None:
        """Open the checkpoints of a run; `writes` also clears away what a kill left half-written.

        Raises:
            RunError: when there are none to read, or the folder cannot be written or is written already.
        """
        import orbax.checkpoint as ocp  # seconds to import, and not needed to read a config

        if not (writes or (path / _CHECKPOINTS).is_dir()):
            raise _no_checkpoint(path)
        self.path = path
        self._held: int | None = None
        self._ocp = ocp
        options = ocp.CheckpointManagerOptions(
            max_to_keep=config.keep_checkpoints or None,
            enable_async_checkpointing=False,  # an error belongs to the update that caused it
            cleanup_tmp_directories=writes,
            create=False,
            multiprocessing_options=self._alone(),
        )
        with _writing(path / _CHECKPOINTS), _quiet("absl"):  # what cannot be read is told when it is
            if writes:
                self._held = hold(path)
                (path / _CHECKPOINTS).mkdir(exist_ok=True)
            self._manager = ocp.CheckpointManager((path / _CHECKPOINTS).absolute(), options=options)

    def _alone(self) -> Any:
        """Of several hosts one writes, and does not wait for the others."""
        options = self._ocp.options.MultiprocessingOptions
        if jax.process_count() == 1:
            return options()
        return options(primary_host=0, active_processes={0}, barrier_sync_key_prefix="leader")

    def __enter__(self) -> Self:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the checkpoints, and the folder to others who write."""
        self._manager.close()
        if self._held is not None:
            os.close(self._held)

    @classmethod
    def create(cls, path: Path, config: Config) -> "RunFolder":
        """A new folder that holds the config.

        Raises:
            RunError: when it holds a run already or cannot be written.
        """

        def refuse_second() -> None:
            if (path / "config.json").exists():
                raise RunError(f"{path} already holds a run: add --resume to continue it, or choose another --name")

        with _writing(path):
            refuse_second()
            path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as closing:
            folder = closing.enter_context(cls(path, config, writes=True))
            refuse_second()  # which another process may have begun since
            folder.write_json("config.json", to_json(config))
            closing.pop_all()
        return folder

    @classmethod
    def reopen(cls, path: Path, config: Config) -> "RunFolder":
        """The folder of a run that goes on under its own config.

        Raises:
            RunError: when there is no run, it was started with settings that learn something else, its checkpoints are
                gone, or another process writes it.
        """
        kept = read_config(path)
        changed = differences(config, kept)
        if changed == ["decay_steps"] and config.decay_steps == kept.decay_steps:
            raise RunError(
                f"{path} was started with rates that fall over its --total-steps {kept.total_steps}, and "
                f"--total-steps {config.total_steps} would change them: add --decay-steps {kept.decay_length}"
            )
        if changed:
            raise RunError(
                f"{path} was started with other settings ({', '.join(changed)}): "
                "resume with the same ones, or choose another --name"
            )
        with contextlib.ExitStack() as closing:
            folder = closing.enter_context(cls(path, config, writes=True))
            folder._refuse_loss(kept)
            with _writing(path):
                for part in path.glob("*.tmp"):  # of a file whose writing was cut off
                    part.unlink()
            if config != kept:
                folder.write_json("config.json", to_json(config))
            closing.pop_all()
        return folder

    def _refuse_loss(self, kept: Config) -> None:
        """Keep a run whose checkpoints are gone from being begun anew in place of what is left of it."""
        if self.last_update is not None:
            return
        blocks_to_save = -(-kept.checkpoint_updates // kept.block_updates)
        logged = max([0, *(row["update"] for row in self.rows())])
        if logged > blocks_to_save * kept.block_updates or (self.path / "evaluation.json").exists():
            raise RunError(
                f"{self.path} was trained for {logged} updates, but none of its checkpoints is left: "
                "put them back, or start anew with another --name"
            )

    @property
    def last_update(self) -> int | None:
        """Updates done in the newest complete checkpoint, None without any."""
        return self._manager.latest_step()

    def save(self, state: Any, update: int) -> None:
        """Keep the state; returns when it is complete on disk.

        Raises:
            RunError: when it cannot be written; older checkpoints stay.
        """
        packed = pack_state(state)
        last = self.last_update
        try:
            with _quiet("absl"):  # what fails is told below, once
                self._manager.save(update, args=self._ocp.args.StandardSave(packed))
        except (OSError, ValueError, RuntimeError) as error:
            kept = "there is none yet" if last is None else f"the one of update {last} is kept"
            first_line = str(error).partition("\n")[0]
            raise RunError(
                f"cannot write the checkpoint of update {update} to {self.path} ({first_line}); {kept}: "
                "make room and continue with --resume"
            ) from error

    def restore(self, template: Any, update: int | None = None) -> Any:
        """The state of a checkpoint, by default of the newest.

        Raises:
            RunError: when there is no such checkpoint, it cannot be read, or it does not fit the template.
        """
        steps = sorted(self._manager.all_steps())
        update = self.last_update if update is None else update
        if not steps:
            raise _no_checkpoint(self.path)
        if update not in steps:
            raise RunError(f"{self.path} has no checkpoint {update}; it has {steps}")
        try:
            with _quiet("absl"):
                packed = self._manager.restore(update, args=self._ocp.args.StandardRestore())
        except (OSError, ValueError, KeyError) as error:
            older = [step for step in steps if step < update]
            place = self.path / _CHECKPOINTS / str(update)
            do = f"remove {place} and resume from update {older[-1]}" if older else "start anew with another --name"
            raise RunError(f"cannot read checkpoint {update} of {self.path}: {do}") from error
        return unpack_state(template, {name: np.asarray(leaf) for name, leaf in packed.items()})

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows to the metrics log.

        Raises:
            RunError: when they cannot be written.
        """
        with _writing(self._log), self._log.open("a") as log:
            log.writelines(json.dumps(row) + "\n" for row in rows)

    def rows(self) -> list[Row]:
        """The metrics log; a last line that was cut off by a kill is left out.

        Raises:
            RunError: when it cannot be read.
        """
        return read_rows(self._log)

    def cut_log(self, update: int) -> list[Row]:
        """Drop the rows after an update, and return the rest.

        Raises:
            RunError: when the log cannot be read or written.
        """
        rows = [row for row in self.rows() if row["update"] <= update]
        with _writing(self._log):
            _replace(self._log, "".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def draw_curve(self) -> None:
        """Score and return over environment steps, one line per seed, as curve.png.

        Raises:
            RunError: when it cannot be written.
        """
        from matplotlib.figure import Figure  # without pyplot: no window system, no global state

        figure = Figure(figsize=(7, 5), layout="constrained")
        axes = figure.subplots(2, sharex=True)
        rows = self.rows()
        for seed in sorted({row["seed"] for row in rows}):
            for axis, name in zip(axes, ("score", "return"), strict=True):
                for column, style in ((name, "-"), (f"held_out_{name}", "o:")):
                    own = [row for row in rows if row["seed"] == seed and row.get(column) is not None]
                    steps, values = ([row[key] for row in own] for key in ("steps", column))
                    axis.plot(steps, values, style, label=f"{column}, seed {seed}", linewidth=1, markersize=3)
                axis.set_ylabel(name)
                axis.grid(alpha=0.3)
        axes[0].set_title(self.path.name, fontsize="medium")
        axes[1].set_xlabel("environment steps")
        path = self.path / "curve.png"
        with _writing(path):
            figure.savefig(path.with_suffix(".tmp"), format="png", dpi=150)
            path.with_suffix(".tmp").replace(path)

    def write_json(self, name: str, content: Any) -> None:
        """A small result file.

        Raises:
            RunError: when it cannot be written.
        """
        with _writing(self.path / name):
            _replace(self.path / name, json.dumps(content, indent=2) + "\n")

    def write_video(self, frames: Sequence[np.ndarray]) -> None:
        """Frames, uint8 (H, W, 3), as video.gif.

        Raises:
            RunError: when it cannot be written.
        """
        import imageio.v3 as iio

        large = [np.kron(frame, np.ones((_FRAME_SCALE, _FRAME_SCALE, 1), np.uint8)) for frame in frames]
        with _writing(self.path / "video.gif"):
            iio.imwrite(self.path / "video.gif", np.stack(large), duration=_FRAME_MS, loop=0)

    @property
    def _log(self) -> Path:
        return self.path / "metrics.jsonl"


def read_rows(log: Path) -> list[Row]:
    """Rows of a metrics log; a last line that was cut off by a kill is left out.

    Raises:
        RunError: when the log cannot be read, or another line of it is no row.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    except OSError as error:
        raise RunError(f"{log} cannot be read ({error.strerror}): put it right or take it away") from error
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            row: Any = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines):
                break
            row = None
        if not _is_row(row):
            raise RunError(f"line {number} of {log} is no row of a log: mend it or take it out")
        rows.append(row)
    return rows


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not {"update", "seconds"} <= {name for name in row if row[name] is not None}:
        return False
    return all(value is None or isinstance(value, int | float) for value in row.values())


def _no_checkpoint(path: Path) -> RunError:
    return RunError(f"{path} has no checkpoint yet: go on with --resume, and wait for the first one")


def read_config(path: Path) -> Config:
    """The config of a run.

    Raises:
        RunError: when the folder holds no readable run.
    """
    if is_of_grpo(path):
        raise RunError(f"{path} holds a run of baselines.grpo, which resumes and scores it: name another folder")
    try:
        return from_json(json.loads((path / "config.json").read_text()))
    except OSError as error:
        raise RunError(f"{path} holds no run (config.json cannot be read): name the folder of a run") from error
    except (ValueError, TypeError, ConfigError) as error:
        raise RunError(f"{path / 'config.json'} cannot be used: {error}") from error


@dataclasses.dataclass(frozen=True)
class RunDir:
    """Where a run is kept and how it starts.

    Raises:
        ConfigError: when the name is that of no folder among those of all runs.
    """

    name: str = ""
    """Name of the run's folder; by default made of what it trains and the time."""
    runs_dir: Path = Path("runs")
    """Folder of all runs."""
    resume: bool = False
    """Go on from the newest checkpoint of the run NAME, or of the newest run."""

    def __post_init__(self) -> None:
        if self.name and (self.name == ".." or Path(self.name).name != self.name):
            raise ConfigError(
                f"name is {self.name!r}, but has to be that of one folder: --runs-dir says in which it lies"
            )


def newest_run(runs: Path, *, of_grpo: bool = False) -> Path:
    """The run that was started last, of `baselines.train` or of `baselines.grpo`.

    Raises:
        RunError: when there is none.
    """
    configs = sorted(runs.glob("*/config.json"), key=os.path.getmtime)
    found = [config.parent for config in configs if is_of_grpo(config.parent) == of_grpo]
    if not found:
        raise RunError(f"{runs} holds no run to resume: start one without --resume")
    return found[-1]


def is_of_grpo(path: Path) -> bool:
    """Whether a folder holds a run of `baselines.grpo`."""
    try:
        return "group_size" in json.loads((path / "config.json").read_text())  # that no other run has
    except (OSError, ValueError, TypeError):
        return False


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(text)
    part.replace(path)
