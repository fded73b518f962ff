"""The command `jaxgym rollout`: a run with a progress bar, and a table of what came of it."""

import asyncio
import dataclasses
import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgym import extras
from jaxgym.errors import OptionError
from jaxgym.levels import SPLIT_SIZE
from jaxgym.serve.rollout.endpoint import EndpointPolicy
from jaxgym.serve.rollout.local_model import local_model
from jaxgym.serve.rollout.policies import BatchPolicy, Policy
from jaxgym.serve.rollout.records import Folder, Record
from jaxgym.serve.rollout.rewards import Blend
from jaxgym.serve.rollout.runs import Row, Summary, arollout, check, read_rows, rows_of, summaries
from jaxgym.serve.rollout.scheduler import Scheduler, Terms
from jaxgym.serve.rollout.scripted import ScriptedPolicy

EPISODES = 128
"""How many episodes are played of games, where no number is given."""
HEADER = (
    *("game", "episodes", "errors", "success", "return", "reward", "turns", "refusals"),
    *("max_turns", "length", "tokens_in", "tokens_out", "failures"),
)
_MOST_REASONS = 3


@dataclasses.dataclass(frozen=True)
class Player:
    """Who plays.

    Attributes:
        model: "expert", "random", or the URL of an endpoint; empty for a local model.
        folder: The folder of a local model, or None.
        name: The model's name at the endpoint.
        temperature: Of sampling.
        max_tokens: The most tokens of a reply.
    """

    model: str
    folder: Path | None
    name: str | None
    temperature: float
    max_tokens: int

    def policy(self, terms: Terms, seed: int) -> Policy:
        """Return the policy.

        Raises:
            OptionError: If there is none, or more than one.
            ImportError: If what it needs is missing.
        """
        if bool(self.model) == bool(self.folder):
            raise OptionError("give one policy: --model expert, random or a URL, or --hf and the folder of a model.")
        if self.folder is not None:
            function = local_model(self.folder, max_tokens=self.max_tokens, temperature=self.temperature)
            return BatchPolicy(function, terms.concurrency)
        if self.model == "expert" or self.model == "random":
            return ScriptedPolicy(self.model, seed)
        if "://" not in self.model:
            raise OptionError(
                f"--model {self.model!r} was given; give expert, random, or a URL with http:// before it."
            )
        sampling = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return EndpointPolicy(self.model, self.name, sampling=sampling, timeout_seconds=terms.turn_seconds)


def rows_for(
    names: Sequence[str], episodes: int | None, seed: int, options: Mapping[str, Any], dataset: Path | None
) -> list[Row]:
    """Return the first rows of a dataset, or those of a number of episodes of some games.

    Raises:
        UnknownIdError: If a game does not exist, or has no words.
        OptionError: If both or none were given, there are no such levels, or the dataset has a line that is no row, or
            too few lines.
    """
    if bool(names) == (dataset is not None):
        raise OptionError("give games with --env, or the rows of a file with --rows.")
    if episodes is not None and episodes < 1:
        raise OptionError(f"--episodes {episodes} was given; give a number from 1 up.")
    if dataset is not None:
        return _first_rows(dataset, episodes, options)
    episodes = EPISODES if episodes is None else episodes
    last = seed + (episodes - 1) // len(names)
    if last >= 2 * SPLIT_SIZE:
        raise OptionError(
            f"{episodes} episodes from --seed {seed} reach level {last}, and the last is {2 * SPLIT_SIZE - 1}; "
            "give a lower seed or fewer episodes."
        )
    return rows_of(names, episodes, seed, options)


def _first_rows(dataset: Path, episodes: int | None, options: Mapping[str, Any]) -> list[Row]:
    if options:
        raise OptionError(f"{', '.join(options)} was given beside --rows; give options in the env_config of the rows.")
    rows = read_rows(dataset)
    if not rows or len(rows) < (episodes or 0):
        raise OptionError(f"{dataset} has {len(rows)} rows; give a file with {episodes or 'some'}.")
    return rows[:episodes]


def play(rows: Sequence[Row], player: Player, terms: Terms, blend: Blend, out: Path | None, seed: int) -> list[Record]:
    """Play rows, or what a folder lacks of them, with a progress bar.

    Raises:
        UnknownIdError, OptionError, LevelError: If a row can't be played, or the folder is of another run.
        ImportError: If what the policy needs is missing.
    """
    scheduler = Scheduler(player.policy(terms, seed), terms)
    try:
        tqdm: Any = importlib.import_module("tqdm")
    except ImportError as error:
        raise ImportError(extras.missing("rollout", "tqdm")) from error
    check(rows, scheduler)  # before anything is written
    settings = {
        "rows": list(rows),
        "player": {**dataclasses.asdict(player), "folder": None if player.folder is None else str(player.folder)},
        "max_turns": terms.max_turns,
        "rewards": dict(zip(blend.columns, blend.weights, strict=True)),
        "seed": seed,
    }
    folder = None if out is None else Folder(out, settings)
    begun = 0 if folder is None else len(folder.records)
    with tqdm.tqdm(total=len(rows), initial=begun, unit="episode") as bar:

        def tell(record: Record) -> None:
            bar.update()
            bar.set_postfix_str(f"last return {record['total_reward']:.3g}", refresh=False)

        return asyncio.run(arollout(rows, scheduler, blend, folder, tell))


def lines_of(summary: Summary) -> tuple[str, ...]:
    """Return the cells of a summary below `HEADER`; empty ones where no episode was played to its end."""
    counts = (summary.env, str(summary.episodes), str(summary.errors))
    if summary.errors == summary.episodes:
        return (*counts, *["-"] * (len(HEADER) - len(counts) - 1), str(summary.failures))
    return (
        *counts,
        f"{summary.success:.1%}",
        f"{summary.total_reward:.3f} ± {summary.total_reward_error:.3f}",
        f"{summary.reward:.3f}",
        f"{summary.turns:.1f}",
        f"{summary.refusals:.2f}",
        f"{summary.max_turns:.1%}",
        _shown(summary.length, ".2f"),
        _shown(summary.prompt_tokens, ".0f"),
        _shown(summary.completion_tokens, ".0f"),
        str(summary.failures),
    )


def _shown(mean: float, form: str) -> str:
    return "-" if math.isnan(mean) else format(mean, form)


def report(records: Sequence[Record]) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows of the table, and what is said of errors below it."""
    reasons = [record["error"] for record in records if record["error"] is not None]
    told = [f"{reasons.count(reason)} x {reason}" for reason in dict.fromkeys(reasons)]
    more = f"\nand {len(told) - _MOST_REASONS} other reasons" if len(told) > _MOST_REASONS else ""
    said = "\n".join(told[:_MOST_REASONS]) + more
    return [lines_of(summary) for summary in summaries(records)], f"\nErrors:\n{said}\n" if told else ""
