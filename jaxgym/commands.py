"""Implementation of the commands of `jaxgym`; `jaxgym.cli` imports this module after it has read the flags."""

import dataclasses
import fnmatch
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxgym import extras, levels, registration, registry, text
from jaxgym.errors import OptionError, UnknownIdError, grouped, listed, shown
from jaxgym.flags import Dataset, Demos, Eval, FailureError, List, Play, Record, Rollout, Show, Talk
from jaxgym.human import files, keys
from jaxgym.human.stage import POLICIES, Stage, enlarged
from jaxgym.human.talk import TerminalSession
from jaxgym.human.window import WindowError, play
from jaxgym.options import Option, parse_options

_MOST_NAMES = 5
_ZOO = "zoo"


def run(arguments: Any) -> str:
    """Run a command by its flags, such as a `jaxgym.flags.Show`, and return its output."""
    if not isinstance(arguments, Rollout | Eval | Dataset) and arguments.env_id is not None:
        env_id = registry.id_of(registry.import_module_of(arguments.env_id))
        arguments = dataclasses.replace(arguments, env_id=env_id)
    runners: dict[type, Callable[[Any], str]] = {List: list_games, Show: show, Record: record, Play: play_game}
    runners |= {Demos: demos, Talk: talk, Rollout: rollout, Eval: evaluate, Dataset: dataset}
    return runners[type(arguments)](arguments)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return lines with columns of equal width."""
    cells = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(lines) + "\n"


def list_games(arguments: List) -> str:
    """Return the output of `jaxgym list`."""
    header, ids = ("id", "max_steps", "options", "presets"), registration.registered_envs()
    env_id = arguments.env_id
    if env_id is None:
        rows = [row for group, members in grouped(ids).items() for row in _rows_of(group, members)]
        return f"{table(header, rows)}\nOptions and presets of one of them: jaxgym list ID\n"
    if "*" in env_id:
        found = fnmatch.filter(ids, env_id)
        if not found:
            raise UnknownIdError(f"expected a pattern of ids, got {shown(env_id)}. The ids are {listed(ids)}.")
        return table(header, map(_row_of, found))
    spec = registration.spec_of(env_id)
    tables = [_options_table("option", spec.all_options)]
    if spec.presets:
        presets = list[tuple[str, str, str]]()
        for name, preset in spec.presets.items():
            pairs = [f"{option}={value}".replace(" ", "") for option, value in preset.options.items()]
            presets.append((name, " ".join(pairs) or "the defaults", preset.help))
        tables.append(table(("preset", "options", "meaning"), presets))
    if env_id in text.text_envs().values():
        text_spec = text.text_spec_of(env_id)[1]
        tables.append(f"As text (talk, rollout, serve), its short name is {text.short_name_of(env_id)}.\n")
        if text_spec.options:
            tables.append(_options_table("text option", text_spec.options))
    return "\n".join(tables)


def _rows_of(group: str, members: Sequence[str]) -> list[tuple[str, str, str, str]]:
    if len(members) == 1:
        return [_row_of(members[0])]
    return [(f"{group} ({len(members)} ids)", "", "", f"jaxgym list '{group}' lists them")]


def _row_of(env_id: str) -> tuple[str, str, str, str]:
    try:
        spec = registration.spec_of(env_id)
    except UnknownIdError:  # its package can't be imported; `jaxgym list ID` prints the reason
        return env_id, "-", "-", "can't be imported"
    return env_id, str(spec.max_steps or "none"), str(len(spec.all_options)), _shortened(list(spec.presets))


def _options_table(title: str, options: Mapping[str, Option]) -> str:
    return table(
        (title, "default", "values", "meaning"),
        [
            (name, repr(option.default), option.allowed.partition(", such as")[0], option.help)
            for name, option in options.items()
        ],
    )


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def show(arguments: Show) -> str:
    """Write an image and return the output of the command."""
    _writable(arguments.out, files.IMAGES)
    stage = Stage(arguments.env_id, _options_of_level(arguments.options), ground_truth=arguments.ground_truth)
    files.write_image(arguments.out, stage.start(_checked(arguments.seed)).image)
    return f"{arguments.out}\n"


def _writable(path: Path, suffixes: Sequence[str]) -> None:
    """Check that a file can be written, before anything is played."""
    if path.suffix not in suffixes:
        raise OptionError(f"--out: expected a name that ends in {' or '.join(suffixes)}, got {path}.")
    if path.is_dir():
        raise OptionError(f"--out: expected a file, got the directory {path}.")
    if not path.parent.is_dir():
        raise OptionError(f"--out: the directory {path.parent} does not exist. Create it, or choose another file.")


def record(arguments: Record) -> str:
    """Write a video and return the output of the command."""
    _writable(arguments.out, files.VIDEOS)
    registration.spec_of(arguments.env_id)
    seed = _checked(arguments.seed)
    if arguments.steps < 1 or arguments.fps < 1:
        raise OptionError(f"expected --steps and --fps of at least 1, got {arguments.steps} and {arguments.fps}.")
    is_zoo = arguments.policy.partition(":")[0] == _ZOO
    if is_zoo or (arguments.policy not in POLICIES and Path(arguments.policy).is_dir()):
        images = _frames_of_agent(arguments, is_zoo)
    else:
        stage = Stage(arguments.env_id, _options_of_level(arguments.options), ground_truth=arguments.ground_truth)
        moments = stage.play(stage.policy_of(arguments.policy), seed, arguments.steps)
        images = [moment.image for moment in moments]
    try:
        files.write_video(arguments.out, images, arguments.fps)
    except ImportError as error:
        hint = ", or write NAME.gif." if arguments.out.suffix == ".mp4" else ""
        raise FailureError(f"{extras.missing('cli', 'imageio-ffmpeg')}{hint}") from error
    return f"{arguments.out}: {len(images)} frames\n"


def _frames_of_agent(arguments: Record, is_zoo: bool) -> list[np.ndarray]:
    """Return the frames of a trained agent's episode."""
    if arguments.options or arguments.ground_truth:
        raise OptionError(
            "expected no options and no --ground-truth for a trained agent, got some. It plays with the options of its "
            "training."
        )
    try:
        from baselines import evaluate, game, ppo, runs, zoo
        from baselines.errors import ConfigError, RunError
    except ModuleNotFoundError as error:
        raise FailureError(extras.missing("baselines", error.name)) from error
    path = Path(arguments.policy)
    named = arguments.policy.partition(":")[2] or arguments.env_id
    try:
        kept = zoo.load(named) if is_zoo else None
        config = kept.config if kept else runs.read_config(path)
        if config.env.rpartition(":")[2] != arguments.env_id:
            raise OptionError(f"{path}: expected an agent of {arguments.env_id}, got one of {config.env}. Use that id.")
        # One level is played, so the level buffers of training are not needed.
        config = dataclasses.replace(config, train_levels=0, held_out_levels=1)
        made = kept.game if kept else game.make_game(config)
        env, params = registration.make(config.env, **{**config.env_options, "levels": "fresh"})
        made = made._replace(held_out_levels=levels.make_level_buffer(env, params, [arguments.seed]))
        setup = kept.setup if kept else ppo.make_setup(config, made)
        if kept:
            agent = kept.params
        else:
            template = jax.eval_shape(ppo.make_init(setup), evaluate.seeds_of(setup), made.params)
            with runs.RunFolder(path, config) as folder:
                agent = folder.restore(template).params
        frames = evaluate.record_video(setup, made, agent, seed=arguments.seed, max_steps=arguments.steps)
    except (ConfigError, RunError) as error:
        raise OptionError(str(error)) from error
    if not frames:
        raise OptionError(f"{evaluate.no_video(config.env)}. Record a policy with --ground-truth, if it has that view.")
    return [enlarged(frame) for frame in frames]


def play_game(arguments: Play) -> str:
    """Open a window to play in, and return the output of the command."""
    human = registration.spec_of(arguments.env_id).human
    if human is None or human.controls == "text":
        raise OptionError(f"{arguments.env_id} has no key bindings. Use jaxgym talk, or another environment.")
    stage = Stage(arguments.env_id, _options_of_level(arguments.options), ground_truth=arguments.ground_truth)
    sys.stdout.write(f"{keys.HELP[human.controls]}; page up and page down change the level\n")
    try:
        info = play(stage, human, _checked(arguments.seed))
    except WindowError as error:
        raise FailureError(str(error)) from error
    if info is None:
        return ""
    return "".join(f"{name}: {np.asarray(value).tolist()}\n" for name, value in info.items())


def demos(arguments: Demos) -> str:
    """Write episodes of the expert and return the output of the command."""
    from jaxgym import demos as demonstrations

    env_id, out, count = arguments.env_id, arguments.out, arguments.episodes
    if count < 1:
        raise OptionError(f"--episodes: expected at least 1, got {count}.")
    seeds = (levels.train_seeds if arguments.split == "train" else levels.held_out_seeds)(count, arguments.start)
    options = _options_of_level(arguments.options, "--start")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"--out: the directory {out.parent} does not exist. Create it, or choose another path.")
    if arguments.format == "chat":
        _writable(out, (".jsonl",))
        results = demonstrations.write_chats(out, env_id, options, seeds, arguments.steps)
    else:
        try:
            results = demonstrations.write_dataset(out, env_id, options, seeds, arguments.steps)
        except ImportError as error:
            raise FailureError(str(error)) from error
    successes = sum(is_success for _, is_success in results)
    mean = sum(total for total, _ in results) / count
    return f"{out}: {count} episodes, {successes} with success, mean return {mean:.3g}\n"


def talk(arguments: Talk) -> str:
    """Play as text on stdin and stdout, until the episode or the input ends."""
    game = TerminalSession(arguments.env_id, _options_of_level(arguments.options))
    if sys.stdin is None:
        raise FailureError("expected replies on stdin, got a closed stdin. Open it, or redirect a file to it.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a reply may contain any bytes
    prompt = "> " if sys.stdin.isatty() else ""
    game.play(_checked(arguments.seed), sys.stdin, sys.stdout, prompt=prompt)
    return ""


def rollout(arguments: Rollout) -> str:
    """Play episodes and return the table of their results."""
    from jaxgym.serve import rollout as rollouts
    from jaxgym.serve.rollout import command

    settings = rollouts.RolloutSettings(
        max_turns=arguments.max_turns,
        concurrency=arguments.concurrency,
        turn_seconds=arguments.turn_seconds,
        retries=arguments.retries,
        history_turns=arguments.history_turns,
        history_images=arguments.history_images,
    )
    blend = rollouts.Blend(arguments.reward_funcs, arguments.reward_weights)
    player = command.Player(
        arguments.model, arguments.hf, arguments.model_name, arguments.temperature, arguments.max_tokens
    )
    seed = _checked(arguments.seed)
    names, options = _games_and_options(arguments.env)
    rows = command.rows_for(names, arguments.episodes, seed, options, arguments.rows)
    try:
        records = command.play(rows, player, settings, blend, arguments.out, seed)
    except ImportError as error:
        raise FailureError(str(error)) from error
    cells, errors = command.report(records)
    output = table(command.HEADER, cells) + errors
    if all(record["error"] is not None for record in records):
        sys.stdout.write(output)
        raise FailureError("every episode failed; see the errors above.")
    return output


def dataset(arguments: Dataset) -> str:
    """Write the data rows of a trainer; return them, or the output of the command if they are in a file."""
    from jaxgym.serve.trainers import dataset as datasets

    games, options = _games_and_options(arguments.game)
    if "levels" in options:
        raise OptionError("expected no levels= option, got one. --split and --start select the levels.")
    content = datasets.dataset(arguments.format, games, arguments.rows, options, arguments.split, arguments.start)
    if arguments.out is None:
        return content
    _writable(arguments.out, (datasets.SUFFIXES[arguments.format],))
    arguments.out.write_text(content, encoding="utf-8")
    return f"{arguments.out}: {arguments.rows} rows\n"


def _games_and_options(given: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names, whose modules are imported, and the options of the NAME=VALUE pairs."""
    names = [registry.import_module_of(word) for word in given if "=" not in word]
    return names, parse_options([word for word in given if "=" in word])


def evaluate(arguments: Eval) -> str:
    """Evaluate an agent, write its report, and return the table of tasks."""
    from jaxgym.serve import evaluation
    from jaxgym.serve.evaluation import report, run
    from jaxgym.serve.rollout import RolloutSettings

    flags = (
        "max_turns",
        "concurrency",
        "turn_seconds",
        "retries",
        "backoff_seconds",
        "history_turns",
        "history_images",
    )
    settings = evaluation.EvaluationSettings(
        tasks=arguments.tasks,
        episodes=arguments.episodes,
        numbers=arguments.difficulties,
        observation_mode=arguments.observation,
        rollout=RolloutSettings(**{name: getattr(arguments, name) for name in flags}),
        context_tokens=arguments.context_tokens,
        image_tokens=arguments.image_tokens,
        tokenizer=arguments.tokenizer,
        prices=arguments.prices,
    )
    agent = evaluation.Agent(
        model=arguments.model,
        folder=arguments.hf,
        name=arguments.model_name,
        temperature=arguments.temperature,
        max_tokens=arguments.max_tokens,
        top_p=arguments.top_p,
        sampling_seed=arguments.seed,
        python=" ".join(arguments.agent),
        make=_maker(arguments.agent) if arguments.agent else None,
    )
    try:
        card = evaluation.evaluate(agent, settings, arguments.out)
    except ImportError as error:
        raise FailureError(str(error)) from error
    plot = arguments.out / run.PLOT
    try:
        from baselines import plots

        evaluation.draw(plot, card, plots.drawing, plots.COLORS[0])
        files_written = f"{arguments.out / run.REPORT}\n{plot}.png\n"
    except ModuleNotFoundError as error:
        files_written = f"{arguments.out / run.REPORT}\nNo plot: {extras.missing('baselines', error.name)}\n"
    output = f"{table(report.SUMMARY, report.summary_rows(card))}\n{files_written}"
    if card["errors"]:
        sys.stdout.write(output)
        count, first = sum(card["errors"].values()), next(iter(card["errors"]))
        raise FailureError(
            f"episodes with an error: {count}. Run the command again to play them. The first error: {first}"
        )
    return output


def _maker(words: Sequence[str]) -> Callable[[], Any]:
    """Return a function that makes the agent of a class `module:Class` with NAME=VALUE arguments."""
    named, arguments = words[0], parse_options(words[1:])
    module, colon, _ = named.partition(":")
    name = registry.import_module_of(named)
    found = getattr(sys.modules[module], name, None) if colon else None
    if not callable(found):
        raise OptionError(f"--agent: expected a class module:Class, got {named!r}.")
    try:
        inspect.signature(found).bind(**arguments)
    except TypeError as error:
        raise OptionError(f"--agent: expected arguments of {named}{inspect.signature(found)}; {error}.") from error
    return lambda: found(**arguments)


def _checked(seed: int) -> int:
    if not 0 <= seed < 1 << 32:
        raise OptionError(f"--seed: expected an integer from 0 to {(1 << 32) - 1}, got {seed}.")
    return seed


def _options_of_level(pairs: Sequence[str], flag: str = "--seed") -> dict[str, Any]:
    """Return the options of NAME=VALUE pairs, for an environment whose level a flag selects."""
    options = parse_options(pairs)
    if "levels" in options:
        raise OptionError(f"expected no levels= option, got one. {flag} selects the level.")
    return options
