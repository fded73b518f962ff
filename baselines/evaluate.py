"""Evaluate a trained agent on levels: `python -m baselines.evaluate runs/NAME`.

Each level is played once per repeat, all in one batch. Actions are sampled from the policy, or the most probable ones
with `--actions greedy`. Only the first episode of each environment counts, because stopping at a number of episodes
would favor short ones.
"""

import contextlib
import csv
import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import lax
from tqdm import tqdm

from baselines import exits, risk
from baselines.config import INT32_END, Config, check_seed
from baselines.devices import make_init
from baselines.errors import ConfigError, RunError
from baselines.game import (
    PAPER_SEEDS,
    TrainingGame,
    check_success,
    frame_shape,
    held_out_seeds,
    make_game,
    make_paper_game,
    success_of,
    with_frames,
    without_trained_levels,
)
from baselines.losses import likeliest_action, sample_action
from baselines.ppo import Setup, act, make_setup, seeds_of
from baselines.runs import RunFolder, read_config
from baselines.zoo import load
from jaxgym.pytrees import first_frame

_ZOO = "zoo:"
Actions = Literal["sampled", "greedy"]
SPLITS = ("held_out", "training", "paper")
MAX_STEPS = 8192  # the longest published endless episodes have 5 090 steps


class Episodes(NamedTuple):
    """First episode of each environment, leaves (N,)."""

    reward: jax.Array  # sum of rewards, float32
    length: jax.Array  # steps, int32
    success: jax.Array  # float32
    normalized_return: jax.Array  # normalized return, 0 to 1, float32
    metric: jax.Array  # the game's own metric, float32
    is_whole: jax.Array  # whether the episode ended before the step limit, bool


class _PlayState(NamedTuple):
    env_state: Any
    observation: Any
    start: jax.Array
    recurrent_state: Any
    episodes: Episodes
    key: jax.Array
    step: jax.Array


Player = Callable[[Any, Any, Any, jax.Array], Episodes]
HeldOutEvaluator = Callable[[Any, int], list[dict[str, float]]]


def make_player(setup: Setup, max_steps: int = MAX_STEPS, actions: Actions = "sampled") -> Player:
    """Return a jitted function of network parameters, levels (N, ...), env parameters and a key that plays levels."""

    def play(params: Any, levels: Any, env_params: Any, key: jax.Array) -> Episodes:
        num_envs = jax.tree.leaves(levels)[0].shape[0]
        key_reset, key = jax.random.split(key)
        keys_reset = jax.random.split(key_reset, num_envs)
        observation, env_state = jax.vmap(setup.env.reset_to_level, (0, 0, None))(keys_reset, levels, env_params)
        zeros = jnp.zeros(num_envs, jnp.float32)
        episodes = Episodes(zeros, jnp.zeros(num_envs, jnp.int32), zeros, zeros, zeros, jnp.zeros(num_envs, bool))
        recurrent_state = setup.network.memory.initial_state(num_envs)
        start = jnp.ones(num_envs, bool)
        first = _PlayState(env_state, observation, start, recurrent_state, episodes, key, jnp.zeros((), jnp.int32))

        def is_going_on(play: _PlayState) -> jax.Array:
            return (play.step < max_steps) & ~play.episodes.is_whole.all()

        acting = setup.network.precompute(params)
        return lax.while_loop(is_going_on, lambda play: _step(setup, actions, acting, env_params, play), first).episodes

    return jax.jit(play)


def _step(setup: Setup, actions: Actions, params: Any, env_params: Any, play: _PlayState) -> _PlayState:
    key, key_action, key_step = jax.random.split(play.key, 3)
    recurrent_state, output = act(setup, params, play.recurrent_state, play.observation, play.start)
    if actions == "greedy":
        action = likeliest_action(output.logits, setup.sizes)
    else:
        action = sample_action(key_action, output.logits, setup.sizes)
    command = action if setup.has_branches else action[..., 0]
    keys_step = jax.random.split(key_step, command.shape[0])
    observation, env_state, _, terminated, truncated, info = jax.vmap(setup.env.step, (0, 0, 0, None))(
        keys_step, play.env_state, command, env_params
    )
    ended = terminated | truncated
    now = Episodes(
        reward=info["episode_return"].astype(jnp.float32),
        length=info["episode_length"].astype(jnp.int32),
        success=success_of(info),
        normalized_return=jax.vmap(setup.env.normalized_return, (0, 0, None))(info, play.env_state, env_params),
        metric=info.get(setup.env.metric, info["episode_return"]).astype(jnp.float32),
        is_whole=ended,
    )
    is_over = play.episodes.is_whole
    episodes = jax.tree.map(lambda old, new: jnp.where(is_over, old, new), play.episodes, now)
    return _PlayState(env_state, observation, ended, recurrent_state, episodes, key, play.step + 1)


def evaluate(
    setup: Setup, game: TrainingGame, params: Any, *, repeats: int, seed: int, max_steps: int = MAX_STEPS
) -> dict[str, Any]:
    """Evaluate each seed's agent on held-out and training levels, `repeats` episodes per level.

    `params` have a leading axis if the run has several seeds. `seed` is that of the sampled actions.

    Returns:
        For "held_out" and, if the game has them, "training": the number of levels, the means of `normalized_return`
        (normalized return), return, success, length and the game's own metric, and `share_truncated`, the share of
        episodes that did not end within `max_steps`; each of them averaged and by seed.
    """
    return _summaries(setup, repeats, _play_splits(setup, game, params, repeats, seed, max_steps))


def _play_splits(
    setup: Setup, game: TrainingGame, params: Any, repeats: int, seed: int, max_steps: int, actions: Actions = "sampled"
) -> dict[str, list[Episodes]]:
    """Return the episodes of each seed's agent by split; the episodes of one level are adjacent."""
    player = make_player(setup, max_steps, actions)
    agents = agents_of(setup, params)
    keys = iter(jax.random.split(jax.random.key(seed), 2 * len(agents)))
    return {
        split: [player(agent, _repeat(levels, repeats), game.params, next(keys)) for agent in agents]
        for split, levels in (("held_out", game.held_out_levels), ("training", game.training_levels))
        if levels is not None
    }


def _summaries(setup: Setup, repeats: int, played: dict[str, list[Episodes]]) -> dict[str, Any]:
    metric = {"metric_name": setup.env.metric}
    return {split: metric | _summary(repeats, episodes) for split, episodes in played.items()}


def make_held_out_evaluator(setup: Setup, game: TrainingGame) -> HeldOutEvaluator:
    """Return a function that evaluates on held-out levels during training; it compiles on its first call.

    The function takes network parameters and the number of updates, which seeds the sampled actions. For each seed it
    returns the means `held_out_normalized_return`, `held_out_return`, `held_out_success` and `held_out_length`.
    """
    player = make_player(setup)

    def evaluate_levels(params: Any, update: int) -> list[dict[str, float]]:
        agents, key = agents_of(setup, params), jax.random.fold_in(jax.random.key(setup.config.seed), update)
        levels = _repeat(game.held_out_levels, setup.config.eval_repeats)
        played = [
            player(agent, levels, game.params, key_agent)
            for agent, key_agent in zip(agents, jax.random.split(key, len(agents)), strict=True)
        ]
        logged = ("normalized_return", "return", "success", "length")
        columns = map(_columns, played)
        return [{f"held_out_{name}": float(np.mean(own[name])) for name in logged} for own in columns]

    return evaluate_levels


def _columns(episodes: Episodes) -> dict[str, np.ndarray]:
    """Return the results of episodes by their names in files, float64 (N,)."""
    leaves = {
        "normalized_return": episodes.normalized_return,
        "return": episodes.reward,
        "success": episodes.success,
        "metric": episodes.metric,
        "length": episodes.length,
        "share_truncated": ~episodes.is_whole,
    }
    return {name: np.asarray(leaf, np.float64) for name, leaf in leaves.items()}


def level_rows(
    split: str, level_seeds: Sequence[int], repeats: int, first_seed: int, played: Sequence[Episodes]
) -> list[dict[str, Any]]:
    """Return one row per agent, level and episode, as plain values.

    The agents, whose episodes are `played`, have consecutive seeds; the `repeats` episodes of one level are adjacent.
    `truncated` is 1 if the evaluation stopped the episode at its step limit, before the environment ended it.
    """
    rows: list[dict[str, Any]] = []
    for run_seed, episodes in enumerate(played, first_seed):
        columns = _columns(episodes)
        for number, (level_seed, episode) in enumerate(itertools.product(level_seeds, range(repeats))):
            values = {name: float(columns[name][number]) for name in ("return", "normalized_return", "success")}
            place = {"split": split, "run_seed": run_seed, "level_seed": int(level_seed), "episode": episode}
            end = {"length": int(columns["length"][number]), "truncated": int(columns["share_truncated"][number])}
            rows.append(place | values | end)
    return rows


def write_level_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as CSV with a header, or as JSON lines if the name ends in .jsonl.

    Raises:
        RunError: if the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                file.writelines(json.dumps(row) + "\n" for row in rows)
                return
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise RunError(f"cannot write {path} ({error.strerror or error}). Choose another --per-level.") from error


def agents_of(setup: Setup, params: Any) -> list[Any]:
    """Return the network parameters of each seed of a run."""
    if setup.seed_axis is None:
        return [params]
    return [jax.tree.map(lambda leaf: leaf[seed], params) for seed in range(setup.config.num_seeds)]  # noqa: B023


def _repeat(levels: Any, repeats: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, repeats, axis=0), levels)


def _summary(repeats: int, results: list[Episodes]) -> dict[str, Any]:
    columns = [_columns(episodes) for episodes in results]
    by_seed = {name: [float(own[name].mean()) for own in columns] for name in columns[0]}
    counts = {"levels": len(columns[0]["return"]) // repeats, "episodes_per_level": repeats}
    means = {name: float(np.mean([own[name] for own in columns])) for name in by_seed}
    return counts | means | {f"{name}_by_seed": values for name, values in by_seed.items()}


def record_video(setup: Setup, game: TrainingGame, params: Any, *, seed: int, max_steps: int = 512) -> list[np.ndarray]:
    """Record the first seed's agent on the first held-out level; empty if the game has no frames."""
    drawn = with_frames(setup.env)
    if frame_shape(game._replace(env=drawn)) is None:
        return []
    agent = agents_of(setup, params)[0]
    level = jax.tree.map(lambda leaf: leaf[:1], game.held_out_levels)
    key, key_reset, _ = jax.random.split(jax.random.key(seed), 3)

    @jax.jit
    def start(key_reset: jax.Array, level: Any, env_params: Any) -> tuple[Any, Any, Any]:
        observation, env_state = jax.vmap(setup.env.reset_to_level, (0, 0, None))(key_reset[None], level, env_params)
        view = jax.vmap(drawn.observe, (None, 0, None, None))(key_reset, env_state, None, env_params)
        return observation, env_state, first_frame(view, batch_dims=1)[0]

    @jax.jit
    def step(agent: Any, play: tuple[Any, ...], env_params: Any) -> tuple[tuple[Any, ...], Any]:
        env_state, observation, start, recurrent_state, key = play
        key, key_action, key_step, _ = jax.random.split(key, 4)
        recurrent_state, output = act(setup, agent, recurrent_state, observation, start)
        action = sample_action(key_action, output.logits, setup.sizes)
        command = action if setup.has_branches else action[..., 0]
        stepped, seen = (
            jax.vmap(env.step, (0, 0, 0, None))(jax.random.clone(key_step)[None], env_state, command, env_params)
            for env in (setup.env, drawn)
        )
        ended = stepped[3] | stepped[4]
        # The last frame is the one before the automatic reset.
        view = first_frame(seen[5]["final_observation"], batch_dims=1)[0]
        return (stepped[1], stepped[0], ended, recurrent_state, key), (view, ended[0])

    observation, env_state, view = start(key_reset, level, game.params)
    frames = [np.asarray(view)]
    play = (env_state, observation, jnp.ones(1, bool), setup.network.memory.initial_state(1), key)
    for _ in range(max_steps):
        play, (view, ended) = step(agent, play, game.params)
        frames.append(np.asarray(view))
        if ended:
            break
    return frames


def no_video(env_id: str) -> str:
    """Return the message for a video without frames."""
    return f"no video: {env_id} has no observation with a frame, uint8 (H, W, 3), and no option observation=pixels"


@dataclasses.dataclass(frozen=True)
class EvaluateFlags:
    """Evaluate the agent of a run on held-out levels."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run folder, or zoo:ID for a trained agent of the checkout."""
    checkpoint: int | None = None
    """Checkpoint to evaluate, by its number of updates; the newest by default."""
    levels: int | Literal["paper"] | None = None
    """Number of held-out levels, by default that of the run; "paper": the levels of the papers (Memory Gym only)."""
    repeats: int | None = None
    """Episodes per level, by default the number of the run."""
    actions: Actions = "sampled"
    """Sample actions from the policy, or take the most probable ones (greedy)."""
    seed: int = 0
    """Seed of the sampled actions."""
    max_steps: int = MAX_STEPS
    """Step limit of the evaluation. "truncated" in the results counts episodes that it stops, and no others."""
    per_level: Path | None = None
    """Write one row per held-out or paper level and episode to this .csv or .jsonl file."""
    cvar: bool = False
    """Report the success on all held-out levels and on the worst tenth; by default 10000 levels, ten episodes each."""


def evaluate_run(arguments: EvaluateFlags) -> dict[str, Any]:
    """Evaluate a run on disk and write its evaluation.json, or evaluate an agent of the zoo.

    Results on the papers' levels are under "paper" and are written to evaluation-paper.json. Results on the worst
    levels are under "cvar" (see `baselines.risk`) and are written to evaluation-cvar.json. The names of files with
    results of greedy actions end in -greedy.json.

    Raises:
        RunError: if the folder holds no run or no such checkpoint, or is not writable; the results are printed first.
        ConfigError: if a number of levels, repeats or steps is below 1, the seed is out of range, an agent of the zoo
            is given with a checkpoint, the file for rows is neither .csv nor .jsonl, or its directory does not exist.
    """
    _check(arguments)
    is_paper = arguments.levels == "paper"
    is_zoo = str(arguments.run).startswith(_ZOO)
    agent = load(str(arguments.run).removeprefix(_ZOO)) if is_zoo else None
    config = read_config(arguments.run) if agent is None else agent.config
    shown = _evaluated(config, arguments)
    game = make_paper_game(shown) if is_paper else make_game(shown, flag="--levels")
    seeds = PAPER_SEEDS if is_paper else held_out_seeds(shown)
    if not is_paper:
        game, seeds = without_trained_levels(config, game, seeds)
        if len(seeds) < shown.held_out_levels:
            left_out = shown.held_out_levels - len(seeds)
            tqdm.write(f"{left_out} of {shown.held_out_levels} levels equal training levels of the run; left out")
    setup = make_setup(shown, game)
    if arguments.cvar:
        check_success("--cvar", shown, game.env, game.params)
    with contextlib.nullcontext() if agent else RunFolder(arguments.run, config) as folder:
        results: dict[str, Any] = {}
        params = agent.params if agent else None
        if folder is not None:
            # A checkpoint holds environments and weights of the training levels; those of others can have other shapes.
            trained = make_game(config) if is_paper or config.curriculum != "none" else game
            own = make_setup(config, trained)
            template = jax.eval_shape(make_init(own), seeds_of(own), trained.params)
            results["update"] = folder.last_update if arguments.checkpoint is None else arguments.checkpoint
            params = folder.restore(template, results["update"]).params
        how = shown.eval_repeats, arguments.seed, arguments.max_steps, arguments.actions
        played = {} if arguments.cvar else _play_splits(setup, game, params, *how)
        if is_paper:
            played = {"paper": played["held_out"]}
        results |= _summaries(setup, shown.eval_repeats, played)
        if arguments.cvar:
            results["cvar"] = _worst_levels(setup, game, params, *how)
        try:
            if folder is not None:
                folder.write_json(_file_name(arguments), results)
            if arguments.per_level is not None:
                split = "paper" if is_paper else "held_out"
                rows = level_rows(split, seeds, shown.eval_repeats, config.seed, played[split])
                write_level_rows(arguments.per_level, rows)
        except RunError:
            tqdm.write(describe(results))  # print first, so that a read-only folder does not lose the results
            raise
    return results


def _evaluated(config: Config, arguments: EvaluateFlags) -> Config:
    """Return the config with the numbers of levels and episodes of the evaluation."""
    usual = (risk.LEVELS, risk.REPEATS) if arguments.cvar else (config.held_out_levels, config.eval_repeats)
    levels = config.held_out_levels if arguments.levels == "paper" else arguments.levels or usual[0]
    return dataclasses.replace(config, held_out_levels=levels, eval_repeats=arguments.repeats or usual[1])


def _worst_levels(
    setup: Setup, game: TrainingGame, params: Any, repeats: int, seed: int, max_steps: int, actions: Actions
) -> dict[str, Any]:
    player, agents = make_player(setup, max_steps, actions), agents_of(setup, params)
    return risk.worst_levels(player, agents, game.held_out_levels, game.params, repeats=repeats, seed=seed)


def _file_name(arguments: EvaluateFlags) -> str:
    what = "-paper" if arguments.levels == "paper" else "-cvar" if arguments.cvar else ""
    return f"evaluation{what}{'-greedy' if arguments.actions == 'greedy' else ''}.json"


def _check(arguments: EvaluateFlags) -> None:
    """Raise `ConfigError` if a flag has an invalid value."""
    if not 1 <= arguments.max_steps < INT32_END:
        raise ConfigError(f"--max-steps: expected a number from 1 to {INT32_END - 1}, got {arguments.max_steps}")
    for flag, number in (("--levels", arguments.levels), ("--repeats", arguments.repeats)):
        if isinstance(number, int) and number < 1:
            raise ConfigError(f"{flag}: expected at least 1, got {number}")
    if arguments.cvar and (arguments.levels == "paper" or arguments.per_level is not None):
        other = "--levels paper" if arguments.levels == "paper" else "--per-level"
        raise ConfigError(f"--cvar: expected no {other}, got both. Leave one of them out.")
    check_seed(arguments.seed)
    if str(arguments.run).startswith(_ZOO) and arguments.checkpoint is not None:
        raise ConfigError(
            f"--checkpoint: expected a run folder, got {arguments.run}, which has no checkpoints. Leave the flag out."
        )
    path = arguments.per_level
    if path is not None and path.suffix not in (".csv", ".jsonl"):
        raise ConfigError(f"expected --per-level to name a .csv or .jsonl file, got {path}")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(
            f"expected --per-level to be in an existing directory, got {path}. Create {path.parent} first."
        )


def describe(results: dict[str, Any]) -> str:
    """Format the results as text, one line per split."""
    if "cvar" in results:
        return risk.describe_worst(results["cvar"])
    return "\n".join(
        f"{split.replace('_', '-')} levels ({result['levels']}): normalized return {result['normalized_return']:.3f}, "
        f"return {result['return']:.3f}, success {result['success']:.3f}, length {result['length']:.1f}, "
        f"{result['share_truncated']:.0%} truncated at --max-steps"
        for split, result in ((split, results[split]) for split in SPLITS if split in results)
    )


def main() -> None:
    """Run the command line."""
    with exits.exit_on_error():
        tqdm.write(describe(evaluate_run(tyro.cli(EvaluateFlags, prog="python -m baselines.evaluate"))))


if __name__ == "__main__":
    main()
