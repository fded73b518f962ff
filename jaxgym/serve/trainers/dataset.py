"""Data rows of text environments for trainers of language models, written by `jaxgym dataset`.

    games, options, levels  ->  env_config of each row  ->  rows in the format of a trainer

The `env_config` of a row has the `name` of the environment, the level `seed` and the options. Prompts are placeholders,
because the first text comes from the environment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from jaxgym import levels, text
from jaxgym.errors import OptionError
from jaxgym.options import resolve
from jaxgym.serve.episodes import check_row_options, options_of
from jaxgym.serve.pool import difficulty
from jaxgym.serve.rollout.scheduler import MOST_TURNS
from jaxgym.serve.sessions import SESSION_OPTIONS

EnvConfig = dict[str, Any]
Split = Literal["train", "heldout"]

AGENT = "jaxgym"
"""Name of jaxgym's adapter in the rows and configuration files of trainers that look it up by name."""

_PROMPT = [{"role": "user", "content": "Play."}]


def env_configs(
    games: Sequence[str], count: int, options: Mapping[str, Any] | None = None, split: Split = "train", start: int = 0
) -> list[EnvConfig]:
    """Return the `env_config` of rows that alternate between environments; they share their levels.

    Args:
        games: Environments with a text interface, by id or short name.
        count: Number of rows, at least one for each environment.
        options: Options of the environments, of their text interfaces, and of sessions.
        split: The levels: training or held-out levels.
        start: Number of the first level in the split.

    Raises:
        UnknownIdError: If an environment does not exist or has no text interface.
        OptionError: If there is no environment, an option is unknown, or a value is invalid.
        LevelError: If there are not enough levels.
    """
    if not games:
        raise OptionError("expected at least one game, got none. Name a game, such as frozen_lake.")
    if count < len(games):
        raise OptionError(f"expected at least one row for each game, got {count} for {', '.join(games)}. Add rows.")
    check_row_options(options or {})
    options = options_of(options)
    for game in games:
        _check(game, options)
    seeds = (levels.train_seeds if split == "train" else levels.held_out_seeds)(-(-count // len(games)), start)
    return [{"name": game, "seed": seed, **options} for seed in seeds.tolist() for game in games][:count]


def _check(game: str, options: Mapping[str, Any]) -> None:
    of_sessions = {name: value for name, value in options.items() if name in SESSION_OPTIONS}
    others = {name: value for name, value in options.items() if name not in SESSION_OPTIONS}
    env, _, interface = text.make_registered(game, **{"levels": "fresh", **others})
    if interface.parsing != "strict":
        raise OptionError(f"{env.env_id}: parsing: expected 'strict', got {interface.parsing!r}. Leave it out.")
    resolve(env.env_id, SESSION_OPTIONS, of_sessions)
    if options.get("adapt") is not None:
        difficulty.controller_of(env.env_id, options)


def _nemo(config: EnvConfig) -> dict[str, Any]:
    """Return a row of NeMo Gym; with images, it has the tools and the first image."""
    if config.get("observation_mode", "text") == "text":
        return {"responses_create_params": {"input": _PROMPT}, "env_config": config}
    from jaxgym.serve.trainers.nemo import row_of  # imports NeMo Gym if it is installed

    options = {name: value for name, value in config.items() if name not in ("name", "seed")}
    row = row_of(config["name"], config["seed"], options)
    return {"responses_create_params": row["responses_create_params"], "env_config": config}


_COLUMNS: dict[str, Callable[[EnvConfig], dict[str, Any]]] = {
    "verl": lambda config: {
        "data_source": config["name"],
        "agent_name": AGENT,
        "prompt": _PROMPT,
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"index": config["seed"]},
        "env_config": config,
    },
    "skyrl": lambda config: {
        "prompt": _PROMPT,
        "env_class": AGENT,
        "data_source": config["name"],
        "env_config": config,
    },
    # TRL appends the first text to the prompt without a separator, and selects the factory by `environment`.
    "trl": lambda config: {
        "prompt": [{"role": "user", "content": "Play this game.\n\n"}],
        "environment": config["name"],
        "env_config": config,
    },
    "swift": lambda config: {"messages": _PROMPT, "env_config": config},
    "nemo": _nemo,
    "slime": lambda config: {"prompt": _PROMPT, "metadata": {"env_config": config}},
    "areal": lambda config: {"env_config": config},
}

SUFFIXES = dict.fromkeys(_COLUMNS, ".jsonl") | {"vagen": ".yaml", "verifiers": ".toml"}
"""Suffix of the file name of each format."""


def dataset(
    form: str, games: Sequence[str], count: int, options: Mapping[str, Any], split: Split = "train", start: int = 0
) -> str:
    """Return the content of a dataset file.

    Args:
        form: The trainer: `"vagen"` is a YAML file of environments, `"verifiers"` is a TOML file with the configuration
            of a taskset, and the others are JSON Lines.
        games: See `env_configs`, also for the errors.
        count: See `env_configs`.
        options: See `env_configs`.
        split: See `env_configs`.
        start: See `env_configs`.
    """
    configs = env_configs(games, count, options, split, start)
    if form == "vagen":
        return _vagen(games, configs)
    if form == "verifiers":
        return _verifiers(games, count, options_of(options), split, start)
    return "".join(json.dumps(_COLUMNS[form](config)) + "\n" for config in configs)


def _vagen(games: Sequence[str], configs: Sequence[EnvConfig]) -> str:
    """Return one entry for each environment, with the range of its seeds, each of which is used once."""
    entries = []
    for game in games:
        seeds = [config["seed"] for config in configs if config["name"] == game]
        config = {name: value for name, value in configs[0].items() if name != "seed"} | {"name": game}
        entries.append(
            f"  - name: {AGENT.capitalize()}\n    data_source: {game}\n    n_envs: {len(seeds)}\n"
            f"    seed: [{seeds[0]}, {seeds[-1]}, 1]\n    max_turns: {config.get('max_turns') or MOST_TURNS}\n"
            f"    config: {json.dumps(config)}\n"  # JSON is valid YAML
        )
    return "envs:\n" + "".join(entries)


def _verifiers(games: Sequence[str], count: int, options: Mapping[str, Any], split: Split, start: int) -> str:
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    return (
        f'[env.taskset]\nid = "jaxgym-games"\ngames = {json.dumps(list(games))}\nnum_rows = {count}\n'
        f'split = "{split}"\nstart = {start}\noptions = {{{pairs}}}\n'
    )
