"""The command `jaxgym rollout`: a run with a progress bar, and a table of its results."""

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
from jaxgym.serve.rollout.policies import BatchPolicy, EndpointPolicy, Policy, local_model
from jaxgym.serve.rollout.runs import (
    Blend,
    Folder,
    Record,
    Row,
    Summary,
    arollout,
    check,
    read_rows,
    rows_of,
    summaries,
)
from jaxgym.serve.rollout.scheduler import RolloutSettings, Scheduler
from jaxgym.serve.rollout.scripted import ScriptedPolicy

EPISODES = 128
"""Default number of episodes of `--env`."""
_COLUMNS = {
    "episodes": "{0.episodes}",
    "errors": "{0.errors}",
    "success": "{0.success:.1%}",
    "return": "{0.total_reward:.3f} ± {0.total_reward_error:.3f}",
    "reward": "{0.reward:.3f}",
    "turns": "{0.turns:.1f}",
    "invalid_replies": "{0.invalid_replies:.2f}",
    "max_turns": "{0.max_turns:.1%}",
    "truncated_replies": "{0.truncated_replies:.2f}",
    "tokens_in": "{0.prompt_tokens:.0f}",
    "tokens_out": "{0.completion_tokens:.0f}",
    "failures": "{0.failures}",
}
HEADER = ("game", *_COLUMNS)
_MOST_REASONS = 3


@dataclasses.dataclass(frozen=True)
class Player:
    """Flags of the policy; exactly one of `model` and `folder` is given.

    Attributes:
        model: "expert", "random", or the URL of an OpenAI-compatible endpoint.
        folder: Folder of a local model.
        name: Name of the model at the endpoint; None uses the first that it lists.
        temperature: Sampling temperature.
        max_tokens: Maximum number of tokens of a reply.
    """

    model: str = ""
    folder: Path | None = None
    name: str | None = None
    temperature: float = 1.0
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Validate the sampling."""
        if not 0 <= self.temperature < math.inf:
            raise OptionError(f"--temperature: expected a number of at least 0, got {self.temperature}.")
        if self.max_tokens < 1:
            raise OptionError(f"--max-tokens: expected an integer of at least 1, got {self.max_tokens}.")

    @property
    def sampling(self) -> dict[str, Any]:
        """Arguments of `local_model` and of a completion of an endpoint."""
        return {"temperature": self.temperature, "max_tokens": self.max_tokens}

    @property
    def settings(self) -> dict[str, Any]:
        """The flags that determine the replies, in JSON."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.compare}
        return {**fields, "folder": None if self.folder is None else str(self.folder)}

    def policy(self, run_settings: RolloutSettings, seed: int) -> Policy:
        """Return the policy.

        Raises:
            OptionError: If the flags do not name exactly one policy.
            ImportError: If a package that the policy needs is missing.
        """
        if bool(self.model) == bool(self.folder):
            got = "both" if self.model else "neither"
            raise OptionError(
                f"expected exactly one of --model and --hf, got {got}. Use --model expert, --model random, --model "
                "URL, or --hf FOLDER."
            )
        if self.folder is not None:
            return BatchPolicy(local_model(self.folder, **self.sampling), run_settings.concurrency)
        if self.model == "expert" or self.model == "random":
            return ScriptedPolicy(self.model, seed)
        if "://" not in self.model:
            raise OptionError(f"--model: expected expert, random, or a URL with http://, got {self.model!r}.")
        return EndpointPolicy(self.model, self.name, sampling=self.sampling, timeout_seconds=run_settings.turn_seconds)


def rows_for(
    names: Sequence[str], episodes: int | None, seed: int, options: Mapping[str, Any], dataset: Path | None
) -> list[Row]:
    """Return the first rows of a dataset, or the rows of a number of episodes of several environments.

    Raises:
        UnknownIdError: If an environment does not exist or has no text interface.
        OptionError: If both or neither are given, a seed is too large, or the dataset is invalid or too short.
    """
    if bool(names) == (dataset is not None):
        got = "both" if names else "neither"
        raise OptionError(f"expected environments with --env or a file with --rows, got {got}. Pass exactly one.")
    if episodes is not None and episodes < 1:
        raise OptionError(f"--episodes: expected an integer of at least 1, got {episodes}.")
    if dataset is not None:
        if options:
            raise OptionError(
                f"expected no options with --rows, got {', '.join(options)}. Put options into the env_config of the "
                "rows."
            )
        rows = read_rows(dataset)
        if not rows or len(rows) < (episodes or 0):
            raise OptionError(f"{dataset}: expected at least {episodes or 1} rows, got {len(rows)}.")
        return rows[:episodes]
    episodes = EPISODES if episodes is None else episodes
    last = seed + (episodes - 1) // len(names)
    if last >= 2 * SPLIT_SIZE:
        raise OptionError(
            f"expected level seeds up to {2 * SPLIT_SIZE - 1}, got {last} for {episodes} episodes from --seed {seed}. "
            "Use a lower seed or fewer episodes."
        )
    return rows_of(names, episodes, seed, options)


def play(
    rows: Sequence[Row], player: Player, run_settings: RolloutSettings, blend: Blend, out: Path | None, seed: int
) -> list[Record]:
    """Play the rows that are not yet in the folder, with a progress bar.

    Raises:
        UnknownIdError, OptionError, LevelError: If a row is invalid, or the folder is of another run.
        ImportError: If a package that the policy needs is missing.
    """
    scheduler = Scheduler(player.policy(run_settings, seed), run_settings)
    check(rows, scheduler)  # before anything is written
    modes = {(row.get("env_config") or {}).get("observation_mode") for row in rows}
    if player.folder is not None and modes & {"image", "both"}:
        raise OptionError(
            "--hf: expected observation_mode=text, got images. Serve the model, for example with vLLM, and use --model."
        )
    history = {"history_turns": run_settings.history_turns, "history_images": run_settings.history_images}
    settings = {
        "rows": list(rows),
        "player": player.settings,
        "max_turns": run_settings.max_turns,
        **{name: value for name, value in history.items() if value is not None},
        "rewards": dict(zip(blend.columns, blend.weights, strict=True)),
        "seed": seed,
    }
    return play_with_bar(rows, scheduler, blend, None if out is None else Folder(out, settings))


def play_with_bar(rows: Sequence[Row], scheduler: Scheduler, blend: Blend, folder: Folder | None) -> list[Record]:
    """Play the rows that are not yet in the folder with a progress bar, and close the policy."""
    try:
        tqdm: Any = importlib.import_module("tqdm")
    except ImportError as error:
        raise ImportError(extras.missing("rollout", "tqdm")) from error
    begun = 0 if folder is None else len(folder.records)
    with tqdm.tqdm(total=len(rows), initial=begun, unit="episode") as bar:

        def tell(record: Record) -> None:
            bar.update()
            bar.set_postfix_str(f"last return {record['total_reward']:.3g}", refresh=False)

        async def run() -> list[Record]:
            try:
                return await arollout(rows, scheduler, blend, folder, tell)
            finally:
                await scheduler.policy.aclose()

        return asyncio.run(run())


def lines_of(summary: Summary) -> tuple[str, ...]:
    """Return the cells of a summary in the order of `HEADER`; "-" for a mean that is not known."""
    cells = [form.format(summary) for form in _COLUMNS.values()]
    return summary.env, *("-" if cell.startswith("nan") else cell for cell in cells)


def report(records: Sequence[Record]) -> tuple[list[tuple[str, ...]], str]:
    """Return the rows of the table, and the text about errors below it."""
    reasons = [record["error"] for record in records if record["error"] is not None]
    counts = [f"{reasons.count(reason)} x {reason}" for reason in dict.fromkeys(reasons)]
    more = f"\nand {len(counts) - _MOST_REASONS} other reasons" if len(counts) > _MOST_REASONS else ""
    said = "\n".join(counts[:_MOST_REASONS]) + more
    return [lines_of(summary) for summary in summaries(records)], f"\nErrors:\n{said}\n" if counts else ""
