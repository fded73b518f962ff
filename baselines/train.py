"""Train an agent: `python -m baselines.train --env MortarMayhemB-Grid-v0 --scale throughput`.

The run is written to runs/NAME. `--resume` continues from the newest checkpoint with the same results as a run that
was never stopped; with the memory `helm`, the window of the language model is empty at first.
"""

import dataclasses
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

from baselines import devices, exits, hooks, learnability, zoo
from baselines.config import SCALES, Config, check_lists, from_name
from baselines.devices import make_init, make_train_block
from baselines.errors import ConfigError, RunError
from baselines.evaluate import HeldOutEvaluator, describe, evaluate, make_held_out_evaluator, no_video, record_video
from baselines.game import TrainingGame, make_game
from baselines.helm import pinned
from baselines.ppo import Setup, TrainState, make_setup, seeds_of
from baselines.presets import PRESETS, listed
from baselines.runs import Row, RunFlags, RunFolder, newest_run, on_host, pack_state, read_config, unpack_state
from jaxgym.errors import nearest

_PROG = "python -m baselines.train"
_DETERMINISTIC_FLAG = "--xla_gpu_deterministic_ops=true"


@dataclasses.dataclass(frozen=True)
class TrainFlags(RunFlags):
    """Options for the run folder, the start of the run, and training in several processes."""

    list: bool = False
    """Print all presets and exit."""
    deterministic: bool = False
    """Make results on a GPU repeatable bit for bit, which costs some speed. Results on a CPU always are."""
    coordinator: str = ""
    """HOST:PORT of the first process, for several processes that train together; each needs its own --process-id."""
    num_processes: int = 1
    """Number of processes that train together."""
    process_id: int = 0
    """Index of this process, from 0; process 0 writes the run folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_processes < 1:
            raise ConfigError(f"num_processes: expected at least 1, got {self.num_processes}")
        if not self.coordinator and (self.num_processes, self.process_id) != (1, 0):
            raise ConfigError(
                f"expected --coordinator with --num-processes {self.num_processes} and --process-id {self.process_id}, "
                "got none. Add --coordinator HOST:PORT."
            )


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Train a PPO agent with memory. The scale or the preset sets the defaults; other flags override them."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    run_flags: Annotated[TrainFlags, tyro.conf.arg(name="")]


@dataclasses.dataclass(frozen=True)
class _Defaults:
    """Flags that set the defaults of all others."""

    scale: str | None = None
    preset: str | None = None


def parse(arguments: list[str]) -> TrainArguments:
    """Parse the command line; the defaults of a resumed run are its own settings.

    Raises:
        ConfigError: if a setting is invalid.
        RunError: if there is no run to resume.
    """
    check_lists(["--options", "--sampled-options", "--grown-options"], arguments)
    run_flags = tyro.cli(TrainFlags, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    if run_flags.deterministic:
        # JAX reads this variable once, when the backend starts.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DETERMINISTIC_FLAG}".strip()
    if run_flags.coordinator:
        if run_flags.num_processes > 1:
            tqdm.write(f"waiting for {run_flags.num_processes} processes at {run_flags.coordinator}", file=sys.stderr)
        devices.start(run_flags.coordinator, run_flags.num_processes, run_flags.process_id)
    if run_flags.resume:
        path = run_flags.runs_dir / run_flags.name if run_flags.name else newest_run(run_flags.runs_dir)
        run_flags = dataclasses.replace(run_flags, name=path.name)
        defaults = read_config(path)
    else:
        defaults = defaults_of(arguments)
    return tyro.cli(TrainArguments, prog=_PROG, args=arguments, default=TrainArguments(defaults, run_flags))


def defaults_of(arguments: list[str]) -> Config:
    """Return the preset or scale given on the command line, else the scale for the device."""
    given = tyro.cli(_Defaults, prog=_PROG, args=arguments, return_unknown_args=True, add_help=False)[0]
    scale, preset = given.scale, given.preset
    if not preset:
        scale = scale or ("cpu" if jax.default_backend() == "cpu" else "throughput")
        return from_name("scale", scale, SCALES)
    if preset not in PRESETS:
        raise ConfigError(f"preset: expected a name that --list shows, got {preset!r}{nearest(preset, PRESETS)}")
    if scale is not None:
        raise ConfigError(
            f"expected --preset or --scale, got both: --preset {preset} and --scale {scale}. Leave one of them out."
        )
    return PRESETS[preset]


def train(config: Config, run_flags: RunFlags, on_block: hooks.OnBlock | None = None) -> str:
    """Train, evaluate and record an agent.

    Args:
        config: settings of the run.
        run_flags: run folder and resume flag.
        on_block: callback for loggers. After each block, the host calls it with a flat dict of plain numbers (see
            `hooks.block_metrics`). In a run of several processes, each of them has to pass it; process 0 calls it.

    Returns:
        A summary line with the normalized return on held-out levels.

    Raises:
        RunError: if the folder is unusable, a checkpoint does not match the settings, the loss is not finite, or
            `on_block` raises; in the last case the checkpoint of the block is saved.
        ConfigError: if a setting is invalid, or `on_block` is not a function.
    """
    if not (on_block is None or callable(on_block)):
        raise ConfigError(f"on_block: expected a function of the metrics, or None, got {on_block!r}.")
    begin = time.monotonic()
    config = pinned(config)
    path = run_flags.runs_dir / (run_flags.name or default_name(config))
    game = make_game(config)
    setup = make_setup(config, game)
    # These raise ConfigError before the folder is made.
    template = jax.eval_shape(make_init(setup), seeds_of(setup), game.params)
    if config.start_from and not run_flags.resume:
        starting_params(config, template.params)
    mesh = devices.make_mesh(config)
    if jax.process_index() > 0:
        with devices.Follower(path, config) as folder:
            run_blocks(config, game, folder, mesh, on_block)
        return f"process {jax.process_index()} is done; process 0 has the results"
    with RunFolder.reopen(path, config) if run_flags.resume else RunFolder.create(path, config) as folder:
        tqdm.write(game.description)
        if config.trained_steps != config.total_steps:
            tqdm.write(
                f"--total-steps {config.total_steps} becomes {config.trained_steps}: "
                f"whole blocks of {config.batch_steps * config.block_updates} steps"
            )
        state = run_blocks(config, game, folder, mesh, on_block)
        results = evaluate(setup, game, state.params, repeats=config.eval_repeats, seed=config.seed)
        folder.write_json("evaluation.json", {"update": int(np.max(state.update)), **results})
        folder.draw_curve()
        tqdm.write(describe(results))  # after all files are written, since a closed pipe ends the process
        frames = record_video(setup, game, state.params, seed=config.seed)
        if frames:
            folder.write_video(frames)
        else:
            tqdm.write(no_video(config.env))
    normalized_return, seconds = results["held_out"]["normalized_return"], time.monotonic() - begin
    return f"held-out normalized return {normalized_return:.3f} in {seconds:.0f} s -> {path}"


def default_name(config: Config) -> str:
    """Return the default folder name of a run."""
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
    """Train from the newest checkpoint of the folder, or from the start, and return the state after the last update.

    The devices of `mesh` share the training; None is one device. `on_block` is a callback, see `train`.

    Raises:
        RunError: if a file cannot be written, a checkpoint does not match, the loss is not finite, or `on_block`
            raises.
    """
    setup = make_setup(config, game)
    state, done = _first_state(setup, game, folder)
    state, env_params = devices.place_state(state, config, mesh), devices.replicate(game.params, mesh)
    rows = folder.truncate_log(done)
    clock = _Clock(rows[-1]["seconds"] if rows else 0.0)
    block, evaluate_held_out = make_train_block(setup, mesh), make_held_out_evaluator(setup, game)
    choose_levels = learnability.make_chooser(setup, game) if config.curriculum == "sfl" else None
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
            state, chosen = choose_levels(state, env_params) if choose_levels else (state, {})
            state, metrics = block(state, env_params)
            rows = _rows(config, jax.tree.map(on_host, metrics), done, clock)
            rows[-1] |= chosen
            _check(rows, folder)
            before, done = done, done + config.block_updates
            if config.eval_every and done // config.block_updates % config.eval_every == 0:
                _add_held_out(rows, evaluate_held_out, devices.local(state.params), clock)
            folder.append(rows)
            is_due = done // config.checkpoint_updates > before // config.checkpoint_updates
            is_due |= done >= config.num_updates
            if is_due:
                folder.save(state, done)
                folder.draw_curve()
                gc.collect()  # a figure is a cycle of objects, which JAX's many objects keep from early collection
            bar.set_description("training", refresh=False)
            bar.set_postfix(_postfix(rows), refresh=False)
            bar.update(config.block_updates * steps_per_update)
            hooks.call(on_block, rows, partial(folder.save, state, done) if not is_due else lambda: None)
    # All hosts gather here; after the loop they no longer run in step.
    return state._replace(params=devices.local(state.params), update=devices.local(state.update))


def _first_state(setup: Setup, game: TrainingGame, folder: RunFolder) -> tuple[TrainState, int]:
    """Return the state of the newest checkpoint, or a new one, and the updates done."""
    init, seeds = make_init(setup), seeds_of(setup)
    template = jax.eval_shape(init, seeds, game.params)
    done = devices.agreed_update(folder.last_update)
    if done is None:
        state = init(seeds, game.params)
        if setup.config.start_from:
            state = state._replace(params=starting_params(setup.config, template.params))
        return state, 0
    return devices.agreed_state(template, folder.restore(template)), done


def starting_params(config: Config, template: Any) -> Any:
    """Return the network parameters of the agent in `start_from`, the same for all seeds.

    Args:
        config: settings of the run.
        template: `jax.ShapeDtypeStruct` of the run's own parameters.

    Raises:
        ConfigError: if the agent has another network, or there is no such agent.
        RunError: if the folder holds no run or no checkpoint.
    """
    packed = pack_state(zoo.agent_of(config.start_from).params)
    if config.num_seeds > 1:
        packed = {name: np.stack([leaf] * config.num_seeds) for name, leaf in packed.items()}
    try:
        return unpack_state(template, packed)
    except RunError as error:
        raise ConfigError(
            f"--start-from {config.start_from}: expected an agent with the same network, got another one. "
            "Choose the memory, sizes and observation of that agent."
        ) from error


class _Clock:
    """Clock of the training time, including the time before a resume."""

    def __init__(self, seconds: float) -> None:
        self._origin = time.monotonic() - seconds
        self._last = time.monotonic()

    def lap(self) -> tuple[float, float]:
        """Return the seconds since the run began and since the last call."""
        instant = time.monotonic()
        lap, self._last = instant - self._last, instant
        return instant - self._origin, lap


def _rows(config: Config, metrics: dict[str, np.ndarray], done: int, clock: _Clock) -> list[Row]:
    """Return one row per update and seed; episode means are None if no episode ended in the update."""
    seconds, lap = clock.lap()
    speed = config.num_seeds * config.batch_steps * config.block_updates / lap
    metrics = {name: np.reshape(values, (config.num_seeds, -1)) for name, values in metrics.items()}
    rows: list[Row] = []
    for index in range(config.block_updates):
        for seed_index in range(config.num_seeds):
            row: Row = {name: float(values[seed_index, index]) for name, values in metrics.items()}
            row |= {name: row[name] / row["episodes"] if row["episodes"] else None for name in hooks.EPISODE_MEANS}
            position = {"update": done + index + 1, "steps": (done + index + 1) * config.batch_steps}
            clock_row = {"seconds": round(seconds, 3), "steps_per_second": round(speed)}
            rows.append(position | {"seed": config.seed + seed_index} | row | clock_row)
    return rows


def _add_held_out(rows: list[Row], evaluate_held_out: HeldOutEvaluator, params: Any, clock: _Clock) -> None:
    """Add held-out results to the last row of each seed, and print their means over seeds."""
    if jax.process_index() > 0:
        return
    results = evaluate_held_out(params, rows[-1]["update"])
    clock.lap()  # leaves the evaluation out of the next block's steps per second
    for row, own in zip(rows[-len(results) :], results, strict=True):
        row |= own
    means = [f"{name.removeprefix('held_out_')} {np.mean([own[name] for own in results]):.3f}" for name in results[0]]
    tqdm.write(f"update {rows[-1]['update']}, held-out levels: {', '.join(means)}")


def _check(rows: list[Row], folder: RunFolder) -> None:
    for row in rows:
        if not np.isfinite([row["loss"], row["grad_norm"]]).all():
            last = folder.last_update
            kept = "there is no checkpoint" if last is None else f"the checkpoint of update {last} is kept"
            raise RunError(
                f"expected a finite loss and gradient norm, got {row['loss']} and {row['grad_norm']} for seed "
                f"{row['seed']} at update {row['update']}; {kept}. "
                "Start a new run with a lower --learning-rate-start or --max-grad-norm."
            )


def _postfix(rows: list[Row]) -> dict[str, str]:
    shown: dict[str, Any] = {}
    for name in ("return", "normalized_return"):
        values = [row[name] for row in rows if row[name] is not None]
        shown[name] = f"{np.mean(values):.3f}" if values else "-"
    return shown


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error(exits.RESUME):
        arguments = parse(sys.argv[1:])
        if arguments.run_flags.list:
            tqdm.write(listed())
            return
        tqdm.write(train(arguments.config, arguments.run_flags))


if __name__ == "__main__":
    main()
