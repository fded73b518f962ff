"""Train an agent: `python -m baselines.train --env MortarMayhemB-Grid-v0 --scale throughput`.

Everything is written to runs/NAME. `--resume` goes on from the newest checkpoint exactly as if nothing had happened.
"""

import dataclasses
import difflib
import gc
import os
import sys
import time
from functools import partial
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from jax.sharding import Mesh
from tqdm import tqdm

from baselines import devices, exits, hooks
from baselines.config import SCALES, Config, check_lists, from_name
from baselines.devices import make_init, make_train_block
from baselines.errors import ConfigError, RunError
from baselines.evaluate import HeldOutScorer, describe, evaluate, make_held_out_scorer, no_video, record_video
from baselines.game import TrainingGame, make_game
from baselines.ppo import Setup, TrainState, make_setup, seeds_of
from baselines.presets import PRESETS, listed
from baselines.runs import Row, RunDir, RunFolder, newest_run, on_host, read_config

_PROG = "python -m baselines.train"
_DETERMINISTIC_FLAG = "--xla_gpu_deterministic_ops=true"


@dataclasses.dataclass(frozen=True)
class TrainFlags(RunDir):
    """Where a run is kept, how it starts, and among which processes."""

    list: bool = False
    """Show all presets, and train nothing."""
    deterministic: bool = False
    """Make a GPU repeat its results bit for bit, at some cost in speed; a CPU always does."""
    coordinator: str = ""
    """HOST:PORT of the first of several processes that train together, each with its own --process-id."""
    num_processes: int = 1
    """Processes that train together."""
    process_id: int = 0
    """Which of them this is, from 0; the first one has the run's folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_processes < 1:
            raise ConfigError(f"num_processes is {self.num_processes}, but has to be at least 1")
        if not self.coordinator and (self.num_processes, self.process_id) != (1, 0):
            raise ConfigError("num_processes and process_id are of processes that train together: add --coordinator")


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Train a PPO agent with memory; the scale or the preset sets the defaults, any other flag overrides them."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    place: Annotated[TrainFlags, tyro.conf.arg(name="")]


@dataclasses.dataclass(frozen=True)
class _Defaults:
    """The flags that set the defaults of all others."""

    scale: str | None = None
    preset: str | None = None


def parse(arguments: list[str]) -> TrainArguments:
    """Settings from words of a command line; a resumed run brings its own as defaults.

    Raises:
        ConfigError: when a setting cannot be used.
        RunError: when there is no run to resume.
    """
    check_lists(["--options"], arguments)
    place = tyro.cli(TrainFlags, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    if place.deterministic:
        # Read once, when the backend starts.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DETERMINISTIC_FLAG}".strip()
    if place.coordinator:
        if place.num_processes > 1:
            tqdm.write(f"waiting for {place.num_processes} processes at {place.coordinator}", file=sys.stderr)
        devices.start(place.coordinator, place.num_processes, place.process_id)
    if place.resume:
        path = place.runs_dir / place.name if place.name else newest_run(place.runs_dir)
        place = dataclasses.replace(place, name=path.name)
        defaults = read_config(path)
    else:
        defaults = defaults_of(arguments)
    return tyro.cli(TrainArguments, prog=_PROG, args=arguments, default=TrainArguments(defaults, place))


def defaults_of(arguments: list[str]) -> Config:
    """Settings of the preset or the scale on the command line, else of the scale that suits the device."""
    given = tyro.cli(_Defaults, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    scale, preset = given.scale, given.preset
    if not preset:
        scale = scale or ("cpu" if jax.default_backend() == "cpu" else "throughput")
        return from_name("scale", scale, SCALES)
    if preset not in PRESETS:
        near = difflib.get_close_matches(preset, PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ":"
        raise ConfigError(f"preset {preset!r} is unknown{hint} --list shows all of them")
    if scale is not None:
        raise ConfigError(f"--preset {preset} and --scale {scale} both set the defaults: leave one of them out")
    return PRESETS[preset]


def train(config: Config, place: RunDir, on_block: hooks.OnBlock | None = None) -> str:
    """Train, score and record an agent.

    Args:
        config: what to learn and how.
        place: where to keep it.
        on_block: a callback for loggers, called on the host after each block with a flat dict of plain numbers (see
            `hooks.block_metrics`). Of several processes, which all have to pass it, the first one calls it.

    Returns:
        The closing line, with the held-out score.

    Raises:
        RunError: when the folder cannot be used, a checkpoint does not fit, the loss stops being a number, or
            `on_block` raises; the checkpoint of its block is saved then.
        ConfigError: when a setting cannot be used.
    """
    begin = time.monotonic()
    path = place.runs_dir / (place.name or default_name(config))
    game = make_game(config)
    setup = make_setup(config, game)
    jax.eval_shape(make_init(setup), seeds_of(setup), game.params)  # refuses what does not fit before there is a folder
    mesh = devices.make_mesh(config)
    if jax.process_index() > 0:
        with devices.Follower(path, config) as folder:
            run_blocks(config, game, folder, mesh, on_block)
        return f"process {jax.process_index()} is done: the first one has the results"
    with RunFolder.reopen(path, config) if place.resume else RunFolder.create(path, config) as folder:
        tqdm.write(game.description)
        if config.trained_steps != config.total_steps:
            tqdm.write(
                f"--total-steps {config.total_steps} becomes {config.trained_steps}: "
                f"whole blocks of {config.batch_steps * config.block_updates} steps"
            )
        state = run_blocks(config, game, folder, mesh, on_block)
        scores = evaluate(setup, game, state.params, repeats=config.eval_repeats, seed=config.seed)
        folder.write_json("evaluation.json", {"update": int(np.max(state.update)), **scores})
        folder.draw_curve()
        tqdm.write(describe(scores))  # when all is kept, since the reader of a pipe may have left
        frames = record_video(setup, game, state.params, seed=config.seed)
        if frames:
            folder.write_video(frames)
        else:
            tqdm.write(no_video(config.env))
    return f"held-out score {scores['held_out']['score']:.3f} in {time.monotonic() - begin:.0f} s -> {path}"


def default_name(config: Config) -> str:
    """Return the name of a run's folder where none is given."""
    env, memory = (name.rpartition(":")[2] for name in (config.env, config.memory))  # of "module:Name"
    what = config.preset.replace("/", "-") or f"{env}_{memory}_{config.scale}"
    return f"{what}_seed{config.seed}_{time.strftime('%Y%m%d-%H%M%S')}"


def run_blocks(
    config: Config,
    game: TrainingGame,
    folder: RunFolder,
    mesh: Mesh | None = None,
    on_block: hooks.OnBlock | None = None,
) -> TrainState:
    """The state after the last update, having gone on from the folder's newest checkpoint if there is one.

    Args:
        config: what to learn and how.
        game: of the config.
        folder: of the run.
        mesh: of the devices that share the training; None for one.
        on_block: a callback, see `train`.

    Raises:
        RunError: when something cannot be written, a checkpoint does not fit, the loss stops being a number, or
            `on_block` raises.
    """
    setup = make_setup(config, game)
    state, done = _first_state(setup, game, folder)
    state, env_params = devices.place_state(state, config, mesh), devices.replicate(game.params, mesh)
    rows = folder.cut_log(done)
    clock = _Clock(rows[-1]["seconds"] if rows else 0.0)
    block, score = make_train_block(setup, mesh), make_held_out_scorer(setup, game)
    steps_per_update = config.batch_steps * config.num_seeds
    with tqdm(
        total=config.num_updates * steps_per_update,
        initial=done * steps_per_update,
        desc="compiling",
        unit=" steps",
        unit_scale=True,
        dynamic_ncols=True,
        disable=jax.process_index() > 0,
        mininterval=0.1 if sys.stderr.isatty() else 10,  # in seconds; a log file needs few lines
    ) as bar:
        while done < config.num_updates:
            state, metrics = block(state, env_params)
            rows = _rows(config, jax.tree.map(on_host, metrics), done, clock)
            _check(rows, folder)
            before, done = done, done + config.block_updates
            if config.eval_every and done // config.block_updates % config.eval_every == 0:
                _add_held_out(rows, score, devices.local(state.params), clock)
            folder.append(rows)
            is_due = done // config.checkpoint_updates > before // config.checkpoint_updates
            is_due |= done >= config.num_updates
            if is_due:
                folder.save(state, done)
                folder.draw_curve()
                gc.collect()  # a figure is a cycle of objects, and beside JAX's many it would lie about for long
            bar.set_description("training", refresh=False)
            bar.set_postfix(_postfix(rows), refresh=False)
            bar.update(config.block_updates * steps_per_update)
            hooks.call(on_block, rows, partial(folder.save, state, done) if not is_due else lambda: None)
    # Gathered here, where all hosts still take part.
    return state._replace(params=devices.local(state.params), update=devices.local(state.update))


def _first_state(setup: Setup, game: TrainingGame, folder: RunFolder) -> tuple[TrainState, int]:
    """Return the state of the newest checkpoint, or a new one, and the updates done."""
    init, seeds = make_init(setup), seeds_of(setup)
    done = devices.agreed_update(folder.last_update)
    if done is None:
        return init(seeds, game.params), 0
    template = jax.eval_shape(init, seeds, game.params)
    return devices.agreed_state(template, folder.restore(template)), done


class _Clock:
    """Seconds of training, those before a resume included."""

    def __init__(self, seconds: float) -> None:
        self._origin = time.monotonic() - seconds
        self._last = time.monotonic()

    def lap(self) -> tuple[float, float]:
        """Seconds since the run began and since the last lap."""
        instant = time.monotonic()
        lap, self._last = instant - self._last, instant
        return instant - self._origin, lap


def _rows(config: Config, metrics: dict[str, np.ndarray], done: int, clock: _Clock) -> list[Row]:
    """One row per update and seed; means over the episodes that ended in it are None without any."""
    seconds, lap = clock.lap()
    speed = config.num_seeds * config.batch_steps * config.block_updates / lap
    metrics = {name: np.reshape(values, (config.num_seeds, -1)) for name, values in metrics.items()}
    rows: list[Row] = []
    for index in range(config.block_updates):
        for lane in range(config.num_seeds):
            row: Row = {name: float(values[lane, index]) for name, values in metrics.items()}
            row |= {name: row[name] / row["episodes"] if row["episodes"] else None for name in hooks.EPISODE_MEANS}
            place = {"update": done + index + 1, "steps": (done + index + 1) * config.batch_steps}
            clock_row = {"seconds": round(seconds, 3), "steps_per_second": round(speed)}
            rows.append(place | {"seed": config.seed + lane} | row | clock_row)
    return rows


def _add_held_out(rows: list[Row], score: HeldOutScorer, params: Any, clock: _Clock) -> None:
    """Add held-out results to the last row of each seed, and print their means over seeds."""
    if jax.process_index() > 0:
        return
    scores = score(params, rows[-1]["update"])
    clock.lap()  # the speed of the next block is that of training alone
    for row, own in zip(rows[-len(scores) :], scores, strict=True):
        row |= own
    means = [f"{name.removeprefix('held_out_')} {np.mean([own[name] for own in scores]):.3f}" for name in scores[0]]
    tqdm.write(f"update {rows[-1]['update']}, held-out levels: {', '.join(means)}")


def _check(rows: list[Row], folder: RunFolder) -> None:
    for row in rows:
        if not np.isfinite([row["loss"], row["grad_norm"]]).all():
            last = folder.last_update
            kept = "there is no checkpoint yet" if last is None else f"the checkpoint of update {last} is kept"
            raise RunError(
                f"the loss of seed {row['seed']} is not a number at update {row['update']}; {kept}: "
                "start anew with a lower --learning-rate-start or --max-grad-norm"
            )


def _postfix(rows: list[Row]) -> dict[str, str]:
    shown: dict[str, Any] = {}
    for name in ("return", "score"):
        values = [row[name] for row in rows if row[name] is not None]
        shown[name] = f"{np.mean(values):.3f}" if values else "-"
    return shown


def main() -> None:
    """Command line."""
    with exits.told(exits.RESUME):
        arguments = parse(sys.argv[1:])
        if arguments.place.list:
            tqdm.write(listed())
            return
        tqdm.write(train(arguments.config, arguments.place))


if __name__ == "__main__":
    main()
